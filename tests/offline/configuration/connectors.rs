//! Files that run, each with what it becomes.

use std::time::Duration;

use outboxd::postgres::publication::PublicationMode;
use outboxd::postgres::snapshot::SnapshotMode;
use outboxd::postgres::{Host, SslMode};
use outboxd::router::{Converter, Heartbeat, OnUpdate, Placement, PlacementTarget};

use super::{Given, notes, set_values};

#[test]
fn the_article_runs() {
    let config = Given::connector("01-article.json")
        .worker("05-worker.properties")
        .config();
    assert_eq!(
        set_values(&config),
        [
            "connect.connector=outbox",
            "connect.offset_file=tests/data/connectors/offsets",
            "connect.server=shop",
            "connect.slot=outbox",
            "kafka.bootstrap.servers=127.0.0.1:9092",
            "kafka.compression.type=lz4",
            "kafka.linger.ms=5",
            "name=outbox",
            "outbox.expand_json=true",
            "outbox.header_format=simple",
            "outbox.headers=seq",
            "outbox.key=aggregateid",
            "outbox.key_format=string",
            "outbox.route_by=aggregatetype",
            "outbox.schema_prefix=shop",
            "outbox.tables_include=public.outbox",
            "outbox.topic=outbox.event.${routedByValue}",
            "outbox.value_format=json",
            "postgres.database=shop",
            "postgres.host=127.0.0.1",
            "postgres.password=***",
            "postgres.port=5432",
            "postgres.user=outboxd",
            "publication.create=filtered",
            "publication.name=outbox",
            "slot.name=outbox",
        ]
    );
    let host = Host::Tcp {
        host: "127.0.0.1".to_owned(),
        port: 5432,
    };
    assert_eq!(config.postgres.hosts, [host]);
    assert_eq!(
        config.postgres.password.as_ref().unwrap().expose(),
        "secret"
    );
    assert_eq!(config.publication.mode, PublicationMode::Filtered);
    assert!(config.tables.matches("public", "outbox"));
    assert_eq!(config.router.converters.value, Converter::JSON);
    assert!(config.router.expand_json);
    assert_eq!(
        notes(&config),
        [
            "01-article.json: tasks.max: has no effect: one slot is one stream, so there is one task",
            "01-article.json: tombstones.on.delete: has no effect: the Event Router drops deletes and their tombstones",
            "05-worker.properties: offset.flush.interval.ms: has no effect: the slot is the only memory of the position",
            "05-worker.properties: plugin.path: has no effect: it concerns the Java program",
        ]
    );
}

