//! The producer's settings: ours, the user's on top, and what carries the guarantees over both.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rdkafka::ClientConfig;

use super::creation::TopicCreation;
use super::properties::{GUARDED, canonical, faults, is_secret};
use crate::ack::Limits;

#[derive(Clone, PartialEq, Eq)]
pub struct Options {
    bootstrap_servers: String,
    properties: BTreeMap<String, String>,
    /// How long a record may wait for its topic to exist with a leader for every partition.
    pub topic_timeout: Duration,
    /// Who makes a topic that is missing.
    pub topic_creation: TopicCreation,
    /// The caller's window: librdkafka's own queue is sized to hold all of it.
    pub window: Limits,
    /// Another client of the process says what there is to say of the brokers.
    pub(super) quiet: bool,
}

/// A property that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionsError {
    NoBootstrapServers,
    Unknown {
        property: String,
        nearest: Option<String>,
    },
    Invalid {
        property: String,
        reason: String,
    },
    /// The value would weaken a guarantee.
    Refused {
        property: String,
        allowed: &'static str,
        reason: &'static str,
    },
    /// No value of it makes sense here.
    Forbidden {
        property: String,
        reason: &'static str,
    },
}

/// Set unless the user sets them.
const DEFAULTS: &[(&str, &str)] = &[
    ("client.id", "outboxd"),
    // A relay's batches fill by themselves while five requests are under way; waiting for more
    // only adds to every event's latency.
    ("linger.ms", "0"),
    ("batch.size", "1000000"),
    // Leaves the size of a record to the topic, where it can be changed under a running relay. It
    // does not make batches larger, and stays below the broker's socket.request.max.bytes
    // (100 MiB), beyond which the broker closes the connection without an answer.
    ("message.max.bytes", MESSAGE_MAX_BYTES),
    ("socket.keepalive.enable", "true"),
    ("socket.connection.setup.timeout.ms", "5000"),
    // A connection that a firewall has forgotten shows by nothing else than a missing answer, for
    // which librdkafka waits 60 s. The broker's own answer that its replicas are slow comes before:
    // either way the batch is sent again under the same sequence number, so nothing is doubled.
    ("socket.timeout.ms", "15000"),
    ("request.timeout.ms", "10000"),
    ("reconnect.backoff.ms", "50"),
    ("reconnect.backoff.max.ms", "1000"),
    ("retry.backoff.ms", "50"),
    ("retry.backoff.max.ms", "1000"),
    ("topic.metadata.refresh.interval.ms", "30000"),
    ("statistics.interval.ms", "5000"),
];

const MESSAGE_MAX_BYTES: &str = "67108864";

/// The largest value of `queue.buffering.max.kbytes` that stays a 32-bit number of bytes times 1024.
const QUEUE_MAX_KBYTES: usize = 2_097_151;

impl Options {
    /// `properties` are librdkafka's names. Reports every fault at once.
    pub fn new(
        bootstrap_servers: &str,
        properties: BTreeMap<String, String>,
        window: Limits,
    ) -> Result<Self, Vec<OptionsError>> {
        let mut faults = faults(&properties);
        if bootstrap_servers.trim().is_empty() {
            faults.push(OptionsError::NoBootstrapServers);
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self {
            bootstrap_servers: bootstrap_servers.trim().to_owned(),
            properties,
            topic_timeout: Duration::from_secs(10),
            topic_creation: TopicCreation::default(),
            window,
            quiet: false,
        })
    }

    /// For a second producer with topics of its own.
    pub fn beside(&self, topic_creation: TopicCreation, window: Limits) -> Self {
        Self {
            topic_creation,
            window,
            quiet: true,
            ..self.clone()
        }
    }

    pub fn bootstrap_servers(&self) -> &str {
        &self.bootstrap_servers
    }

    /// The user's own properties; secrets as `***`.
    pub fn shown_properties(&self) -> impl Iterator<Item = (&str, &str)> {
        self.properties.iter().map(|(name, value)| {
            let shown = if is_secret(name) { "***" } else { value };
            (name.as_str(), shown)
        })
    }

