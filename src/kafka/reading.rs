//! A topic from given offsets to where it ends now: for what the relay itself has written to Kafka.
//! Blocking; belongs on a thread that may wait.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};

use super::check::Listener;
use super::options::Options;
use crate::router::Header;

/// Where each partition is read from; those that are not named, and what lies before the topic's
/// beginning by now: from the beginning.
pub type Offsets = BTreeMap<i32, i64>;

/// Reads what was in the topic when it was started, partition by partition in the order of the
/// offsets, the partitions in no order.
pub struct Reading {
    consumer: BaseConsumer<Listener>,
    topic: Arc<str>,
    partitions: BTreeMap<i32, Progress>,
    patience: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    next: i64,
    /// The high watermark at the start.
    end: i64,
}

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Vec<Header>,
    /// Milliseconds since 1970-01-01 00:00 UTC.
    pub timestamp_ms: Option<i64>,
}

#[derive(Debug)]
pub enum ReadError {
    Client(KafkaError),
    TopicMissing {
        topic: Arc<str>,
    },
    /// No right to read it.
    TopicAuthorization {
        topic: Arc<str>,
    },
    /// The brokers gave no answer, or no leader, for the whole of the patience.
    Silent {
        topic: Arc<str>,
        after: Duration,
        /// What librdkafka said meanwhile.
        reasons: Vec<String>,
    },
}

const POLL_WAIT: Duration = Duration::from_millis(100);
/// One question; it is asked again while the patience lasts.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(2);
const QUESTION_PAUSE: Duration = Duration::from_millis(100);
const MISSING_ASKED_AGAIN: u32 = 3;

impl ConsumerContext for Listener {}

impl Reading {
    /// Asks where the partitions end. `patience` is how long the brokers may be silent, here and
    /// between two records.
    pub fn start(
        options: &Options,
        topic: &str,
        from: &Offsets,
        patience: Duration,
    ) -> Result<Self, ReadError> {
        let consumer: BaseConsumer<Listener> = options
            .reading_config()
            .create_with_context(Listener::default())
            .map_err(ReadError::Client)?;
        let mut this = Self {
            consumer,
            topic: topic.into(),
            partitions: BTreeMap::new(),
            patience,
        };
        let deadline = Instant::now() + patience;
        let partitions = this.existing(deadline)?;
        for partition in partitions {
            let (low, high) = this.retried(deadline, |this| this.find_ends(partition))?;
            let next = from.get(&partition).copied().unwrap_or(low).max(low);
            let progress = Progress { next, end: high };
            this.partitions.insert(partition, progress);
        }
        this.assign().map_err(ReadError::Client)?;
        Ok(this)
    }

    /// How many records there can be at most: fewer in a compacted topic.
    pub fn remaining(&self) -> u64 {
        let left = self.partitions.values().map(Progress::left);
        left.sum()
    }

