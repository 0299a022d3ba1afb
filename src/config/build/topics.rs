//! How topics that are missing are made.

use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU32};
use std::str::FromStr;

use super::{Choices, Read};
use crate::config::settings::Setting;
use crate::kafka::{TopicCreation, TopicGroup, TopicPattern, TopicRules, TopicSettings};

#[derive(Clone, Copy)]
enum Create {
    Brokers,
    Missing,
    Never,
}

const CREATE: Choices<Create> = &[
    ("brokers", Create::Brokers),
    ("missing", Create::Missing),
    ("never", Create::Never),
];

const GROUP: &str = "topics.group.";

pub(super) fn creation(read: &mut Read<'_>) -> Option<TopicCreation> {
    let create = read.choice("topics.create", CREATE);
    // Read whatever is chosen: every fault is told.
    let rules = rules(read);
    Some(match (create?, rules?) {
        (Create::Brokers, _) => TopicCreation::Brokers,
        (Create::Missing, rules) => TopicCreation::Relay(rules),
        (Create::Never, _) => TopicCreation::Nobody,
    })
}

fn rules(read: &mut Read<'_>) -> Option<TopicRules> {
    let partitions = number(read, "topics.partitions");
    let replication_factor = number(read, "topics.replication_factor");
    let configs = configs(read.settings.under("topics.config."));
    let default = TopicSettings {
        partitions: partitions.flatten(),
        replication_factor: replication_factor.flatten(),
        configs,
    };
    let names = read.list("topics.groups");
    refuse_unknown(read, &names);
    let groups: Vec<_> = names
        .iter()
        .map(|name| group(read, name, &default))
        .collect();
    // All of them before the first `?`: every fault is told in one go.
    partitions?;
    replication_factor?;
    Some(TopicRules {
        groups: groups.into_iter().collect::<Option<_>>()?,
        default,
    })
}

fn group(read: &mut Read<'_>, name: &str, default: &TopicSettings) -> Option<TopicGroup> {
    let key = |what: &str| format!("{GROUP}{name}.{what}");
    let Some(include) = pattern(read, &key("include"))? else {
        read.fault(&key("include"), "is not set: the group takes no topic");
        return None;
    };
    let exclude = pattern(read, &key("exclude"))?;
    let partitions = match read.settings.get(&key("partitions")) {
        Some(_) => number(read, &key("partitions"))?,
        None => default.partitions,
    };
    let replication_factor = match read.settings.get(&key("replication_factor")) {
        Some(_) => number(read, &key("replication_factor"))?,
        None => default.replication_factor,
    };
    let configs = configs(read.settings.under(&key("config.")));
    let settings = TopicSettings {
        partitions,
        replication_factor,
        configs,
    };
    Some(TopicGroup {
        include,
        exclude,
        settings,
    })
}

/// `None` inside is the brokers' default.
fn number<T>(read: &mut Read<'_>, key: &str) -> Option<Option<T>>
where
    Positive<T>: FromStr,
{
    if read.text(key) == "-1" {
        return Some(None);
    }
    let number: Option<Positive<T>> =
        read.parsed(key, "a number from 1, or -1 for the brokers' default");
    number.map(|Positive(number)| Some(number))
}

/// What Kafka's protocol has room for.
struct Positive<T>(T);

impl FromStr for Positive<NonZeroU32> {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number: NonZeroU32 = text.parse().map_err(|_| ())?;
        i32::try_from(number.get()).map_err(|_| ())?;
        Ok(Self(number))
    }
}

impl FromStr for Positive<NonZeroU16> {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number: NonZeroU16 = text.parse().map_err(|_| ())?;
        i16::try_from(number.get()).map_err(|_| ())?;
        Ok(Self(number))
    }
}

/// `None` inside where the list is empty.
fn pattern(read: &mut Read<'_>, key: &str) -> Option<Option<TopicPattern>> {
    let patterns = read.list(key);
    if patterns.is_empty() {
        return Some(None);
    }
    match TopicPattern::new(&patterns) {
        Ok(pattern) => Some(Some(pattern)),
        Err(error) => {
            read.fault(key, error.to_string());
            None
        }
    }
}

fn configs<'a>(settings: impl Iterator<Item = (&'a str, &'a Setting)>) -> BTreeMap<String, String> {
    settings
        .map(|(name, setting)| (name.to_owned(), setting.value.trim().to_owned()))
        .collect()
}

/// Keys of a group that is not listed, and keys that no group has.
fn refuse_unknown(read: &mut Read<'_>, names: &[String]) {
    let unknown: Vec<_> = read
        .settings
        .under(GROUP)
        .filter_map(|(rest, _)| {
            let what = names.iter().find_map(|name| {
                let what = rest.strip_prefix(name.as_str())?;
                what.strip_prefix('.')
            });
            let message = match what {
                Some("include" | "exclude" | "partitions" | "replication_factor") => return None,
                Some(what) if what.len() > "config.".len() && what.starts_with("config.") => {
                    return None;
                }
                Some(what) => format!("a group of topics has no key \"{what}\""),
                None => "belongs to no group that topics.groups lists".to_owned(),
            };
            Some((format!("{GROUP}{rest}"), message))
        })
        .collect();
    for (key, message) in unknown {
        read.fault(&key, message);
    }
}
