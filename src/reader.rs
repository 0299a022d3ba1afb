//! A cursor that cannot read past its bytes: what both protocol rooms decode with. Every read says
//! which field it is for.

use std::fmt;

use crate::lsn::Lsn;
use crate::timestamp::Timestamp;

pub(crate) struct Reader<'a> {
    message: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(message: &'static str, bytes: &'a [u8]) -> Self {
        Self {
            message,
            rest: bytes,
        }
    }

    pub(crate) fn fail(&self, field: impl Into<String>, fault: Fault) -> ReadError {
        ReadError::new(self.message, field.into(), fault)
    }

    fn take<const N: usize>(&mut self, field: &str) -> Result<[u8; N], ReadError> {
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.fail(
                field,
                Fault::Short {
                    expected: N,
                    found: self.rest.len(),
                },
            ));
        };
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self, field: &str) -> Result<u8, ReadError> {
        self.take::<1>(field).map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self, field: &str) -> Result<u16, ReadError> {
        self.take(field).map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self, field: &str) -> Result<u32, ReadError> {
        self.take(field).map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self, field: &str) -> Result<i32, ReadError> {
        self.take(field).map(i32::from_be_bytes)
    }

    pub(crate) fn lsn(&mut self, field: &str) -> Result<Lsn, ReadError> {
        self.take(field)
            .map(|bytes| Lsn::new(u64::from_be_bytes(bytes)))
    }

    pub(crate) fn timestamp(&mut self, field: &str) -> Result<Timestamp, ReadError> {
        self.take(field)
            .map(|bytes| Timestamp::from_postgres_us(i64::from_be_bytes(bytes)))
    }

    pub(crate) fn bytes(&mut self, length: usize, field: &str) -> Result<&'a [u8], ReadError> {
        let Some((head, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.fail(
                field,
                Fault::Short {
                    expected: length,
                    found: self.rest.len(),
                },
            ));
        };
        self.rest = rest;
        Ok(head)
    }

    /// A name: UTF-8 up to a zero byte.
    pub(crate) fn name(&mut self, field: &str) -> Result<&'a str, ReadError> {
        let Some(end) = self.rest.iter().position(|byte| *byte == 0) else {
            return Err(self.fail(field, Fault::Unterminated));
        };
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        std::str::from_utf8(name).map_err(|_| self.fail(field, Fault::NotUtf8))
    }

    /// A name whose bytes may be in the server's own encoding.
    pub(crate) fn lossy_name(&mut self, field: &str) -> Result<String, ReadError> {
        let Some(end) = self.rest.iter().position(|byte| *byte == 0) else {
            return Err(self.fail(field, Fault::Unterminated));
        };
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Bytes behind the last field mean that the message was misread.
    pub(crate) fn finish(self) -> Result<(), ReadError> {
        match self.rest.len() {
            0 => Ok(()),
            found => Err(self.fail("end", Fault::Trailing { found })),
        }
    }
}

/// Which message and field could not be read, what was expected and what was there. Never carries
/// the bytes themselves: they may be a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    message: &'static str,
    field: String,
    fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Empty,
    UnknownMessage { tag: u8 },
    Short { expected: usize, found: usize },
    Trailing { found: usize },
    Unterminated,
    NotUtf8,
    Negative { found: i32 },
    TooLarge { limit: usize, found: usize },
    Unexpected { expected: &'static str, found: u8 },
    UnknownRelation { oid: u32 },
}

impl ReadError {
    pub(crate) fn new(message: &'static str, field: String, fault: Fault) -> Self {
        Self {
            message,
            field,
            fault,
        }
    }

    /// The fault lies in a tuple's column, counted from 1.
    pub(crate) fn in_column(self, index: usize) -> Self {
        Self {
            field: format!("tuple column {}: {}", index + 1, self.field),
            ..self
        }
    }

    pub(crate) fn unknown_relation(oid: u32) -> Self {
        Self::new(
            "pgoutput row",
            "relation".to_owned(),
            Fault::UnknownRelation { oid },
        )
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: ", self.message, self.field)?;
        match &self.fault {
            Fault::Empty => f.write_str("expected a message, found no bytes"),
            Fault::UnknownMessage { tag } => {
                write!(f, "expected a known message, found byte 0x{tag:02X}")
            }
            Fault::Short { expected, found } => {
                write!(f, "expected {expected} bytes, found {found}")
            }
            Fault::Trailing { found } => write!(f, "expected no more bytes, found {found}"),
            Fault::Unterminated => f.write_str("expected a zero byte after the text, found none"),
            Fault::NotUtf8 => f.write_str("expected UTF-8, found other bytes"),
            Fault::Negative { found } => write!(f, "expected a length, found {found}"),
            Fault::TooLarge { limit, found } => {
                write!(f, "expected at most {limit} bytes, found {found}")
            }
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

impl std::error::Error for ReadError {}
