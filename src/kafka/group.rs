//! How far somebody has read a topic, as a consumer group's offsets. Blocking.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};

use super::check::Listener;
use super::options::Options;
use super::reading::{Offsets, ReadError};

pub struct GroupOffsets {
    consumer: BaseConsumer<Listener>,
    topic: String,
}

impl GroupOffsets {
    pub fn open(options: &Options, group: &str, topic: &str) -> Result<Self, KafkaError> {
        let mut config = options.reading_config();
        config.set("group.id", group);
        Ok(Self {
            consumer: config.create_with_context(Listener::default())?,
            topic: topic.to_owned(),
        })
    }

    /// Where to go on; partitions without a position are left out.
    pub fn committed(&self, patience: Duration) -> Result<Offsets, ReadError> {
        let metadata = self.consumer.fetch_metadata(Some(&self.topic), patience);
        let silence = |error| ReadError::of_question(&self.consumer, &self.topic, patience, error);
        let metadata = metadata.map_err(silence)?;
        let mut wanted = TopicPartitionList::new();
        for topic in metadata.topics() {
            for partition in topic.partitions() {
                wanted.add_partition(topic.name(), partition.id());
            }
        }
        if wanted.count() == 0 {
            return Ok(Offsets::new());
        }
        let found = self.consumer.committed_offsets(wanted, patience);
        let found = found.map_err(silence)?;
        let known = found.elements().into_iter().filter_map(|element| {
            let Offset::Offset(offset) = element.offset() else {
                return None;
            };
            Some((element.partition(), offset))
        });
        Ok(known.collect())
    }

    /// The offset of the next record of each partition. librdkafka bounds the wait.
    pub fn commit(&self, offsets: &Offsets) -> Result<(), KafkaError> {
        let mut places = TopicPartitionList::new();
        for (partition, offset) in offsets {
            let offset = Offset::Offset(*offset);
            places.add_partition_offset(&self.topic, *partition, offset)?;
        }
        if places.count() == 0 {
            return Ok(());
        }
        self.consumer.commit(&places, CommitMode::Sync)
    }
}