    /// The largest record that is handed to the broker.
    pub fn message_max_bytes(&self) -> usize {
        let chosen = self.properties.get("message.max.bytes");
        chosen
            .map_or(MESSAGE_MAX_BYTES, String::as_str)
            .trim()
            .parse()
            .unwrap_or(usize::MAX)
    }

    /// The largest batch, by the user's choice or ours.
    pub(super) fn batch_size(&self) -> usize {
        let effective = self.effective();
        let size = effective.get("batch.size");
        size.and_then(|size| size.trim().parse().ok())
            .unwrap_or(usize::MAX)
    }

    /// All of librdkafka's configuration.
    pub(super) fn client_config(&self) -> ClientConfig {
        self.effective().into_iter().collect()
    }

    /// For a client that asks and never sends: creates no topic by asking, and wants no producer id.
    pub(super) fn question_config(&self) -> ClientConfig {
        let mut config = self.client_config();
        config.set("allow.auto.create.topics", "false");
        config.set("enable.idempotence", "false");
        config.set("statistics.interval.ms", "0");
        config
    }

    /// For a consumer that is told its partitions. A group's name is needed to be told, and used for
    /// nothing.
    pub(super) fn reading_config(&self) -> ClientConfig {
        let mut config = self.question_config();
        config.set("group.id", "outboxd");
        config.set("enable.auto.commit", "false");
        config.set("enable.auto.offset.store", "false");
        config.set("enable.partition.eof", "true");
        // A beginning that has moved on is an error to be looked at, and no jump to the end.
        config.set("auto.offset.reset", "error");
        config
    }

    /// In the order defaults, user, guarantees; under one name each.
    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = BTreeMap::new();
        let mut set = |name: &str, value: &str| {
            effective.insert(canonical(name).to_owned(), value.to_owned());
        };
        for (name, value) in DEFAULTS {
            set(name, value);
        }
        // The whole window and one record more: librdkafka's queue must never be what is full, and
        // one record that is larger than its limit would wait for room for ever.
        let bytes = self.window.bytes.saturating_add(self.message_max_bytes());
        let kbytes = (bytes / 1024).clamp(4096, QUEUE_MAX_KBYTES);
        set("queue.buffering.max.kbytes", &kbytes.to_string());
        let records = self.window.records.saturating_add(1000);
        set(
            "queue.buffering.max.messages",
            &records.min(10_000_000).to_string(),
        );
        if self.topic_creation != TopicCreation::Brokers {
            // A producer's question for a topic makes the broker create it, by the broker's
            // defaults: it would come first.
            set("allow.auto.create.topics", "false");
        }
        for guarded in GUARDED {
            if let Some(value) = guarded.value() {
                set(guarded.name, value);
            }
        }
        // What is guarded was let in with a value that keeps the guarantee.
        for (name, value) in &self.properties {
            set(name, value);
        }
        set("bootstrap.servers", &self.bootstrap_servers);
        effective
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("bootstrap_servers", &self.bootstrap_servers)
            .field(
                "properties",
                &self.shown_properties().collect::<BTreeMap<_, _>>(),
            )
            .field("topic_timeout", &self.topic_timeout)
            .field("topic_creation", &self.topic_creation)
            .field("window", &self.window)
            .finish()
    }
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBootstrapServers => f.write_str("bootstrap.servers is not set"),
            Self::Unknown { property, nearest } => {
                write!(f, "librdkafka has no property \"{property}\"")?;
                match nearest {
                    Some(nearest) => write!(f, "; did you mean \"{nearest}\"?"),
                    None => Ok(()),
                }
            }
            Self::Invalid { property, reason } => write!(f, "property \"{property}\": {reason}"),
            Self::Refused {
                property,
                allowed,
                reason,
            } => {
                write!(
                    f,
                    "property \"{property}\" must stay at \"{allowed}\": {reason}"
                )
            }
            Self::Forbidden { property, reason } => {
                write!(f, "property \"{property}\" cannot be set: {reason}")
            }
        }
    }
}

