//! What was found, for people and for programs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use super::differences::Difference;
use super::sample::{Sample, Source};
use crate::config::{Config, Note, Origin};
use crate::observe::escaped;
use crate::postgres::preflight::{Check, CheckOutcome};

pub(super) struct Report {
    pub(super) sections: Vec<Section>,
    pub(super) sample: Option<Sample>,
    pub(super) differences: Vec<&'static Difference>,
    pub(super) notes: Vec<Note>,
    /// Key, value, origin.
    pub(super) settings: Vec<(String, String, Origin)>,
}

pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) checks: Vec<Check>,
}

/// What the user asked to see.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Show {
    /// Keys, headers and values of the sample; else their sizes.
    pub(super) payload: bool,
    /// Settings that nobody set.
    pub(super) all: bool,
}

impl Report {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            sections: Vec::new(),
            sample: None,
            differences: Vec::new(),
            notes: config.notes.clone(),
            settings: config.settings.shown(),
        }
    }

    /// The worst of what was found.
    pub(super) fn outcome(&self) -> CheckOutcome {
        let checks = self.sections.iter().flat_map(|section| &section.checks);
        let worst = checks.map(|check| check.outcome).max();
        worst.unwrap_or(CheckOutcome::Ok)
    }

    pub(super) fn text(&self, show: Show) -> String {
        let mut lines = Vec::new();
        for section in &self.sections {
            lines.push(section.title.to_owned());
            if section.title == super::CONFIGURATION {
                lines.extend(self.notes.iter().map(|note| format!("  note     {note}")));
            }
            for check in &section.checks {
                lines.extend(told(check));
            }
            lines.push(String::new());
        }
        if let Some(sample) = &self.sample {
            lines.extend(sample_lines(sample, show));
            lines.push(String::new());
        }
        lines.push("Differences from Debezium that this configuration meets".to_owned());
        for difference in &self.differences {
            lines.push(format!("  {}", difference.name));
            lines.push(format!("      Debezium: {}", difference.debezium));
            lines.push(format!("      outboxd:  {}", difference.outboxd));
        }
        lines.push(String::new());
        lines.push(match show.all {
            true => "Settings".to_owned(),
            false => "Settings (--all shows the defaults too)".to_owned(),
        });
        let shown = self
            .settings
            .iter()
            .filter(|setting| is_shown(setting, show));
        lines.extend(shown.map(|(key, value, origin)| format!("  {key} = {value}  ({origin})")));
        let mut text = String::new();
        for line in lines {
            text += &escaped(&line);
            text.push('\n');
        }
        text
    }

    pub(super) fn json(&self, show: Show) -> Value {
        let check = |section: &'static str, check: &Check| {
            json!({
                "section": section,
                "name": check.name,
                "outcome": check.outcome.to_string(),
                "found": check.found,
                "remedy": check.remedy,
                "sql": check.sql,
                "command": check.command,
            })
        };
        let checks: Vec<Value> = self
            .sections
            .iter()
            .flat_map(|section| {
                section
                    .checks
                    .iter()
                    .map(|found| check(section.title, found))
            })
            .collect();
        let notes = self.notes.iter().map(
            |note| json!({"place": note.place, "message": note.message, "warning": note.warning}),
        );
        let differences = self.differences.iter().map(|difference| {
            json!({
                "name": difference.name,
                "debezium": difference.debezium,
                "outboxd": difference.outboxd,
            })
        });
        let settings = self
            .settings
            .iter()
            .filter(|setting| is_shown(setting, show));
        let settings = settings.map(|(key, value, origin)| {
            json!({"key": key, "value": value, "origin": origin.to_string()})
        });
        json!({
            "outcome": self.outcome().to_string(),
            "checks": checks,
            "notes": notes.collect::<Vec<_>>(),
            "sample": self.sample.as_ref().map(|sample| sample_json(sample, show)),
            "differences": differences.collect::<Vec<_>>(),
            "settings": settings.collect::<Vec<_>>(),
        })
    }
}

