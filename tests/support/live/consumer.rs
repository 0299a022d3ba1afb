use std::collections::HashMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Headers, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::Kafka;

/// One record as a consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub partition: i32,
    pub key: Option<String>,
    pub value: Option<String>,
    pub headers: Vec<(String, Option<String>)>,
    pub timestamp_ms: i64,
}

impl Event {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found == name)?
            .1
            .as_deref()
    }

    pub fn seq(&self) -> i64 {
        self.header("seq").unwrap().parse().unwrap()
    }
}

/// Reads one topic from its beginning, all partitions.
pub struct Consumer {
    consumer: BaseConsumer,
    partitions: usize,
}

impl Consumer {
    /// Waits for the topic to be there.
    pub fn new(kafka: &Kafka, topic: &str) -> Self {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", kafka.servers())
            .set("group.id", "tests")
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "10")
            .set("allow.auto.create.topics", "false")
            .create()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let partitions = loop {
            if let Ok(metadata) = consumer.fetch_metadata(Some(topic), Duration::from_secs(5)) {
                let partitions = metadata.topics()[0].partitions();
                if !partitions.is_empty() && partitions.iter().all(|p| p.leader() >= 0) {
                    break partitions.len();
                }
            }
            assert!(Instant::now() < deadline, "topic {topic} is not there");
            std::thread::sleep(Duration::from_millis(50));
        };
        let mut assignment = TopicPartitionList::new();
        for partition in 0..partitions {
            let partition = i32::try_from(partition).unwrap();
            assignment
                .add_partition_offset(topic, partition, Offset::Beginning)
                .unwrap();
        }
        consumer.assign(&assignment).unwrap();
        Self {
            consumer,
            partitions,
        }
    }

    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// The next record, or none within `patience`.
    pub fn next(&self, patience: Duration) -> Option<Event> {
        let deadline = Instant::now() + patience;
        loop {
            match self.consumer.poll(Duration::from_millis(50)) {
                Some(Ok(message)) => return Some(event(&message)),
                // A broker that is away is part of many tests.
                Some(Err(_)) | None if Instant::now() < deadline => {}
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// Exactly so many records, in time.
    pub fn take(&self, count: usize) -> Vec<Event> {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut events = Vec::new();
        while events.len() < count {
            assert!(
                Instant::now() < deadline,
                "{} of {count} records: {events:#?}",
                events.len()
            );
            events.extend(self.next(Duration::from_millis(200)));
        }
        events
    }

    /// Reads into `tally` until it has `count` different events.
    pub fn read_until(&self, tally: &mut Tally, count: usize, patience: Duration) {
        let deadline = Instant::now() + patience;
        while tally.distinct() < count {
            assert!(
                Instant::now() < deadline,
                "{} of {count} events after {patience:?}, {} repeats",
                tally.distinct(),
                tally.repeats()
            );
            if let Some(event) = self.next(Duration::from_millis(100)) {
                tally.add(&event);
            }
        }
    }

    /// Whatever comes until nothing comes for `quiet`.
    pub fn read_rest(&self, tally: &mut Tally, quiet: Duration) {
        while let Some(event) = self.next(quiet) {
            tally.add(&event);
        }
    }
}

fn event(message: &rdkafka::message::BorrowedMessage<'_>) -> Event {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Event {
        partition: message.partition(),
        key: message.key().map(text),
        value: message.payload().map(text),
        headers: message.headers().map_or_else(Vec::new, |headers| {
            headers
                .iter()
                .map(|h| (h.key.to_owned(), h.value.map(text)))
                .collect()
        }),
        timestamp_ms: message.timestamp().to_millis().unwrap_or_default(),
    }
}

/// What a consumer of ordered events can tell: per key the sequence numbers in the order of the log.
#[derive(Default)]
pub struct Tally {
    /// Last place in the log of each number of a key.
    last: HashMap<String, HashMap<i64, u64>>,
    records: u64,
}

impl Tally {
    pub fn add(&mut self, event: &Event) {
        self.records += 1;
        let key = event.key.clone().unwrap_or_default();
        self.last
            .entry(key)
            .or_default()
            .insert(event.seq(), self.records);
    }

    pub fn distinct(&self) -> usize {
        self.last.values().map(HashMap::len).sum()
    }

    pub fn repeats(&self) -> u64 {
        self.records - self.distinct() as u64
    }

    /// Every key has the numbers 1 to its last without a gap, and their last occurrences stand in
    /// that order.
    pub fn assert_complete_and_ordered(&self, expected: &HashMap<String, i64>) {
        assert_eq!(self.last.len(), expected.len(), "keys");
        for (key, last) in expected {
            let found = &self.last[key];
            let places: Vec<u64> = (1..=*last)
                .map(|seq| {
                    *found
                        .get(&seq)
                        .unwrap_or_else(|| panic!("event {seq} of key {key} is lost"))
                })
                .collect();
            assert!(places.is_sorted(), "key {key} is out of order: {places:?}");
            assert_eq!(
                found.len() as i64,
                *last,
                "key {key} has events that were never committed"
            );
        }
    }
}
