//! What may be said to librdkafka: names, aliases, and values that would weaken a guarantee.

use std::collections::BTreeMap;

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;

use super::options::OptionsError;

/// A property that carries a guarantee.
pub(super) struct Guarded {
    pub(super) name: &'static str,
    /// The values that keep it; the first is what we set.
    allowed: &'static [&'static str],
    reason: &'static str,
    /// librdkafka's own default keeps it, and is left alone: setting what it calls experimental, even
    /// to its default, makes it warn.
    by_default: bool,
}

impl Guarded {
    const fn new(
        name: &'static str,
        allowed: &'static [&'static str],
        reason: &'static str,
    ) -> Self {
        Self {
            name,
            allowed,
            reason,
            by_default: false,
        }
    }

    const fn by_default(
        name: &'static str,
        allowed: &'static [&'static str],
        reason: &'static str,
    ) -> Self {
        Self {
            by_default: true,
            ..Self::new(name, allowed, reason)
        }
    }

    /// What has to be set.
    pub(super) fn value(&self) -> Option<&'static str> {
        self.allowed.first().copied().filter(|_| !self.by_default)
    }
}

pub(super) const GUARDED: &[Guarded] = &[
    Guarded::new(
        "enable.idempotence",
        &["true"],
        "without it a retry can reorder or repeat records",
    ),
    Guarded::new(
        "acks",
        &["all", "-1"],
        "a record counts as delivered when every in-sync replica has it",
    ),
    Guarded::new(
        "partitioner",
        &["murmur2_random", "murmur2"],
        "Java's producer puts a key where murmur2 says, and keys must not move",
    ),
    Guarded::new(
        "message.timeout.ms",
        &["0"],
        "an outage must become lag; a record that times out lets younger ones overtake it",
    ),
    Guarded::new(
        "max.in.flight.requests.per.connection",
        &["5", "4", "3", "2", "1"],
        "idempotence needs at most 5",
    ),
    Guarded::new(
        "message.send.max.retries",
        &["2147483647"],
        "an outage must become lag, not a gap",
    ),
    Guarded::by_default(
        "queuing.strategy",
        &["fifo"],
        "another order than that of the commits is a reordering",
    ),
    Guarded::by_default(
        "delivery.report.only.error",
        &["false"],
        "a position is confirmed because of the reports of success",
    ),
    Guarded::by_default(
        "enable.gapless.guarantee",
        &["false"],
        "it ends the producer where the relay restores the order itself",
    ),
];

/// Not to be set at all, and why.
const FORBIDDEN: &[(&str, &str)] = &[
    ("bootstrap.servers", "it has a setting of its own"),
    ("transactional.id", "the relay does not use transactions"),
    (
        "test.mock.num.brokers",
        "records would be acknowledged by a cluster that exists in this process only",
    ),
];

/// By them the relay sees a producer that has to be replaced ([`super::health`]).
const STATISTICS: &str = "statistics.interval.ms";
const STATISTICS_MS: std::ops::RangeInclusive<u32> = 1..=5000;

/// Two names for one property (librdkafka 2.12, `CONFIGURATION.md`). A client's configuration is
/// applied in no particular order, so only one of them may ever be in it.
const ALIASES: &[(&str, &str)] = &[
    ("compression.codec", "compression.type"),
    ("delivery.timeout.ms", "message.timeout.ms"),
    ("max.in.flight", "max.in.flight.requests.per.connection"),
    ("metadata.broker.list", "bootstrap.servers"),
    ("queue.buffering.max.ms", "linger.ms"),
    ("request.required.acks", "acks"),
    ("retries", "message.send.max.retries"),
    ("sasl.mechanisms", "sasl.mechanism"),
    (
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.id",
    ),
    (
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.secret",
    ),
];

/// Those of librdkafka 2.12 that a producer has, for the nearest name to one that it has not.
const KNOWN: &str = include_str!("properties.txt");

pub(super) fn canonical(property: &str) -> &str {
    ALIASES
        .iter()
        .find(|(alias, _)| *alias == property)
        .map_or(property, |(_, name)| name)
}

/// librdkafka's own name of something that a producer can be told.
pub(crate) fn is_property(name: &str) -> bool {
    KNOWN.lines().any(|known| known == name)
}

/// Anything that opens a door: passwords, secrets, keys, and the one free-form list they can be in.
pub(crate) fn is_secret(property: &str) -> bool {
    ["password", "passphrase", "secret", "key.pem"]
        .iter()
        .any(|part| property.contains(part))
        || property == "sasl.oauthbearer.config"
}

