//! What stands in the topic.

use std::time::{Duration, Instant};

use super::Options;
use crate::journal::Entry;
use crate::kafka::{Offsets, Options as KafkaOptions, ReadError, Reading};
use crate::relay::RelayError;

/// How long the brokers may be silent while the journal is read.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is under the key.
#[derive(Debug, Default)]
pub struct Stored {
    pub newest: Option<Entry>,
    /// Of the last record, where nobody can read it.
    pub unreadable: Option<RelayError>,
}

pub async fn read(kafka: KafkaOptions, options: Options) -> Result<Stored, RelayError> {
    let read = tokio::task::spawn_blocking(move || read_blocking(&kafka, &options));
    read.await.unwrap_or(Err(RelayError::ProducerGone))
}

fn read_blocking(kafka: &KafkaOptions, options: &Options) -> Result<Stored, RelayError> {
    let began = Instant::now();
    let reading = Reading::start(kafka, &options.topic, &Offsets::new(), PATIENCE);
    let mut reading = match reading {
        Err(ReadError::TopicMissing { .. }) => return Ok(Stored::default()),
        reading => reading.map_err(RelayError::JournalUnread)?,
    };
    let mut stored = Stored::default();
    let mut records = 0_u64;
    while let Some(record) = reading.read().map_err(RelayError::JournalUnread)? {
        records += 1;
        if record.key.as_deref() != Some(options.key.as_bytes()) {
            continue;
        }
        // Whoever takes the entry out knows why.
        let Some(value) = record.value else {
            stored = Stored::default();
            continue;
        };
        match Entry::from_json(&value) {
            Ok(entry) => {
                stored.unreadable = None;
                stored.newest = Some(match stored.newest.take() {
                    Some(newest) => newest.newest(entry),
                    None => entry,
                });
            }
            Err(source) => {
                stored.unreadable = Some(RelayError::JournalEntry {
                    topic: options.topic.clone(),
                    key: options.key.clone(),
                    offset: record.offset,
                    source,
                });
            }
        }
    }
    let took_ms = began.elapsed().as_millis();
    let newest = stored.newest.as_ref();
    let lsn = newest.map(|entry| entry.confirmed_lsn.to_string());
    tracing::debug!(records, took_ms, lsn, "the position journal was read");
    Ok(stored)
}
