//! A cursor that cannot read past its bytes. Every read says which field it is for.

use super::DecodeError;
use super::error::Fault;
use crate::lsn::Lsn;
use crate::timestamp::Timestamp;

pub(super) struct Reader<'a> {
    message: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'static str, bytes: &'a [u8]) -> Self {
        Self {
            message,
            rest: bytes,
        }
    }

    pub(super) fn fail(&self, field: impl Into<String>, fault: Fault) -> DecodeError {
        DecodeError::new(self.message, field.into(), fault)
    }

    fn take<const N: usize>(&mut self, field: &str) -> Result<[u8; N], DecodeError> {
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

    pub(super) fn u8(&mut self, field: &str) -> Result<u8, DecodeError> {
        self.take::<1>(field).map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self, field: &str) -> Result<u16, DecodeError> {
        self.take(field).map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self, field: &str) -> Result<u32, DecodeError> {
        self.take(field).map(u32::from_be_bytes)
    }

    pub(super) fn i32(&mut self, field: &str) -> Result<i32, DecodeError> {
        self.take(field).map(i32::from_be_bytes)
    }

    pub(super) fn lsn(&mut self, field: &str) -> Result<Lsn, DecodeError> {
        self.take(field)
            .map(|bytes| Lsn::new(u64::from_be_bytes(bytes)))
    }

    pub(super) fn timestamp(&mut self, field: &str) -> Result<Timestamp, DecodeError> {
        self.take(field)
            .map(|bytes| Timestamp::from_postgres_us(i64::from_be_bytes(bytes)))
    }

    pub(super) fn bytes(&mut self, length: usize, field: &str) -> Result<&'a [u8], DecodeError> {
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
    pub(super) fn name(&mut self, field: &str) -> Result<&'a str, DecodeError> {
        let Some(end) = self.rest.iter().position(|byte| *byte == 0) else {
            return Err(self.fail(field, Fault::Unterminated));
        };
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        std::str::from_utf8(name).map_err(|_| self.fail(field, Fault::NotUtf8))
    }

    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Bytes behind the last field mean that the message was misread.
    pub(super) fn finish(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            found => Err(self.fail("end", Fault::Trailing { found })),
        }
    }
}
