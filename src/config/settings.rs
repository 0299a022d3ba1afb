//! Values by key, each with where it came from.

use std::collections::BTreeMap;
use std::fmt;

use super::keys;
use super::{Fault, KEYS};

/// Later origins win: defaults < file < environment < flags, for both doors alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    Default,
    /// The file, and the name of the property where it is not the key itself.
    File(String),
    Environment(String),
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(file) => write!(f, "{file}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag => f.write_str("--set"),
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct Setting {
    pub value: String,
    pub origin: Origin,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, Setting>);

impl Settings {
    pub(super) fn set(&mut self, key: &str, value: impl Into<String>, origin: Origin) {
        self.0.insert(
            key.to_owned(),
            Setting {
                value: value.into(),
                origin,
            },
        );
    }

    /// Sets what an earlier origin has not.
    pub(super) fn set_default(&mut self, key: &str, value: impl Into<String>, origin: Origin) {
        if !self.0.contains_key(key) {
            self.set(key, value, origin);
        }
    }

    pub(super) fn set_flag(&mut self, assignment: &str, faults: &mut Vec<Fault>) {
        match assignment.split_once('=') {
            Some((key, value)) if keys::is_known(key.trim()) => {
                self.set(key.trim(), value.trim(), Origin::Flag);
            }
            Some((key, _)) => faults.push(keys::unknown("--set", key.trim())),
            None => faults.push(
                Fault::new("--set", format!("\"{assignment}\" has no value"))
                    .hint("Write --set section.key=value."),
            ),
        }
    }

    pub fn get(&self, key: &str) -> Option<&Setting> {
        self.0.get(key)
    }

    /// `kafka.` keys that go to librdkafka, by librdkafka's names.
    pub(super) fn kafka_properties(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.0.iter().filter_map(|(key, setting)| {
            let name = key.strip_prefix("kafka.")?;
            name.contains('.').then_some((name, setting))
        })
    }

    /// Every effective value with its origin, secrets as `***`.
    pub fn shown(&self) -> Vec<(String, String, Origin)> {
        let mut shown: Vec<_> = KEYS
            .iter()
            .filter(|key| !self.0.contains_key(key.name) && !key.default.is_empty())
            .map(|key| (key.name.to_owned(), key.default.to_owned(), Origin::Default))
            .chain(self.0.iter().map(|(key, setting)| {
                let value = keys::mask(key, &setting.value);
                (key.clone(), value, setting.origin.clone())
            }))
            .collect();
        shown.sort();
        shown
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.shown().into_iter().map(|(k, v, o)| (k, (v, o))))
            .finish()
    }
}