impl std::error::Error for OptionsError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(properties: &[(&str, &str)]) -> Result<Options, Vec<OptionsError>> {
        let properties = properties
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        let window = Limits {
            records: 10,
            bytes: 8 << 20,
        };
        Options::new("127.0.0.1:9092", properties, window)
    }

    #[test]
    fn what_carries_the_guarantees_cannot_be_weakened() {
        for (property, value) in [
            ("acks", "1"),
            ("request.required.acks", "0"),
            ("enable.idempotence", "false"),
            ("partitioner", "consistent_random"),
            ("message.timeout.ms", "300000"),
            ("delivery.timeout.ms", "1000"),
            ("max.in.flight", "6"),
            ("retries", "0"),
            ("queuing.strategy", "lifo"),
            ("delivery.report.only.error", "true"),
            ("enable.gapless.guarantee", "true"),
        ] {
            let faults = options(&[(property, value)]).unwrap_err();
            assert!(
                matches!(faults.as_slice(), [OptionsError::Refused { property: p, .. }] if p == property),
                "{property}: {faults:?}"
            );
        }
        for property in [
            "transactional.id",
            "test.mock.num.brokers",
            "metadata.broker.list",
        ] {
            let faults = options(&[(property, "1")]).unwrap_err();
            assert!(
                matches!(faults.as_slice(), [OptionsError::Forbidden { property: p, .. }] if p == property),
                "{property}: {faults:?}"
            );
        }
    }

    #[test]
    fn the_guarantees_are_set_and_the_users_stricter_choice_is_kept() {
        let kept = options(&[("request.required.acks", "-1"), ("max.in.flight", "1")])
            .unwrap()
            .client_config();
        for (property, value) in [
            ("acks", Some("-1")),
            ("request.required.acks", None),
            ("max.in.flight.requests.per.connection", Some("1")),
            ("enable.idempotence", Some("true")),
            ("partitioner", Some("murmur2_random")),
            ("message.timeout.ms", Some("0")),
            ("message.send.max.retries", Some("2147483647")),
            ("allow.auto.create.topics", None),
            ("enable.gapless.guarantee", None),
        ] {
            assert_eq!(kept.get(property), value, "{property}");
        }
    }

    #[test]
    fn any_other_property_passes_through_under_one_name() {
        let options = options(&[
            ("compression.codec", "lz4"),
            ("queue.buffering.max.ms", "7"),
        ])
        .unwrap();
        let config = options.client_config();
        assert_eq!(config.get("linger.ms"), Some("7"));
        assert_eq!(config.get("queue.buffering.max.ms"), None);
        assert_eq!(config.get("compression.type"), Some("lz4"));
        let shown: Vec<_> = options.shown_properties().collect();
        assert_eq!(
            shown,
            [
                ("compression.codec", "lz4"),
                ("queue.buffering.max.ms", "7")
            ]
        );
    }

    #[test]
    fn every_fault_is_reported_at_once() {
        let faults = options(&[
            ("acks", "-1"),
            ("compresion.type", "lz4"),
            ("linger.ms", "soon"),
            ("request.required.acks", "all"),
        ])
        .unwrap_err();
        let texts: Vec<_> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "librdkafka has no property \"compresion.type\"; did you mean \"compression.type\"?",
                "property \"linger.ms\": Invalid value",
                "property \"request.required.acks\": is another name of \"acks\", which is set too",
            ]
        );
    }

    #[test]
    fn librdkafkas_queue_holds_the_window_and_one_record_of_the_largest_size() {
        let options = options(&[("message.max.bytes", "104857600")]).unwrap();
        let config = options.client_config();
        assert_eq!(config.get("queue.buffering.max.kbytes"), Some("110592"));
        assert_eq!(config.get("queue.buffering.max.messages"), Some("1010"));
    }

    #[test]
    fn secrets_are_never_shown() {
        let secrets = [
            "sasl.password",
            "ssl.key.password",
            "ssl.key.pem",
            "ssl.keystore.password",
            "sasl.oauthbearer.config",
        ];
        for property in secrets {
            let options = options(&[(property, "hunter2"), ("sasl.username", "u")]).unwrap();
            let shown = format!("{options:?}");
            assert!(
                !shown.contains("hunter2") && shown.contains("***"),
                "{shown}"
            );
        }
    }
}
