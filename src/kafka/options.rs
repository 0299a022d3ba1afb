//! librdkafka's properties: what we set, what passes through, what must not be weakened.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rdkafka::ClientConfig;

use crate::ack::Limits;

#[derive(Clone, PartialEq, Eq)]
pub struct Options {
    bootstrap_servers: String,
    properties: BTreeMap<String, String>,
    /// How long a record may wait for its topic to exist with a leader for every partition.
    pub topic_timeout: Duration,
    /// The caller's window: librdkafka's own queue is sized to hold all of it.
    pub window: Limits,
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
    /// It has no value that keeps the guarantees.
    Forbidden {
        property: String,
        reason: &'static str,
    },
    /// It would weaken a guarantee.
    Refused {
        property: String,
        allowed: &'static str,
        reason: &'static str,
    },
}

/// Set unless the user sets them.
const DEFAULTS: &[(&str, &str)] = &[
    ("client.id", "outboxd"),
    // A relay's batches fill by themselves while five requests are under way; waiting for more
    // only adds to every event's latency.
    ("linger.ms", "0"),
    // The topic's own limit decides, and raising that heals without a restart.
    ("message.max.bytes", "67108864"),
    ("batch.size", "1000000"),
    ("socket.keepalive.enable", "true"),
    ("socket.connection.setup.timeout.ms", "5000"),
    ("reconnect.backoff.ms", "50"),
    ("reconnect.backoff.max.ms", "1000"),
    ("retry.backoff.ms", "50"),
    ("retry.backoff.max.ms", "1000"),
    ("topic.metadata.refresh.interval.ms", "30000"),
    ("statistics.interval.ms", "5000"),
];

/// What carries the guarantees, with the values that keep them (the first is what we set).
const GUARDED: &[(&str, &[&str], &str)] = &[
    (
        "enable.idempotence",
        &["true"],
        "without it a retry can reorder or repeat records",
    ),
    (
        "acks",
        &["all", "-1"],
        "a record counts as delivered when every in-sync replica has it",
    ),
    (
        "partitioner",
        &["murmur2_random", "murmur2"],
        "Java's producer puts a key where murmur2 says, and keys must not move",
    ),
    (
        "message.timeout.ms",
        &["0"],
        "an outage must become lag; a record that times out lets younger ones overtake it",
    ),
    (
        "max.in.flight.requests.per.connection",
        &["5", "4", "3", "2", "1"],
        "idempotence needs at most 5",
    ),
    (
        "message.send.max.retries",
        &["2147483647"],
        "an outage must become lag, not a gap",
    ),
];

/// What would break a guarantee at any value, and why.
const FORBIDDEN: &[(&str, &str)] = &[
    ("transactional.id", "the relay does not use transactions"),
    (
        "delivery.report.only.error",
        "a record counts as delivered when its report comes",
    ),
    (
        "test.mock.num.brokers",
        "records would be acknowledged by nobody",
    ),
    (
        "queuing.strategy",
        "records leave in the order in which they were committed",
    ),
    (
        "enable.gapless.guarantee",
        "the relay restores the order itself, without a new producer",
    ),
    (
        "metadata.broker.list",
        "bootstrap.servers is the one name for it",
    ),
];

/// Other names of guarded properties.
const ALIASES: &[(&str, &str)] = &[
    ("request.required.acks", "acks"),
    ("max.in.flight", "max.in.flight.requests.per.connection"),
    ("delivery.timeout.ms", "message.timeout.ms"),
    ("retries", "message.send.max.retries"),
];

/// Never shown.
const SECRETS: &[&str] = &[
    "sasl.password",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
];

impl Options {
    /// `properties` are librdkafka's names. Reports every fault at once.
    pub fn new(
        bootstrap_servers: &str,
        properties: BTreeMap<String, String>,
        window: Limits,
    ) -> Result<Self, Vec<OptionsError>> {
        let mut faults: Vec<_> = properties
            .iter()
            .filter_map(|(name, value)| check(name, value).err())
            .collect();
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
            window,
        })
    }

    pub fn bootstrap_servers(&self) -> &str {
        &self.bootstrap_servers
    }

    /// The user's own properties; secrets as `***`.
    pub fn shown_properties(&self) -> impl Iterator<Item = (&str, &str)> {
        self.properties.iter().map(|(name, value)| {
            (
                name.as_str(),
                if is_secret(name) {
                    "***"
                } else {
                    value.as_str()
                },
            )
        })
    }

    /// All of librdkafka's configuration, in the order defaults, user, guarantees.
    pub(super) fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        for (name, value) in DEFAULTS {
            config.set(*name, *value);
        }
        // A few times the window: librdkafka counts keys and headers too, and a full queue would
        // only be waited for.
        let kbytes = (self.window.bytes / 1024)
            .saturating_mul(4)
            .clamp(4096, 2_097_151);
        config.set("queue.buffering.max.kbytes", kbytes.to_string());
        config.set(
            "queue.buffering.max.messages",
            (self.window.records + 1000).to_string(),
        );
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        for (name, allowed, _) in GUARDED {
            let chosen = self
                .properties
                .iter()
                .find(|(user, _)| canonical(user) == *name);
            if chosen.is_none()
                && let Some(value) = allowed.first()
            {
                config.set(*name, *value);
            }
        }
        config.set("bootstrap.servers", &self.bootstrap_servers);
        config
    }
}

