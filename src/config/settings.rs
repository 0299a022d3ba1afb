//! Values by key, each with where it came from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::keys::{self, KEYS};
use super::{Fault, connection_string};

/// Later ones win: defaults < file < environment < flags, for both doors alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    Default,
    /// What Debezium or Kafka Connect takes where a connector file says nothing.
    ConnectorDefault,
    /// A file, and the property in it where it has another name than the key.
    File {
        file: String,
        property: Option<String>,
    },
    Environment(String),
    Flag,
}

impl Origin {
    /// Where a fault in `key` is to be looked for.
    pub fn place(&self, key: &str) -> String {
        match self {
            Self::Default | Self::ConnectorDefault => key.to_owned(),
            Self::File { file, property } => {
                format!("{file}: {}", property.as_deref().unwrap_or(key))
            }
            Self::Environment(name) => name.clone(),
            Self::Flag => format!("--set {key}"),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::ConnectorDefault => f.write_str("default of Kafka Connect and Debezium"),
            Self::File {
                file,
                property: None,
            } => f.write_str(file),
            Self::File {
                file,
                property: Some(property),
            } => write!(f, "{file}: {property}"),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Flag => f.write_str("--set"),
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) value: String,
    pub(super) origin: Origin,
}

/// Every value that was set, by outboxd's own key.
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

    /// What the other door assumes where its files say nothing.
    pub(super) fn set_connector_default(&mut self, key: &str, value: impl Into<String>) {
        if !self.0.contains_key(key) {
            self.set(key, value, Origin::ConnectorDefault);
        }
    }

    /// One layer in outboxd's own keys. A connection string counts less than the other keys of its
    /// layer and more than any layer before it.
    pub(super) fn apply(
        &mut self,
        mut layer: Vec<(String, String, Origin)>,
        faults: &mut Vec<Fault>,
    ) {
        layer.sort_by_key(|(key, _, _)| key != keys::POSTGRES_URL);
        for (key, value, origin) in layer {
            if key != keys::POSTGRES_URL {
                self.set(&key, value, origin);
                continue;
            }
            match connection_string::parse(&value) {
                Ok(parts) => {
                    for (part, value) in parts {
                        self.set(part, value, origin.clone());
                    }
                }
                Err(reason) => faults.push(Fault::new(origin.place(&key), reason)),
            }
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Setting> {
        self.0.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.0.iter().map(|(key, setting)| (key.as_str(), setting))
    }

    /// Keys under `prefix`, without it.
    pub(super) fn under<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Setting)> {
        self.iter()
            .filter_map(move |(key, setting)| Some((key.strip_prefix(prefix)?, setting)))
    }

    /// Where the value of a key comes from.
    pub fn origin(&self, key: &str) -> Origin {
        self.get(key)
            .map_or(Origin::Default, |setting| setting.origin.clone())
    }

    /// Every effective value with its origin, defaults included, by key; secrets as `***`.
    pub fn shown(&self) -> Vec<(String, String, Origin)> {
        let defaults = KEYS
            .iter()
            .filter(|key| !key.default.is_empty() && !self.0.contains_key(key.name))
            .map(|key| (key.name.to_owned(), key.default.to_owned(), Origin::Default));
        let set = self.iter().map(|(key, setting)| {
            (
                key.to_owned(),
                keys::masked(key, &setting.value),
                setting.origin.clone(),
            )
        });
        let mut shown: Vec<_> = defaults.chain(set).collect();
        shown.sort();
        shown
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self
            .iter()
            .map(|(key, setting)| (key, keys::masked(key, &setting.value)));
        f.debug_map().entries(shown).finish()
    }
}

/// A relative path in a file is relative to that file.
pub(super) fn beside(file: &Path, path: &str) -> String {
    let folder = file.parent().unwrap_or(Path::new(""));
    if path.is_empty() || Path::new(path).is_absolute() {
        return path.to_owned();
    }
    let joined: PathBuf = folder.join(path);
    joined.display().to_string()
}
