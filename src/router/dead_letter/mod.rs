//! What stands in the dead-letter topic in place of an event, and the way back from there.
//!
//! Two kinds. A *row* could not be routed: the value is what its payload column holds, and a header
//! has the other columns, so that it can be routed again. A *record* was refused by Kafka: key,
//! value and headers are what would have been published, and it goes out again as it is.

mod letter;
mod row;

use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;

use super::plan::PlannedColumn;
use super::{Converter, EventRouter, Header, Record, RouteError, convert};
use crate::lsn::Lsn;
use crate::outbox::{Change, Operation, Source, iso_microseconds};
use crate::pgoutput::Relation;
use crate::timestamp::Timestamp;

pub use letter::{Content, Letter, LetterError};
pub use row::StoredRow;

/// In front of the name of every header that tells of the dead letter. The others are the event's.
pub const PREFIX: &str = "outboxd.dead_letter.";

const KIND: &str = "kind";
const REASON: &str = "reason";
const MESSAGE: &str = "message";
const TABLE: &str = "table";
const EVENT_ID: &str = "event_id";
const LSN: &str = "lsn";
const ROW_NUMBER: &str = "row_number";
const COMMIT_TIME: &str = "commit_time";
const TOPIC: &str = "topic";
const PARTITION: &str = "partition";
const TIMESTAMP: &str = "timestamp_ms";
const ROW: &str = "row";

const KIND_ROW: &str = "row";
const KIND_RECORD: &str = "record";

/// The row behind a record, as long as the record may still have to become a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub relation: Arc<Relation>,
    /// Where the transaction commits; for a snapshot row the snapshot's consistent point.
    pub commit_lsn: Lsn,
    pub commit_time: Timestamp,
    /// Its place among the rows of its transaction, from 1.
    pub row: u64,
}

/// Why: a stable word, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub code: &'static str,
    pub message: String,
}

impl From<&RouteError> for Reason {
    fn from(error: &RouteError) -> Self {
        Self {
            code: error.reason(),
            message: error.to_string(),
        }
    }
}

impl EventRouter {
    /// In place of a row that cannot be routed. `None` without a topic for it.
    pub fn dead_letter(
        &self,
        change: &Change<'_, '_>,
        origin: &Origin,
        reason: &Reason,
    ) -> Option<Record> {
        let topic = self.options.dead_letter_topic.clone()?;
        let (value, row) = row::store(change, &self.options);
        let mut headers = Headers::new(KIND_ROW, reason, origin);
        headers.optional(EVENT_ID, self.event_id(change));
        headers.optional(TOPIC, self.intended_topic(change));
        headers.push(ROW, row);
        Some(Record {
            topic,
            partition: None,
            key: self.key(change),
            value,
            headers: headers.0.into(),
            timestamp_ms: origin.commit_time.as_unix_ms().max(0),
        })
    }

    /// The row's id, where it can be read.
    pub fn event_id(&self, change: &Change<'_, '_>) -> Option<String> {
        self.text(change, &self.options.id_field)
    }

    fn intended_topic(&self, change: &Change<'_, '_>) -> Option<String> {
        let routed = self.text(change, &self.options.route_field)?;
        Some(self.options.topic.topic(&routed))
    }

    fn text(&self, change: &Change<'_, '_>, name: &str) -> Option<String> {
        let column = self.column(change, name, &Converter::Raw)?;
        column.text(change.new?).ok()?.map(str::to_owned)
    }

    /// As it would have been, where it can be read.
    fn key(&self, change: &Change<'_, '_>) -> Option<Bytes> {
        let converter = &self.options.converters.key;
        let column = self.column(change, &self.options.key_field, converter)?;
        let source = match change.operation {
            Operation::Read => Source::Snapshot,
            _ => Source::Stream,
        };
        convert(&column, change.new?, source, converter).ok()?
    }

    fn column(
        &self,
        change: &Change<'_, '_>,
        name: &str,
        converter: &Converter,
    ) -> Option<PlannedColumn> {
        let (relation, options, catalog) = (change.relation, &self.options, &self.catalog);
        PlannedColumn::find(relation, name, "", Some(converter), options, catalog).ok()
    }
}

impl Record {
    /// In place of this record, which Kafka refuses. What a header `id` says is the event's id.
    pub fn dead_letter(&self, topic: Arc<str>, origin: &Origin, reason: &Reason) -> Self {
        let mut headers = Headers(self.headers.to_vec());
        headers
            .0
            .extend(Headers::new(KIND_RECORD, reason, origin).0);
        headers.optional(EVENT_ID, self.event_id());
        headers.push(TOPIC, self.topic.as_bytes().to_vec());
        if let Some(partition) = self.partition {
            headers.text(PARTITION, partition);
        }
        headers.text(TIMESTAMP, self.timestamp_ms);
        Self {
            topic,
            partition: None,
            key: self.key.clone(),
            value: self.value.clone(),
            headers: headers.0.into(),
            // Its own may be what is wrong with it.
            timestamp_ms: origin.commit_time.as_unix_ms().max(0),
        }
    }

    /// What the header `id` says.
    pub fn event_id(&self) -> Option<String> {
        let id = self.headers.iter().find(|header| *header.name == *"id")?;
        let id = String::from_utf8_lossy(id.value.as_deref()?);
        Some(id.into_owned())
    }
}

struct Headers(Vec<Header>);

impl Headers {
    fn new(kind: &str, reason: &Reason, origin: &Origin) -> Self {
        let mut headers = Self(Vec::new());
        headers.text(KIND, kind);
        headers.text(REASON, reason.code);
        headers.text(MESSAGE, &reason.message);
        headers.text(TABLE, origin.relation.qualified_name());
        headers.text(LSN, origin.commit_lsn);
        headers.text(ROW_NUMBER, origin.row);
        headers.text(COMMIT_TIME, iso_microseconds(origin.commit_time));
        headers
    }

    fn push(&mut self, name: &str, value: Vec<u8>) {
        self.0.push(Header {
            name: format!("{PREFIX}{name}").into(),
            value: Some(value.into()),
        });
    }

    fn text(&mut self, name: &str, value: impl Display) {
        self.push(name, value.to_string().into_bytes());
    }

    fn optional(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }
}

#[cfg(test)]
mod tests;