    /// `None` at the end of all partitions.
    pub fn read(&mut self) -> Result<Option<StoredRecord>, ReadError> {
        let mut deadline = Instant::now() + self.patience;
        while self.partitions.values().any(|progress| !progress.is_done()) {
            match self.consumer.poll(POLL_WAIT) {
                Some(Ok(message)) => {
                    if let Some(progress) = self.partitions.get_mut(&message.partition()) {
                        let is_wanted = message.offset() < progress.end;
                        progress.next = progress.end.min(message.offset() + 1);
                        if is_wanted {
                            return Ok(Some(stored(&message)));
                        }
                    }
                }
                // Behind the last record there may be offsets without one.
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    if let Some(progress) = self.partitions.get_mut(&partition) {
                        progress.next = progress.end;
                        deadline = Instant::now() + self.patience;
                    }
                }
                Some(Err(error)) => self.judge(error)?,
                None => {}
            }
            if Instant::now() >= deadline {
                return Err(self.silent());
            }
        }
        Ok(None)
    }

    fn assign(&self) -> Result<(), KafkaError> {
        let mut wanted = TopicPartitionList::new();
        for (partition, progress) in &self.partitions {
            if !progress.is_done() {
                let from = Offset::Offset(progress.next);
                wanted.add_partition_offset(&self.topic, *partition, from)?;
            }
        }
        self.consumer.assign(&wanted)
    }

    /// Right after its making, or while brokers restart, one of them may not know the topic yet.
    fn existing(&self, deadline: Instant) -> Result<Vec<i32>, ReadError> {
        let mut missing = 0;
        loop {
            match self.retried(deadline, Self::find_partitions) {
                Err(ReadError::TopicMissing { .. }) if missing < MISSING_ASKED_AGAIN => {
                    missing += 1;
                    std::thread::sleep(QUESTION_PAUSE);
                }
                answer => return answer,
            }
        }
    }

    fn retried<T>(
        &self,
        deadline: Instant,
        ask: impl Fn(&Self) -> Result<T, KafkaError>,
    ) -> Result<T, ReadError> {
        loop {
            match ask(self) {
                Ok(answer) => return Ok(answer),
                Err(error) => self.judge(error)?,
            }
            if Instant::now() >= deadline {
                return Err(self.silent());
            }
            std::thread::sleep(QUESTION_PAUSE);
        }
    }

    fn find_partitions(&self) -> Result<Vec<i32>, KafkaError> {
        let wanted = Some(&*self.topic);
        let metadata = self.consumer.fetch_metadata(wanted, QUESTION_TIMEOUT)?;
        let mut topics = metadata.topics().iter();
        let topic = topics.find(|topic| topic.name() == &*self.topic);
        let topic = topic.ok_or(KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopic))?;
        match topic.error() {
            Some(error) => Err(KafkaError::MetadataFetch(error.into())),
            None if topic.partitions().is_empty() => Err(KafkaError::MetadataFetch(
                RDKafkaErrorCode::LeaderNotAvailable,
            )),
            None => Ok(topic.partitions().iter().map(|each| each.id()).collect()),
        }
    }

    /// Of a topic that was found: a broker that does not know its partition will in a moment.
    fn find_ends(&self, partition: i32) -> Result<(i64, i64), KafkaError> {
        let ends = self
            .consumer
            .fetch_watermarks(&self.topic, partition, QUESTION_TIMEOUT);
        match ends {
            Err(error) if is_unknown(&error) => Err(KafkaError::MetadataFetch(
                RDKafkaErrorCode::LeaderNotAvailable,
            )),
            ends => ends,
        }
    }

    /// What waiting does not heal. The group's rights do not matter: a consumer that is told its
    /// partitions and stores no position needs none.
    fn judge(&self, error: KafkaError) -> Result<(), ReadError> {
        use RDKafkaErrorCode as Code;
        let topic = Arc::clone(&self.topic);
        match error.rdkafka_error_code() {
            _ if is_unknown(&error) => Err(ReadError::TopicMissing { topic }),
            Some(Code::TopicAuthorizationFailed) => Err(ReadError::TopicAuthorization { topic }),
            Some(_) => {
                tracing::debug!(%topic, "reading: {error}");
                Ok(())
            }
            None => Err(ReadError::Client(error)),
        }
    }

    fn silent(&self) -> ReadError {
        ReadError::Silent {
            topic: Arc::clone(&self.topic),
            after: self.patience,
            reasons: self.consumer.context().take(),
        }
    }
}

fn is_unknown(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    matches!(
        code,
        Some(RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition)
    )
}

impl Progress {
    const fn is_done(&self) -> bool {
        self.next >= self.end
    }

    fn left(&self) -> u64 {
        u64::try_from(self.end - self.next).unwrap_or(0)
    }
}

pub(super) fn stored(message: &BorrowedMessage<'_>) -> StoredRecord {
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        let each = headers.iter().map(|header| Header {
            name: header.key.into(),
            value: header.value.map(Bytes::copy_from_slice),
        });
        each.collect()
    });
    StoredRecord {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(Bytes::copy_from_slice),
        value: message.payload().map(Bytes::copy_from_slice),
        headers,
        timestamp_ms: message.timestamp().to_millis(),
    }
}

/// What librdkafka says at most while one question is asked.
const EVENTS: usize = 64;

impl ReadError {
    /// Of a question that was asked once, with all of the patience.
    pub(super) fn of_question(
        consumer: &BaseConsumer<Listener>,
        topic: &str,
        after: Duration,
        error: KafkaError,
    ) -> Self {
        use RDKafkaErrorCode as Code;
        let topic = topic.into();
        match error.rdkafka_error_code() {
            Some(Code::OperationTimedOut | Code::BrokerTransportFailure | Code::AllBrokersDown) => {
                for _ in 0..EVENTS {
                    drop(consumer.poll(Duration::ZERO));
                }
                let reasons = consumer.context().take();
                Self::Silent {
                    topic,
                    after,
                    reasons,
                }
            }
            Some(Code::TopicAuthorizationFailed) => Self::TopicAuthorization { topic },
            _ => Self::Client(error),
        }
    }

