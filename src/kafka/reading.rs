//! A topic from given offsets to where it ends now: for what the relay itself has written to Kafka.
//! Blocking; belongs on a thread that may wait.

mod progress;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rdkafka::admin::AdminClient;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};

use super::admin::{self, Quiet};
use super::check::Listener;
use super::creation;
use super::options::Options;
use crate::router::Header;
use progress::Progress;

pub use progress::Gone;

/// Where each partition is read from; those that are not named, and what lies before the topic's
/// beginning by now: from the beginning.
pub type Offsets = BTreeMap<i32, i64>;

/// Reads what was in the topic when it was started, partition by partition in the order of the
/// offsets, the partitions in no order.
pub struct Reading {
    consumer: BaseConsumer<Listener>,
    topic: Arc<str>,
    partitions: BTreeMap<i32, Progress>,
    gone: Vec<Gone>,
    patience: Duration,
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
    /// The place to read from lies behind the end.
    BeyondEnd {
        topic: Arc<str>,
        partition: i32,
        offset: i64,
        end: i64,
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
/// Where the controller does not say whether there is such a topic.
const MISSING_FOR_CERTAIN: u32 = 20;

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
            gone: Vec::new(),
            patience,
        };
        let deadline = Instant::now() + patience;
        let partitions = this.existing(options, deadline)?;
        for partition in partitions {
            let (low, high) = this.retried(deadline, |this| this.find_ends(partition))?;
            let wanted = from.get(&partition).copied().unwrap_or(low);
            if wanted > high {
                return Err(ReadError::BeyondEnd {
                    topic: this.topic,
                    partition,
                    offset: wanted,
                    end: high,
                });
            }
            let mut progress = Progress::new(wanted, high);
            this.gone.extend(progress.begin_at(partition, low));
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

    /// What was to be read, and was deleted before.
    pub fn gone(&self) -> &[Gone] {
        &self.gone
    }

    /// `None` at the end of all partitions.
    pub fn read(&mut self) -> Result<Option<StoredRecord>, ReadError> {
        let mut deadline = Instant::now() + self.patience;
        while self.partitions.values().any(|progress| !progress.is_done()) {
            match self.consumer.poll(POLL_WAIT) {
                Some(Ok(message)) => {
                    if let Some(progress) = self.partitions.get_mut(&message.partition()) {
                        let is_wanted = message.offset() < progress.end;
                        progress.read(message.offset());
                        if is_wanted {
                            return Ok(Some(stored(&message)));
                        }
                    }
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    let has_ended = self.has_ended(partition)?;
                    if has_ended {
                        deadline = Instant::now() + self.patience;
                    }
                }
                Some(Err(error)) => match error.rdkafka_error_code() {
                    Some(RDKafkaErrorCode::AutoOffsetReset) => self.find_beginnings()?,
                    _ => self.judge(error)?,
                },
                None => {}
            }
            if Instant::now() >= deadline {
                return Err(self.silent());
            }
        }
        Ok(None)
    }

    /// Nothing more comes of this partition for now. Behind the last record there may be offsets without
    /// one; but a leader that has just become one may not know yet how far the records go. So it is
    /// asked, and read once more behind its answer.
    fn has_ended(&mut self, partition: i32) -> Result<bool, ReadError> {
        let is_open = |progress: &Progress| !progress.is_done();
        if !self.partitions.get(&partition).is_some_and(is_open) {
            return Ok(false);
        }
        std::thread::sleep(QUESTION_PAUSE);
        let high = match self.find_ends(partition) {
            Ok((_, high)) => Some(high),
            Err(error) => {
                self.judge(error)?;
                None
            }
        };
        let progress = self.partitions.get_mut(&partition);
        let has_ended = progress.is_some_and(|progress| progress.end_early(high));
        if !has_ended {
            self.assign().map_err(ReadError::Client)?;
        }
        Ok(has_ended)
    }

    /// What was to be read next is not there: retention was faster, or the leader lacks it for now.
    fn find_beginnings(&mut self) -> Result<(), ReadError> {
        std::thread::sleep(QUESTION_PAUSE);
        let open = self.partitions.iter().filter(|(_, at)| !at.is_done());
        let open: Vec<i32> = open.map(|(partition, _)| *partition).collect();
        for partition in open {
            match self.find_ends(partition) {
                Ok((low, _)) => {
                    let progress = self.partitions.get_mut(&partition);
                    let gone = progress.and_then(|progress| progress.begin_at(partition, low));
                    self.gone.extend(gone);
                }
                Err(error) => self.judge(error)?,
            }
        }
        self.assign().map_err(ReadError::Client)
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

    /// Right after its making, or while brokers restart, one of them may not know the topic yet. The
    /// controller does.
    fn existing(&self, options: &Options, deadline: Instant) -> Result<Vec<i32>, ReadError> {
        let mut missing = 0;
        let mut exists = None;
        loop {
            let error = match self.retried(deadline, Self::find_partitions) {
                Err(error @ ReadError::TopicMissing { .. }) => error,
                answer => return answer,
            };
            missing += 1;
            if missing > MISSING_ASKED_AGAIN {
                match *exists.get_or_insert_with(|| self.ask_controller(options)) {
                    Some(true) if Instant::now() >= deadline => return Err(self.silent()),
                    Some(true) => {}
                    None if missing < MISSING_FOR_CERTAIN => {}
                    Some(false) | None => return Err(error),
                }
            }
            std::thread::sleep(QUESTION_PAUSE);
        }
    }

    fn ask_controller(&self, options: &Options) -> Option<bool> {
        if admin::is_in_process(self.consumer.client(), QUESTION_TIMEOUT) {
            return Some(false);
        }
        let admin: AdminClient<Quiet> =
            options.question_config().create_with_context(Quiet).ok()?;
        creation::exists(&admin, &self.topic)
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
            Self::BeyondEnd { topic, .. } => format!(
                "Topic {topic} was made anew, or has lost its end: set the position back to where it begins."
            ),
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
            Self::BeyondEnd {
                topic,
                partition,
                offset,
                end,
            } => write!(
                f,
                "partition {partition} of topic \"{topic}\" ends at offset {end}, and was to be read from {offset}"
            ),
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

        let from = Offsets::from([(1, 3)]);
        let beyond = Reading::start(&options, "t", &from, PATIENCE)
            .err()
            .unwrap();
        assert_eq!(
            beyond.to_string(),
            "partition 1 of topic \"t\" ends at offset 2, and was to be read from 3"
        );
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
