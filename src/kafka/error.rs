//! What can go wrong with a record or the producer, in the operator's words.

use std::fmt;
use std::sync::Arc;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// Why one record was not delivered. Names topic and sizes, never key or payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryError {
    pub topic: Arc<str>,
    pub kind: DeliveryErrorKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryErrorKind {
    /// No such topic, or not every partition of it has a leader yet.
    TopicMissing,
    /// A name that Kafka does not allow.
    TopicInvalid,
    /// Kafka tells no `.` from `_` in the names of its metrics, and keeps only one of such topics.
    TopicCollision {
        existing: Option<String>,
    },
    /// The topic was to be created, and the broker said no.
    TopicNotCreated(String),
    TopicAuthorization,
    ClusterAuthorization,
    Authentication,
    RecordTooLarge {
        /// Key, value and headers, uncompressed.
        size_bytes: usize,
        limit: SizeLimit,
    },
    InvalidPartition {
        partition: i32,
        count: i32,
    },
    /// Before 1970, or further from the broker's clock than the topic allows.
    InvalidTimestamp {
        timestamp_ms: i64,
    },
    /// The broker found something wrong with it: a compacted topic takes no record without a key.
    RecordInvalid,
    /// The broker refused a batch of several records, without a word on which. Each of them is
    /// sent again alone.
    BatchRefused(String),
    /// The broker answered with this code; the record is not stored.
    RefusedByBroker(String),
    /// The attempt was given up, so nobody knows whether the record is stored.
    Purged,
    /// The producer can send nothing more; a new one is needed.
    ProducerFatal(String),
    /// The sink itself failed (`--sink stdout`).
    Sink(String),
    Other(String),
}

/// Whose limit on the size of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeLimit {
    /// `message.max.bytes` of the producer.
    Relay(usize),
    /// `max.message.bytes`, where the brokers let us see it.
    Topic(Option<usize>),
}

impl DeliveryErrorKind {
    pub(super) fn from_error(error: &KafkaError) -> Self {
        match error.rdkafka_error_code() {
            Some(code) => Self::from_code(code),
            None => Self::Other(error.to_string()),
        }
    }

    /// What a code says without more about the record. The code's own text is used only where no
    /// kind of ours says it better.
    fn from_code(code: RDKafkaErrorCode) -> Self {
        use RDKafkaErrorCode as Code;
        match code {
            Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition => {
                Self::TopicMissing
            }
            Code::InvalidTopic => Self::TopicInvalid,
            Code::InvalidRecord => Self::RecordInvalid,
            Code::TopicAuthorizationFailed => Self::TopicAuthorization,
            Code::ClusterAuthorizationFailed => Self::ClusterAuthorization,
            Code::Authentication | Code::SaslAuthenticationFailed => Self::Authentication,
            Code::PurgeQueue | Code::PurgeInflight => Self::Purged,
            Code::Fatal
            | Code::GaplessGuarantee
            | Code::Fenced
            | Code::OutOfOrderSequenceNumber
            | Code::UnknownProducerId => Self::ProducerFatal(code.to_string()),
            other if (other as i32) > 0 => Self::RefusedByBroker(other.to_string()),
            other => Self::Other(other.to_string()),
        }
    }

    /// What a producer that ended itself says of the reason. `None` while it works.
    pub(super) fn from_fatal(fatal: Option<(RDKafkaErrorCode, String)>) -> Option<Self> {
        match fatal? {
            // An idempotent producer needs an id, and asks the cluster for it before anything else.
            (RDKafkaErrorCode::ClusterAuthorizationFailed, _) => Some(Self::ClusterAuthorization),
            (_, reason) => Some(Self::ProducerFatal(reason)),
        }
    }

    /// Said by the broker of a batch as a whole, for something in one of its records.
    pub(super) fn concerns_a_batch(&self) -> bool {
        matches!(
            self,
            Self::RecordTooLarge {
                limit: SizeLimit::Topic(_),
                ..
            } | Self::InvalidTimestamp { .. }
                | Self::RecordInvalid
                | Self::RefusedByBroker(_)
        )
    }