#[test]
fn brokers_may_come_from_the_environment_or_a_flag() {
    let article = || Given::connector("01-article.json");
    for given in [
        article().variable("OUTBOXD_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
        article().variable("BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
        article().variable("CONNECT_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
        article().broker(),
    ] {
        assert_eq!(given.config().kafka.bootstrap_servers(), "127.0.0.1:9092");
    }
}

#[test]
fn the_insert_and_delete_outbox_runs() {
    let config = Given::connector("03-insert-delete-heartbeat.json")
        .broker()
        .variable("OUTBOX_DB_PASSWORD", "hunter2")
        .config();
    assert_eq!(
        config.postgres.password.as_ref().unwrap().expose(),
        "hunter2"
    );
    assert_eq!(config.snapshot.mode, SnapshotMode::NoData);
    assert!(config.tables.matches("inv", "outbox") && !config.tables.matches("public", "outbox"));
    let header = |name| Placement::header(name, name);
    assert_eq!(
        config.router.placements,
        [header("operation"), header("version")]
    );
    let beats = config.relay.heartbeat.unwrap();
    assert_eq!(beats.interval, Duration::from_secs(300));
    let prefix = config.router.topic_prefix;
    assert_eq!(
        beats.heartbeat,
        Some(Heartbeat {
            topic: format!("__debezium-heartbeat.{prefix}").into(),
            server_name: prefix,
        })
    );
    assert_eq!(
        beats.query.as_deref(),
        Some("SELECT pg_logical_emit_message(false, 'heartbeat', now()::varchar)")
    );
}

#[test]
fn a_variable_that_is_missing_is_named() {
    assert_eq!(
        Given::connector("03-insert-delete-heartbeat.json")
            .broker()
            .faults(),
        "03-insert-delete-heartbeat.json: database.password: environment variable \"OUTBOX_DB_PASSWORD\" is not set"
    );
}

#[test]
fn a_bare_map_with_a_constant_topic_runs() {
    let config = Given::connector("04-constant-topic.json").broker().config();
    assert_eq!(config.publication.mode, PublicationMode::MustExist);
    assert_eq!(config.publication.name.as_str(), "billing_pub");
    assert_eq!(config.router.topic.topic("anything"), "billing.events");
    assert_eq!(config.router.id_field, "event_id");
    assert_eq!(config.router.converters.value, Converter::String);
}

#[test]
fn standalone_properties_with_their_worker_run() {
    let config = Given::connector("05-standalone.properties")
        .worker("05-worker.properties")
        .config();
    assert_eq!(config.name, "outbox");
    assert_eq!(
        config.postgres.password.as_ref().unwrap().expose(),
        "secret"
    );
    assert_eq!(config.postgres.ssl_mode, SslMode::VerifyFull);
    assert_eq!(
        config.postgres.ssl_root_cert,
        Some(super::connectors().join("ca.pem"))
    );
    assert_eq!(config.router.topic.topic("order"), "shop.order.v1");
    assert_eq!(config.router.on_update, OnUpdate::Fatal);
    assert!(config.router.tombstone_on_empty);
    assert_eq!(config.router.converters.key, Converter::String);
    assert_eq!(config.router.converters.value, Converter::JSON);
    assert!(notes(&config).contains(
        &"value.converter: the connector sets none: the worker's JsonConverter is used".to_owned()
    ));
}

#[test]
fn a_strimzi_resource_runs() {
    let config = Given::connector("06-strimzi.yaml")
        .broker()
        .variable("DB_USER", "relay")
        .variable("DB_PASSWORD", "hunter2")
        .config();
    assert_eq!(config.name, "outbox");
    assert_eq!(config.postgres.user, "relay");
    assert_eq!(config.router.topic.topic("order"), "order");
    assert_eq!(config.router.placements.len(), 2);
}

#[test]
fn a_predicate_on_the_outbox_tables_topic_runs() {
    let config = Given::connector("08-predicate.json").broker().config();
    assert!(config.slot.failover);
    assert_eq!(config.snapshot.mode, SnapshotMode::NoData);
    assert_eq!(config.router.on_update, OnUpdate::Fatal);
    assert!(config.tables.matches("public", "outbox"));
    assert!(notes(&config).contains(
        &"! 08-predicate.json: snapshot.mode: \"never\" is the old name of \"no_data\"".to_owned()
    ));
}

#[test]
fn binary_payloads_run_and_the_id_is_placed_twice() {
    let config = Given::connector("09-binary-payload.json").broker().config();
    let delegate = Some(Box::new(Converter::JSON));
    assert_eq!(
        config.router.converters.value,
        Converter::BinaryData { delegate }
    );
    assert_eq!(
        config.router.placements,
        [
            Placement::header("type", "type"),
            Placement::header("id", "id")
        ]
    );
}

#[test]
fn javas_replacement_rules_hold() {
    let config = Given::connector("11-regex.json").broker().config();
    assert_eq!(config.router.topic.topic("order_outbox"), "order_events");
    assert_eq!(config.router.route_field, "destination");
}

#[test]
fn the_login_of_a_worker_reaches_librdkafka() {
    let config = Given::connector("01-article.json")
        .worker("12-worker.properties")
        .config();
    let properties: Vec<_> = config.kafka.shown_properties().collect();
    let ca = super::connectors().join("ca.pem").display().to_string();
    assert_eq!(
        properties,
        [
            ("sasl.mechanism", "SCRAM-SHA-512"),
            ("sasl.password", "***"),
            ("sasl.username", "relay"),
            ("security.protocol", "SASL_SSL"),
            ("ssl.ca.location", ca.as_str()),
        ]
    );
    assert!(!format!("{config:?} {:?}", config.settings.shown()).contains("s3cret"));
}

#[test]
fn names_of_debezium_1_run_with_a_warning_for_each() {
    let config = Given::connector("02-old-server-name.json")
        .broker()
        .config();
    assert_eq!(config.slot.name.as_str(), "debezium");
    assert_eq!(
        notes(&config),
        [
            "! 02-old-server-name.json: database.server.name: is the old name of topic.prefix",
            "02-old-server-name.json: tasks.max: has no effect: one slot is one stream, so there is one task",
            "02-old-server-name.json: tombstones.on.delete: has no effect: the Event Router drops deletes and their tombstones",
            "key.converter: neither connector nor worker sets one: JsonConverter with schemas is used, as Kafka Connect does",
            "value.converter: neither connector nor worker sets one: JsonConverter with schemas is used, as Kafka Connect does",
            "02-old-server-name.json: publication.autocreate.mode is not set: a missing publication is made for the outbox table alone, not for all tables as Debezium does",
            "! 02-old-server-name.json: plugin.name is not set: outboxd uses pgoutput, Debezium would use decoderbufs",
        ]
    );
}

#[test]
fn debezium_servers_properties_run_and_other_libraries_keys_are_noted() {
    let config = Given::connector("07-debezium-server.properties").config();
    let notes = notes(&config);
    let note = "07-debezium-server.properties: quarkus.log.level: has no effect: it belongs to another library";
    assert!(notes.iter().any(|found| found == note), "{notes:#?}");
    assert_eq!(config.kafka.bootstrap_servers(), "127.0.0.1:9092");
    assert!(config.tables.matches("public", "outbox"));
}

#[test]
fn without_converters_the_ones_that_are_taken_are_named_with_the_reason() {
    let config = Given::connector("10-worker-defaults-envelope.json")
        .broker()
        .config();
    let notes = notes(&config);
    for role in ["key", "value"] {
        let note = format!(
            "{role}.converter: neither connector nor worker sets one: JsonConverter with schemas is used, as Kafka Connect does"
        );
        assert!(notes.contains(&note), "{notes:#?}");
    }
    let placed: Vec<(&str, &PlacementTarget)> = config
        .router
        .placements
        .iter()
        .map(|placement| (placement.field.as_str(), &placement.target))
        .collect();
    assert_eq!(
        placed,
        [
            ("seq", &PlacementTarget::Header("seq".to_owned())),
            ("type", &PlacementTarget::Envelope("eventType".to_owned())),
            ("created_at", &PlacementTarget::Envelope("at".to_owned())),
        ]
    );
}
