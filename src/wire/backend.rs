//! What the server says outside the copy stream.

use std::fmt;

use crate::reader::{Fault, ReadError, Reader};

#[derive(Debug, PartialEq, Eq)]
pub enum Backend<'a> {
    Authentication(Authentication),
    KeyData {
        process_id: i32,
        secret_key: i32,
    },
    ParameterStatus {
        name: String,
        value: String,
    },
    Error(Box<ServerMessage>),
    Notice(Box<ServerMessage>),
    RowDescription(Vec<String>),
    DataRow(Vec<Option<&'a [u8]>>),
    CommandComplete,
    EmptyQuery,
    ReadyForQuery,
    CopyBoth,
    CopyData(&'a [u8]),
    CopyDone,
    /// Nothing that a relay has to act on.
    Other {
        tag: u8,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    Ok,
    CleartextPassword,
    Md5Password { salt: [u8; 4] },
    Sasl { mechanisms: Vec<String> },
    SaslContinue { data: Vec<u8> },
    SaslFinal { data: Vec<u8> },
    Unsupported { code: i32 },
}

/// An error or notice with the fields that help an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerMessage {
    /// In English, whatever `lc_messages` is: ERROR, FATAL, PANIC, WARNING, NOTICE, …
    pub severity: String,
    pub sqlstate: String,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// The function of the server's source that reports it: the same in every language.
    pub routine: Option<String>,
}

impl fmt::Display for ServerMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {}",
            OneLine(&self.severity),
            OneLine(&self.sqlstate),
            OneLine(&self.message)
        )
    }
}

/// A server's text is not ours: it must not break a line of the log. Its quotes may stay.
#[derive(Clone, Copy, Debug)]
pub struct OneLine<'a>(pub &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        Ok(())
    }
}

impl<'a> Backend<'a> {
    pub fn read(tag: u8, body: &'a [u8]) -> Result<Self, ReadError> {
        match tag {
            b'R' => authentication(body).map(Self::Authentication),
            b'K' => {
                let mut reader = Reader::new("BackendKeyData", body);
                let process_id = reader.i32("process id")?;
                let secret_key = reader.i32("secret key")?;
                reader.finish()?;
                Ok(Self::KeyData {
                    process_id,
                    secret_key,
                })
            }
            b'S' => {
                let mut reader = Reader::new("ParameterStatus", body);
                let name = reader.lossy_name("name")?;
                let value = reader.lossy_name("value")?;
                reader.finish()?;
                Ok(Self::ParameterStatus { name, value })
            }
            b'E' => server_message("ErrorResponse", body)
                .map(Box::new)
                .map(Self::Error),
            b'N' => server_message("NoticeResponse", body)
                .map(Box::new)
                .map(Self::Notice),
            b'T' => row_description(body).map(Self::RowDescription),
            b'D' => data_row(body).map(Self::DataRow),
            b'C' => Ok(Self::CommandComplete),
            b'I' => Ok(Self::EmptyQuery),
            b'Z' => Ok(Self::ReadyForQuery),
            b'W' => Ok(Self::CopyBoth),
            b'd' => Ok(Self::CopyData(body)),
            b'c' => Ok(Self::CopyDone),
            tag => Ok(Self::Other { tag }),
        }
    }
}

fn authentication(body: &[u8]) -> Result<Authentication, ReadError> {
    let mut reader = Reader::new("Authentication", body);
    let found = match reader.i32("code")? {
        0 => Authentication::Ok,
        3 => Authentication::CleartextPassword,
        5 => Authentication::Md5Password {
            salt: reader.u32("salt")?.to_be_bytes(),
        },
        10 => {
            let mut mechanisms = Vec::new();
            loop {
                match reader.lossy_name("mechanism")? {
                    last if last.is_empty() => break,
                    mechanism => mechanisms.push(mechanism),
                }
            }
            Authentication::Sasl { mechanisms }
        }
        11 => Authentication::SaslContinue {
            data: reader.rest().to_vec(),
        },
        12 => Authentication::SaslFinal {
            data: reader.rest().to_vec(),
        },
        code => {
            reader.rest();
            Authentication::Unsupported { code }
        }
    };
    reader.finish()?;
    Ok(found)
}

