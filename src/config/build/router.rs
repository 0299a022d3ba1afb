//! The router's options.

use super::{Choices, Read};
use crate::router::{
    Converter, HeaderPlacement, MissingField, OnUpdate, Options, TopicRoute, TopicRouteError,
};

const ON_UPDATE: Choices<OnUpdate> = &[
    ("warn", OnUpdate::Warn),
    ("error", OnUpdate::Error),
    ("fatal", OnUpdate::Fatal),
];
const MISSING: Choices<MissingField> = &[
    ("error", MissingField::Error),
    ("ignore", MissingField::Ignore),
];
const CONVERTERS: Choices<Converter> = &[
    ("raw", Converter::Raw),
    ("string", Converter::String),
    ("json", Converter::Json),
];

pub(super) fn options(read: &mut Read<'_>) -> Option<Options> {
    let topic = topic(read);
    let headers = placements(read, "outbox.headers");
    let missing = read.choice("outbox.missing_column", MISSING);
    let on_update = read.choice("outbox.on_update", ON_UPDATE);
    let expand_json = read.boolean("outbox.expand_json");
    let tombstone_on_empty = read.boolean("outbox.tombstone_on_empty");
    let key_converter = read.choice("outbox.key_format", CONVERTERS);
    let value_converter = read.choice("outbox.value_format", CONVERTERS);
    let id_field = read.required("outbox.id");
    let key_field = read.required("outbox.key");
    let payload_field = read.required("outbox.payload");
    let route_field = read.required("outbox.route_by");
    for key in ["outbox.envelope", "outbox.partition"] {
        if read.optional(key).is_some() {
            read.fault(key, "is not built yet");
        }
    }
    Some(Options {
        id_field: id_field?,
        key_field: key_field?,
        payload_field: payload_field?,
        timestamp_field: read.optional("outbox.timestamp"),
        route_field: route_field?,
        topic: topic?,
        headers: headers?,
        missing: missing?,
        on_update: on_update?,
        expand_json: expand_json?,
        tombstone_on_empty: tombstone_on_empty?,
        key_converter: key_converter?,
        value_converter: value_converter?,
    })
}

fn topic(read: &mut Read<'_>) -> Option<TopicRoute> {
    match TopicRoute::new(&read.text("outbox.topic_regex"), &read.text("outbox.topic")) {
        Ok(topic) => Some(topic),
        Err(error) => {
            let key = match &error {
                TopicRouteError::Regex { .. } => "outbox.topic_regex",
                TopicRouteError::UnknownGroup { .. } | TopicRouteError::Replacement { .. } => {
                    "outbox.topic"
                }
            };
            read.fault(key, error.to_string());
            None
        }
    }
}

/// `column` or `column:name`.
fn placements(read: &mut Read<'_>, key: &str) -> Option<Vec<HeaderPlacement>> {
    let mut placements = Vec::new();
    for item in read.list(key) {
        let (field, header) = item.split_once(':').unwrap_or((&item, &item));
        let (field, header) = (field.trim(), header.trim());
        if field.is_empty() || header.is_empty() || header.contains(':') {
            read.fault(key, format!("\"{item}\" is not column or column:name"));
            return None;
        }
        placements.push(HeaderPlacement {
            field: field.to_owned(),
            header: header.to_owned(),
        });
    }
    Some(placements)
}
