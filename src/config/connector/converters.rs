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
const SIMPLE: &str = "org.apache.kafka.connect.storage.SimpleHeaderConverter";

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
    Role {
        property: "header.converter",
        key: "outbox.header_format",
        default: SIMPLE,
    },
];

/// Kafka Connect's converters by their package and name, and outboxd's word for each.
const CLASSES: &[(&str, &str)] = &[
    (JSON, "json"),
    ("org.apache.kafka.connect.storage.StringConverter", "string"),
    (SIMPLE, "simple"),
    (
        "org.apache.kafka.connect.converters.ByteArrayConverter",
        "bytes",
    ),
    (
        "org.apache.kafka.connect.converters.ShortConverter",
        "short",
    ),
    (
        "org.apache.kafka.connect.converters.IntegerConverter",
        "integer",
    ),
    ("org.apache.kafka.connect.converters.LongConverter", "long"),
    (
        "org.apache.kafka.connect.converters.FloatConverter",
        "float",
    ),
    (
        "org.apache.kafka.connect.converters.DoubleConverter",
        "double",
    ),
    (
        "org.apache.kafka.connect.converters.BooleanConverter",
        "boolean",
    ),
    ("io.debezium.converters.BinaryDataConverter", "binary"),
    // Older names of the same. The last one fails on bytea in Debezium.
    ("io.debezium.converters.ByteBufferConverter", "binary"),
    ("io.debezium.converters.ByteArrayConverter", "binary"),
];

const DELEGATE: &str = "delegate.converter.type";

/// Options of converters that change nothing here: caches, defaults that the router has put in
/// place already, and what only a reader of topics needs.
const HARMLESS: &[&str] = &[
    "schemas.cache.size",
    "converter.type",
    "replace.null.with.default",
    "schema.content",
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
        let is_set = own || worker.get(role.property).is_some();
        if !own && (is_set || role.default != SIMPLE) {
            out.notes.push(chosen(worker, role, class));
        }
        let prefix = format!("{}.", role.property);
        let origin = if is_set {
            source.origin(role.property)
        } else {
            Origin::ConnectorDefault
        };
        match format(source, role.property, &prefix, class.trim()) {
            Ok(format) => {
                let schemas = format!("{prefix}schemas.enable");
                if is_set && !format.starts_with("json") && source.get(&schemas).is_some() {
                    let message = "has no effect: only JsonConverter writes schemas";
                    out.notes.push(Note::info(source.place(&schemas), message));
                }
                out.settings.set(role.key, format, origin);
            }
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

/// outboxd's words for the converter that `property` names; its options stand under `prefix`.
fn format(source: &Properties, property: &str, prefix: &str, class: &str) -> Result<String, Fault> {
    let words = known(class)
        .filter(|words| property == "header.converter" || *words != "simple")
        .ok_or_else(|| unsupported(source, property, class))?;
    match words {
        "json" => {
            check_options(source, prefix, &["schemas.enable", "decimal.format"])?;
            json(source, prefix)
        }
        "string" => {
            check_options(source, prefix, &["converter.encoding"])?;
            check_encoding(source, prefix)?;
            Ok(words.to_owned())
        }
        "binary" => binary(source, prefix),
        other => {
            check_options(source, prefix, &[])?;
            Ok(other.to_owned())
        }
    }
}

/// Kafka Connect also takes a class by its name alone, and without the word at its end.
fn known(class: &str) -> Option<&'static str> {
    let name = |full: &'static str| full.rsplit('.').next().unwrap_or(full);
    let short = |full| name(full).trim_end_matches("Converter");
    CLASSES
        .iter()
        .find(|(full, _)| *full == class || name(full) == class || short(full) == class)
        .map(|(_, words)| *words)
}

fn unsupported(source: &Properties, property: &str, class: &str) -> Fault {
    let needs_registry = ["AvroConverter", "ProtobufConverter", "JsonSchemaConverter"]
        .iter()
        .any(|name| class.ends_with(name));
    let reason = if needs_registry {
        ": it needs a schema registry"
    } else {
        ""
    };
    let message = format!("converter {class} is not supported{reason}");
    Fault::new(source.place(property), message)
        .hint("Use JsonConverter, StringConverter or BinaryDataConverter.")
}

fn json(source: &Properties, prefix: &str) -> Result<String, Fault> {
    let schemas = format!("{prefix}schemas.enable");
    let format = match word(source, &schemas).as_deref() {
        None | Some("true") => "json_with_schemas",
        Some("false") => "json",
        Some(other) => {
            let message = format!("\"{other}\" is not true or false");
            return Err(Fault::new(source.place(&schemas), message));
        }
    };
    let decimals = format!("{prefix}decimal.format");
    match word(source, &decimals).as_deref() {
        None | Some("base64") => Ok(format.to_owned()),
        Some("numeric") => Ok(format!("{format} numeric_decimals")),
        Some(other) => {
            let message = format!("\"{other}\" is not base64 or numeric");
            Err(Fault::new(source.place(&decimals), message))
        }
    }
}

fn word(source: &Properties, name: &str) -> Option<String> {
    let value = source.get(name)?.trim();
    Some(value.to_ascii_lowercase())
}

/// Bytes as they are, everything else through the delegate.
fn binary(source: &Properties, prefix: &str) -> Result<String, Fault> {
    let property = format!("{prefix}{DELEGATE}");
    for (option, _) in source.under(prefix) {
        if !option.starts_with(DELEGATE) {
            check_option(source, prefix, option, &[DELEGATE])?;
        }
    }
    let under = format!("{property}.");
    match source.get(&property).map(str::trim) {
        None | Some("") => match source.under(&under).next() {
            None => Ok("binary".to_owned()),
            Some((option, _)) => {
                let message = format!("has no effect without {property}");
                Err(Fault::new(
                    source.place(&format!("{under}{option}")),
                    message,
                ))
            }
        },
        Some(class) => {
            let delegate = format(source, &property, &under, class)?;
            Ok(format!("binary else {delegate}"))
        }
    }
}

fn check_encoding(source: &Properties, prefix: &str) -> Result<(), Fault> {
    let name = format!("{prefix}converter.encoding");
    match word(source, &name).as_deref() {
        None | Some("utf-8" | "utf8") => Ok(()),
        Some(other) => {
            let message = format!("\"{other}\" is not supported, only \"UTF-8\"");
            Err(Fault::new(source.place(&name), message))
        }
    }
}

fn check_options(source: &Properties, prefix: &str, options: &[&str]) -> Result<(), Fault> {
    source
        .under(prefix)
        .try_for_each(|(option, _)| check_option(source, prefix, option, options))
}

fn check_option(
    source: &Properties,
    prefix: &str,
    option: &str,
    options: &[&str],
) -> Result<(), Fault> {
    // Connectors carry schemas.enable along whatever the converter; Kafka Connect hands it over
    // and only the JSON converter looks.
    if options.contains(&option) || HARMLESS.contains(&option) || option == "schemas.enable" {
        return Ok(());
    }
    let fault = Fault::new(
        source.place(&format!("{prefix}{option}")),
        "unknown property",
    );
    Err(match nearest(option, options.iter().copied()) {
        Some(nearest) => fault.hint(format!("The nearest known one is \"{prefix}{nearest}\".")),
        None => fault.hint("This converter has no such option."),
    })
}
