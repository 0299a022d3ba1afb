//! The process's environment, and `OUTBOXD_SECTION_KEY` in it.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::keys::{self, KEYS};
use super::settings::Origin;
use super::{ConfigError, Fault};

/// Read once at start, so that nothing below reads it again.
#[derive(Clone, Default)]
pub(super) struct Environment(BTreeMap<String, String>);

const PREFIX: &str = "OUTBOXD_";

/// As text. What is none cannot be a setting: it is a fault where it is to be one, and no business of
/// ours elsewhere.
pub fn variables(
    all: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, ConfigError> {
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    for (name, value) in all {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => found.push((name, value)),
            (Ok(name), Err(_)) if name.starts_with(PREFIX) => {
                faults.push(Fault::new(name, "the value is not UTF-8"));
            }
            _ => {}
        }
    }
    match faults.is_empty() {
        true => Ok(found),
        false => Err(ConfigError { faults }),
    }
}

impl Environment {
    pub(super) fn new(variables: impl Iterator<Item = (String, String)>) -> Self {
        Self(variables.collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The layer of outboxd's own variables. A name under one of the sections has to be a key; what
    /// else begins with `OUTBOXD_` may be a script's.
    pub(super) fn settings(&self, faults: &mut Vec<Fault>) -> Vec<(String, String, Origin)> {
        let mut layer = Vec::new();
        for (name, value) in self.iter() {
            let Some(rest) = name.strip_prefix(PREFIX) else {
                continue;
            };
            match key(rest) {
                Some(key) => {
                    layer.push((key, value.to_owned(), Origin::Environment(name.to_owned())));
                }
                None if is_of_kubernetes(rest, value) => {}
                None if is_in_a_section(rest) => {
                    let key = rest.to_ascii_lowercase().replacen('_', ".", 1);
                    faults.push(keys::unknown(name, &key));
                }
                None => {}
            }
        }
        layer
    }
}

fn is_in_a_section(rest: &str) -> bool {
    KEYS.iter()
        .filter_map(|key| key.name.split_once('.'))
        .any(|(section, _)| {
            let first = rest.split('_').next().unwrap_or(rest);
            first.eq_ignore_ascii_case(section)
        })
}

/// Kubernetes sets these for every service whose name begins with `outboxd`.
fn is_of_kubernetes(rest: &str, value: &str) -> bool {
    rest.ends_with("SERVICE_HOST")
        || rest.contains("SERVICE_PORT")
        || (rest.contains("PORT") && (value.contains("://") || rest.contains("_TCP")))
}

fn key(rest: &str) -> Option<String> {
    let own = KEYS
        .iter()
        .find(|key| key.name.replace('.', "_").eq_ignore_ascii_case(rest));
    if let Some(own) = own {
        return Some(own.name.to_owned());
    }
    // What is none of ours is librdkafka's: nearly all of its names have dots only.
    let property = rest
        .strip_prefix("KAFKA_")?
        .to_ascii_lowercase()
        .replace('_', ".");
    property.contains('.').then(|| format!("kafka.{property}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn what_is_no_text_is_a_fault_in_a_setting_and_nothing_elsewhere() {
        let pair = |name: &str, value: &[u8]| (name.into(), OsString::from_vec(value.to_vec()));
        let all = [pair("A", b"\xff"), pair("OUTBOXD_LOG_LEVEL", b"info")];
        let found = variables(all.into_iter()).unwrap();
        assert_eq!(found, [("OUTBOXD_LOG_LEVEL".to_owned(), "info".to_owned())]);
        let all = [pair("OUTBOXD_POSTGRES_PASSWORD", b"\xff")];
        let error = variables(all.into_iter()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "OUTBOXD_POSTGRES_PASSWORD: the value is not UTF-8"
        );
    }
}
