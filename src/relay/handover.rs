//! The first start after Kafka Connect: where the connector stopped, read from its offsets.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::{Relay, RelayError};
use crate::connect::{
    AtSlot, ConnectorOffset, Delivered, Search, Standing, Start, decide, is_key_of,
};
use crate::java;
use crate::kafka::{Offsets, Options as KafkaOptions, ReadError, Reading};
use crate::lsn::Lsn;
use crate::pipeline::PipelineError;
use crate::postgres::slot::SlotDescription;

/// Whose offset it is and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub connector: String,
    /// The connector's `topic.prefix`.
    pub server: String,
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
    pub(super) kafka: KafkaOptions,
    pub(super) options: Options,
}

/// The connector's offset, or why it cannot be had.
type Found = Result<Option<ConnectorOffset>, String>;

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
    async fn read(self) -> Result<Found, RelayError> {
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
    /// The connector has confirmed the slot's position itself: it was not moved behind its back.
    /// What lies beyond the server is of another one, and says nothing.
    pub(super) fn has_moved_slot(&self, stands: Lsn, written: Lsn) -> bool {
        let offset = self
            .found
            .as_ref()
            .and_then(|found| found.as_ref().ok()?.as_ref());
        let reached = offset.map(|offset| offset.committed.unwrap_or(offset.lsn));
        reached.is_some_and(|reached| (stands..=written).contains(&reached))
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

pub(super) const AT_SLOT: &str = "Nothing is lost. Events that Kafka Connect had delivered after the slot's position come again, with the same ids.";

fn offset(value: Option<&[u8]>) -> Found {
    let offset = value.map(ConnectorOffset::from_json).transpose();
    offset.map_err(|error| error.to_string())
}

impl Relay {
    /// The stream did not have the connector's place: from now on it begins at the slot's.
    pub(super) fn give_up_search(&mut self, error: &RelayError) {
        let is_search = matches!(
            error,
            RelayError::Pipeline(PipelineError::ConnectorOffset { .. })
        );
        if is_search {
            self.handover = None;
        }
    }

    pub(super) fn tell_passed(&mut self) {
        if let Some(passed) = self.outbound.pipeline.take_passed() {
            tracing::info!(
                rows = passed.rows, commit_lsn = %passed.commit_lsn,
                "what Kafka Connect had delivered was passed over: publishing what follows"
            );
        }
    }
}

impl fmt::Display for OffsetStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(topic) => write!(f, "topic {topic}"),
            Self::File(path) => write!(f, "file {}", path.display()),
        }
    }
}
