//! What the producer says of itself, for metrics and the status page, and what of it is logged.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;

/// Readable from any thread at any time.
#[derive(Debug, Default)]
pub struct Health {
    reachable: AtomicBool,
    /// A topic was missing, and is being made.
    making_topic: AtomicBool,
    queue_records: AtomicU64,
    queue_bytes: AtomicU64,
    round_trip_us: AtomicI64,
    retries: AtomicU64,
    /// Statistics in a row that name no broker.
    deserted: AtomicU64,
    voice: Mutex<Voice>,
    /// Nothing of it is for the log of every day.
    quiet: bool,
}

/// What was said in the log.
#[derive(Debug, Default)]
struct Voice {
    reach: Reach,
    last_error: Option<String>,
    notes: HashMap<String, Note>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reach {
    #[default]
    Unknown,
    Reached,
    Lost,
}

#[derive(Debug)]
struct Note {
    said_at: Instant,
    unsaid: u64,
}

/// Between two of them the client may be about to turn to its bootstrap servers again.
const DESERTED_AFTER: u64 = 2;

/// librdkafka repeats itself for each broker and attempt.
const NOTE_INTERVAL: Duration = Duration::from_secs(30);
/// librdkafka has some sixty kinds of lines; a name beyond these shares one place.
const NOTE_KINDS: usize = 64;

impl Health {
    /// False until a broker has answered, and from the loss of the last one until one answers.
    pub fn is_reachable(&self) -> bool {
        self.reachable.load(Ordering::Relaxed)
    }

    /// Why no broker can be reached, as librdkafka put it last. `None` while one can, and before
    /// the first attempt.
    pub fn outage(&self) -> Option<String> {
        if self.is_reachable() {
            return None;
        }
        let voice = self.voice();
        (voice.reach == Reach::Lost).then(|| voice.last_error.clone().unwrap_or_default())
    }

    /// A topic was missing, and the relay makes it: a record waits for that, and nothing is wrong yet.
    pub fn is_making_topic(&self) -> bool {
        self.making_topic.load(Ordering::Relaxed)
    }

    pub(super) fn makes_topic(&self, making: bool) {
        self.making_topic.store(making, Ordering::Relaxed);
    }

    pub fn queue_records(&self) -> u64 {
        self.queue_records.load(Ordering::Relaxed)
    }

    pub fn queue_bytes(&self) -> u64 {
        self.queue_bytes.load(Ordering::Relaxed)
    }

    /// Average of the slowest broker's round trip in the last interval of the statistics.
    pub fn round_trip_us(&self) -> i64 {
        self.round_trip_us.load(Ordering::Relaxed)
    }

    /// Requests that were sent again, by this producer.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    pub(super) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            ..Self::default()
        }
    }

    /// A broker has answered. Called for every delivery: costs nothing while that is no news.
    pub(super) fn answered(&self) {
        if self.reachable.load(Ordering::Relaxed) {
            return;
        }
        let mut voice = self.voice();
        self.reachable.store(true, Ordering::Relaxed);
        let before = std::mem::replace(&mut voice.reach, Reach::Reached);
        voice.last_error = None;
        drop(voice);
        if before == Reach::Lost && !self.quiet {
            tracing::info!("Kafka answers again");
        }
    }

    /// The last broker is lost, or none could be reached yet.
    pub(super) fn lost(&self) {
        let mut voice = self.voice();
        self.reachable.store(false, Ordering::Relaxed);
        let before = std::mem::replace(&mut voice.reach, Reach::Lost);
        let reason = voice.last_error.clone().unwrap_or_default();
        drop(voice);
        if before != Reach::Lost && !self.quiet {
            tracing::warn!(reason, "no Kafka broker can be reached; trying on");
        }
    }

    /// A connection or a request failed; librdkafka tries again by itself.
    pub(super) fn failed(&self, kind: &str, reason: &str) {
        self.note(kind, reason);
        self.voice().last_error = Some(reason.escape_debug().to_string());
    }

    /// One line of librdkafka's, at most once per interval for each kind.
    pub(super) fn note(&self, kind: &str, message: &str) {
        if self.quiet {
            tracing::debug!(kind, "librdkafka: {}", message.escape_debug());
            return;
        }
        let unsaid = self.voice().say(kind, Instant::now());
        if let Some(unsaid) = unsaid {
            tracing::warn!(kind, unsaid, "librdkafka: {}", message.escape_debug());
        }
    }

    /// True for a client that has no broker to turn to any more, not even a bootstrap server: it
    /// never connects again. librdkafka (2.10 and later) forgets all brokers when an answer names
    /// none, which a broker that stops may give; a second answer then keeps it from beginning anew
    /// (its issue 5301, seen with 2.12.1 and Kafka 4.3).
    #[must_use]
    pub(super) fn read_statistics(&self, json: &[u8]) -> bool {
        let Ok(statistics) = serde_json::from_slice::<Statistics>(json) else {
            return false;
        };
        self.queue_records
            .store(statistics.msg_cnt, Ordering::Relaxed);
        self.queue_bytes
            .store(statistics.msg_size, Ordering::Relaxed);
        let brokers = statistics.brokers.values();
        let round_trip_us = brokers.clone().map(|broker| broker.rtt.avg).max();
        self.round_trip_us
            .store(round_trip_us.unwrap_or(0), Ordering::Relaxed);
        let retries = brokers.clone().map(|broker| broker.txretries).sum();
        self.retries.store(retries, Ordering::Relaxed);
        if brokers.clone().any(|broker| broker.state == "UP") {
            self.answered();
        }
        if !statistics.brokers.is_empty() {
            self.deserted.store(0, Ordering::Relaxed);
            return false;
        }
        self.deserted.fetch_add(1, Ordering::Relaxed) + 1 >= DESERTED_AFTER
    }

    fn voice(&self) -> MutexGuard<'_, Voice> {
        self.voice.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Voice {
    /// `Some` when it is time to say it, with the number of times it was not said before.
    fn say(&mut self, kind: &str, now: Instant) -> Option<u64> {
        let known = self.notes.contains_key(kind);
        let kind = if known || self.notes.len() < NOTE_KINDS {
            kind
        } else {
            "other"
        };
        match self.notes.get_mut(kind) {
            Some(note) if now.duration_since(note.said_at) < NOTE_INTERVAL => {
                note.unsaid += 1;
                None
            }
            Some(note) => {
                note.said_at = now;
                Some(std::mem::take(&mut note.unsaid))
            }
            None => {
                let note = Note {
                    said_at: now,
                    unsaid: 0,
                };
                self.notes.insert(kind.to_owned(), note);
                Some(0)
            }
        }
    }
}

