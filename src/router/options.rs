//! The Event Router's options in Debezium's own words.

use super::topic::TopicRoute;

#[derive(Clone, Debug)]
pub struct Options {
    /// `table.field.event.id`
    pub id_field: String,
    /// `table.field.event.key`
    pub key_field: String,
    /// `table.field.event.payload`
    pub payload_field: String,
    /// `table.field.event.timestamp`; without it the transaction's commit time.
    pub timestamp_field: Option<String>,
    /// `route.by.field`
    pub route_field: String,
    /// `route.topic.regex` and `route.topic.replacement`
    pub topic: TopicRoute,
    /// `table.fields.additional.placement`, headers only so far.
    pub headers: Vec<HeaderPlacement>,
    /// `table.field.additional.missing`
    pub missing: MissingField,
    /// `table.op.invalid.behavior`
    pub on_update: OnUpdate,
    /// `table.expand.json.payload`
    pub expand_json: bool,
    /// `route.tombstone.on.empty.payload`
    pub tombstone_on_empty: bool,
    pub key_converter: Converter,
    pub value_converter: Converter,
}

/// `column:header[:alias]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderPlacement {
    pub field: String,
    pub header: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingField {
    #[default]
    Error,
    Ignore,
}

/// What an UPDATE of an outbox row does: the table is a queue, rows are only inserted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUpdate {
    /// Dropped, counted and warned about.
    #[default]
    Warn,
    /// The same, as an error.
    Error,
    /// The relay stops before the row.
    Fatal,
}

/// How a value becomes bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Converter {
    /// Text as it is, numbers as Java prints them, bytea as its bytes: what `ByteArrayConverter`
    /// and `BinaryDataConverter` do to bytea and `StringConverter` to the rest.
    Raw,
    /// `StringConverter`.
    String,
    /// `JsonConverter` with `schemas.enable=false`.
    Json,
}

impl Default for Options {
    /// outboxd's own defaults: Debezium's names, and the payload untouched.
    fn default() -> Self {
        Self {
            id_field: "id".to_owned(),
            key_field: "aggregateid".to_owned(),
            payload_field: "payload".to_owned(),
            timestamp_field: None,
            route_field: "aggregatetype".to_owned(),
            topic: TopicRoute::default(),
            headers: Vec::new(),
            missing: MissingField::Error,
            on_update: OnUpdate::Warn,
            expand_json: false,
            tombstone_on_empty: false,
            key_converter: Converter::Raw,
            value_converter: Converter::Raw,
        }
    }
}
