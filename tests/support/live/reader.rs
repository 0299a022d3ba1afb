use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use super::{Consumer, Follower, Kafka, Relay, Scene, Shop, Tally};

const QUIET: Duration = Duration::from_millis(700);
const PATIENCE: Duration = Duration::from_secs(60);

/// A consumer of the topic, with all that can be asked of it afterwards.
pub struct Reader {
    pub consumer: Consumer,
    pub tally: Tally,
    pub follower: Follower,
    /// Where records were read.
    pub partitions: BTreeSet<i32>,
}

impl Reader {
    pub fn new(kafka: &Kafka) -> Self {
        Self {
            consumer: Consumer::new(kafka, Scene::TOPIC),
            tally: Tally::default(),
            follower: Follower::default(),
            partitions: BTreeSet::new(),
        }
    }

    pub fn read_until(&mut self, events: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.tally.distinct() < events {
            assert!(
                Instant::now() < deadline,
                "{} of {events} events",
                self.tally.distinct()
            );
            self.read(Duration::from_millis(100));
        }
    }

    pub fn read_more(&mut self, events: usize) {
        self.read_until(self.tally.distinct() + events);
    }

    /// Until a record of this partition or a later one has come.
    pub fn read_until_partition(&mut self, first: i32) {
        let deadline = Instant::now() + PATIENCE;
        while self.partitions.last().is_none_or(|last| *last < first) {
            assert!(Instant::now() < deadline, "read: {:?}", self.partitions);
            self.read(Duration::from_millis(100));
        }
    }

    pub fn read_until_repeats(&mut self, repeats: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.tally.repeats() < repeats {
            assert!(
                Instant::now() < deadline,
                "{} of {repeats} repeats",
                self.tally.repeats()
            );
            self.read(Duration::from_millis(100));
        }
    }

    pub fn read_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.read(Duration::from_millis(50));
        }
    }

    pub fn read(&mut self, patience: Duration) -> bool {
        let event = self.consumer.next(patience);
        if let Some(event) = &event {
            self.tally.add(event);
            self.follower.apply(event);
            self.partitions.insert(event.partition);
        }
        event.is_some()
    }

    /// Nothing is lost and every key is in order; the consumer's table is the source's.
    pub async fn close(mut self, client: &Client, shop: Shop, relays: Vec<Relay>) {
        let expected = shop.finish().await;
        self.read_until(usize::try_from(expected.values().sum::<i64>()).unwrap());
        for relay in relays {
            assert!(relay.stop().success());
        }
        while self.read(QUIET) {}
        self.tally.assert_complete_and_ordered(&expected);
        self.follower.assert_equals_source(client).await;
    }
}
