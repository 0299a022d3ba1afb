//! Topics that are named one by one, from where they ended at the opening, for as long as somebody
//! reads. Blocking; belongs on a thread that may wait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::metadata::MetadataTopic;
use rdkafka::{Offset, TopicPartitionList};

use super::check::Listener;
use super::options::Options;
use super::reading::{ReadError, StoredRecord, stored};

/// Where partitions end.
pub type Ends = BTreeMap<(Arc<str>, i32), i64>;

pub struct Tail {
    consumer: BaseConsumer<Listener>,
    prefix: String,
    /// Of every partition that was there at the opening; none where it could not be asked.
    opened: BTreeMap<(Arc<str>, i32), Option<i64>>,
    /// What is read, with the number of partitions.
    topics: BTreeMap<Arc<str>, u32>,
    places: BTreeMap<(Arc<str>, i32), Offset>,
    /// Named and not there yet, with when it was last asked for.
    awaited: BTreeMap<Arc<str>, Option<Instant>>,
}

const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two questions after a topic that is not there yet.
const ASK_INTERVAL: Duration = Duration::from_secs(1);

impl Tail {
    /// Remembers where the topics end whose names begin with `prefix`. Nothing is read before it is
    /// named.
    pub fn open(options: &Options, prefix: &str, patience: Duration) -> Result<Self, ReadError> {
        let mut config = options.reading_config();
        config.set("enable.partition.eof", "false");
        // Where the topic's beginning has passed us by, what is left of it is read.
        config.set("auto.offset.reset", "earliest");
        let consumer: BaseConsumer<Listener> = config
            .create_with_context(Listener::default())
            .map_err(ReadError::Client)?;
        let deadline = Instant::now() + patience;
        let metadata = consumer.fetch_metadata(None, patience);
        let metadata = metadata.map_err(|error| {
            ReadError::of_question(&consumer, &format!("{prefix}*"), patience, error)
        })?;
        let mut this = Self {
            consumer,
            prefix: prefix.to_owned(),
            opened: BTreeMap::new(),
            topics: BTreeMap::new(),
            places: BTreeMap::new(),
            awaited: BTreeMap::new(),
        };
        for topic in metadata.topics() {
            let name: Arc<str> = topic.name().into();
            let ends = match name.starts_with(prefix) && !name.starts_with("__") {
                true => this.ends_of(topic, deadline.saturating_duration_since(Instant::now())),
                false => BTreeMap::new(),
            };
            for partition in topic.partitions() {
                let end = ends.get(&partition.id()).copied();
                let place = (Arc::clone(&name), partition.id());
                this.opened.insert(place, end);
            }
        }
        // A topic whose end nobody was left to ask for would be read from a later one.
        if Instant::now() >= deadline {
            return Err(ReadError::Silent {
                topic: format!("{prefix}*").into(),
                after: patience,
                reasons: this.consumer.context().take(),
            });
        }
        Ok(this)
    }

    /// A partition without a leader has none.
    fn ends_of(&self, topic: &MetadataTopic, timeout: Duration) -> BTreeMap<i32, i64> {
        let led = topic.partitions().iter().filter(|each| each.leader() >= 0);
        let deadline = Instant::now() + timeout;
        let end = |id| {
            let timeout = deadline.saturating_duration_since(Instant::now());
            let ends = self.consumer.fetch_watermarks(topic.name(), id, timeout);
            match ends {
                Ok((_, high)) => Some((id, high)),
                Err(error) => {
                    tracing::debug!(topic = topic.name(), partition = id, "its end: {error}");
                    None
                }
            }
        };
        led.filter_map(|each| end(each.id())).collect()
    }

    /// Where the topics end now that are read or, where a prefix is known, could be. Nothing where one
    /// of them cannot be asked.
    pub fn ends(&self) -> Result<Option<Ends>, ReadError> {
        let metadata = match self.consumer.fetch_metadata(None, QUESTION_TIMEOUT) {
            Ok(metadata) => metadata,
            Err(error) if error.rdkafka_error_code().is_some() => return Ok(None),
            Err(error) => return Err(ReadError::Client(error)),
        };
        let mut all = Ends::new();
        for topic in metadata.topics() {
            let name = topic.name();
            let may_be_ours = !self.prefix.is_empty() && name.starts_with(&self.prefix);
            if name.starts_with("__") || !(may_be_ours || self.topics.contains_key(name)) {
                continue;
            }
            let name: Arc<str> = name.into();
            let ends = self.ends_of(topic, QUESTION_TIMEOUT);
            if ends.len() < topic.partitions().len() {
                return Ok(None);
            }
            let ends = ends.into_iter();
            all.extend(ends.map(|(id, end)| ((Arc::clone(&name), id), end)));
        }
        Ok(Some(all))
    }

    /// From where it ended at the opening, or from its beginning where it was not there.
    pub fn name(&mut self, topic: &Arc<str>) {
        if !self.topics.contains_key(topic) && !self.awaited.contains_key(topic) {
            self.awaited.insert(Arc::clone(topic), None);
        }
    }

    /// Those named topics that were found just now, with the number of their partitions.
    pub fn found(&mut self) -> Result<Vec<(Arc<str>, u32)>, ReadError> {
        let is_due = |at: &Option<Instant>| at.is_none_or(|at| at.elapsed() >= ASK_INTERVAL);
        let due: Vec<_> = self
            .awaited
            .iter()
            .filter(|(_, at)| is_due(at))
            .map(|(topic, _)| Arc::clone(topic))
            .collect();
        let mut found = Vec::new();
        for topic in due {
            match self.begin(&topic)? {
                Some(partitions) => {
                    self.awaited.remove(&topic);
                    self.topics.insert(Arc::clone(&topic), partitions);
                    found.push((topic, partitions));
                }
                None => drop(self.awaited.insert(topic, Some(Instant::now()))),
            }
        }
        if !found.is_empty() {
            self.assign().map_err(ReadError::Client)?;
        }
        Ok(found)
    }