    pub fn hint(&self) -> String {
        match self {
            Self::Client(_) | Self::Silent { .. } => {
                "Check that the brokers run, kafka.bootstrap.servers and the security settings."
                    .to_owned()
            }
            Self::TopicMissing { topic } => format!("Check the name of topic {topic}."),
            Self::TopicAuthorization { topic } => {
                format!("Grant Read and Describe on topic {topic} to the relay's principal.")
            }
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(_) => f.write_str("the Kafka consumer failed"),
            Self::TopicMissing { topic } => write!(f, "topic \"{topic}\" does not exist"),
            Self::TopicAuthorization { topic } => {
                write!(f, "not authorized to read topic \"{topic}\"")
            }
            Self::Silent {
                topic,
                after,
                reasons,
            } => {
                write!(
                    f,
                    "topic \"{topic}\" cannot be read: no answer for {after:?}"
                )?;
                if !reasons.is_empty() {
                    write!(f, ": {}", reasons.join("; "))?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(source) => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::mocking::MockCluster;

    use super::*;
    use crate::ack::{Limits, Ticket};
    use crate::kafka::Publisher;
    use crate::router::Record;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn options(servers: &str) -> Options {
        let window = Limits {
            records: 100,
            bytes: 1 << 20,
        };
        Options::new(servers, BTreeMap::new(), window).unwrap()
    }

    async fn write(options: &Options, first: u64, values: &[&str]) {
        let (publisher, mut reports) = Publisher::start(options).unwrap();
        let batch = values.iter().zip(first..).map(|(value, number)| {
            let record = Record {
                topic: "t".into(),
                partition: Some(i32::try_from(number % 2).unwrap()),
                key: None,
                value: Some(Bytes::copy_from_slice(value.as_bytes())),
                headers: smallvec::smallvec![Header {
                    name: "n".into(),
                    value: None
                }],
                timestamp_ms: 5,
            };
            (Ticket(number), Arc::new(record))
        });
        publisher.send(batch.collect());
        let mut settled = 0;
        while settled < values.len() {
            settled += reports.recv().await.unwrap().len();
        }
        publisher.close(PATIENCE).await;
    }

    fn values(reading: &mut Reading) -> Vec<(i32, String)> {
        let mut values = Vec::new();
        while let Some(record) = reading.read().unwrap() {
            let value = record.value.unwrap();
            values.push((record.partition, String::from_utf8(value.to_vec()).unwrap()));
        }
        values.sort();
        values
    }

    #[tokio::test]
    async fn a_topic_is_read_from_given_offsets_to_its_end_at_the_start() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("t", 2, 1).unwrap();
        let options = options(&cluster.bootstrap_servers());
        let owned = |values: &[(i32, &str)]| -> Vec<_> {
            let each = values.iter();
            each.map(|(at, value)| (*at, (*value).to_owned())).collect()
        };

        let mut empty = Reading::start(&options, "t", &Offsets::new(), PATIENCE).unwrap();
        assert_eq!((empty.remaining(), empty.read().unwrap()), (0, None));

        write(&options, 0, &["a", "b", "c"]).await;
        let mut all = Reading::start(&options, "t", &Offsets::new(), PATIENCE).unwrap();
        assert_eq!(all.remaining(), 3);
        write(&options, 3, &["later"]).await;
        assert_eq!(values(&mut all), owned(&[(0, "a"), (0, "c"), (1, "b")]));

        let from = Offsets::from([(0, 1), (1, 1)]);
        let mut rest = Reading::start(&options, "t", &from, PATIENCE).unwrap();
        let first = rest.read().unwrap().unwrap();
        assert_eq!((first.offset, first.timestamp_ms), (1, Some(5)));
        assert_eq!((first.headers.len(), &first.headers[0].value), (1, &None));
        assert_eq!(rest.remaining(), 1);
    }

    #[test]
    fn a_topic_that_is_missing_and_brokers_that_are_away_are_told_apart() {
        let cluster = MockCluster::<rdkafka::producer::DefaultProducerContext>::new(1).unwrap();
        let servers = cluster.bootstrap_servers();
        let patience = Duration::from_millis(500);
        let missing = Reading::start(&options(&servers), "t", &Offsets::new(), patience);
        let text = missing.err().map(|error| error.to_string());
        assert_eq!(text.as_deref(), Some("topic \"t\" does not exist"));

        drop(cluster);
        let away = Reading::start(&options(&servers), "t", &Offsets::new(), patience);
        let text = away.err().map(|error| error.to_string()).unwrap();
        assert!(text.starts_with("topic \"t\" cannot be read: no answer for 500ms"));
    }
}
