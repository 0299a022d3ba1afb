use std::fmt;

use crate::reader::ReadError;

/// Why the stream's messages cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// A message that is not what the manual says.
    Malformed(ReadError),
    /// A row of a table that the stream has not described.
    UnknownRelation { oid: u32 },
}

impl From<ReadError> for DecodeError {
    fn from(error: ReadError) -> Self {
        Self::Malformed(error)
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::UnknownRelation { oid } => write!(
                f,
                "pgoutput: expected a table described earlier in the stream, found relation {oid}"
            ),
        }
    }
}

impl std::error::Error for DecodeError {}
