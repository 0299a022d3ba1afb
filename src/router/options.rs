//! The Event Router's options in Debezium's own words.

use std::sync::Arc;

use super::columns::ColumnFilter;
use super::converter::Converters;
use super::placement::Placement;
use super::record::Header;
use super::topic::TopicRoute;
use crate::outbox::TypeOptions;

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
    /// `table.field.event.schema.version`: an integer column, the version of the envelope's schema.
    pub schema_version_field: Option<String>,
    /// `route.by.field`
    pub route_field: String,
    /// `route.topic.regex` and `route.topic.replacement`
    pub topic: TopicRoute,
    /// `table.fields.additional.placement`, in its order.
    pub placements: Vec<Placement>,
    /// `table.field.additional.missing`
    pub missing: MissingField,
    /// `table.op.invalid.behavior`
    pub on_update: OnUpdate,
    /// `table.expand.json.payload`
    pub expand_json: bool,
    /// `table.json.payload.null.behavior`
    pub json_nulls: JsonNulls,
    /// `table.json.payload.empty.array.behavior` (Debezium 3.7)
    pub json_empty_arrays: JsonEmptyArrays,
    /// `route.tombstone.on.empty.payload`
    pub tombstone_on_empty: bool,
    /// `topic.prefix`: the schema names of an envelope and the context headers show it.
    pub topic_prefix: String,
    /// `extended.headers.enabled`: the run that the headers `__debezium.context.*` tell of.
    pub context: Option<RunContext>,
    /// `column.include.list` and `column.exclude.list`: the other columns are as if not there.
    pub columns: ColumnFilter,
    pub converters: Converters,
    /// How PostgreSQL's types become values: the connector's handling modes.
    pub types: TypeOptions,
    /// Where rows go that cannot be routed and records that Kafka refuses. Without one they block.
    pub dead_letter_topic: Option<Arc<str>>,
    /// The position journal's: no event may stand among its records.
    pub journal_topic: Option<Arc<str>>,
    /// On every record, behind its own headers: what a replay is known by.
    pub mark: Option<Header>,
}

/// Which run of the relay made a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunContext {
    /// Another one at each start.
    pub run_id: String,
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

/// A member of an expanded payload whose value is JSON's null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JsonNulls {
    #[default]
    Ignore,
    /// `optional_bytes`: kept, as null.
    Keep,
}

/// A member of an expanded payload whose value is an empty array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JsonEmptyArrays {
    #[default]
    Ignore,
    /// `optional_string`: kept, as an empty array of strings.
    Keep,
}

impl Options {
    /// outboxd's own defaults: Debezium's names, and the payload untouched.
    pub fn native() -> Self {
        Self {
            converters: Converters::raw(),
            ..Self::debezium()
        }
    }

    /// Debezium's defaults, with the converters of a Kafka Connect worker that says nothing else.
    pub fn debezium() -> Self {
        Self {
            id_field: "id".to_owned(),
            key_field: "aggregateid".to_owned(),
            payload_field: "payload".to_owned(),
            timestamp_field: None,
            schema_version_field: None,
            route_field: "aggregatetype".to_owned(),
            topic: TopicRoute::default(),
            placements: Vec::new(),
            missing: MissingField::Error,
            on_update: OnUpdate::Warn,
            expand_json: false,
            json_nulls: JsonNulls::Ignore,
            json_empty_arrays: JsonEmptyArrays::Ignore,
            tombstone_on_empty: false,
            topic_prefix: String::new(),
            context: None,
            columns: ColumnFilter::default(),
            converters: Converters::default(),
            types: TypeOptions::default(),
            dead_letter_topic: None,
            journal_topic: None,
            mark: None,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::native()
    }
}