    /// The same, when it is not known which record of several the broker means.
    pub(super) fn of_a_batch(&self) -> Self {
        Self::BatchRefused(match self {
            Self::RecordTooLarge { .. } => "the batch or a record in it is too large".to_owned(),
            Self::InvalidTimestamp { .. } => "a timestamp is out of range".to_owned(),
            Self::RecordInvalid => "a record in it is invalid".to_owned(),
            Self::RefusedByBroker(code) => code.clone(),
            other => format!("{other:?}"),
        })
    }
}

impl DeliveryError {
    /// The producer can send nothing more: [`super::Publisher::start`] another one.
    pub fn needs_new_producer(&self) -> bool {
        matches!(
            self.kind,
            DeliveryErrorKind::ProducerFatal(_) | DeliveryErrorKind::ClusterAuthorization
        )
    }

    /// Tells of this attempt only, not of what is wrong with a record or its topic: another attempt
    /// succeeds, or says more.
    pub fn concerns_the_attempt(&self) -> bool {
        matches!(
            self.kind,
            DeliveryErrorKind::BatchRefused(_)
                | DeliveryErrorKind::Purged
                | DeliveryErrorKind::ProducerFatal(_)
        )
    }

    /// Something is wrong with this one record, not with where it goes.
    pub fn concerns_the_record(&self) -> bool {
        matches!(
            self.kind,
            DeliveryErrorKind::TopicInvalid
                | DeliveryErrorKind::RecordTooLarge { .. }
                | DeliveryErrorKind::InvalidPartition { .. }
                | DeliveryErrorKind::InvalidTimestamp { .. }
                | DeliveryErrorKind::RecordInvalid
                | DeliveryErrorKind::RefusedByBroker(_)
        )
    }

    /// The cause lies in the record, and the broker meant this one: a dead letter, where the operator
    /// has chosen these. What somebody mends elsewhere (rights, topics, brokers), and what a broker
    /// refuses for reasons of its own, is waited for.
    pub fn lies_in_the_record(&self) -> bool {
        Self::OF_RECORDS.contains(&self.reason())
    }

    /// Of these, the words of what lies in the record.
    pub const OF_RECORDS: [&str; 5] = [
        "topic_invalid",
        "record_too_large",
        "invalid_partition",
        "invalid_timestamp",
        "record_invalid",
    ];

    /// What the operator can do.
    pub fn hint(&self) -> String {
        use DeliveryErrorKind as Kind;
        let topic = &self.topic;
        match &self.kind {
            Kind::TopicMissing => format!(
                "Create the topic: kafka-topics.sh --create --topic {topic} --partitions N --replication-factor R. Or set topics.create to \"missing\", and the relay creates it."
            ),
            Kind::TopicInvalid => {
                "Topic names have 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_', '-'. Correct the route, or the row's value.".to_owned()
            }
            Kind::TopicCollision { .. } => {
                "Choose names that differ in more than '.' and '_', or delete the other topic.".to_owned()
            }
            Kind::TopicNotCreated(_) => format!(
                "Grant Create on topic {topic} to the relay's principal and check the settings under topics, or create the topic by hand."
            ),
            Kind::TopicAuthorization => format!(
                "Grant Write and Describe on topic {topic} to the relay's principal, and Create where the brokers are to make it."
            ),
            Kind::ClusterAuthorization => format!(
                "Grant Write on topic {topic} to the relay's principal, and IdempotentWrite on the cluster where the brokers are too old to take the one for the other."
            ),
            Kind::Authentication => "Check security.protocol and the sasl.* settings.".to_owned(),
            Kind::RecordTooLarge { limit: SizeLimit::Relay(_), .. } => {
                "Raise message.max.bytes of the relay above the record's size, and max.message.bytes of the topic with it.".to_owned()
            }
            Kind::RecordTooLarge { limit: SizeLimit::Topic(_), .. } => format!(
                "Raise max.message.bytes of topic {topic} above the record's size."
            ),
            Kind::InvalidPartition { .. } => {
                "Correct the partition column, or add partitions to the topic.".to_owned()
            }
            Kind::InvalidTimestamp { timestamp_ms } if *timestamp_ms < 0 => {
                "Correct the timestamp column; Kafka takes no time before 1970.".to_owned()
            }
            Kind::InvalidTimestamp { .. } => format!(
                "Correct the timestamp column, or allow topic {topic} to differ more from the broker's clock: message.timestamp.before.max.ms, message.timestamp.after.max.ms."
            ),
            Kind::BatchRefused(_) => format!(
                "The records are sent again one by one, to find out which one is meant. If it was the batch: set batch.size of the relay below max.message.bytes of topic {topic}."
            ),
            Kind::RecordInvalid => format!(
                "See the broker's log for the reason. A compacted topic takes no record without a key: check cleanup.policy of topic {topic} and the key's column."
            ),
            Kind::RefusedByBroker(_) => {
                "See the broker's log for the reason.".to_owned()
            }
            Kind::Purged | Kind::ProducerFatal(_) | Kind::Other(_) => {
                "Look at the brokers and their logs where it comes again.".to_owned()
            }
            Kind::Sink(_) => "Check where the output goes.".to_owned(),
        }
    }

