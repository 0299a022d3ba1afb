//! `outboxd convert`: the TOML does the same as the connector's file.

use std::path::PathBuf;

use outboxd::config::{Sources, to_toml};

use super::{Given, set_values};

const RUNNING: [(&str, Option<&str>); 12] = [
    ("01-article.json", Some("05-worker.properties")),
    ("02-old-server-name.json", None),
    ("03-insert-delete-heartbeat.json", None),
    ("04-constant-topic.json", None),
    ("05-standalone.properties", Some("05-worker.properties")),
    ("06-strimzi.yaml", None),
    ("07-debezium-server.properties", None),
    ("08-predicate.json", None),
    ("09-binary-payload.json", None),
    ("10-worker-defaults-envelope.json", None),
    ("11-regex.json", None),
    ("12-worker-sasl.json", Some("12-worker.properties")),
];

/// With absolute paths, so that the file may stand anywhere.
fn given(connector: &str, worker: Option<&str>) -> Given {
    let file = |name: &str| {
        std::path::absolute(PathBuf::from("tests/data/connectors").join(name)).unwrap()
    };
    Given::from(Sources {
        connector: Some(file(connector)),
        worker: worker.map(file),
        ..Sources::default()
    })
    .variable("DB_USER", "relay")
    .variable("DB_PASSWORD", "secret")
    .variable("OUTBOX_DB_PASSWORD", "secret")
}

#[test]
fn what_is_converted_means_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for (connector, worker) in RUNNING {
        let before = given(connector, worker).config();
        let path = folder.path().join("outboxd.toml");
        let text = to_toml(&before);
        std::fs::write(&path, &text).unwrap();
        let after = Given::from(Sources {
            config: Some(path),
            ..Sources::default()
        })
        .config();
        let without_secrets = |config| {
            let mut values = set_values(config);
            values.retain(|value| !value.ends_with("=***"));
            values
        };
        assert_eq!(
            without_secrets(&after),
            without_secrets(&before),
            "{connector}"
        );
        assert_eq!(
            format!("{:?}", after.router),
            format!("{:?}", before.router),
            "{connector}"
        );
        assert!(!text.contains("secret\""), "{connector}: {text}");
    }
}

#[test]
fn each_line_says_where_it_comes_from() {
    let text = to_toml(&given("01-article.json", Some("05-worker.properties")).config());
    for line in [
        "topic = \"outbox.event.${routedByValue}\"",
        "# password = \"***\"  # database.password: a secret, or OUTBOXD_POSTGRES_PASSWORD in the environment",
        "# WARNING: secrets: they are not written down; set OUTBOXD_POSTGRES_PASSWORD in the environment, or take the lines with \"***\" in",
        "\"compression.type\" = \"lz4\"  # producer.compression.type",
        "tasks.max: has no effect",
        "port = 5432  # database.port",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

#[test]
fn brokers_that_nobody_names_are_missed() {
    let without = to_toml(&given("01-article.json", None).config());
    for line in [
        "# WARNING: kafka.bootstrap.servers: is not set, and the relay does not start without: \
         give the worker's file as the second argument, or name the brokers below",
        "[kafka]\n# \"bootstrap.servers\" = \"HOST:PORT\"\n",
    ] {
        assert!(without.contains(line), "{line} is missing in\n{without}");
    }
    let with = to_toml(&given("01-article.json", Some("05-worker.properties")).config());
    assert!(
        !with.contains("kafka.bootstrap.servers: is not set"),
        "{with}"
    );
}
