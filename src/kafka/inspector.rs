//! What `outboxd check` asks the brokers about single topics. Writes nothing and makes nothing.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};

use super::admin::{Quiet, wait_for};
use super::creation::{self, TopicSettings};
use super::error::PublishError;
use super::options::Options;

/// Blocking; belongs on a thread that may wait. No question takes longer than its patience, and all
/// together not longer than until the deadline.
pub struct Inspector {
    client: BaseProducer<Probe>,
    admin: AdminClient<Quiet>,
    deadline: Instant,
}

/// A topic as the brokers tell of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenTopic {
    pub partitions: usize,
    pub without_leader: usize,
    /// Of the partition with the fewest.
    pub replicas: usize,
    pub in_sync: usize,
    /// Absent where this client may not see them.
    pub limits: Option<TopicLimits>,
}

/// What of a topic's configuration matters to a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicLimits {
    pub cleanup_policy: String,
    pub min_in_sync: usize,
    pub max_message_bytes: u64,
    pub unclean_election: bool,
    /// Milliseconds that a record may be older than its arrival.
    pub timestamp_age_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Yes,
    /// No right.
    Denied,
    /// Another refusal, or none at all; the text says which.
    Other(String),
}

const PATIENCE: Duration = Duration::from_secs(5);
const POLL_WAIT: Duration = Duration::from_millis(20);

/// Neither 0, 1 nor all: Kafka refuses it, after it has looked at the client's right to write
/// (`ReplicaManager.appendRecords` stands behind `KafkaApis.handleProduceRequest`), so that nothing is
/// written whatever the answer is.
const NO_SUCH_ACKS: &str = "2";

impl Inspector {
    pub fn new(options: &Options, patience: Duration) -> Result<Self, PublishError> {
        let mut config = options.question_config();
        let admin = config
            .create_with_context(Quiet)
            .map_err(PublishError::Client)?;
        config.set("acks", NO_SUCH_ACKS);
        config.set("message.send.max.retries", "0");
        config.set("message.timeout.ms", PATIENCE.as_millis().to_string());
        config.set("request.timeout.ms", PATIENCE.as_millis().to_string());
        let client = config
            .create_with_context(Probe::default())
            .map_err(PublishError::Client)?;
        Ok(Self {
            client,
            admin,
            deadline: Instant::now() + patience,
        })
    }

    /// `None` where it does not exist.
    pub fn topic(&self, name: &str) -> Result<Option<SeenTopic>, Answer> {
        use RDKafkaErrorCode as Code;
        let metadata = self
            .client
            .client()
            .fetch_metadata(Some(name), self.left()?);
        let metadata = metadata.map_err(|error| Answer::of(code(&error)))?;
        let Some(topic) = metadata.topics().iter().find(|topic| topic.name() == name) else {
            return Ok(None);
        };
        match topic.error().map(Code::from) {
            Some(Code::UnknownTopic | Code::UnknownTopicOrPartition) => return Ok(None),
            // No leader yet: that is told of its partitions.
            Some(Code::LeaderNotAvailable) | None => {}
            Some(code) => return Err(Answer::of(code)),
        }
        let partitions = topic.partitions();
        let least = |count: &dyn Fn(usize) -> usize| (0..partitions.len()).map(count).min();
        Ok(Some(SeenTopic {
            partitions: partitions.len(),
            without_leader: partitions.iter().filter(|each| each.leader() < 0).count(),
            replicas: least(&|n| partitions[n].replicas().len()).unwrap_or(0),
            in_sync: least(&|n| partitions[n].isr().len()).unwrap_or(0),
            limits: self.limits(name)?,
        }))
    }

    /// Whether it would be made with these settings.
    pub fn may_create(&self, topic: &str, settings: &TopicSettings) -> Answer {
        if let Err(late) = self.left() {
            return late;
        }
        match creation::rehearse(&self.admin, topic, settings) {
            Ok(()) => Answer::Yes,
            Err(code) => Answer::of(code),
        }
    }

