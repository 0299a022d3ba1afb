use std::fmt;

use crate::outbox::ValueError;

/// Why a row has no record. Names columns and types, never values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteError {
    MissingColumn {
        column: String,
        option: &'static str,
        nearest: Option<String>,
    },
    NullRoute {
        column: String,
    },
    Value(ValueError),
    NotATimestamp {
        column: String,
    },
    Update,
    NoRow,
}

impl RouteError {
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
            Self::NullRoute { column } => {
                format!(
                    "Give the column \"{column}\" a NOT NULL constraint. The row itself can only be passed over by choice."
                )
            }
            Self::Value(_) => "Check the type of the column.".to_owned(),
            Self::NotATimestamp { .. } => {
                "Use a timestamp or timestamptz column, or leave the option out.".to_owned()
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
            Self::NullRoute { column } => {
                write!(f, "column \"{column}\" is null, so the row has no topic")
            }
            Self::Value(error) => error.fmt(f),
            Self::NotATimestamp { column } => {
                write!(f, "column \"{column}\" is not a timestamp")
            }
            Self::Update => f.write_str("an outbox row was updated, and updates are fatal here"),
            Self::NoRow => f.write_str("an insert carried no row"),
        }
    }
}

impl std::error::Error for RouteError {}
