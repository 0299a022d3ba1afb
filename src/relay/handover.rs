//! The first start after Kafka Connect: where the connector stopped, read from its offsets.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::RelayError;
use crate::connect::{
    AtSlot, ConnectorOffset, Delivered, Search, Standing, Start, decide, is_key_of,
};
use crate::java;
use crate::journal::{Entry, Gap, Knowledge};
use crate::kafka::{Offsets, Options as KafkaOptions, ReadError, Reading};
use crate::lsn::Lsn;
use crate::postgres::slot::SlotDescription;

/// Whose offset it is and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub connector: String,
    /// The connector's `topic.prefix`.
    pub server: String,
    /// That the connector streams from, where it is known.
    pub slot: Option<String>,
    pub store: OffsetStore,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OffsetStore {
    /// Of a distributed worker.
    Topic(String),
    /// Of a standalone worker.
    File(PathBuf),
}

/// How long the brokers may be silent while the topic is read.
const READ_PATIENCE: Duration = Duration::from_secs(10);
/// Offsets of all connectors of a worker are a few kilobytes.
const FILE_LIMIT_BYTES: u64 = 16 << 20;

/// What one run knows of the connector.
#[derive(Clone, Debug)]
pub(super) struct Handover {
    kafka: KafkaOptions,
    options: Options,
    /// The journal's entry with which this process began the slot, with nothing confirmed yet.
    begun: Option<Entry>,
}

/// Why an offset is not looked at, whatever it says. It names no slot, and of a connector that still
/// runs elsewhere it lies ahead of what is in this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Useless {
    /// The connector streams from another slot.
    OtherSlot { theirs: String },
    /// Nothing says whether the relay has streamed from the slot since.
    NoJournal,
}

impl Options {
    pub fn is_useless(&self, slot: &str, has_journal: bool) -> Option<Useless> {
        match &self.slot {
            Some(theirs) if theirs != slot => Some(Useless::OtherSlot {
                theirs: theirs.clone(),
            }),
            _ => (!has_journal).then_some(Useless::NoJournal),
        }
    }
}

/// The connector's offset, or why it cannot be had.
pub(super) type Found = Result<Option<ConnectorOffset>, String>;

/// What was found of the connector.
pub(super) struct Connector {
    handover: Handover,
    /// Absent while the slot is in use: the connector may still run.
    found: Option<Found>,
}

/// How the stream begins.
pub(super) struct Resumption {
    pub(super) search: Option<Search>,
    /// The connector does not matter any more.
    pub(super) is_settled: bool,
}

impl Default for Resumption {
    fn default() -> Self {
        Self {
            search: None,
            is_settled: true,
        }
    }
}

impl Handover {
    pub(super) fn new(
        kafka: &KafkaOptions,
        options: &Options,
        slot: &str,
        has_journal: bool,
    ) -> Option<Self> {
        if let Some(reason) = options.is_useless(slot, has_journal) {
            tracing::warn!(
                connector = options.connector, offsets = %options.store, hint = AT_SLOT,
                "starting at the slot's position: {reason}"
            );
            return None;
        }
        Some(Self::of(kafka, options))
    }

    pub(super) fn of(kafka: &KafkaOptions, options: &Options) -> Self {
        Self {
            kafka: kafka.clone(),
            options: options.clone(),
            begun: None,
        }
    }

    /// The journal has this entry from now on.
    pub(super) fn begin(&mut self, entry: &Entry) {
        self.begun = Some(entry.clone());
    }

    /// Whether the slot may be as the connector left it. One that a relay has streamed from, and that
    /// nobody has moved since, is not: events that the connector has never seen lie before its offset.
    pub(super) fn may_matter(&self, read: Option<&Entry>, judged: &Result<Knowledge, Gap>) -> bool {
        match judged {
            Ok(Knowledge::Known { .. } | Knowledge::Ahead { .. }) => {
                // The entry that this process began with may not have got into the journal yet.
                let begun = self.begun.as_ref().zip(read);
                begun.is_some_and(|(begun, read)| {
                    read.generation <= begun.generation && read.confirmed_lsn == begun.confirmed_lsn
                })
            }
            Ok(Knowledge::None | Knowledge::Dropped) | Err(_) => true,
        }
    }