    /// Asks with a record that every broker refuses.
    pub fn may_write(&self, topic: &str) -> Answer {
        let left = match self.left() {
            Ok(left) => left,
            Err(late) => return late,
        };
        let until = Instant::now() + left;
        // The partition is said, since a null key could go to one that is not there any more.
        let record = BaseRecord::<[u8], [u8]>::to(topic)
            .partition(0)
            .payload(&[]);
        if let Err((error, _)) = self.client.send(record) {
            return Answer::of(code(&error));
        }
        loop {
            self.client.poll(POLL_WAIT);
            match self.client.context().take() {
                Some(RDKafkaErrorCode::InvalidRequiredAcks) => return Answer::Yes,
                Some(code) => return Answer::of(code),
                None if Instant::now() >= until => {
                    return Answer::of(RDKafkaErrorCode::OperationTimedOut);
                }
                None => {}
            }
        }
    }

    /// `auto.create.topics.enable` of a broker; `None` where this client may not see it.
    pub fn brokers_make_topics(&self) -> Option<bool> {
        let metadata = self.client.client().fetch_metadata(None, self.left().ok()?);
        let metadata = metadata.ok()?;
        let broker = metadata.brokers().first()?.id();
        let config = self.describe(&ResourceSpecifier::Broker(broker)).ok()??;
        value(&config, "auto.create.topics.enable")?.parse().ok()
    }

    fn limits(&self, topic: &str) -> Result<Option<TopicLimits>, Answer> {
        let Some(config) = self.describe(&ResourceSpecifier::Topic(topic))? else {
            return Ok(None);
        };
        let number = |name: &str| value(&config, name).and_then(|value| value.parse::<u64>().ok());
        let (Some(min_in_sync), Some(max_message_bytes)) =
            (number("min.insync.replicas"), number("max.message.bytes"))
        else {
            return Ok(None);
        };
        let is_on = |name: &str| value(&config, name) == Some("true");
        Ok(Some(TopicLimits {
            cleanup_policy: value(&config, "cleanup.policy")
                .unwrap_or_default()
                .to_owned(),
            min_in_sync: usize::try_from(min_in_sync).unwrap_or(usize::MAX),
            max_message_bytes,
            unclean_election: is_on("unclean.leader.election.enable"),
            // Without a limit it is the largest number of Java's.
            timestamp_age_ms: number("message.timestamp.before.max.ms")
                .filter(|age| *age < i64::MAX as u64),
        }))
    }

    fn describe(&self, what: &ResourceSpecifier<'_>) -> Result<Option<ConfigResource>, Answer> {
        let request = AdminOptions::new().request_timeout(Some(self.left()?));
        match wait_for(self.admin.describe_configs([what], &request)) {
            Ok(described) => Ok(described.into_iter().next().and_then(Result::ok)),
            Err(code) => Err(Answer::of(code)),
        }
    }

    fn left(&self) -> Result<Duration, Answer> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match left.min(PATIENCE) {
            Duration::ZERO => Err(Answer::Other("not asked: the time is over".to_owned())),
            left => Ok(left),
        }
    }
}

fn value<'a>(config: &'a ConfigResource, name: &str) -> Option<&'a str> {
    config.get(name)?.value.as_deref()
}

fn code(error: &KafkaError) -> RDKafkaErrorCode {
    error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail)
}

impl Answer {
    fn of(code: RDKafkaErrorCode) -> Self {
        use RDKafkaErrorCode as Code;
        match code {
            Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => Self::Denied,
            code => Self::Other(code.to_string()),
        }
    }
}

/// The fate of the one record that is asked with.
#[derive(Debug, Default)]
struct Probe(Mutex<Option<RDKafkaErrorCode>>);

impl Probe {
    fn take(&self) -> Option<RDKafkaErrorCode> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ClientContext for Probe {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, "librdkafka: {}", message.escape_debug());
    }

    fn error(&self, _: KafkaError, reason: &str) {
        tracing::debug!("librdkafka: {}", reason.escape_debug());
    }
}

impl ProducerContext for Probe {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let code = match result {
            Ok(message) => {
                tracing::warn!(
                    topic = message.topic(),
                    "a record was taken that no broker should take"
                );
                RDKafkaErrorCode::InvalidRequiredAcks
            }
            Err((error, _)) => code(error),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(code);
    }
}
