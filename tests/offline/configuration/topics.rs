//! How topics that are missing are made, by either door.

use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::Path;

use outboxd::config::Sources;
use outboxd::kafka::{TopicCreation, TopicGroup, TopicPattern, TopicRules, TopicSettings};

use super::{Given, sources};

fn settings(partitions: i32, replicas: i16, configs: &[(&str, &str)]) -> TopicSettings {
    let configs = configs.iter().map(|(k, v)| ((*k).into(), (*v).into()));
    TopicSettings {
        partitions: u32::try_from(partitions).ok().and_then(NonZeroU32::new),
        replication_factor: u16::try_from(replicas).ok().and_then(NonZeroU16::new),
        configs: configs.collect::<BTreeMap<_, _>>(),
    }
}

fn pattern(patterns: &[&str]) -> TopicPattern {
    let patterns: Vec<_> = patterns.iter().map(|p| (*p).to_owned()).collect();
    TopicPattern::new(&patterns).unwrap()
}

/// What the connector and the own file below both mean.
fn rules() -> TopicCreation {
    TopicCreation::Relay(TopicRules {
        groups: vec![
            TopicGroup {
                include: pattern(&["audit", "log\\..*"]),
                exclude: Some(pattern(&["log\\.debug"])),
                settings: settings(1, 3, &[("cleanup.policy", "compact")]),
            },
            TopicGroup {
                include: pattern(&["bulk"]),
                exclude: None,
                settings: settings(12, -1, &[]),
            },
        ],
        default: settings(12, 3, &[("retention.ms", "1000")]),
    })
}

fn own(folder: &Path, topics: &str) -> Given {
    let path = folder.join("outboxd.toml");
    let text = format!(
        "[postgres]\nuser = \"relay\"\n[kafka]\nbootstrap.servers = \"k:9092\"\n[topics]\n{topics}"
    );
    std::fs::write(&path, text).unwrap();
    Given::from(Sources {
        config: Some(path),
        ..sources()
    })
}

#[test]
fn without_a_word_the_brokers_make_topics() {
    let folder = tempfile::tempdir().unwrap();
    let creation = |topics: &str| own(folder.path(), topics).config().kafka.topic_creation;
    assert_eq!(creation(""), TopicCreation::Brokers);
    assert_eq!(creation("create = \"never\""), TopicCreation::Nobody);
    let defaults = TopicCreation::Relay(TopicRules::default());
    assert_eq!(creation("create = \"missing\""), defaults);
}

#[test]
fn groups_of_the_own_file_inherit_the_numbers_and_not_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let config = own(
        folder.path(),
        r#"
create = "missing"
partitions = 12
replication_factor = 3
config."retention.ms" = 1000
groups = ["audit", "bulk"]
[topics.group.audit]
include = ["audit", 'log\..*']
exclude = 'log\.debug'
partitions = 1
config."cleanup.policy" = "compact"
[topics.group.bulk]
include = "bulk"
replication_factor = -1
"#,
    )
    .config();
    assert_eq!(config.kafka.topic_creation, rules());
}

#[test]
fn every_fault_of_topics_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let faults = own(
        folder.path(),
        r#"
create = "always"
partitions = 0
replication_factor = 40000
groups = "a,b"
[topics.group.a]
include = "("
colour = "red"
[topics.group.b]
[topics.group.c]
include = "c"
"#,
    )
    .faults();
    let folder = format!("{}/", folder.path().display());
    let lines: Vec<_> = faults
        .lines()
        .map(|line| line.replace(&folder, ""))
        .collect();
    assert_eq!(
        lines,
        [
            "outboxd.toml: topics.create: \"always\" is not one of brokers, missing, never",
            "outboxd.toml: topics.partitions: \"0\" is not a number from 1, or -1 for the brokers' default",
            "outboxd.toml: topics.replication_factor: \"40000\" is not a number from 1, or -1 for the brokers' default",
            "outboxd.toml: topics.group.a.colour: a group of topics has no key \"colour\"",
            "outboxd.toml: topics.group.c.include: belongs to no group that topics.groups lists",
            "outboxd.toml: topics.group.a.include: is not a regular expression: Parsing error at position 8: Opening parenthesis without closing parenthesis",
            "topics.group.b.include: is not set: the group takes no topic",
        ]
    );
}

/// `01-article.json` with further properties.
fn connector(folder: &Path, properties: &[(&str, &str)]) -> Given {
    let text = std::fs::read_to_string(super::connectors().join("01-article.json")).unwrap();
    let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
    for (name, value) in properties {
        file["config"][*name] = (*value).into();
    }
    let path = folder.join("connector.json");
    std::fs::write(&path, file.to_string()).unwrap();
    Given::from(Sources {
        connector: Some(path),
        ..sources()
    })
    .broker()
}

const CREATION: &[(&str, &str)] = &[
    ("topic.creation.default.replication.factor", "3"),
    ("topic.creation.default.partitions", "12"),
    ("topic.creation.default.retention.ms", "1000"),
    ("topic.creation.default.include", "nothing"),
    ("topic.creation.groups", "audit, bulk"),
    ("topic.creation.audit.include", "audit, log\\..*"),
    ("topic.creation.audit.exclude", "log\\.debug"),
    ("topic.creation.audit.partitions", "1"),
    ("topic.creation.audit.cleanup.policy", "compact"),
    ("topic.creation.bulk.include", "bulk"),
    ("topic.creation.bulk.replication.factor", "-1"),
];

#[test]
fn a_connectors_groups_mean_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let config = connector(folder.path(), CREATION).config();
    assert_eq!(config.kafka.topic_creation, rules());

    let config = Given::connector("12-worker-sasl.json").broker().config();
    let default = settings(12, 3, &[("cleanup.policy", "delete")]);
    let groups = Vec::new();
    assert_eq!(
        config.kafka.topic_creation,
        TopicCreation::Relay(TopicRules { groups, default })
    );
}

#[test]
fn a_worker_may_forbid_it() {
    let folder = tempfile::tempdir().unwrap();
    let worker = folder.path().join("worker.properties");
    std::fs::write(&worker, "topic.creation.enable=false\n").unwrap();
    let mut given = connector(folder.path(), CREATION);
    given.sources.worker = Some(worker);
    let config = given.config();
    assert_eq!(config.kafka.topic_creation, TopicCreation::Brokers);
    let said = config.notes.iter().any(|note| {
        note.to_string()
            .ends_with("topic.creation.enable: has no effect: topic.creation.enable is false")
    });
    assert!(said, "{:?}", config.notes);
}

#[test]
fn a_connector_that_makes_topics_says_of_how_many_parts() {
    let folder = tempfile::tempdir().unwrap();
    let faults = connector(
        folder.path(),
        &[
            ("topic.creation.default.partitions", "12"),
            ("topic.creation.audit.include", "audit"),
        ],
    )
    .faults();
    let folder = format!("{}/", folder.path().display());
    assert_eq!(
        faults.replace(&folder, ""),
        "connector.json: topic.creation.default.replication.factor: is not set, and topics are to be made\n  \
         HINT:  Set it, to -1 for the brokers' default.\n\
         connector.json: topic.creation.audit.include: belongs to no group that topic.creation.groups lists"
    );
}