    /// `None` where there is no slot that a connector could have used.
    pub(super) async fn look(
        self,
        slot: Option<&SlotDescription>,
    ) -> Result<Option<Connector>, RelayError> {
        let Some(slot) = slot else {
            return Ok(None);
        };
        let found = match slot.is_held() {
            true => None,
            false => Some(self.clone().read().await?),
        };
        Ok(Some(Connector {
            handover: self,
            found,
        }))
    }

    /// Brokers that are silent are an error; what nobody can read is a reason to begin at the slot.
    pub(super) async fn read(self) -> Result<Found, RelayError> {
        let read = tokio::task::spawn_blocking(move || match &self.options.store {
            OffsetStore::Topic(topic) => self.read_topic(topic),
            OffsetStore::File(path) => Ok(self.read_file(path)),
        });
        read.await.unwrap_or(Err(RelayError::ProducerGone))
    }

    fn read_topic(&self, topic: &str) -> Result<Found, RelayError> {
        let reading = Reading::start(&self.kafka, topic, &Offsets::new(), READ_PATIENCE);
        let mut reading = match reading {
            Err(
                error @ (ReadError::TopicMissing { .. } | ReadError::TopicAuthorization { .. }),
            ) => return Ok(Err(error.to_string())),
            reading => reading.map_err(RelayError::OffsetsUnread)?,
        };
        // A key's records are in one partition, the newest last.
        let mut newest = None;
        loop {
            match reading.read() {
                Ok(Some(record)) if record.key.as_deref().is_some_and(|key| self.is_ours(key)) => {
                    newest = record.value;
                }
                Ok(Some(_)) => {}
                Ok(None) => return Ok(offset(newest.as_deref())),
                Err(error @ ReadError::TopicAuthorization { .. }) => {
                    return Ok(Err(error.to_string()));
                }
                Err(error) => return Err(RelayError::OffsetsUnread(error)),
            }
        }
    }

    fn read_file(&self, path: &PathBuf) -> Found {
        let size = std::fs::metadata(path).map_err(|error| error.to_string())?;
        if size.len() > FILE_LIMIT_BYTES {
            return Err("it is too large for a file of offsets".to_owned());
        }
        let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
        let map = java::read_byte_map(&bytes).map_err(|error| error.to_string())?;
        let mut entries = map.into_iter();
        let ours = entries.find(|(key, _)| key.as_deref().is_some_and(|key| self.is_ours(key)));
        offset(ours.and_then(|(_, value)| value).as_deref())
    }

    fn is_ours(&self, key: &[u8]) -> bool {
        is_key_of(key, &self.options.connector, &self.options.server)
    }
}

impl Connector {
    /// Its offset says how far it came, and not from where: whether it read what lies between the relay's
    /// position and where the slot `stands` is for the operator to say.
    pub(super) fn refusal(&self, gap: Gap, stands: Lsn, written: Lsn) -> RelayError {
        let options = &self.handover.options;
        RelayError::of_gap(gap, options, self.found.as_ref(), (stands, written))
    }

    /// Says what it comes to. `confirmed` is the slot's position or the relay's own; the server
    /// writes at `written`.
    pub(super) fn begin(self, confirmed: Lsn, written: Lsn) -> Resumption {
        let standing = Standing { confirmed, written };
        let is_settled = self.found.is_some();
        let delivered = self
            .found
            .and_then(|found| self.handover.decide(found, standing));
        Resumption {
            is_settled: is_settled && delivered.is_none(),
            search: delivered.map(|delivered| Search::new(delivered, written)),
        }
    }
}

