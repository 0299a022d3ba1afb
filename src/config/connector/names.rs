//! From outboxd's keys back to the names that the files have for them.

use super::table::{CONNECTOR, PRODUCER, Property, ROUTER, Treatment};

/// Where the properties of each kind stand in the user's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    connector: &'static str,
    /// `transforms.NAME.`, with what stands before it.
    router: String,
    producer: &'static str,
    bootstrap_servers: &'static str,
    converters: Converters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Converters {
    /// `value.converter`
    Classes,
    /// `debezium.format.value`
    Formats,
}

impl Written {
    /// `router` is `transforms.NAME.`
    pub(in crate::config) fn in_connect(router: &str) -> Self {
        Self {
            connector: "",
            router: router.to_owned(),
            producer: "producer.override.",
            bootstrap_servers: "bootstrap.servers",
            converters: Converters::Classes,
        }
    }

    pub(in crate::config) fn in_debezium_server(router: &str) -> Self {
        Self {
            connector: "debezium.source.",
            router: format!("debezium.{router}"),
            producer: "debezium.sink.kafka.producer.",
            bootstrap_servers: "debezium.sink.kafka.producer.bootstrap.servers",
            converters: Converters::Formats,
        }
    }
}

/// Settings that more than a row of the table decides.
const PLACED: [&str; 3] = ["outbox.headers", "outbox.envelope", "outbox.partition"];
const PLACEMENT: &str = "table.fields.additional.placement";
const FORMATS: [(&str, &str); 3] = [
    ("outbox.key_format", "key"),
    ("outbox.value_format", "value"),
    ("outbox.header_format", "header"),
];

/// The property that becomes `key`, as it is written in the files.
pub(in crate::config) fn spell(key: &str, written: &Written) -> Option<String> {
    let router = |name: &str| Some(format!("{}{name}", written.router));
    let connector = |name: &str| Some(format!("{}{name}", written.connector));
    if PLACED.contains(&key) {
        return router(PLACEMENT);
    }
    if let Some((_, role)) = FORMATS.iter().find(|(format, _)| *format == key) {
        return Some(match written.converters {
            Converters::Classes => format!("{role}.converter"),
            Converters::Formats => format!("debezium.format.{role}"),
        });
    }
    match key {
        "outbox.table" => return connector("table.include.list"),
        "kafka.bootstrap.servers" => return Some(written.bootstrap_servers.to_owned()),
        _ => {}
    }
    if let Some(table) = key.strip_prefix("snapshot.select.") {
        return connector(&format!("snapshot.select.statement.overrides.{table}"));
    }
    let of = |table| named(table, key);
    of(ROUTER)
        .and_then(router)
        .or_else(|| of(CONNECTOR).and_then(connector))
        .or_else(|| of(PRODUCER).map(|name| format!("{}{name}", written.producer)))
}

fn named(table: &'static [Property], key: &str) -> Option<&'static str> {
    table
        .iter()
        .find(|property| matches!(property.treatment, Treatment::Becomes(own, _) if own == key))
        .map(|property| property.name)
}

/// Names of the router's and the connector's options, where they stand as words of their own, as
/// the keys that they become.
pub(in crate::config) fn in_own_keys(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(start) = rest.find(is_part_of_a_name) {
        let word = &rest[start..];
        let end = word.find(|c| !is_part_of_a_name(c)).unwrap_or(word.len());
        // A full stop at the end belongs to the sentence.
        let name = word[..end].trim_end_matches('.');
        text.push_str(&rest[..start]);
        match own_keys(name) {
            Some(keys) => text.push_str(&keys),
            None => text.push_str(name),
        }
        rest = &word[name.len()..];
        if name.is_empty() {
            text.push_str(&word[..end]);
            rest = &word[end..];
        }
    }
    text + rest
}

fn is_part_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

fn own_keys(name: &str) -> Option<String> {
    if name == PLACEMENT {
        return Some(PLACED.join(", "));
    }
    // A word without a dot is a word.
    let found = [ROUTER, CONNECTOR]
        .into_iter()
        .flatten()
        .find(|property| property.name == name && name.contains('.'))?;
    match found.treatment {
        Treatment::Becomes(key, _) => Some(key.to_owned()),
        _ => None,
    }
}
