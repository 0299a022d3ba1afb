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

    #[cold]
    pub(crate) fn fail(&self, field: &'static str, fault: Fault) -> ReadError {
        ReadError {
            message: self.message,
            column: None,
            field,
            fault,
        }
    }

    #[cold]
    pub(crate) fn unexpected(
        &self,
        field: &'static str,
        expected: &'static str,
        found: u8,
    ) -> ReadError {
        self.fail(field, Fault::Unexpected { expected, found })
    }

    #[cold]
    fn short(&self, field: &'static str, expected: usize) -> ReadError {
        let fault = Fault::Short {
            expected: expected as u64,
            found: self.rest.len(),
        };
        self.fail(field, fault)
    }

    #[inline]
    fn take<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], ReadError> {
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.short(field, N));
        };
        self.rest = rest;
        Ok(*head)
    }

    #[inline]
    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, ReadError> {
        self.take::<1>(field).map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, ReadError> {
        self.take(field).map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, ReadError> {
        self.take(field).map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i32(&mut self, field: &'static str) -> Result<i32, ReadError> {
        self.take(field).map(i32::from_be_bytes)
    }

    pub(crate) fn lsn(&mut self, field: &'static str) -> Result<Lsn, ReadError> {
        self.take(field)
            .map(|bytes| Lsn::new(u64::from_be_bytes(bytes)))
    }

    pub(crate) fn timestamp(&mut self, field: &'static str) -> Result<Timestamp, ReadError> {
        self.take(field)
            .map(|bytes| Timestamp::from_postgres_us(i64::from_be_bytes(bytes)))
    }

    /// Flags in one byte. One that the protocol does not have would change what the message means,
    /// so it is an error and not left out.
    pub(crate) fn flags(
        &mut self,
        field: &'static str,
        known: u8,
        expected: &'static str,
    ) -> Result<u8, ReadError> {
        match self.u8(field)? {
            found if found & !known == 0 => Ok(found),
            found => Err(self.unexpected(field, expected, found)),
        }
    }

    #[inline]
    pub(crate) fn bytes(
        &mut self,
        length: usize,
        field: &'static str,
    ) -> Result<&'a [u8], ReadError> {
        let Some((head, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.short(field, length));
        };
        self.rest = rest;
        Ok(head)
    }

    /// A length and as many bytes.
    #[inline]
    pub(crate) fn sized(
        &mut self,
        length_field: &'static str,
        field: &'static str,
    ) -> Result<&'a [u8], ReadError> {
        let found = self.i32(length_field)?;
        match usize::try_from(found) {
            Ok(length) => self.bytes(length, field),
            Err(_) => Err(self.fail(length_field, Fault::Negative { found })),
        }
    }

    fn zero_terminated(&mut self, field: &'static str) -> Result<&'a [u8], ReadError> {
        let Some(end) = self.rest.iter().position(|byte| *byte == 0) else {
            return Err(self.fail(field, Fault::Unterminated));
        };
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(text)
    }

    /// A name: UTF-8 up to a zero byte.
    pub(crate) fn name(&mut self, field: &'static str) -> Result<&'a str, ReadError> {
        let name = self.zero_terminated(field)?;
        std::str::from_utf8(name).map_err(|_| self.fail(field, Fault::NotUtf8))
    }

    /// A name whose bytes may be in the server's own encoding.
    pub(crate) fn lossy_name(&mut self, field: &'static str) -> Result<String, ReadError> {
        let name = self.zero_terminated(field)?;
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// A count that the bytes at hand cannot hold, at `item_bytes` or more for each item, is
    /// refused before anything is set aside for it.
    #[inline]
    pub(crate) fn check_count(
        &self,
        field: &'static str,
        count: u32,
        item_bytes: usize,
    ) -> Result<(), ReadError> {
        let expected = u64::from(count) * item_bytes as u64;
        let found = self.rest.len();
        if expected > found as u64 {
            return Err(self.fail(field, Fault::Short { expected, found }));
        }
        Ok(())
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
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
/// the bytes themselves: they may be a payload. Built without an allocation, and small enough that
/// the path without errors does not pay for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadError {
    message: &'static str,
    column: Option<ColumnPlace>,
    /// Empty for a column's value.
    field: &'static str,
    fault: Fault,
}

/// A column of a tuple or of a table, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ColumnPlace {
    list: &'static str,
    number: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Empty,
    UnknownMessage { tag: u8 },
    Short { expected: u64, found: usize },
    Trailing { found: usize },
    Unterminated,
    NotUtf8,
    Negative { found: i32 },
    TooLarge { limit: usize, found: usize },
    Unexpected { expected: &'static str, found: u8 },
}

impl ReadError {
    /// The fault lies in the column with this index.
    pub(crate) fn in_column(self, list: &'static str, index: usize) -> Self {
        Self {
            column: Some(ColumnPlace {
                list,
                number: index + 1,
            }),
            ..self
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.message)?;
        match self.column {
            Some(ColumnPlace { list, number }) if self.field.is_empty() => {
                write!(f, "{list} {number}")?;
            }
            Some(ColumnPlace { list, number }) => write!(f, "{list} {number} {}", self.field)?,
            None => f.write_str(self.field)?,
        }
        write!(f, ": {}", self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("expected a message, found no bytes"),
            Self::UnknownMessage { tag } => {
                write!(f, "expected a known message, found byte 0x{tag:02X}")
            }
            Self::Short { expected, found } => {
                write!(f, "expected {expected} bytes, found {found}")
            }
            Self::Trailing { found } => write!(f, "expected no more bytes, found {found}"),
            Self::Unterminated => f.write_str("expected a zero byte after the text, found none"),
            Self::NotUtf8 => f.write_str("expected UTF-8, found other bytes"),
            Self::Negative { found } => write!(f, "expected a length, found {found}"),
            Self::TooLarge { limit, found } => {
                write!(f, "expected at most {limit} bytes, found {found}")
            }
            Self::Unexpected { expected, found } => {
                write!(f, "expected {expected}, found byte 0x{found:02X}")
            }
        }
    }
}

impl std::error::Error for ReadError {}
