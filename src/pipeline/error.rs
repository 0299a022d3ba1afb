//! Where the stream cannot go on.

use std::fmt;

use crate::connect::NotFound;
use crate::lsn::Lsn;
use crate::pgoutput::DecodeError;
use crate::router::RouteError;

/// The stream cannot go on past this place. Nothing at or behind it has been issued.
#[derive(Debug)]
pub enum PipelineError {
    Decode {
        lsn: Lsn,
        source: DecodeError,
    },
    /// A message that protocol 1 does not allow here.
    OutOfOrder {
        lsn: Lsn,
        message: &'static str,
        expected: &'static str,
    },
    Route(Box<Unroutable>),
    /// The stream does not have the place up to which Kafka Connect is said to have delivered. What
    /// was passed over on the way there was not confirmed.
    ConnectorOffset {
        lsn: Lsn,
        source: NotFound,
    },
    /// The same of the last transaction that this relay has confirmed.
    OtherHistory {
        lsn: Lsn,
        source: NotFound,
    },
}

/// A row that has no record: where it stands and why.
#[derive(Debug)]
pub struct Unroutable {
    pub table: String,
    pub commit_lsn: Lsn,
    /// Its place among the rows of its transaction, from 1.
    pub row: u64,
    pub source: RouteError,
}

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode { lsn, .. } => write!(f, "message at {lsn} cannot be decoded"),
            Self::OutOfOrder {
                lsn,
                message,
                expected,
            } => {
                write!(
                    f,
                    "message at {lsn} is out of order: found {message}, expected {expected}"
                )
            }
            Self::ConnectorOffset {
                lsn,
                source: NotFound::TooOld { .. },
            } => write!(
                f,
                "the connector's offset is too far ahead of the slot's stream at {lsn}"
            ),
            Self::ConnectorOffset { lsn, .. } => {
                write!(
                    f,
                    "the connector's offset is not in the slot's stream at {lsn}"
                )
            }
            Self::OtherHistory { lsn, .. } => write!(
                f,
                "what was confirmed last is not in the slot's stream at {lsn}: the server has another history than before it was restarted"
            ),
            Self::Route(unroutable) => write!(
                f,
                "row {} of the transaction that commits at {} in table \"{}\" cannot be routed",
                unroutable.row, unroutable.commit_lsn, unroutable.table
            ),
        }
    }
}

impl std::error::Error for PipelineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Decode { source, .. } => Some(source),
            Self::OutOfOrder { .. } => None,
            Self::ConnectorOffset { source, .. } | Self::OtherHistory { source, .. } => {
                Some(source)
            }
            Self::Route(unroutable) => Some(&unroutable.source),
        }
    }
}
