//! Topics that are missing: who makes them, and how.

use std::collections::BTreeMap;
use std::fmt;
use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use fancy_regex::Regex;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::ClientContext;
use rdkafka::error::RDKafkaErrorCode;

use super::admin::wait_for;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TopicCreation {
    /// The brokers, where their `auto.create.topics.enable` says so.
    #[default]
    Brokers,
    /// The relay, through the admin protocol.
    Relay(TopicRules),
    /// Somebody else: the relay waits for it.
    Nobody,
}

/// As Kafka Connect's `topic.creation.*`: the first group that takes a name decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicRules {
    pub groups: Vec<TopicGroup>,
    pub default: TopicSettings,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicGroup {
    pub include: TopicPattern,
    pub exclude: Option<TopicPattern>,
    pub settings: TopicSettings,
}

/// The relay makes a topic of one partition that keeps the last record of each key. Small segments:
/// the last one is never compacted, and all of it is read at each start.
pub fn compacted() -> TopicCreation {
    let configs = [
        ("cleanup.policy", "compact"),
        // The least that Kafka 4 takes.
        ("segment.bytes", "1048576"),
        ("min.cleanable.dirty.ratio", "0.1"),
    ];
    let configs = configs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    TopicCreation::Relay(TopicRules {
        groups: Vec::new(),
        default: TopicSettings {
            partitions: Some(NonZeroU32::MIN),
            replication_factor: None,
            configs: BTreeMap::from(configs),
        },
    })
}

/// What is `None` is the brokers' default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicSettings {
    pub partitions: Option<NonZeroU32>,
    pub replication_factor: Option<NonZeroU16>,
    /// Topic configuration, by Kafka's names (`cleanup.policy`, `retention.ms`, ...).
    pub configs: BTreeMap<String, String>,
}

impl TopicRules {
    pub fn settings(&self, topic: &str) -> &TopicSettings {
        let takes = |group: &&TopicGroup| {
            let excluded = group.exclude.as_ref().is_some_and(|e| e.matches(topic));
            group.include.matches(topic) && !excluded
        };
        let group = self.groups.iter().find(takes);
        group.map_or(&self.default, |group| &group.settings)
    }
}

/// Regular expressions of which one has to match the whole name, with regard to case.
#[derive(Clone)]
pub struct TopicPattern {
    source: String,
    regex: Regex,
}

/// Not a regular expression; the text says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPatternError(String);

impl TopicPattern {
    pub fn new(patterns: &[String]) -> Result<Self, TopicPatternError> {
        let source = patterns.join("|");
        let regex = Regex::new(&format!("^(?:{source})\\z"))
            .map_err(|error| TopicPatternError(error.to_string()))?;
        Ok(Self { source, regex })
    }

    /// An error is the engine's own limit on backtracking: no match, as far as it can tell.
    fn matches(&self, topic: &str) -> bool {
        self.regex.is_match(topic).unwrap_or(false)
    }
}

impl PartialEq for TopicPattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for TopicPattern {}

impl fmt::Debug for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.source, f)
    }
}

impl fmt::Display for TopicPatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "is not a regular expression: {}", self.0)
    }
}

impl std::error::Error for TopicPatternError {}

const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The admin protocol's word for the brokers' default (Kafka 2.4 and later).
const BROKERS_DEFAULT: i32 = -1;

/// Told once: who asks again finds it there. Done as well when somebody else was faster.
pub(super) fn create<C: ClientContext>(
    admin: &AdminClient<C>,
    topic: &str,
    settings: &TopicSettings,
) -> Result<(), RDKafkaErrorCode> {
    if ask(admin, topic, settings, AdminOptions::new())? == Made::Now {
        tracing::info!(topic, "created the topic");
    }
    Ok(())
}

/// Whether it would be made: the brokers look at rights, name and settings, and make nothing.
pub(super) fn rehearse<C: ClientContext>(
    admin: &AdminClient<C>,
    topic: &str,
    settings: &TopicSettings,
) -> Result<(), RDKafkaErrorCode> {
    ask(
        admin,
        topic,
        settings,
        AdminOptions::new().validate_only(true),
    )?;
    Ok(())
}

/// Whether the controller has it, which knows of it before each broker does. `None` where it does not say.
pub(super) fn exists<C: ClientContext>(admin: &AdminClient<C>, topic: &str) -> Option<bool> {
    let rehearsal = AdminOptions::new().validate_only(true);
    let made = ask(admin, topic, &TopicSettings::default(), rehearsal);
    made.map(|made| made == Made::Before)
        .inspect_err(|code| tracing::debug!(topic, ?code, "whether the topic exists"))
        .ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Now,
    Before,
}

fn ask<C: ClientContext>(
    admin: &AdminClient<C>,
    topic: &str,
    settings: &TopicSettings,
    request: AdminOptions,
) -> Result<Made, RDKafkaErrorCode> {
    let partitions = settings.partitions.map_or(BROKERS_DEFAULT, |number| {
        i32::try_from(number.get()).unwrap_or(i32::MAX)
    });
    let replication_factor = settings
        .replication_factor
        .map_or(BROKERS_DEFAULT, |factor| factor.get().into());
    let replication = TopicReplication::Fixed(replication_factor);
    let mut wanted = NewTopic::new(topic, partitions, replication);
    for (name, value) in &settings.configs {
        wanted = wanted.set(name, value);
    }
    let request = request
        .request_timeout(Some(REQUEST_TIMEOUT))
        .operation_timeout(Some(REQUEST_TIMEOUT));
    let created = wait_for(admin.create_topics([&wanted], &request))?;
    match created.into_iter().next() {
        Some(Ok(_)) => Ok(Made::Now),
        Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(Made::Before),
        Some(Err((_, code))) => Err(code),
        None => Err(RDKafkaErrorCode::Fail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(patterns: &[&str]) -> TopicPattern {
        let patterns: Vec<_> = patterns.iter().map(|p| (*p).to_owned()).collect();
        TopicPattern::new(&patterns).unwrap()
    }

    fn partitions(number: u32) -> TopicSettings {
        TopicSettings {
            partitions: NonZeroU32::new(number),
            ..TopicSettings::default()
        }
    }

    #[test]
    fn the_first_group_that_includes_a_whole_name_and_does_not_exclude_it_decides() {
        let group = |include: &[&str], exclude: Option<&str>, number| TopicGroup {
            include: pattern(include),
            exclude: exclude.map(|exclude| pattern(&[exclude])),
            settings: partitions(number),
        };
        let rules = TopicRules {
            groups: vec![
                group(&["audit", "log\\..*"], Some("log\\.debug"), 1),
                group(&[".*log.*"], None, 2),
            ],
            default: partitions(3),
        };
        for (topic, number) in [
            ("audit", 1),
            ("audits", 3),
            ("Audit", 3),
            ("log.info", 1),
            ("log.debug", 2),
            ("orders", 3),
        ] {
            assert_eq!(rules.settings(topic), &partitions(number), "{topic}");
        }
    }

    #[test]
    fn a_pattern_that_is_none_is_refused() {
        let error = TopicPattern::new(&["(".to_owned()]).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("is not a regular expression: "), "{text}");
    }
}
