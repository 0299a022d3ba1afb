//! `OUTBOXD_SECTION_KEY`.

use super::settings::{Origin, Settings};
use super::{KEYS, keys};

const PREFIX: &str = "OUTBOXD_";

pub(super) fn read(
    environment: &[(String, String)],
    settings: &mut Settings,
    notes: &mut Vec<String>,
) {
    for (name, value) in environment {
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        match key(rest) {
            Some(key) => settings.set(&key, value, Origin::Environment(name.clone())),
            // Kubernetes sets variables of this form for a service called outboxd.
            None if rest.starts_with("SERVICE_") || rest.starts_with("PORT") => {}
            None => notes.push(format!(
                "environment variable {name} names no setting: ignored"
            )),
        }
    }
}

fn key(rest: &str) -> Option<String> {
    let own = KEYS
        .iter()
        .find(|key| key.name.replace('.', "_").eq_ignore_ascii_case(rest));
    if let Some(own) = own {
        return Some(own.name.to_owned());
    }
    // What is none of ours is librdkafka's: its names have dots only.
    let property = rest
        .strip_prefix("KAFKA_")?
        .to_ascii_lowercase()
        .replace('_', ".");
    let key = format!("kafka.{property}");
    keys::is_known(&key).then_some(key)
}