impl Handover {
    fn decide(&self, found: Found, standing: Standing) -> Option<Delivered> {
        let Options {
            connector, store, ..
        } = &self.options;
        let reason = match found.map(|offset| decide(offset.as_ref(), standing)) {
            Ok(Start::After(delivered)) => {
                tracing::info!(
                    connector, offsets = %store, transaction = delivered.xid,
                    "Kafka Connect's offset was found: starting after what the connector has delivered"
                );
                return Some(delivered);
            }
            Ok(Start::AtSlot(reason @ (AtSlot::Confirmed | AtSlot::Snapshot))) => {
                tracing::info!(connector, offsets = %store, "starting at the slot's position: {reason}");
                return None;
            }
            Ok(Start::AtSlot(reason)) => reason.to_string(),
            Err(unreadable) => format!("the connector's offset cannot be read: {unreadable}"),
        };
        tracing::warn!(
            connector, offsets = %store, lsn = %standing.confirmed, hint = AT_SLOT,
            "starting at the slot's position: {reason}"
        );
        None
    }
}

impl fmt::Display for Useless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherSlot { theirs } => write!(
                f,
                "the connector's offset is of slot \"{theirs}\""
            ),
            Self::NoJournal => f.write_str(
                "without a position journal nothing says whether the slot is still as the connector left it",
            ),
        }
    }
}

pub const AT_SLOT: &str = "Nothing is lost. Events that Kafka Connect had delivered after the slot's position come again, with the same ids.";

fn offset(value: Option<&[u8]>) -> Found {
    let offset = value.map(ConnectorOffset::from_json).transpose();
    offset.map_err(|error| error.to_string())
}

impl fmt::Display for OffsetStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(topic) => write!(f, "topic {topic}"),
            Self::File(path) => write!(f, "file {}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ack::Limits;
    use crate::journal::{Server, judge};

    const HERE: Server<'static> = Server {
        system_id: "77",
        timeline: 1,
        database: "shop",
        slot: "outbox",
        written: Lsn::new(1_000),
        left_at: None,
    };

    fn handover() -> Handover {
        let (records, bytes) = (1, 1 << 20);
        let limits = Limits { records, bytes };
        Handover {
            kafka: KafkaOptions::new("127.0.0.1:1", BTreeMap::new(), limits).unwrap(),
            options: Options {
                connector: "shop".to_owned(),
                server: "shop".to_owned(),
                slot: Some("outbox".to_owned()),
                store: OffsetStore::Topic("offsets".to_owned()),
            },
            begun: None,
        }
    }

    #[test]
    fn an_offset_ahead_of_a_slot_that_the_relay_knows_skips_nothing() {
        let begun = Entry::first(1, &HERE, Lsn::new(100));
        let known = begun.at(Lsn::new(200), 0);
        let judged = |entry, stands| judge(entry, &HERE, Some(Lsn::new(stands)));
        let mut handover = handover();
        for stands in [150, 200] {
            assert!(!handover.may_matter(Some(&known), &judged(Some(&known), stands)));
        }
        // The first start, and after the connector has used the slot again.
        assert!(handover.may_matter(None, &judged(None, 200)));
        assert!(handover.may_matter(Some(&known), &judged(Some(&known), 201)));
        // Another process may have made the slot and come no further.
        assert!(!handover.may_matter(Some(&begun), &judged(Some(&begun), 100)));
        // This one was cut off on the way to the connector's place.
        handover.begin(&begun);
        assert!(handover.may_matter(Some(&begun), &judged(Some(&begun), 100)));
        assert!(!handover.may_matter(Some(&known), &judged(Some(&known), 200)));
    }

    #[test]
    fn an_offset_of_another_slot_or_without_a_journal_is_of_no_use() {
        let mut options = handover().options;
        assert_eq!(options.is_useless("outbox", true), None);
        assert_eq!(
            options.is_useless("outbox", false),
            Some(Useless::NoJournal)
        );
        let theirs = "outbox".to_owned();
        assert_eq!(
            options.is_useless("own", true),
            Some(Useless::OtherSlot { theirs })
        );
        options.slot = None;
        assert_eq!(options.is_useless("own", true), None);
    }
}
