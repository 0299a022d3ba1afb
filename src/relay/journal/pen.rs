//! One record to the journal's topic at a time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::{Options, now_ms};
use crate::ack::{Limits, Ticket};
use crate::journal::Entry;
use crate::kafka::{self, DeliveryReports, Fate, Options as KafkaOptions, Publisher};
use crate::relay::RelayError;
use crate::relay::error::Undelivered;
use crate::relay::outbound::every;
use crate::router::Record;

/// One record is under way at a time.
const WINDOW: Limits = Limits {
    records: 10,
    bytes: 1 << 16,
};
/// A position that waits longer than this shows.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

pub(super) struct Pen {
    kafka: KafkaOptions,
    options: Options,
    /// Made for the first entry: one that only waits for the lead needs none.
    producer: Option<(Publisher, DeliveryReports)>,
    next: Ticket,
}

/// Kafka says nothing.
pub(super) enum Silence {
    /// No broker can be reached, in librdkafka's last words.
    NoBroker(String),
    NoAnswer,
}

/// Nothing comes back. While the topic is made that is no sign, for as long as any topic may take.
struct Wait {
    since: Instant,
    grace_until: Instant,
}

impl Wait {
    fn new(now: Instant, topic_timeout: Duration) -> Self {
        Self {
            since: now,
            grace_until: now + topic_timeout,
        }
    }

    fn is_long(&mut self, is_making: bool, now: Instant) -> bool {
        if is_making && now < self.grace_until {
            self.since = now;
        }
        now.saturating_duration_since(self.since) >= PATIENCE
    }
}

impl Pen {
    pub(super) fn new(kafka: &KafkaOptions, options: &Options) -> Self {
        Self {
            kafka: kafka.beside(kafka::compacted(), WINDOW),
            options: options.clone(),
            producer: None,
            next: Ticket::default(),
        }
    }

    /// `None` in an error: no producer, and the next attempt makes one. `silent` is called again and
    /// again while nothing comes back.
    pub(super) async fn write(
        &mut self,
        entry: &Entry,
        mut silent: impl FnMut(Silence),
    ) -> Result<(), Option<kafka::DeliveryError>> {
        let mut producer = match self.producer.take() {
            Some(producer) => producer,
            None => Publisher::start(&self.kafka).map_err(|error| {
                tracing::error!("{error}");
                None
            })?,
        };
        let ticket = self.next;
        self.next = Ticket(ticket.0 + 1);
        producer.0.resume();
        producer.0.send(vec![(ticket, self.record(entry))]);
        let mut wait = Wait::new(Instant::now(), self.kafka.topic_timeout);
        let mut looks = every(LOOK_INTERVAL);
        loop {
            tokio::select! {
                reports = producer.1.recv() => {
                    let Some(reports) = reports else { return Err(None) };
                    let report = reports.into_iter().find(|report| report.ticket == ticket);
                    match report.map(|report| report.fate) {
                        None => {}
                        Some(Fate::Acknowledged { .. }) => {
                            self.producer = Some(producer);
                            return Ok(());
                        }
                        Some(Fate::Failed { error, .. }) => {
                            if !error.needs_new_producer() {
                                self.producer = Some(producer);
                            }
                            return Err(Some(error));
                        }
                        Some(Fate::NotSent) => return Err(None),
                    }
                }
                now = looks.tick() => {
                    let health = producer.0.health();
                    let outage = health.outage();
                    let is_making = health.is_making_topic() && outage.is_none();
                    if wait.is_long(is_making, now) {
                        silent(outage.map_or(Silence::NoAnswer, Silence::NoBroker));
                    }
                }
            }
        }
    }

    fn record(&self, entry: &Entry) -> Arc<Record> {
        Arc::new(Record {
            topic: self.options.topic.as_str().into(),
            partition: None,
            key: Some(Bytes::copy_from_slice(self.options.key.as_bytes())),
            value: Some(entry.to_json().into()),
            headers: SmallVec::new(),
            timestamp_ms: entry.written_at_ms,
        })
    }
}

/// From a command that has no stream. Ends when Kafka has it, has refused it, or said nothing for
/// `patience`.
pub async fn write_once(
    kafka: &KafkaOptions,
    options: &Options,
    entry: &Entry,
    patience: Duration,
) -> Result<(), RelayError> {
    let mut pen = Pen::new(kafka, options);
    let entry = entry.at(entry.confirmed_lsn, now_ms());
    let mut reason = None;
    let written = pen.write(&entry, |silence| {
        if let Silence::NoBroker(last) = silence {
            reason = Some(last);
        }
    });
    match tokio::time::timeout(patience, written).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Some(error))) => Err(RelayError::Undeliverable(Undelivered::new(error, None))),
        Ok(Err(None)) => Err(RelayError::ProducerGone),
        Err(_) => Err(RelayError::JournalUnwritten {
            topic: options.topic.clone(),
            after: patience,
            reason,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_that_is_made_is_waited_for_and_not_for_ever() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut wait = Wait::new(start, Duration::from_secs(10));
        // Made after four: what comes behind it has a patience of its own.
        let told = [(2, true), (4, true), (6, false), (7, false)]
            .map(|(seconds, is_making)| wait.is_long(is_making, at(seconds)));
        assert_eq!(told, [false, false, false, true]);
        let mut wait = Wait::new(start, Duration::from_secs(10));
        let told = [9, 11, 12].map(|seconds| wait.is_long(true, at(seconds)));
        assert_eq!(told, [false, false, true]);
        let mut wait = Wait::new(start, Duration::from_secs(10));
        assert!(
            wait.is_long(false, start + PATIENCE),
            "a topic that is there"
        );
    }
}