    /// What a relay sends again can be taken then, without a change of the relay's own.
    pub fn may_heal(&self) -> bool {
        use DeliveryErrorKind as Kind;
        match &self.kind {
            Kind::TopicMissing
            | Kind::TopicCollision { .. }
            | Kind::TopicNotCreated(_)
            | Kind::TopicAuthorization
            | Kind::ClusterAuthorization
            | Kind::RecordTooLarge {
                limit: SizeLimit::Topic(_),
                ..
            }
            | Kind::RecordInvalid
            | Kind::BatchRefused(_)
            | Kind::RefusedByBroker(_)
            | Kind::Purged
            | Kind::ProducerFatal(_)
            | Kind::Other(_) => true,
            Kind::TopicInvalid
            | Kind::Authentication
            | Kind::RecordTooLarge {
                limit: SizeLimit::Relay(_),
                ..
            }
            | Kind::InvalidPartition { .. }
            | Kind::InvalidTimestamp { .. }
            | Kind::Sink(_) => false,
        }
    }

    /// Every word of [`Self::reason`].
    pub const REASONS: [&str; 17] = [
        "topic_missing",
        "topic_invalid",
        "topic_collision",
        "topic_not_created",
        "topic_authorization",
        "cluster_authorization",
        "authentication",
        "record_too_large",
        "invalid_partition",
        "invalid_timestamp",
        "record_invalid",
        "batch_refused",
        "refused_by_broker",
        "purged",
        "producer_fatal",
        "sink",
        "other",
    ];

    /// A short, fixed word for a metric's label.
    pub fn reason(&self) -> &'static str {
        match self.kind {
            DeliveryErrorKind::TopicMissing => "topic_missing",
            DeliveryErrorKind::TopicInvalid => "topic_invalid",
            DeliveryErrorKind::TopicCollision { .. } => "topic_collision",
            DeliveryErrorKind::TopicNotCreated(_) => "topic_not_created",
            DeliveryErrorKind::TopicAuthorization => "topic_authorization",
            DeliveryErrorKind::ClusterAuthorization => "cluster_authorization",
            DeliveryErrorKind::Authentication => "authentication",
            DeliveryErrorKind::RecordTooLarge { .. } => "record_too_large",
            DeliveryErrorKind::InvalidPartition { .. } => "invalid_partition",
            DeliveryErrorKind::InvalidTimestamp { .. } => "invalid_timestamp",
            DeliveryErrorKind::RecordInvalid => "record_invalid",
            DeliveryErrorKind::BatchRefused(_) => "batch_refused",
            DeliveryErrorKind::RefusedByBroker(_) => "refused_by_broker",
            DeliveryErrorKind::Purged => "purged",
            DeliveryErrorKind::ProducerFatal(_) => "producer_fatal",
            DeliveryErrorKind::Sink(_) => "sink",
            DeliveryErrorKind::Other(_) => "other",
        }
    }
}

