//! Who chooses dead letters, by either door, and where they go.

use std::path::Path;

use outboxd::config::{Config, Sources};
use outboxd::relay::OnBlocked;
use serde_json::Value;

use super::{Given, connectors, notes, sources};

fn own(settings: &[&str]) -> Given {
    let smallest = Given::nothing().broker().set("postgres.user=relay");
    settings.iter().fold(smallest, |given, set| given.set(set))
}

/// The article's connector with further properties.
fn connector(folder: &Path, properties: &[(&str, &str)]) -> Given {
    let article = std::fs::read_to_string(connectors().join("01-article.json")).unwrap();
    let mut connector: Value = serde_json::from_str(&article).unwrap();
    for (name, value) in properties {
        connector["config"][*name] = (*value).into();
    }
    let path = folder.join("connector.json");
    std::fs::write(&path, connector.to_string()).unwrap();
    Given::from(Sources {
        connector: Some(path),
        ..sources()
    })
    .broker()
}

fn policy(config: &Config) -> (&OnBlocked, Option<&str>) {
    let topic = config.router.dead_letter_topic.as_deref();
    (&config.relay.on_blocked, topic)
}

#[test]
fn an_own_file_names_the_topic_or_takes_the_relays_name() {
    for (settings, expected) in [
        (
            &["errors.dead_letter.topic=dead"][..],
            (OnBlocked::Wait, None),
        ),
        (&["errors.on_blocked=exit"], (OnBlocked::Exit, None)),
        (
            &["errors.on_blocked=dead-letter"],
            (OnBlocked::Wait, Some("outboxd.dead-letter")),
        ),
        (
            &["errors.on_blocked=dead-letter", "name=shop"],
            (OnBlocked::Wait, Some("shop.dead-letter")),
        ),
        (
            &[
                "errors.on_blocked=dead-letter",
                "errors.dead_letter.topic=dead",
            ],
            (OnBlocked::Wait, Some("dead")),
        ),
    ] {
        let config = own(settings).config();
        assert_eq!(policy(&config), (&expected.0, expected.1), "{settings:?}");
    }
}

#[test]
fn a_topic_that_cannot_be_one_is_refused() {
    let faults = |settings: &[&str]| {
        let dead_letters = own(&["errors.on_blocked=dead-letter"]);
        let all = settings
            .iter()
            .fold(dead_letters, |given, set| given.set(set));
        all.faults()
    };
    assert_eq!(
        faults(&["errors.dead_letter.topic=dead letters"]),
        "--set errors.dead_letter.topic: \"dead letters\" is not a topic name: it has other characters than a-z, A-Z, 0-9, ., _ and -"
    );
    assert_eq!(
        faults(&["name=the shop"]),
        "errors.dead_letter.topic: \"the shop.dead-letter\" is not a topic name: it has other characters than a-z, A-Z, 0-9, ., _ and -"
    );
    assert_eq!(
        faults(&["heartbeat.topic=beats", "errors.dead_letter.topic=beats"]),
        "--set errors.dead_letter.topic: is the topic of the heartbeats"
    );
    assert_eq!(
        own(&["errors.on_blocked=dead_letter"]).faults(),
        "--set errors.on_blocked: \"dead_letter\" is not one of wait, exit, dead-letter"
    );
}

#[test]
fn tolerance_of_a_connector_means_dead_letters_and_drops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = connector(folder.path(), &[("errors.tolerance", "all")]).config();
    assert_eq!(
        policy(&config),
        (&OnBlocked::Wait, Some("outbox.dead-letter"))
    );
    let place = folder.path().join("connector.json").display().to_string();
    let note = format!(
        "! {place}: errors.tolerance: events that fail are not dropped, as Debezium does, but go to the dead-letter topic (errors.dead_letter.topic)"
    );
    assert!(notes(&config).contains(&note), "{:#?}", notes(&config));

    let queue = [
        ("errors.tolerance", "ALL"),
        ("errors.deadletterqueue.topic.name", "dlq"),
        ("errors.deadletterqueue.topic.replication.factor", "1"),
        ("errors.deadletterqueue.context.headers.enable", "false"),
    ];
    let config = connector(folder.path(), &queue).config();
    assert_eq!(policy(&config), (&OnBlocked::Wait, Some("dlq")));
    let notes = notes(&config).join("\n");
    for noted in [
        "errors.deadletterqueue.topic.replication.factor: has no effect: topics.create says",
        "errors.deadletterqueue.context.headers.enable: has no effect: a dead letter always says",
    ] {
        assert!(notes.contains(noted), "{notes}");
    }
}

#[test]
fn without_tolerance_a_connectors_queue_has_no_effect_and_a_slip_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let queue = ("errors.deadletterqueue.topic.name", "dlq");
    let config = connector(folder.path(), &[("errors.tolerance", "none"), queue]).config();
    assert_eq!(policy(&config), (&OnBlocked::Wait, None));
    let notes = notes(&config).join("\n");
    let noted = "errors.deadletterqueue.topic.name: has no effect without errors.tolerance=all";
    assert!(notes.contains(noted), "{notes}");

    let slips = [
        ("errors.tolerance", "some"),
        ("errors.deadletterqueue.topic", "dlq"),
    ];
    let faults = connector(folder.path(), &slips).faults();
    assert!(
        faults.contains("errors.tolerance: \"some\" is not one of none, all")
            && faults.contains("The nearest known one is \"errors.deadletterqueue.topic.name\"."),
        "{faults}"
    );
}
