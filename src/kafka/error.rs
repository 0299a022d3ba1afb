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
    TopicAuthorization,
    ClusterAuthorization,
    Authentication,
    RecordTooLarge {
        size_bytes: usize,
    },
    InvalidPartition {
        partition: i32,
        count: i32,
    },
    /// Before 1970-01-01 00:00:00.001 UTC.
    InvalidTimestamp {
        timestamp_ms: i64,
    },
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

impl DeliveryErrorKind {
    pub(super) fn from_code(code: RDKafkaErrorCode, size_bytes: usize) -> Self {
        use RDKafkaErrorCode as Code;
        match code {
            Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition => {
                Self::TopicMissing
            }
            Code::InvalidTopic => Self::TopicInvalid,
            Code::TopicAuthorizationFailed => Self::TopicAuthorization,
            Code::ClusterAuthorizationFailed => Self::ClusterAuthorization,
            Code::Authentication | Code::SaslAuthenticationFailed => Self::Authentication,
            Code::MessageSizeTooLarge | Code::InvalidMessageSize => {
                Self::RecordTooLarge { size_bytes }
            }
            Code::PurgeQueue | Code::PurgeInflight => Self::Purged,
            Code::Fatal
            | Code::GaplessGuarantee
            | Code::Fenced
            | Code::OutOfOrderSequenceNumber
            | Code::UnknownProducerId => Self::ProducerFatal(code.to_string()),
            Code::InvalidTimestamp => Self::InvalidTimestamp { timestamp_ms: 0 },
            other if (other as i32) > 0 => Self::RefusedByBroker(other.to_string()),
            other => Self::Other(other.to_string()),
        }
    }

    pub(super) fn from_error(error: &KafkaError, size_bytes: usize) -> Self {
        match error.rdkafka_error_code() {
            Some(code) => Self::from_code(code, size_bytes),
            None => Self::Other(error.to_string()),
        }
    }
}

impl DeliveryError {
    /// What the operator can do.
    pub fn hint(&self) -> String {
        let topic = &self.topic;
        match &self.kind {
            DeliveryErrorKind::TopicMissing => format!(
                "Create the topic: kafka-topics.sh --create --topic {topic} --partitions N --replication-factor R. It is tried again by itself."
            ),
            DeliveryErrorKind::TopicInvalid => {
                "Topic names have 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_', '-'. Correct the route, or the row's value.".to_owned()
            }
            DeliveryErrorKind::TopicAuthorization => format!(
                "Grant Write and Describe on topic {topic} to the relay's principal. It is tried again by itself."
            ),
            DeliveryErrorKind::ClusterAuthorization => {
                "Grant IdempotentWrite on the cluster to the relay's principal. It is tried again by itself.".to_owned()
            }
            DeliveryErrorKind::Authentication => {
                "Check security.protocol and the sasl.* settings.".to_owned()
            }
            DeliveryErrorKind::RecordTooLarge { .. } => format!(
                "Raise max.message.bytes of topic {topic} and message.max.bytes of the relay above the record's size."
            ),
            DeliveryErrorKind::InvalidPartition { .. } => {
                "Correct the partition column, or add partitions to the topic.".to_owned()
            }
            DeliveryErrorKind::InvalidTimestamp { .. } => {
                "Correct the timestamp column; Kafka takes no time before 1970.".to_owned()
            }
            DeliveryErrorKind::RefusedByBroker(_) => {
                "See the broker's log for the reason. It is tried again by itself.".to_owned()
            }
            DeliveryErrorKind::Purged
            | DeliveryErrorKind::ProducerFatal(_)
            | DeliveryErrorKind::Other(_) => "It is tried again by itself.".to_owned(),
            DeliveryErrorKind::Sink(_) => "Check where the output goes.".to_owned(),
        }
    }

    /// A short, fixed word for a metric's label.
    pub fn reason(&self) -> &'static str {
        match self.kind {
            DeliveryErrorKind::TopicMissing => "topic_missing",
            DeliveryErrorKind::TopicInvalid => "topic_invalid",
            DeliveryErrorKind::TopicAuthorization => "topic_authorization",
            DeliveryErrorKind::ClusterAuthorization => "cluster_authorization",
            DeliveryErrorKind::Authentication => "authentication",
            DeliveryErrorKind::RecordTooLarge { .. } => "record_too_large",
            DeliveryErrorKind::InvalidPartition { .. } => "invalid_partition",
            DeliveryErrorKind::InvalidTimestamp { .. } => "invalid_timestamp",
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
        let topic = &self.topic;
        match &self.kind {
            DeliveryErrorKind::TopicMissing => {
                write!(
                    f,
                    "topic \"{topic}\" does not exist, or a partition of it has no leader"
                )
            }
            DeliveryErrorKind::TopicInvalid => {
                write!(f, "\"{}\" is not a valid topic name", topic.escape_debug())
            }
            DeliveryErrorKind::TopicAuthorization => {
                write!(f, "not authorized to write to topic \"{topic}\"")
            }
            DeliveryErrorKind::ClusterAuthorization => {
                f.write_str("not authorized to write to the cluster")
            }
            DeliveryErrorKind::Authentication => f.write_str("the broker refused authentication"),
            DeliveryErrorKind::RecordTooLarge { size_bytes } => {
                write!(
                    f,
                    "record of {size_bytes} bytes is too large for topic \"{topic}\""
                )
            }
            DeliveryErrorKind::InvalidPartition { partition, count } => {
                write!(
                    f,
                    "topic \"{topic}\" has {count} partitions and no partition {partition}"
                )
            }
            DeliveryErrorKind::InvalidTimestamp { timestamp_ms } => {
                write!(
                    f,
                    "topic \"{topic}\" takes no record with timestamp {timestamp_ms} ms"
                )
            }
            DeliveryErrorKind::RefusedByBroker(code) => {
                write!(
                    f,
                    "the broker refused a record for topic \"{topic}\": {code}"
                )
            }
            DeliveryErrorKind::Purged => {
                write!(
                    f,
                    "a record for topic \"{topic}\" was given up before an answer came"
                )
            }
            DeliveryErrorKind::ProducerFatal(reason) => {
                write!(f, "the producer failed for good: {reason}")
            }
            DeliveryErrorKind::Sink(reason) => write!(f, "output failed: {reason}"),
            DeliveryErrorKind::Other(reason) => {
                write!(
                    f,
                    "a record for topic \"{topic}\" was not delivered: {reason}"
                )
            }
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
