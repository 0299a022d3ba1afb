//! `table.fields.additional.placement`: `column:placement[:alias]`.

use super::Out;
use super::file::Properties;
use crate::config::{Fault, Note};
use crate::router::{Placement, PlacementTarget};

const PLACEMENT: &str = "table.fields.additional.placement";
const ON_MISSING: &str = "table.fields.additional.error.on.missing";

pub(super) fn apply(connector: &Properties, prefix: &str, out: &mut Out<'_>) {
    error_on_missing(connector, prefix, out);
    let property = format!("{prefix}{PLACEMENT}");
    let Some(text) = connector.get(&property) else {
        return;
    };
    let placements = match Placement::parse_list(text) {
        Ok(placements) => placements,
        Err(error) => {
            let fault = Fault::new(connector.place(&property), error.to_string());
            return out.faults.push(fault);
        }
    };
    let (mut headers, mut envelope, mut partition) = (Vec::new(), Vec::new(), None);
    for Placement { field, target } in placements {
        match target {
            PlacementTarget::Header(name) => headers.push(placed(field, &name)),
            PlacementTarget::Envelope(name) => envelope.push(placed(field, &name)),
            // The last one counts, as in Debezium.
            PlacementTarget::Partition => partition = Some(field),
        }
    }
    let lists = [
        ("outbox.headers", headers.join(",")),
        ("outbox.envelope", envelope.join(",")),
        ("outbox.partition", partition.unwrap_or_default()),
    ];
    for (key, value) in lists.into_iter().filter(|(_, value)| !value.is_empty()) {
        out.settings.set(key, value, connector.origin(&property));
    }
}

fn placed(field: String, name: &str) -> String {
    if field == name {
        field
    } else {
        format!("{field}:{name}")
    }
}

fn error_on_missing(connector: &Properties, prefix: &str, out: &mut Out<'_>) {
    let property = format!("{prefix}{ON_MISSING}");
    let Some(value) = connector.get(&property) else {
        return;
    };
    let place = connector.place(&property);
    let missing = match value.trim().to_ascii_lowercase().as_str() {
        "true" => "error",
        "false" => "ignore",
        _ => {
            out.faults.push(Fault::new(
                place,
                format!("\"{value}\" is not true or false"),
            ));
            return;
        }
    };
    let message = "is the older name of table.field.additional.missing";
    out.notes.push(Note::warning(place, message));
    if connector
        .get(&format!("{prefix}table.field.additional.missing"))
        .is_none()
    {
        out.settings.set(
            "outbox.missing_column",
            missing,
            connector.origin(&property),
        );
    }
}
