//! Topics from where they end now, for as long as somebody reads. Blocking; belongs on a thread that
//! may wait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use super::check::Listener;
use super::options::Options;
use super::reading::{ReadError, StoredRecord, stored};

pub struct Tail {
    consumer: BaseConsumer<Listener>,
    /// With the number of their partitions.
    topics: BTreeMap<Arc<str>, u32>,
    asked_at: Option<Instant>,
}

const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two questions after a topic that is not there yet.
const ASK_INTERVAL: Duration = Duration::from_secs(1);

impl Tail {
    /// Follows every topic whose name begins with `prefix`, from its end.
    pub fn open(options: &Options, prefix: &str, patience: Duration) -> Result<Self, ReadError> {
        let consumer: BaseConsumer<Listener> = options
            .reading_config()
            .create_with_context(Listener::default())
            .map_err(ReadError::Client)?;
        let metadata = consumer.fetch_metadata(None, patience);
        let metadata = metadata.map_err(ReadError::Client)?;
        let mut this = Self {
            consumer,
            topics: BTreeMap::new(),
            asked_at: None,
        };
        let mut ends = TopicPartitionList::new();
        for topic in metadata.topics() {
            let name = topic.name();
            if !name.starts_with(prefix) || name.starts_with("__") {
                continue;
            }
            for partition in topic.partitions() {
                let (_, high) = this
                    .consumer
                    .fetch_watermarks(name, partition.id(), patience)
                    .map_err(ReadError::Client)?;
                let added = ends.add_partition_offset(name, partition.id(), Offset::Offset(high));
                added.map_err(ReadError::Client)?;
            }
            let count = u32::try_from(topic.partitions().len()).unwrap_or(u32::MAX);
            this.topics.insert(name.into(), count);
        }
        this.consumer.assign(&ends).map_err(ReadError::Client)?;
        Ok(this)
    }

    pub fn topics(&self) -> usize {
        self.topics.len()
    }

    /// The partitions of a topic, which is followed from its beginning where it is new. `None` while
    /// it is not there.
    pub fn follow(&mut self, topic: &Arc<str>) -> Option<u32> {
        if let Some(partitions) = self.topics.get(topic) {
            return Some(*partitions);
        }
        if self.asked_at.is_some_and(|at| at.elapsed() < ASK_INTERVAL) {
            return None;
        }
        self.asked_at = Some(Instant::now());
        self.begin(topic).unwrap_or_else(|error| {
            tracing::debug!(%topic, "following: {error}");
            None
        })
    }

    fn begin(&mut self, name: &Arc<str>) -> Result<Option<u32>, KafkaError> {
        let metadata = self.consumer.fetch_metadata(Some(name), QUESTION_TIMEOUT)?;
        let mut topics = metadata.topics().iter();
        let Some(topic) = topics.find(|topic| topic.name() == &**name) else {
            return Ok(None);
        };
        if topic.error().is_some() || topic.partitions().is_empty() {
            return Ok(None);
        }
        let mut new = TopicPartitionList::new();
        for partition in topic.partitions() {
            new.add_partition_offset(name, partition.id(), Offset::Beginning)?;
        }
        self.consumer.incremental_assign(&new)?;
        let count = u32::try_from(topic.partitions().len()).unwrap_or(u32::MAX);
        self.topics.insert(Arc::clone(name), count);
        Ok(Some(count))
    }

    /// The next record of any of them, or none within `wait`. Brokers that are away are waited for.
    pub fn poll(&self, wait: Duration) -> Result<Option<(Arc<str>, StoredRecord)>, ReadError> {
        match self.consumer.poll(wait) {
            Some(Ok(message)) => Ok(Some((message.topic().into(), stored(&message)))),
            None | Some(Err(KafkaError::PartitionEOF(_))) => Ok(None),
            Some(Err(error)) if error.rdkafka_error_code().is_some() => {
                tracing::debug!("following: {error}");
                Ok(None)
            }
            Some(Err(error)) => Err(ReadError::Client(error)),
        }
    }
}
