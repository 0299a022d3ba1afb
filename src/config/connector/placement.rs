//! `table.fields.additional.placement`: `column:placement[:alias]`.

use super::Out;
use super::file::Properties;
use crate::config::{Fault, Note};

const PLACEMENT: &str = "table.fields.additional.placement";
const ON_MISSING: &str = "table.fields.additional.error.on.missing";

pub(super) fn apply(connector: &Properties, prefix: &str, out: &mut Out<'_>) {
    error_on_missing(connector, prefix, out);
    let property = format!("{prefix}{PLACEMENT}");
    let Some(text) = connector.get(&property) else {
        return;
    };
    let (mut headers, mut envelope, mut partition) = (Vec::new(), Vec::new(), None);
    for item in text.split(',').map(str::trim) {
        let parts: Vec<&str> = item.split(':').map(str::trim).collect();
        let (column, placement, alias) = match parts.as_slice() {
            [column, placement] => (*column, *placement, *column),
            [column, placement, alias] => (*column, *placement, *alias),
            _ => {
                let message =
                    format!("\"{item}\" is not column:placement or column:placement:alias");
                out.faults
                    .push(Fault::new(connector.place(&property), message));
                continue;
            }
        };
        let placed = if column == alias {
            column.to_owned()
        } else {
            format!("{column}:{alias}")
        };
        match placement.to_ascii_lowercase().as_str() {
            "header" => headers.push(placed),
            "envelope" => envelope.push(placed),
            // The last one counts, as in Debezium.
            "partition" => partition = Some(column.to_owned()),
            other => {
                let message = format!("\"{other}\" is not one of header, envelope, partition");
                out.faults
                    .push(Fault::new(connector.place(&property), message));
            }
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