/// The faults of all properties, each with its name.
pub(super) fn faults(properties: &BTreeMap<String, String>) -> Vec<OptionsError> {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    let mut faults = Vec::new();
    for (property, value) in properties {
        if let Some(other) = seen.insert(canonical(property), property) {
            faults.push(OptionsError::Invalid {
                property: property.clone(),
                reason: format!("is another name of \"{other}\", which is set too"),
            });
        }
        faults.extend(check(property, value).err());
    }
    faults
}

fn check(property: &str, value: &str) -> Result<(), OptionsError> {
    let name = canonical(property);
    if let Some(guarded) = GUARDED.iter().find(|guarded| guarded.name == name) {
        return if guarded
            .allowed
            .iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(value))
        {
            Ok(())
        } else {
            Err(OptionsError::Refused {
                property: property.to_owned(),
                allowed: guarded.allowed.first().copied().unwrap_or_default(),
                reason: guarded.reason,
            })
        };
    }
    if let Some((_, reason)) = FORBIDDEN.iter().find(|(forbidden, _)| *forbidden == name) {
        return Err(OptionsError::Forbidden {
            property: property.to_owned(),
            reason,
        });
    }
    if name == STATISTICS && !value.parse().is_ok_and(|ms| STATISTICS_MS.contains(&ms)) {
        return Err(OptionsError::Invalid {
            property: property.to_owned(),
            reason:
                "has to be 1 to 5000: a producer that has lost its brokers shows by its statistics"
                    .to_owned(),
        });
    }
    ask_librdkafka(property, value)
}

/// librdkafka itself says whether it knows the property and takes the value.
fn ask_librdkafka(property: &str, value: &str) -> Result<(), OptionsError> {
    let mut config = ClientConfig::new();
    config.set(property, value);
    let (reason, property) = match config.create_native_config() {
        Ok(_) => return Ok(()),
        Err(KafkaError::ClientConfig(_, reason, ..)) => (reason, property.to_owned()),
        // Not its text: it could repeat the value.
        Err(_) => ("is not acceptable".to_owned(), property.to_owned()),
    };
    Err(if reason.contains("No such configuration property") {
        let nearest = nearest(&property);
        OptionsError::Unknown { property, nearest }
    } else if is_secret(&property) {
        OptionsError::Invalid {
            property,
            reason: "is not acceptable".to_owned(),
        }
    } else {
        // It may name the property by its other name.
        let reason = match reason.split_once(" for configuration property ") {
            Some((fault, _)) => fault.to_owned(),
            None => reason,
        };
        OptionsError::Invalid { property, reason }
    })
}

fn nearest(property: &str) -> Option<String> {
    KNOWN
        .lines()
        .map(|known| (strsim::jaro_winkler(property, known), known))
        .filter(|(similarity, _)| *similarity > 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn librdkafka_knows_every_name_that_is_suggested_guarded_or_an_alias() {
        let aliases = ALIASES.iter().flat_map(|(alias, name)| [*alias, *name]);
        let guarded = GUARDED.iter().map(|guarded| guarded.name);
        let mut config = ClientConfig::new();
        for name in KNOWN.lines().chain(aliases).chain(guarded) {
            config.set(name, "");
            if let Err(KafkaError::ClientConfig(_, reason, ..)) = config.create_native_config() {
                assert!(!reason.contains("No such"), "{name}: {reason}");
            }
            config.remove(name);
        }
    }

    #[test]
    fn what_opens_a_door_is_a_secret_and_nothing_else() {
        let secrets = KNOWN.lines().filter(|name| is_secret(name));
        assert_eq!(
            secrets.collect::<Vec<_>>(),
            [
                "sasl.oauthbearer.assertion.private.key.passphrase",
                "sasl.oauthbearer.assertion.private.key.pem",
                "sasl.oauthbearer.client.credentials.client.secret",
                "sasl.oauthbearer.client.secret",
                "sasl.oauthbearer.config",
                "sasl.password",
                "ssl.key.password",
                "ssl.key.pem",
                "ssl.keystore.password",
            ]
        );
    }

    #[test]
    fn a_misspelt_name_leads_to_the_nearest() {
        for (property, expected) in [
            ("compresion.type", Some("compression.type")),
            ("ssl.ca.locaton", Some("ssl.ca.location")),
            ("sasl.user.name", Some("sasl.username")),
            ("colour", None),
        ] {
            assert_eq!(nearest(property).as_deref(), expected, "{property}");
        }
    }
}