fn server_message(name: &'static str, body: &[u8]) -> Result<ServerMessage, ReadError> {
    let mut reader = Reader::new(name, body);
    let mut found = ServerMessage::default();
    loop {
        let field = reader.u8("field type")?;
        if field == 0 {
            break;
        }
        let text = reader.lossy_name("field")?;
        match field {
            b'S' if found.severity.is_empty() => found.severity = text,
            b'V' => found.severity = text,
            b'C' => found.sqlstate = text,
            b'M' => found.message = text,
            b'D' => found.detail = Some(text),
            b'H' => found.hint = Some(text),
            b'R' => found.routine = Some(text),
            _ => {}
        }
    }
    reader.finish()?;
    Ok(found)
}

fn row_description(body: &[u8]) -> Result<Vec<String>, ReadError> {
    let mut reader = Reader::new("RowDescription", body);
    let count = reader.u16("field count")?;
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(reader.lossy_name("field name")?);
        // Table, column, type, its size and modifier, format.
        reader.bytes(18, "field facts")?;
    }
    reader.finish()?;
    Ok(names)
}

fn data_row(body: &[u8]) -> Result<Vec<Option<&[u8]>>, ReadError> {
    let mut reader = Reader::new("DataRow", body);
    let count = reader.u16("column count")?;
    let mut columns = Vec::new();
    for _ in 0..count {
        columns.push(match reader.i32("column length")? {
            -1 => None,
            length => match usize::try_from(length) {
                Ok(length) => Some(reader.bytes(length, "column")?),
                Err(_) => {
                    return Err(reader.fail("column length", Fault::Negative { found: length }));
                }
            },
        });
    }
    reader.finish()?;
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_what_an_operator_needs() {
        let body = b"SFEHLER\0VERROR\0C55006\0Mslot is active\0Dd\0Hh\0Rroutine\0\0";
        let expected = ServerMessage {
            severity: "ERROR".to_owned(),
            sqlstate: "55006".to_owned(),
            message: "slot is active".to_owned(),
            detail: Some("d".to_owned()),
            hint: Some("h".to_owned()),
            routine: Some("routine".to_owned()),
        };
        assert_eq!(
            Backend::read(b'E', body),
            Ok(Backend::Error(Box::new(expected)))
        );
    }

    #[test]
    fn a_servers_text_cannot_break_a_log_line() {
        let message = ServerMessage {
            severity: "ERROR\n".to_owned(),
            sqlstate: "\r55000".to_owned(),
            message: "\"a\"\nERROR b".to_owned(),
            ..Default::default()
        };
        assert_eq!(message.to_string(), "ERROR\\n \\r55000: \"a\"\\nERROR b");
    }

    #[test]
    fn rows_have_nulls_and_bytes() {
        let body = b"\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0";
        let columns = vec![Some(b"ab".as_slice()), None, Some(b"".as_slice())];
        assert_eq!(Backend::read(b'D', body), Ok(Backend::DataRow(columns)));
    }

    #[test]
    fn sasl_lists_its_mechanisms() {
        let body = b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0";
        let mechanisms = vec!["SCRAM-SHA-256-PLUS".to_owned(), "SCRAM-SHA-256".to_owned()];
        let expected = Backend::Authentication(Authentication::Sasl { mechanisms });
        assert_eq!(Backend::read(b'R', body), Ok(expected));
    }

    #[test]
    fn malformed_messages_name_the_field() {
        for (tag, body, message) in [
            (
                b'D',
                b"\0\x01\0\0\0\x09ab".as_slice(),
                "DataRow: column: expected 9 bytes, found 2",
            ),
            (
                b'D',
                b"\0\x01\xff\xff\xff\xfe",
                "DataRow: column length: expected a length, found -2",
            ),
            (
                b'E',
                b"Mx",
                "ErrorResponse: field: expected a zero byte after the text, found none",
            ),
            (
                b'T',
                b"\0\x01a\0\0",
                "RowDescription: field facts: expected 18 bytes, found 1",
            ),
            (
                b'K',
                b"\0\0",
                "BackendKeyData: process id: expected 4 bytes, found 2",
            ),
            (
                b'R',
                b"\0\0\0\x05\0",
                "Authentication: salt: expected 4 bytes, found 1",
            ),
        ] {
            assert_eq!(Backend::read(tag, body).unwrap_err().to_string(), message);
        }
    }
}