/// The little that is read of librdkafka's statistics (its `STATISTICS.md`): most of them are about
/// partitions, which can be thousands.
#[derive(Deserialize)]
struct Statistics {
    msg_cnt: u64,
    msg_size: u64,
    brokers: HashMap<String, Broker>,
}

#[derive(Deserialize)]
struct Broker {
    state: String,
    #[serde(default)]
    txretries: u64,
    #[serde(default)]
    rtt: RoundTrip,
}

#[derive(Default, Deserialize)]
struct RoundTrip {
    avg: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_line_is_said_once_per_interval_with_the_number_left_out() {
        let mut voice = Voice::default();
        let start = Instant::now();
        assert_eq!(voice.say("FAIL", start), Some(0));
        assert_eq!(voice.say("FAIL", start), None);
        assert_eq!(voice.say("REQTMOUT", start), Some(0));
        assert_eq!(voice.say("FAIL", start + NOTE_INTERVAL / 2), None);
        assert_eq!(voice.say("FAIL", start + NOTE_INTERVAL), Some(2));
        assert_eq!(voice.say("FAIL", start + NOTE_INTERVAL * 2), Some(0));
    }

    #[test]
    fn kinds_without_end_take_a_bounded_place() {
        let mut voice = Voice::default();
        for kind in 0..1000 {
            voice.say(&kind.to_string(), Instant::now());
        }
        assert_eq!(voice.notes.len(), NOTE_KINDS + 1);
    }

    #[test]
    fn the_reason_of_an_outage_is_kept_until_a_broker_answers() {
        let health = Health::default();
        assert_eq!(health.outage(), None);
        health.failed(
            "BrokerTransportFailure",
            "Connect to 10.0.0.1 failed\nfalse line",
        );
        health.lost();
        assert!(!health.is_reachable());
        assert_eq!(
            health.outage().as_deref(),
            Some("Connect to 10.0.0.1 failed\\nfalse line")
        );
        health.answered();
        assert_eq!((health.is_reachable(), health.outage()), (true, None));
    }

    #[test]
    fn the_statistics_give_queue_round_trip_and_a_broker_that_is_up() {
        let health = Health::default();
        let is_deserted = health.read_statistics(
            br#"{"name": "x", "msg_cnt": 7, "msg_size": 900, "topics": {"t": {}}, "brokers": {
                "a/1": {"nodeid": 1, "state": "UP", "txretries": 2, "rtt": {"min": 1, "avg": 300}},
                "b/2": {"nodeid": 2, "state": "DOWN", "txretries": 1, "rtt": {"min": 1, "avg": 900}},
                "boot/-1": {"nodeid": -1, "state": "INIT", "txretries": 0}}}"#,
        );
        assert!(!is_deserted);
        let read = (
            health.queue_records(),
            health.queue_bytes(),
            health.round_trip_us(),
            health.retries(),
            health.is_reachable(),
        );
        assert_eq!(read, (7, 900, 900, 3, true));
    }

    #[test]
    fn a_client_is_deserted_when_two_statistics_in_a_row_name_no_broker() {
        let health = Health::default();
        let none = br#"{"msg_cnt": 1, "msg_size": 1, "brokers": { }}"#;
        let down = br#"{"msg_cnt": 1, "msg_size": 1, "brokers": {"a": {"state": "DOWN"}}}"#;
        let seen: Vec<bool> = [&none[..], down, none, none, none, down, none]
            .map(|json| health.read_statistics(json))
            .into();
        assert_eq!(seen, [false, false, false, true, true, false, false]);
    }
}