/// By default what somebody has set, the other door's assumptions among it.
fn is_shown((_, _, origin): &(String, String, Origin), show: Show) -> bool {
    show.all || *origin != Origin::Default
}

fn told(check: &Check) -> Vec<String> {
    let outcome = check.outcome.to_string();
    let mut lines = vec![format!("  {outcome:<8} {}: {}", check.name, check.found)];
    for (what, text) in [
        ("HINT", &check.remedy),
        ("SQL", &check.sql),
        ("RUN", &check.command),
    ] {
        if let Some(text) = text {
            lines.push(format!("           {what:<5} {text}"));
        }
    }
    lines
}

fn sample_lines(sample: &Sample, show: Show) -> Vec<String> {
    let Sample {
        table,
        source,
        record,
        note,
    } = sample;
    let mut lines = vec![match source {
        Source::FirstRow => format!("The first row of \"{table}\" on the wire"),
        Source::MadeUp(why) => format!("A made-up row of \"{table}\" on the wire ({why})"),
    }];
    let mut line = |name: &str, text: String| lines.push(format!("  {name:<12} {text}"));
    line("topic", record.topic.to_string());
    line("partition", partition(sample));
    line("key", part(record.key.as_ref(), show));
    for header in &record.headers {
        line(
            "header",
            format!("{}: {}", header.name, part(header.value.as_ref(), show)),
        );
    }
    line("timestamp", moment(record.timestamp_ms));
    line("value", part(record.value.as_ref(), show));
    if let Some(note) = note {
        line("note", note.as_str().to_owned());
    }
    if !show.payload {
        line(
            "",
            "(--show-payload shows key, headers and value)".to_owned(),
        );
    }
    lines
}

fn partition(sample: &Sample) -> String {
    match (sample.record.partition, &sample.record.key) {
        (Some(partition), _) => format!("{partition}, as the row says"),
        (None, Some(_)) => "by murmur2 over the key, as Java's producer".to_owned(),
        (None, None) => "any: the key is null".to_owned(),
    }
}

fn moment(unix_ms: i64) -> String {
    let ms = std::time::Duration::from_millis(u64::try_from(unix_ms).unwrap_or(0));
    humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + ms).to_string()
}

/// The size of what it is, or what it is.
fn part(bytes: Option<&Bytes>, show: Show) -> String {
    let Some(bytes) = bytes else {
        return "null".to_owned();
    };
    if !show.payload {
        return match bytes.len() {
            1 => "1 byte".to_owned(),
            size => format!("{size} bytes"),
        };
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("base64 {}", STANDARD.encode(bytes)),
    }
}

fn sample_json(sample: &Sample, show: Show) -> Value {
    let record = &sample.record;
    let headers: Vec<Value> = record
        .headers
        .iter()
        .map(|header| {
            let mut shown = json!({"name": *header.name});
            merge(&mut shown, part_json(header.value.as_ref(), show));
            shown
        })
        .collect();
    json!({
        "table": sample.table,
        "made_up": match &sample.source {
            Source::FirstRow => None,
            Source::MadeUp(why) => Some(why),
        },
        "topic": *record.topic,
        "partition": record.partition,
        "partition_rule": partition(sample),
        "key": part_json(record.key.as_ref(), show),
        "headers": headers,
        "timestamp_ms": record.timestamp_ms,
        "value": part_json(record.value.as_ref(), show),
        "note": sample.note.map(|note| note.as_str()),
    })
}

/// `null` is `{"bytes": null}`.
fn part_json(bytes: Option<&Bytes>, show: Show) -> Value {
    let size = bytes.map(Bytes::len);
    match bytes.filter(|_| show.payload) {
        None => json!({ "bytes": size }),
        Some(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => json!({"bytes": size, "text": text}),
            Err(_) => json!({"bytes": size, "base64": STANDARD.encode(bytes)}),
        },
    }
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