impl fmt::Display for DeliveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use DeliveryErrorKind as Kind;
        let topic = &self.topic;
        match &self.kind {
            Kind::TopicMissing => write!(
                f,
                "topic \"{topic}\" does not exist, or a partition of it has no leader"
            ),
            Kind::TopicInvalid => {
                write!(f, "\"{}\" is not a valid topic name", topic.escape_debug())
            }
            Kind::TopicCollision { existing } => {
                write!(
                    f,
                    "topic \"{topic}\" does not exist and cannot be created beside "
                )?;
                match existing {
                    Some(existing) => write!(f, "topic \"{existing}\"")?,
                    None => f.write_str("an existing one")?,
                }
                f.write_str(": Kafka takes '.' and '_' for the same there")
            }
            Kind::TopicNotCreated(reason) => {
                write!(f, "topic \"{topic}\" could not be created: {reason}")
            }
            Kind::TopicAuthorization => {
                write!(f, "not authorized to write to topic \"{topic}\"")
            }
            Kind::ClusterAuthorization => f.write_str("not authorized to write to the cluster"),
            Kind::Authentication => f.write_str("the broker refused authentication"),
            Kind::RecordTooLarge { size_bytes, limit } => {
                write!(
                    f,
                    "record of {size_bytes} bytes is too large for topic \"{topic}\""
                )?;
                match limit {
                    SizeLimit::Relay(limit) => write!(f, "; the relay's own limit is {limit}"),
                    SizeLimit::Topic(Some(limit)) => write!(f, ", whose limit is {limit}"),
                    SizeLimit::Topic(None) => Ok(()),
                }
            }
            Kind::InvalidPartition { partition, count } => write!(
                f,
                "topic \"{topic}\" has {count} partitions and no partition {partition}"
            ),
            Kind::InvalidTimestamp { timestamp_ms } => write!(
                f,
                "topic \"{topic}\" takes no record with timestamp {timestamp_ms} ms"
            ),
            Kind::RecordInvalid => write!(f, "topic \"{topic}\" takes the record for invalid"),
            Kind::BatchRefused(reason) => write!(
                f,
                "the broker refused a batch of records for topic \"{topic}\": {reason}"
            ),
            Kind::RefusedByBroker(code) => write!(
                f,
                "the broker refused a record for topic \"{topic}\": {code}"
            ),
            Kind::Purged => write!(
                f,
                "a record for topic \"{topic}\" was given up before an answer came"
            ),
            Kind::ProducerFatal(reason) => write!(f, "the producer failed for good: {reason}"),
            Kind::Sink(reason) => write!(f, "output failed: {reason}"),
            Kind::Other(reason) => write!(
                f,
                "a record for topic \"{topic}\" was not delivered: {reason}"
            ),
        }
    }
}

impl std::error::Error for DeliveryError {}

/// The producer could not be made, or the brokers not be asked.
#[derive(Debug)]
pub enum PublishError {
    Client(KafkaError),
    Thread(std::io::Error),
    Unreachable {
        servers: String,
        /// What librdkafka said while it tried; empty when it was silent.
        reasons: Vec<String>,
        source: KafkaError,
    },
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(_) => f.write_str("the Kafka producer cannot be made"),
            Self::Thread(_) => f.write_str("the producer's thread cannot be started"),
            Self::Unreachable {
                servers, reasons, ..
            } => {
                write!(f, "no broker of {servers} answers")?;
                if !reasons.is_empty() {
                    write!(f, ": {}", reasons.join("; "))?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for PublishError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(source) | Self::Unreachable { source, .. } => Some(source),
            Self::Thread(source) => Some(source),
        }
    }
}
