use std::fmt;

use crate::outbox::ValueError;

/// Why a row has no record. Names columns and types, never values, but for the event's id and the
/// topic's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteError {
    MissingColumn {
        column: String,
        option: &'static str,
        nearest: Option<String>,
    },
    /// Debezium leaves columns of this type out of its events.
    UnsupportedType {
        column: String,
        option: &'static str,
    },
    RouteType {
        column: String,
        found: &'static str,
    },
    NullRoute {
        column: String,
    },
    IllegalTopic {
        topic: String,
        column: String,
        reason: &'static str,
    },
    /// What the relay writes for itself is there.
    OwnTopic {
        topic: String,
        column: String,
        holds: &'static str,
        setting: &'static str,
    },
    Value(ValueError),
    /// A converter that does not take the column's type.
    Converter {
        column: String,
        converter: &'static str,
        expected: &'static str,
        found: &'static str,
    },
    NotATimestamp {
        column: String,
    },
    /// A partition or a schema's version.
    NotAnInteger {
        column: String,
        found: &'static str,
    },
    /// Kafka has no time before 1970.
    TimestampBefore1970 {
        column: String,
        event_id: String,
    },
    Partition {
        column: String,
        partition: i64,
        event_id: String,
        topic: String,
    },
    Update,
    NoRow,
}

impl RouteError {
    /// All of [`RouteError::reason`].
    pub const REASONS: [&str; 14] = [
        "missing_column",
        "unsupported_type",
        "route_type",
        "null_route",
        "illegal_topic",
        "own_topic",
        "value",
        "converter",
        "not_a_timestamp",
        "not_an_integer",
        "timestamp_before_1970",
        "partition",
        "update",
        "no_row",
    ];

    /// A short, fixed word for a metric's label and a dead letter's header.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::MissingColumn { .. } => "missing_column",
            Self::UnsupportedType { .. } => "unsupported_type",
            Self::RouteType { .. } => "route_type",
            Self::NullRoute { .. } => "null_route",
            Self::IllegalTopic { .. } => "illegal_topic",
            Self::OwnTopic { .. } => "own_topic",
            Self::Value(_) => "value",
            Self::Converter { .. } => "converter",
            Self::NotATimestamp { .. } => "not_a_timestamp",
            Self::NotAnInteger { .. } => "not_an_integer",
            Self::TimestampBefore1970 { .. } => "timestamp_before_1970",
            Self::Partition { .. } => "partition",
            Self::Update => "update",
            Self::NoRow => "no_row",
        }
    }

    pub fn hint(&self) -> String {
        match self {
            Self::MissingColumn {
                option,
                nearest: Some(nearest),
                ..
            } => {
                format!("Set {option} to an existing column, perhaps \"{nearest}\".")
            }
            Self::MissingColumn { option, .. } => format!("Set {option} to an existing column."),
            Self::UnsupportedType { option, .. } => format!(
                "Take the column out of {option}, cast it to text in a generated column, or set include.unknown.datatypes to true."
            ),
            Self::RouteType { .. } => {
                "Route by a column of a text type, an enum or a uuid.".to_owned()
            }
            Self::NullRoute { column } => {
                format!(
                    "Give the column \"{column}\" a NOT NULL constraint. The row itself can only be passed over by choice."
                )
            }
            Self::IllegalTopic { column, .. } => format!(
                "Topic names have 1 to 249 letters, digits, dots, underscores and hyphens. Keep other characters out of \"{column}\", or map them with route.topic.regex."
            ),
            Self::OwnTopic {
                column, setting, ..
            } => format!(
                "Lead the row to another topic, by its \"{column}\" or with route.topic.regex, or set {setting} to a topic to which no row leads."
            ),
            Self::Value(_) => "Check the type of the column.".to_owned(),
            Self::Converter { converter, .. } => format!(
                "Use another converter than {converter}, or give it a delegate.converter.type."
            ),
            Self::NotATimestamp { .. } => {
                "Use a timestamp, timestamptz or date column, or leave the option out.".to_owned()
            }
            Self::NotAnInteger { .. } => {
                "Use a smallint, integer or bigint column, or leave the option out.".to_owned()
            }
            Self::TimestampBefore1970 { .. } => {
                "Leave table.field.event.timestamp out, or keep such moments out of the column."
                    .to_owned()
            }
            Self::Partition { .. } => {
                "A partition is 0 or more; NULL leaves the choice to the partitioner.".to_owned()
            }
            Self::Update => {
                "Insert outbox rows only, or set table.op.invalid.behavior to warn.".to_owned()
            }
            Self::NoRow => "Report this together with the server's version.".to_owned(),
        }
    }
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingColumn { column, option, .. } => {
                write!(
                    f,
                    "the table has no column \"{column}\", which {option} names"
                )
            }
            Self::UnsupportedType { column, option } => write!(
                f,
                "column \"{column}\", which {option} names, has a type without a Connect type"
            ),
            Self::RouteType { column, found } => write!(
                f,
                "route.by.field: expected a text column, found \"{column}\" of type {found}"
            ),
            Self::NullRoute { column } => {
                write!(f, "column \"{column}\" is null, so the row has no topic")
            }
            Self::IllegalTopic { topic, reason, .. } => {
                write!(f, "\"{topic}\" is not a topic name: {reason}")
            }
            Self::OwnTopic { topic, holds, .. } => {
                write!(f, "topic \"{topic}\" takes no events: {holds} are in it")
            }
            Self::Value(error) => error.fmt(f),
            Self::Converter {
                column,
                converter,
                expected,
                found,
            } => write!(
                f,
                "{converter} on column \"{column}\": expected {expected}, found {found}"
            ),
            Self::NotATimestamp { column } => {
                write!(f, "column \"{column}\" is not a timestamp")
            }
            Self::NotAnInteger { column, found } => write!(
                f,
                "column \"{column}\": expected an integer column, found {found}"
            ),
            Self::TimestampBefore1970 { column, event_id } => write!(
                f,
                "event \"{event_id}\": column \"{column}\" dates the record before 1970"
            ),
            Self::Partition {
                column,
                partition,
                event_id,
                topic,
            } => write!(
                f,
                "event \"{event_id}\" for topic \"{topic}\": column \"{column}\" asks for partition {partition}"
            ),
            Self::Update => f.write_str("an outbox row was updated, and updates are fatal here"),
            Self::NoRow => f.write_str("an insert carried no row"),
        }
    }
}

impl std::error::Error for RouteError {}
