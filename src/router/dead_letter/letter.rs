//! A record of the dead-letter topic, read back.

use std::fmt;

use bytes::Bytes;

use super::{
    EVENT_ID, KIND, KIND_RECORD, KIND_ROW, LSN, PARTITION, PREFIX, REASON, ROW, StoredRow, TABLE,
    TIMESTAMP, TOPIC,
};
use crate::router::{Header, Record};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    pub reason: String,
    pub table: String,
    pub lsn: String,
    pub event_id: Option<String>,
    /// Where the event was to go, as far as that was known.
    pub topic: Option<String>,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// To be routed again.
    Row(StoredRow),
    /// To be published again as it is.
    Record(Box<Record>),
}

/// A record that is no dead letter of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LetterError {
    MissingHeader { name: String },
    BadHeader { name: String },
}

impl Letter {
    pub fn read(
        key: Option<Bytes>,
        value: Option<Bytes>,
        headers: Vec<Header>,
    ) -> Result<Self, LetterError> {
        // The last one counts: an event may have had such headers before it became a dead letter.
        let (ours, theirs): (Vec<_>, Vec<_>) = headers
            .into_iter()
            .partition(|header| header.name.starts_with(PREFIX));
        let facts = Facts(&ours);
        let content = match facts.required(KIND)? {
            KIND_ROW => {
                let row = facts.bytes(ROW).ok_or_else(|| missing(ROW))?;
                Content::Row(StoredRow::read(row, value.as_ref()).ok_or_else(|| bad(ROW))?)
            }
            KIND_RECORD => Content::Record(Box::new(Record {
                topic: facts.required(TOPIC)?.into(),
                partition: facts.number(PARTITION)?,
                key,
                value,
                headers: theirs.into(),
                timestamp_ms: facts.number(TIMESTAMP)?.ok_or_else(|| missing(TIMESTAMP))?,
            })),
            _ => return Err(bad(KIND)),
        };
        Ok(Self {
            reason: facts.required(REASON)?.to_owned(),
            table: facts.required(TABLE)?.to_owned(),
            lsn: facts.required(LSN)?.to_owned(),
            event_id: facts.text(EVENT_ID)?.map(str::to_owned),
            topic: facts.text(TOPIC)?.map(str::to_owned),
            content,
        })
    }
}

struct Facts<'a>(&'a [Header]);

impl<'a> Facts<'a> {
    fn bytes(&self, name: &str) -> Option<&'a [u8]> {
        let named = |header: &&Header| header.name.strip_prefix(PREFIX) == Some(name);
        self.0.iter().rfind(named)?.value.as_deref()
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, LetterError> {
        let bytes = self.bytes(name);
        let text = bytes.map(|bytes| std::str::from_utf8(bytes).map_err(|_| bad(name)));
        text.transpose()
    }

    fn required(&self, name: &str) -> Result<&'a str, LetterError> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, LetterError> {
        let text = self.text(name)?;
        let number = text.map(|text| text.parse().map_err(|_| bad(name)));
        number.transpose()
    }
}

fn missing(name: &str) -> LetterError {
    LetterError::MissingHeader {
        name: format!("{PREFIX}{name}"),
    }
}

fn bad(name: &str) -> LetterError {
    LetterError::BadHeader {
        name: format!("{PREFIX}{name}"),
    }
}

impl fmt::Display for LetterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingHeader { name } => write!(f, "it has no header {name}"),
            Self::BadHeader { name } => write!(f, "its header {name} cannot be read"),
        }
    }
}

impl std::error::Error for LetterError {}
