//! `topic.creation.*`: topics that the connector makes, by group.

use super::Out;
use super::file::Properties;
use crate::config::{Fault, Note};

const PREFIX: &str = "topic.creation.";
const GROUPS: &str = "topic.creation.groups";
const ENABLE: &str = "topic.creation.enable";
/// The group of every topic that no other one takes.
const DEFAULT: &str = "default";

/// Kafka Connect makes topics as soon as one of these properties is there, unless its worker says
/// no; the default group then has to have both numbers.
pub(super) fn apply(connector: &Properties, worker: &Properties, out: &mut Out<'_>) {
    let Some((first, _)) = connector.iter().find(|(name, _)| name.starts_with(PREFIX)) else {
        return;
    };
    let enabled = worker.get(ENABLE).map(str::trim).unwrap_or("true");
    if !enabled.eq_ignore_ascii_case("true") {
        let message = format!("has no effect: {ENABLE} is {enabled}");
        out.notes.push(Note::info(worker.place(ENABLE), message));
        return;
    }
    out.settings
        .set("topics.create", "missing", connector.origin(first));
    for number in ["replication.factor", "partitions"] {
        let name = format!("{PREFIX}{DEFAULT}.{number}");
        if connector.get(&name).is_none() {
            let message = "is not set, and topics are to be made";
            let fault = Fault::new(connector.place(&name), message)
                .hint("Set it, to -1 for the brokers' default.");
            out.faults.push(fault);
        }
    }
    let groups = connector.get(GROUPS).unwrap_or("");
    let mut groups: Vec<_> = groups.split(',').map(str::trim).collect();
    groups.retain(|group| !group.is_empty());
    if !groups.is_empty() {
        let value = groups.join(",");
        out.settings
            .set("topics.groups", value, connector.origin(GROUPS));
    }
    for (name, value) in connector.iter() {
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        match setting(rest, &groups) {
            Some(Some(key)) => out.settings.set(&key, value.trim(), connector.origin(name)),
            Some(None) => {}
            None => {
                let message = format!("belongs to no group that {GROUPS} lists");
                out.faults.push(Fault::new(connector.place(name), message));
            }
        }
    }
}

/// `None` for a group that is not listed; `None` inside for what has no key of its own.
fn setting(rest: &str, groups: &[&str]) -> Option<Option<String>> {
    if rest == "groups" {
        return Some(None);
    }
    let of = |group: &str| rest.strip_prefix(group)?.strip_prefix('.');
    if let Some(what) = of(DEFAULT) {
        // The default group takes every topic, whatever is said of it.
        return Some(match what {
            "include" | "exclude" => None,
            what => Some(format!("topics.{}", key(what))),
        });
    }
    let group = groups.iter().find(|group| of(group).is_some())?;
    Some(Some(format!("topics.group.{group}.{}", key(of(group)?))))
}

fn key(what: &str) -> String {
    match what {
        "include" | "exclude" | "partitions" => what.to_owned(),
        "replication.factor" => "replication_factor".to_owned(),
        config => format!("config.{config}"),
    }
}
