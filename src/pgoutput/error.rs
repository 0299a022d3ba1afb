use std::fmt;

/// Which message and field could not be read, what was expected and what was there. Never carries
/// the bytes themselves: they may be a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    message: &'static str,
    field: String,
    fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Empty,
    UnknownMessage { tag: u8 },
    Short { expected: usize, found: usize },
    Trailing { found: usize },
    Unterminated,
    NotUtf8,
    Negative { found: i32 },
    Unexpected { expected: &'static str, found: u8 },
    UnknownRelation { oid: u32 },
}

impl DecodeError {
    pub(super) fn new(message: &'static str, field: String, fault: Fault) -> Self {
        Self {
            message,
            field,
            fault,
        }
    }

    /// The fault lies in a tuple's column, counted from 1.
    pub(super) fn in_column(self, index: usize) -> Self {
        Self {
            field: format!("tuple column {}: {}", index + 1, self.field),
            ..self
        }
    }

    pub(super) fn unknown_relation(oid: u32) -> Self {
        Self::new("row", "relation".to_owned(), Fault::UnknownRelation { oid })
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pgoutput {}: {}: ", self.message, self.field)?;
        match &self.fault {
            Fault::Empty => f.write_str("expected a message, found no bytes"),
            Fault::UnknownMessage { tag } => {
                write!(
                    f,
                    "expected a message of protocol version 1, found byte 0x{tag:02X}"
                )
            }
            Fault::Short { expected, found } => {
                write!(f, "expected {expected} bytes, found {found}")
            }
            Fault::Trailing { found } => write!(f, "expected no more bytes, found {found}"),
            Fault::Unterminated => f.write_str("expected a zero byte after the text, found none"),
            Fault::NotUtf8 => f.write_str("expected UTF-8, found other bytes"),
            Fault::Negative { found } => write!(f, "expected a length, found {found}"),
            Fault::Unexpected { expected, found } => {
                write!(f, "expected {expected}, found byte 0x{found:02X}")
            }
            Fault::UnknownRelation { oid } => {
                write!(
                    f,
                    "expected a relation described earlier in the stream, found oid {oid}"
                )
            }
        }
    }
}

impl std::error::Error for DecodeError {}