pub(crate) fn is_secret(property: &str) -> bool {
    SECRETS.contains(&property)
}

fn canonical(property: &str) -> &str {
    ALIASES
        .iter()
        .find(|(alias, _)| *alias == property)
        .map_or(property, |(_, name)| name)
}

fn check(property: &str, value: &str) -> Result<(), OptionsError> {
    if let Some((_, allowed, reason)) = GUARDED
        .iter()
        .find(|(guarded, _, _)| *guarded == canonical(property))
    {
        return if allowed.contains(&value) {
            Ok(())
        } else {
            let allowed = allowed.first().copied().unwrap_or_default();
            Err(OptionsError::Refused {
                property: property.to_owned(),
                allowed,
                reason,
            })
        };
    }
    if let Some((_, reason)) = FORBIDDEN.iter().find(|(name, _)| *name == property) {
        return Err(OptionsError::Forbidden {
            property: property.to_owned(),
            reason,
        });
    }
    // librdkafka itself says whether it knows the property and takes the value.
    let mut config = ClientConfig::new();
    config.set(property, value);
    match config.create_native_config() {
        Ok(_) => Ok(()),
        Err(rdkafka::error::KafkaError::ClientConfig(_, reason, ..))
            if reason.contains("No such configuration property") =>
        {
            Err(OptionsError::Unknown {
                property: property.to_owned(),
                nearest: nearest(property),
            })
        }
        Err(rdkafka::error::KafkaError::ClientConfig(_, reason, ..)) => {
            Err(OptionsError::Invalid {
                property: property.to_owned(),
                reason,
            })
        }
        Err(other) => Err(OptionsError::Invalid {
            property: property.to_owned(),
            reason: other.to_string(),
        }),
    }
}

/// Properties that people set on a producer; librdkafka does not list its own.
const COMMON: &[&str] = &[
    "bootstrap.servers",
    "client.id",
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
    "compression.type",
    "compression.codec",
    "compression.level",
    "linger.ms",
    "batch.size",
    "batch.num.messages",
    "message.max.bytes",
    "queue.buffering.max.messages",
    "queue.buffering.max.kbytes",
    "request.timeout.ms",
    "retry.backoff.ms",
    "socket.timeout.ms",
    "metadata.max.age.ms",
    "topic.metadata.refresh.interval.ms",
    "statistics.interval.ms",
    "client.dns.lookup",
    "broker.address.family",
    "debug",
    "log_level",
];

fn nearest(property: &str) -> Option<String> {
    COMMON
        .iter()
        .map(|known| (strsim::jaro_winkler(property, known), known))
        .filter(|(similarity, _)| *similarity > 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| (*known).to_owned())
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
            .finish_non_exhaustive()
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
            Self::Forbidden { property, reason } => {
                write!(f, "property \"{property}\" cannot be set: {reason}")
            }
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
        }
    }
}

impl std::error::Error for OptionsError {}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        records: 1000,
        bytes: 1 << 20,
    };

    fn options(properties: &[(&str, &str)]) -> Result<Options, Vec<OptionsError>> {
        let properties = properties
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        Options::new("127.0.0.1:9092", properties, LIMITS)
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
        ] {
            let faults = options(&[(property, value)]).unwrap_err();
            assert!(
                matches!(faults.as_slice(), [OptionsError::Refused { property: p, .. }] if p == property),
                "{property}: {faults:?}"
            );
        }
        let kept = options(&[("acks", "-1"), ("max.in.flight", "1")])
            .unwrap()
            .client_config();
        assert_eq!(kept.get("acks"), Some("-1"));
        assert_eq!(kept.get("partitioner"), Some("murmur2_random"));
        assert_eq!(kept.get("message.timeout.ms"), Some("0"));
        assert_eq!(kept.get("max.in.flight.requests.per.connection"), None);
    }

    #[test]
    fn any_other_property_passes_through_and_unknown_ones_are_refused() {
        let config = options(&[("compression.type", "lz4"), ("linger.ms", "7")]).unwrap();
        assert_eq!(config.client_config().get("linger.ms"), Some("7"));
        let faults = options(&[("compresion.type", "lz4"), ("linger.ms", "soon")]).unwrap_err();
        assert_eq!(faults.len(), 2);
        assert_eq!(
            faults[0].to_string(),
            "librdkafka has no property \"compresion.type\"; did you mean \"compression.type\"?"
        );
    }

    #[test]
    fn what_has_no_safe_value_is_forbidden() {
        for (property, value) in [
            ("transactional.id", "x"),
            ("delivery.report.only.error", "true"),
            ("test.mock.num.brokers", "1"),
            ("queuing.strategy", "lifo"),
        ] {
            let faults = options(&[(property, value)]).unwrap_err();
            assert!(
                matches!(faults.as_slice(), [OptionsError::Forbidden { .. }]),
                "{property}: {faults:?}"
            );
        }
    }

    #[test]
    fn secrets_are_never_shown() {
        let options = options(&[("sasl.password", "hunter2"), ("sasl.username", "u")]).unwrap();
        let shown = format!("{options:?}");
        assert!(
            !shown.contains("hunter2") && shown.contains("***"),
            "{shown}"
        );
    }
}
