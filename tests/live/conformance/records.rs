//! What is in Kafka after a case, in the form of the recordings.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fancy_regex::{Captures, Regex};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::support::Kafka;

pub(super) struct Log {
    pub(super) records: Vec<Value>,
    /// Topics with more partitions than one.
    pub(super) partitions: BTreeMap<String, usize>,
}

/// What a text depends on: the time in which the case ran, in milliseconds (what lies in it was the
/// clock), and what counts as long.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
    /// Longer keys and values are recorded by length and hash.
    pub(super) long_bytes: usize,
}

impl Reading {
    fn has(self, ms: i64) -> bool {
        (self.from_ms - 2000..=self.to_ms + 2000).contains(&ms)
    }
}

/// Partitions of all topics that are not Kafka's own.
pub(super) fn topics(kafka: &Kafka) -> BTreeMap<String, usize> {
    let consumer = consumer(kafka);
    let metadata = consumer
        .fetch_metadata(None, Duration::from_secs(20))
        .unwrap();
    metadata
        .topics()
        .iter()
        .filter(|topic| topic.name() != "__consumer_offsets")
        .map(|topic| (topic.name().to_owned(), topic.partitions().len()))
        .collect()
}

fn consumer(kafka: &Kafka) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", kafka.servers())
        .set("group.id", "conformance")
        .set("enable.auto.commit", "false")
        .set("allow.auto.create.topics", "false")
        .set("fetch.wait.max.ms", "5")
        .set("enable.partition.eof", "false")
        .create()
        .unwrap()
}

/// Everything, in the order of topic, partition, offset. `epoch_ms`: ages are counted from it.
pub(super) fn read(
    kafka: &Kafka,
    ignored: &[String],
    reading: Reading,
    epoch_ms: Option<f64>,
) -> Log {
    let mut topics = topics(kafka);
    topics.retain(|topic, _| !ignored.contains(topic));
    let consumer = consumer(kafka);
    let mut missing = HashMap::new();
    let mut assignment = TopicPartitionList::new();
    for (topic, partitions) in &topics {
        for partition in 0..i32::try_from(*partitions).unwrap() {
            let (low, high) = consumer
                .fetch_watermarks(topic, partition, Duration::from_secs(20))
                .unwrap();
            if high > low {
                missing.insert((topic.clone(), partition), high);
                assignment
                    .add_partition_offset(topic, partition, Offset::Beginning)
                    .unwrap();
            }
        }
    }
    consumer.assign(&assignment).unwrap();
    let mut found = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !missing.is_empty() {
        assert!(Instant::now() < deadline, "unread: {missing:?}");
        let Some(message) = consumer.poll(Duration::from_millis(20)) else {
            continue;
        };
        let Ok(message) = message else { continue };
        let place = (message.topic().to_owned(), message.partition());
        if missing
            .get(&place)
            .is_some_and(|high| message.offset() + 1 >= *high)
        {
            missing.remove(&place);
        }
        let at = (place.0, place.1, message.offset());
        found.push((at, record(&message, reading, epoch_ms)));
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    topics.retain(|topic, partitions| *partitions != 1 && topic != "lab.message");
    Log {
        records: without_repeated_heartbeats(found.into_iter().map(|(_, record)| record)),
        partitions: topics,
    }
}

/// How many there are depends on the clock.
fn without_repeated_heartbeats(records: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for record in records {
        let heartbeat = record["topic"]
            .as_str()
            .is_some_and(|topic| topic.starts_with("__debezium-heartbeat"));
        if !(heartbeat && kept.last() == Some(&record)) {
            kept.push(record);
        }
    }
    kept
}

fn record(message: &BorrowedMessage<'_>, reading: Reading, epoch_ms: Option<f64>) -> Value {
    let headers: Vec<Value> = message.headers().map_or_else(Vec::new, |headers| {
        headers
            .iter()
            .map(|header| json!([header.key, header_value(header.key, header.value, reading)]))
            .collect()
    });
    let ms = message.timestamp().to_millis().unwrap();
    let mut record = json!({
        "topic": message.topic(),
        "partition": message.partition(),
        "key": text(message.key(), reading),
        "value": text(message.payload(), reading),
        "headers": headers,
        "timestamp": if reading.has(ms) { json!("<now>") } else { json!(ms) },
    });
    if let Some(epoch_ms) = epoch_ms {
        let age_s = ((ms as f64 - epoch_ms) / 1000.0).floor();
        // A record's milliseconds are cut, the moment's are not.
        record["timestamp_minus_commit_s"] = json!(age_s.max(0.0) as i64);
    }
    record
}

/// Where a dead letter comes from is another place in each run.
fn header_value(name: &str, value: Option<&[u8]>, reading: Reading) -> Value {
    match name.strip_prefix("outboxd.dead_letter.") {
        Some(fact @ ("lsn" | "commit_time" | "row")) => json!(format!("<{fact}>")),
        _ => text(value, reading),
    }
}

fn text(bytes: Option<&[u8]>, reading: Reading) -> Value {
    let Some(bytes) = bytes else {
        return Value::Null;
    };
    let sha256 = || -> String {
        openssl::sha::sha256(bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.len() > reading.long_bytes => {
            let characters: Vec<char> = text.chars().collect();
            let head: String = characters[..120.min(characters.len())].iter().collect();
            let tail: String = characters[characters.len().saturating_sub(40)..]
                .iter()
                .collect();
            json!({"len": bytes.len(), "sha256": sha256(), "head": head, "tail": tail})
        }
        Ok(text) => json!(symbols(text, reading)),
        Err(_) if bytes.len() > reading.long_bytes => {
            json!({"len": bytes.len(), "sha256": sha256(), "b64head": STANDARD.encode(&bytes[..90])})
        }
        Err(_) => json!({"b64": STANDARD.encode(bytes)}),
    }
}

/// Replaces what depends on the clock or the run by the symbols of the recordings.
fn symbols(text: &str, reading: Reading) -> String {
    static CLOCK: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?<![\w.])\d{13,19}(?![\w.])").unwrap());
    static ADDRESS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\[B@[0-9a-f]+|(?<=\w)@[0-9a-f]{5,8}\b").unwrap());
    let text = CLOCK.replace_all(text, |found: &Captures<'_, str>| {
        let digits = &found[0];
        let number: i64 = digits.parse().unwrap_or(i64::MAX);
        let (per_ms, symbol) = match digits.len() {
            13 => (1, "<now_ms>"),
            16 => (1000, "<now_us>"),
            19 => (1_000_000, "<now_ns>"),
            _ => return digits.to_owned(),
        };
        if reading.has(number / per_ms) {
            symbol.to_owned()
        } else {
            digits.to_owned()
        }
    });
    ADDRESS
        .replace_all(&text, |found: &Captures<'_, str>| {
            let start = if found[0].starts_with('[') { "[B" } else { "" };
            format!("{start}@<hash>")
        })
        .into_owned()
}
