//! Settings written down as outboxd's own file.

use std::collections::BTreeMap;
use std::path::Path;

use super::keys;
use super::settings::{Origin, Setting};
use super::{Config, Note};

/// The TOML that does the same as the files that `config` was read from: every value that differs
/// from outboxd's own default, with the property it came from, and above them what else was said
/// about those files. Secrets are not written down; a line holds their place. What is missing for a
/// run is said too.
pub fn to_toml(config: &Config) -> String {
    let mut text = String::from("# Made by `outboxd convert`.\n");
    for note in &config.notes {
        text += &remark(note);
    }
    let mut sections: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (key, setting) in config.settings.iter() {
        let (section, name) = key.split_once('.').unwrap_or(("", key));
        let lines = sections.entry(section).or_default();
        lines.push(line(key, name, setting));
    }
    let secrets = config
        .settings
        .iter()
        .filter(|(key, _)| keys::is_secret(key));
    let variables: Vec<String> = secrets.map(|(key, _)| variable(key)).collect();
    if !variables.is_empty() {
        text += &remark(&Note::warning(
            "secrets",
            format!(
                "they are not written down; set {} in the environment, or take the lines with \"***\" in",
                variables.join(", ")
            ),
        ));
    }
    if is_missing(config, BROKERS) {
        text += &remark(&Note::warning(
            BROKERS,
            "is not set, and the relay does not start without: give the worker's file as the second argument, or name the brokers below",
        ));
        let line = "# \"bootstrap.servers\" = \"HOST:PORT\"\n".to_owned();
        sections.entry("kafka").or_default().insert(0, line);
    }
    for (section, lines) in sections {
        text += "\n";
        if !section.is_empty() {
            text += &format!("[{section}]\n");
        }
        for line in lines {
            text += &line;
        }
    }
    text
}

const BROKERS: &str = "kafka.bootstrap.servers";

fn is_missing(config: &Config, key: &str) -> bool {
    let setting = config.settings.get(key);
    setting.is_none_or(|setting| setting.value.trim().is_empty())
}

/// The environment's name for a key.
fn variable(key: &str) -> String {
    let name = key.to_ascii_uppercase().replace(['.', '-'], "_");
    format!("OUTBOXD_{name}")
}

fn remark(note: &Note) -> String {
    let mark = if note.warning { "WARNING: " } else { "" };
    let lines = note.to_string();
    lines
        .lines()
        .map(|line| format!("# {mark}{line}\n"))
        .collect()
}

fn line(key: &str, name: &str, setting: &Setting) -> String {
    let origin = match &setting.origin {
        Origin::Default => String::new(),
        Origin::File {
            property: Some(property),
            ..
        } => format!("  # {property}"),
        origin => format!("  # {origin}"),
    };
    if keys::is_secret(key) {
        let (name, variable) = (quoted_name(name), variable(key));
        return format!("# {name} = \"***\"{origin}: a secret, or {variable} in the environment\n");
    }
    let value = if keys::is_path(key) {
        let absolute = std::path::absolute(Path::new(&setting.value));
        absolute.map_or_else(|_| setting.value.clone(), |path| path.display().to_string())
    } else {
        setting.value.clone()
    };
    format!("{} = {}{origin}\n", quoted_name(name), quoted_value(&value))
}

/// Names with dots are one name: unquoted they would be tables within tables.
fn quoted_name(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.chars().all(is_bare) {
        name.to_owned()
    } else {
        toml::Value::from(name).to_string()
    }
}

/// Numbers and truth values as such where that says the same.
fn quoted_value(value: &str) -> String {
    let plain = value
        .parse::<i64>()
        .is_ok_and(|number| number.to_string() == value)
        || matches!(value, "true" | "false");
    if plain {
        value.to_owned()
    } else {
        // A line of its own for the origin needs the value on one line.
        toml::Value::from(value).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_read_back_as_they_were() {
        for (name, value) in [
            ("port", "5432"),
            ("linger.ms", "0.5"),
            ("select.public.outbox", "SELECT \"a\" FROM t -- 'x'"),
            ("topic", "outbox.event.${routedByValue}"),
            ("regex", "(?<a>\\d+)\t\"'''\"\"\""),
            ("lines", "one\ntwo"),
            ("zero", "007"),
            ("truth", "true"),
        ] {
            let line = format!("{} = {}", quoted_name(name), quoted_value(value));
            let table: toml::Table = line.parse().unwrap();
            let read = match &table[name] {
                toml::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(read, value, "{line}");
        }
    }
}
