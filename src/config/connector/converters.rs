//! `key.converter`, `value.converter`, `header.converter`: what decides the bytes.

use super::Out;
use super::file::Properties;
use crate::config::nearest::nearest;
use crate::config::{Fault, Note, Origin};

/// One of the three converters of a connector.
struct Role {
    property: &'static str,
    key: &'static str,
    /// Kafka Connect's default where neither connector nor worker says anything.
    default: &'static str,
}

const JSON: &str = "org.apache.kafka.connect.json.JsonConverter";

const ROLES: &[Role] = &[
    Role {
        property: "key.converter",
        key: "outbox.key_format",
        default: JSON,
    },
    Role {
        property: "value.converter",
        key: "outbox.value_format",
        default: JSON,
    },
];

/// Options of converters that change nothing here.
const HARMLESS: &[&str] = &[
    "schemas.cache.size",
    "converter.type",
    "replace.null.with.default",
    "plugin.version",
];

pub(super) fn apply(connector: &Properties, worker: &Properties, out: &mut Out<'_>) {
    for role in ROLES {
        let own = connector.get(role.property).is_some();
        let (source, class) = match connector.get(role.property) {
            Some(class) => (connector, class),
            None => {
                without_class(connector, role, out);
                (worker, worker.get(role.property).unwrap_or(role.default))
            }
        };
        if !own {
            out.notes.push(chosen(worker, role, class));
        }
        match format(source, role, class.trim()) {
            Ok(format) if own || worker.get(role.property).is_some() => {
                out.settings
                    .set(role.key, format, source.origin(role.property));
            }
            Ok(format) => out.settings.set(role.key, format, Origin::ConnectorDefault),
            Err(fault) => out.faults.push(fault),
        }
    }
}

fn chosen(worker: &Properties, role: &Role, class: &str) -> Note {
    let name = class.rsplit('.').next().unwrap_or(class);
    let message = match worker.get(role.property) {
        Some(_) => format!("the connector sets none: the worker's {name} is used"),
        None => format!(
            "neither connector nor worker sets one: {name} with schemas is used, as Kafka Connect does"
        ),
    };
    Note::info(role.property, message)
}

/// Kafka Connect takes options from where the class is.
fn without_class(connector: &Properties, role: &Role, out: &mut Out<'_>) {
    let prefix = format!("{}.", role.property);
    for (option, _) in connector.under(&prefix) {
        let name = format!("{prefix}{option}");
        let message = format!(
            "has no effect without {}, as in Kafka Connect",
            role.property
        );
        out.notes
            .push(Note::warning(connector.place(&name), message));
    }
}

fn format(source: &Properties, role: &Role, class: &str) -> Result<&'static str, Fault> {
    let prefix = format!("{}.", role.property);
    let (format, options): (_, &[&str]) = match class.rsplit('.').next().unwrap_or("") {
        "StringConverter" => ("string", &["converter.encoding"]),
        "JsonConverter" => {
            let off = source
                .get(&format!("{prefix}schemas.enable"))
                .is_some_and(|value| value.trim().eq_ignore_ascii_case("false"));
            (
                if off { "json" } else { "json_with_schemas" },
                &["schemas.enable", "decimal.format"],
            )
        }
        "ByteArrayConverter" => ("raw", &[]),
        "BinaryDataConverter" | "ByteBufferConverter" => (
            "raw",
            &[
                "delegate.converter.type",
                "delegate.converter.type.schemas.enable",
            ],
        ),
        "AvroConverter" | "ProtobufConverter" | "JsonSchemaConverter" => {
            let fault = Fault::new(
                source.place(role.property),
                format!("converter {class} is not supported: it needs a schema registry"),
            );
            return Err(fault.hint("Use JsonConverter, StringConverter or BinaryDataConverter."));
        }
        _ => {
            let fault = Fault::new(
                source.place(role.property),
                format!("converter {class} is not supported"),
            );
            return Err(fault.hint("Use JsonConverter, StringConverter or BinaryDataConverter."));
        }
    };
    check_options(source, &prefix, options)?;
    Ok(format)
}

fn check_options(source: &Properties, prefix: &str, options: &[&str]) -> Result<(), Fault> {
    for (option, value) in source.under(prefix) {
        let name = format!("{prefix}{option}");
        if option == "converter.encoding"
            && !value.trim().eq_ignore_ascii_case("utf-8")
            && !value.trim().eq_ignore_ascii_case("utf8")
        {
            let message = format!("\"{value}\" is not supported, only \"UTF-8\"");
            return Err(Fault::new(source.place(&name), message));
        }
        if !options.contains(&option) && !HARMLESS.contains(&option) {
            let fault = Fault::new(source.place(&name), "unknown property");
            return Err(match nearest(option, options.iter().copied()) {
                Some(nearest) => {
                    fault.hint(format!("The nearest known one is \"{prefix}{nearest}\"."))
                }
                None => fault.hint("This converter has no such option."),
            });
        }
    }
    Ok(())
}