    fn begin(&mut self, name: &Arc<str>) -> Result<Option<u32>, ReadError> {
        let asked = self.consumer.fetch_metadata(Some(name), QUESTION_TIMEOUT);
        let metadata = match asked {
            Ok(metadata) => metadata,
            Err(error) => {
                tracing::debug!(topic = %name, "following: {error}");
                return Ok(None);
            }
        };
        let mut topics = metadata.topics().iter();
        let Some(topic) = topics.find(|topic| topic.name() == &**name) else {
            return Ok(None);
        };
        match topic.error().map(RDKafkaErrorCode::from) {
            Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                let topic = Arc::clone(name);
                return Err(ReadError::TopicAuthorization { topic });
            }
            Some(_) => return Ok(None),
            None if topic.partitions().is_empty() => return Ok(None),
            None => {}
        }
        for partition in topic.partitions() {
            let place = (Arc::clone(name), partition.id());
            let from = match self.opened.get(&place) {
                Some(Some(end)) => Offset::Offset(*end),
                Some(None) => Offset::End,
                None => Offset::Beginning,
            };
            self.places.insert(place, from);
        }
        Ok(Some(
            u32::try_from(topic.partitions().len()).unwrap_or(u32::MAX),
        ))
    }

    fn assign(&self) -> Result<(), KafkaError> {
        let mut all = TopicPartitionList::new();
        for ((topic, partition), from) in &self.places {
            all.add_partition_offset(topic, *partition, *from)?;
        }
        self.consumer.assign(&all)
    }

    /// The next record of any of them, or none within `wait`. Brokers that are away are waited for.
    pub fn poll(&mut self, wait: Duration) -> Result<Option<(Arc<str>, StoredRecord)>, ReadError> {
        match self.consumer.poll(wait) {
            Some(Ok(message)) => {
                let topic: Arc<str> = match self.topics.get_key_value(message.topic()) {
                    Some((topic, _)) => Arc::clone(topic),
                    None => message.topic().into(),
                };
                let next = Offset::Offset(message.offset() + 1);
                let place = (Arc::clone(&topic), message.partition());
                self.places.insert(place, next);
                Ok(Some((topic, stored(&message))))
            }
            None => Ok(None),
            Some(Err(error)) => match error.rdkafka_error_code() {
                // The error does not say of which of them.
                Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                    let names: Vec<&str> = self.topics.keys().map(|name| &**name).collect();
                    let topic = names.join(" or ").into();
                    Err(ReadError::TopicAuthorization { topic })
                }
                Some(_) => {
                    tracing::debug!("following: {error}");
                    Ok(None)
                }
                None => Err(ReadError::Client(error)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use rdkafka::mocking::MockCluster;

    use super::*;
    use crate::ack::{Limits, Ticket};
    use crate::kafka::Publisher;
    use crate::router::Record;

    const PATIENCE: Duration = Duration::from_secs(10);

    async fn write(options: &Options, topic: &str, value: &str) {
        let (publisher, mut reports) = Publisher::start(options).unwrap();
        let record = Record {
            topic: topic.into(),
            partition: Some(0),
            key: None,
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
            headers: smallvec::SmallVec::new(),
            timestamp_ms: 5,
        };
        publisher.send(vec![(Ticket(1), Arc::new(record))]);
        reports.recv().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_topic_is_read_once_it_is_named_and_from_where_it_ended_at_the_opening() {
        let cluster = MockCluster::new(1).unwrap();
        for topic in ["a.old", "a.other", "b"] {
            cluster.create_topic(topic, 1, 1).unwrap();
        }
        let window = Limits {
            records: 100,
            bytes: 1 << 20,
        };
        let servers = cluster.bootstrap_servers();
        let options = Options::new(&servers, BTreeMap::new(), window).unwrap();
        write(&options, "a.old", "before").await;
        let read = options.clone();
        let open = move || Tail::open(&read, "a.", PATIENCE).unwrap();
        let mut tail = tokio::task::spawn_blocking(open).await.unwrap();
        for (topic, value) in [("a.old", "after"), ("a.other", "unnamed"), ("b", "foreign")] {
            write(&options, topic, value).await;
        }
        let old: Arc<str> = "a.old".into();
        let all = tokio::task::block_in_place(|| {
            tail.name(&old);
            let found = tail.found().unwrap();
            assert_eq!(found, [(Arc::clone(&old), 1)]);
            assert_eq!(tail.found().unwrap(), []);
            let deadline = Instant::now() + PATIENCE;
            let mut all = Vec::new();
            while all.is_empty() && Instant::now() < deadline {
                all.extend(tail.poll(Duration::from_millis(100)).unwrap());
            }
            all.extend(tail.poll(Duration::from_millis(100)).unwrap());
            all
        });
        let values: Vec<_> = all
            .iter()
            .map(|(topic, record)| (&**topic, record.value.as_deref().unwrap()))
            .collect();
        assert_eq!(values, [("a.old", &b"after"[..])]);
        let ends = tokio::task::block_in_place(|| tail.ends().unwrap().unwrap());
        let other = ("a.other".into(), 0);
        assert_eq!(ends, Ends::from([((old, 0), 2), (other, 1)]));
    }
}
