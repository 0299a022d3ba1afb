//! outboxd's own file, the environment and the flags.

use std::path::PathBuf;
use std::time::Duration;

use outboxd::config::{Note, Origin, Sources};
use outboxd::postgres::publication::PublicationMode;
use outboxd::postgres::slot::CreateMode;
use outboxd::postgres::snapshot::SnapshotMode;
use outboxd::postgres::{Host, SslMode, TargetSessionAttrs};
use outboxd::relay::{HeartbeatOptions, HousekeepingOptions, JournalOptions, OnBlocked};
use outboxd::router::{
    Converter, DecimalFormat, DecimalHandling, Heartbeat, JsonEmptyArrays, JsonNulls, JsonOptions,
    MissingField, OnUpdate, Placement, TimePrecision,
};
use tempfile::TempDir;

use super::{Given, sources};

struct File {
    folder: TempDir,
}

impl File {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("outboxd.toml"), text).unwrap();
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("outboxd.toml")
    }

    fn given(&self) -> Given {
        Given::from(Sources {
            config: Some(self.path()),
            ..sources()
        })
    }

    /// Faults without the folder, which is another one in each run.
    fn faults(&self) -> String {
        let folder = format!("{}/", self.folder.path().display());
        self.given().faults().replace(&folder, "")
    }
}

const SMALLEST: &str = "[postgres]\nuser = \"relay\"\n[kafka]\nbootstrap.servers = \"k:9092\"\n";

fn tcp(host: &str, port: u16) -> Host {
    Host::Tcp {
        host: host.to_owned(),
        port,
    }
}

#[test]
fn two_lines_are_enough() {
    let config = File::new(SMALLEST).given().config();
    assert_eq!(config.name, "outboxd");
    assert_eq!(config.postgres.hosts, [tcp("localhost", 5432)]);
    assert_eq!(config.postgres.database, "relay");
    assert_eq!(config.postgres.ssl_mode, SslMode::Prefer);
    assert_eq!(config.slot.name.as_str(), "outboxd");
    assert_eq!(config.publication.name.as_str(), "outboxd");
    assert_eq!(config.tables.exact_name(), Some(("public", "outbox")));
    assert_eq!(config.snapshot.mode, SnapshotMode::Initial);
    assert_eq!(config.router.topic.topic("order"), "outbox.event.order");
    assert_eq!(config.router.converters.value, Converter::Raw);
    assert_eq!(config.kafka.bootstrap_servers(), "k:9092");
    let relay = outboxd::relay::Options {
        journal: config.relay.journal.clone(),
        ..Default::default()
    };
    assert_eq!(config.relay, relay);
    assert_eq!(config.http, outboxd::observe::HttpOptions::default());
    assert_eq!(config.log, outboxd::observe::LogOptions::default());
    assert_eq!(config.notes, []);
}

#[test]
fn every_option_of_postgresql_is_seen() {
    let file = File::new(
        r#"
        name = "orders"
        [postgres]
        host = ["a", "b"]
        port = [5433, 5434]
        user = "relay"
        password = " kept as it is "
        database = "shop"
        sslmode = "verify-full"
        sslrootcert = "ca.pem"
        sslcert = "/etc/client.pem"
        sslkey = "client.key"
        sslpassword = "k"
        target_session_attrs = "read-write"
        connect_timeout = "3s"
        wal_sender_timeout = "1500ms"
        [slot]
        name = "orders"
        create = "never"
        failover = true
        drop_on_stop = true
        [publication]
        name = "Orders"
        create = "never"
        via_partition_root = false
        [snapshot]
        mode = "when_needed"
        fetch_bytes = "64KiB"
        select."sales.Out.Box" = "SELECT * FROM outbox ORDER BY seq"
        [outbox]
        table = 'sales."Out.Box"'
        [kafka]
        bootstrap.servers = "k:9092"
        "#,
    );
    let config = file.given().config();
    let postgres = &config.postgres;
    let beside = |name: &str| Some(file.folder.path().join(name));
    assert_eq!(config.name, "orders");
    assert_eq!(postgres.application_name, "orders");
    assert_eq!(postgres.hosts, [tcp("a", 5433), tcp("b", 5434)]);
    assert_eq!(postgres.user, "relay");
    assert_eq!(
        postgres.password.as_ref().unwrap().expose(),
        " kept as it is "
    );
    assert_eq!(postgres.database, "shop");
    assert_eq!(postgres.ssl_mode, SslMode::VerifyFull);
    assert_eq!(postgres.ssl_root_cert, beside("ca.pem"));
    assert_eq!(postgres.ssl_cert, Some(PathBuf::from("/etc/client.pem")));
    assert_eq!(postgres.ssl_key, beside("client.key"));
    assert_eq!(postgres.ssl_key_password.as_ref().unwrap().expose(), "k");
    assert_eq!(postgres.target_session_attrs, TargetSessionAttrs::ReadWrite);
    assert_eq!(postgres.connect_timeout, Duration::from_secs(3));
    assert_eq!(postgres.wal_sender_timeout, Duration::from_millis(1500));
    assert_eq!(config.slot.name.as_str(), "orders");
    assert_eq!(config.slot.create, CreateMode::Never);
    assert!(config.slot.failover && config.slot.drop_on_stop);
    let said = |note: &Note| note.warning && note.message.starts_with("the slot is dropped");
    assert!(config.notes.iter().any(said), "{:?}", config.notes);
    assert_eq!(config.publication.name.as_str(), "Orders");
    assert_eq!(config.publication.mode, PublicationMode::MustExist);
    assert!(!config.publication.via_partition_root);
    assert_eq!(config.snapshot.mode, SnapshotMode::WhenNeeded);
    assert_eq!(config.snapshot.fetch_bytes, 64 << 10);
    let select = &config.snapshot.overrides[0];
    assert_eq!(select.table, "sales.Out.Box");
    assert_eq!(select.statement, "SELECT * FROM outbox ORDER BY seq");
    assert_eq!(config.tables.exact_name(), Some(("sales", "Out.Box")));
}

#[test]
fn every_option_of_routing_and_relaying_is_seen() {
    let file = File::new(
        r#"
        [postgres]
        user = "relay"
        [outbox]
        tables_include = ["a.outbox", "b.outbox_.*"]
        schemas_exclude = "c"
        id = "event_id"
        key = "aggregate_id"
        payload = "body"
        route_by = "kind"
        topic_regex = "(.*)_outbox"
        topic = "$1_events"
        headers = ["seq", "type:eventType"]
        missing_column = "ignore"
        timestamp = "occurred_at"
        on_update = "fatal"
        expand_json = true
        tombstone_on_empty = true
        key_format = "string"
        value_format = "json_with_schemas numeric_decimals"
        header_format = "simple"
        json_nulls = "keep"
        json_empty_arrays = "keep"
        schema_prefix = "shop"
        schema_version = "version"
        [types]
        time = "isostring"
        decimal = "double"
        money_fraction_digits = 3
        [kafka]
        bootstrap.servers = ["a:1", "b:2"]
        compression.type = "lz4"
        linger.ms = 5
        topic_timeout = "3s"
        [relay]
        max_in_flight_bytes = "4MiB"
        max_in_flight_records = 1000
        status_interval = "5s"
        confirm_interval = "1s"
        shutdown_timeout = "1m"
        backoff_min = "10ms"
        backoff_max = "1m"
        health_interval = "2s"
        [errors]
        on_blocked = "exit"
        [heartbeat]
        interval = "1m"
        topic = "beats"
        name = "shop"
        query = "SELECT 1"
        [housekeeping]
        retain = "7d"
        column = "created_at"
        batch_rows = 500
        interval = "30s"
        [position]
        topic = "shop.positions"
        key = "shop-outbox"
        [http]
        listen = ""
        [log]
        format = "json"
        level = "debug"
        "#,
    );
    let config = file.given().config();
    assert!(config.tables.matches("B", "outbox_2") && !config.tables.matches("c", "outbox"));
    let router = &config.router;
    let fields = [
        &router.id_field,
        &router.key_field,
        &router.payload_field,
        &router.route_field,
    ];
    assert_eq!(fields, ["event_id", "aggregate_id", "body", "kind"]);
    assert_eq!(router.topic.topic("order_outbox"), "order_events");
    assert_eq!(
        router.placements,
        [
            Placement::header("seq", "seq"),
            Placement::header("type", "eventType")
        ]
    );
    assert_eq!(router.missing, MissingField::Ignore);
    assert_eq!(router.timestamp_field.as_deref(), Some("occurred_at"));
    assert_eq!(router.on_update, OnUpdate::Fatal);
    assert!(router.expand_json && router.tombstone_on_empty);
    assert_eq!(router.converters.key, Converter::String);
    let json = JsonOptions {
        schemas: true,
        decimals: DecimalFormat::Numeric,
    };
    assert_eq!(router.converters.value, Converter::Json(json));
    assert_eq!(router.converters.header, Converter::Simple);
    assert_eq!(router.json_nulls, JsonNulls::Keep);
    assert_eq!(router.json_empty_arrays, JsonEmptyArrays::Keep);
    assert_eq!(router.topic_prefix, "shop");
    assert_eq!(router.schema_version_field.as_deref(), Some("version"));
    assert_eq!(router.types.time_precision, TimePrecision::IsoString);
    assert_eq!(router.types.decimal, DecimalHandling::Double);
    assert_eq!(router.types.money_fraction_digits, 3);
    assert_eq!(config.kafka.bootstrap_servers(), "a:1,b:2");
    let properties: Vec<_> = config.kafka.shown_properties().collect();
    assert_eq!(
        properties,
        [("compression.type", "lz4"), ("linger.ms", "5")]
    );
    assert_eq!(config.kafka.topic_timeout, Duration::from_secs(3));
    assert_eq!(config.kafka.window.bytes, 4 << 20);
    let relay = outboxd::relay::Options {
        max_in_flight_bytes: 4 << 20,
        max_in_flight_records: 1000,
        status_interval: Duration::from_secs(5),
        confirm_interval: Duration::from_secs(1),
        shutdown_timeout: Duration::from_secs(60),
        backoff_min: Duration::from_millis(10),
        backoff_max: Duration::from_secs(60),
        health_interval: Duration::from_secs(2),
        on_blocked: OnBlocked::Exit,
        heartbeat: Some(HeartbeatOptions {
            interval: Duration::from_secs(60),
            heartbeat: Some(Heartbeat {
                topic: "beats".into(),
                server_name: "shop".to_owned(),
            }),
            query: Some("SELECT 1".to_owned()),
        }),
        housekeeping: Some(HousekeepingOptions {
            retain: Duration::from_secs(7 * 86_400),
            column: "created_at".to_owned(),
            batch_rows: 500,
            interval: Duration::from_secs(30),
        }),
        journal: Some(JournalOptions {
            topic: "shop.positions".to_owned(),
            key: "shop-outbox".to_owned(),
        }),
        handover: None,
    };
    assert_eq!(config.relay, relay);
    assert_eq!(config.http.listen, None);
    assert_eq!(config.log.format, outboxd::observe::LogFormat::Json);
    assert_eq!(config.log.level, "debug");
}

#[test]
fn flags_count_before_environment_before_file_before_defaults() {
    let file = File::new(&format!(
        "{SMALLEST}[slot]\nname = \"file\"\n[publication]\nname = \"file\"\n[outbox]\nid = \"file\"\n"
    ));
    let config = file
        .given()
        .variable("OUTBOXD_SLOT_NAME", "environment")
        .variable("OUTBOXD_PUBLICATION_NAME", "environment")
        .variable("OUTBOXD_KAFKA_LINGER_MS", "9")
        .set("slot.name=flag")
        .config();
    assert_eq!(config.slot.name.as_str(), "flag");
    assert_eq!(config.publication.name.as_str(), "environment");
    assert_eq!(config.router.id_field, "file");
    assert_eq!(config.router.key_field, "aggregateid");
    let origin = |wanted: &str| {
        let shown = config.settings.shown();
        shown
            .into_iter()
            .find(|(key, _, _)| key == wanted)
            .unwrap()
            .2
    };
    assert_eq!(origin("slot.name"), Origin::Flag);
    let variable = Origin::Environment("OUTBOXD_PUBLICATION_NAME".to_owned());
    assert_eq!(origin("publication.name"), variable);
    assert_eq!(
        origin("outbox.id").to_string(),
        file.path().display().to_string()
    );
    assert_eq!(origin("outbox.key"), Origin::Default);
    let linger: Vec<_> = config.kafka.shown_properties().collect();
    assert_eq!(linger, [("linger.ms", "9")]);
}

#[test]
fn a_connection_string_counts_before_earlier_layers_and_after_its_own() {
    let file = File::new(&format!("{SMALLEST}[slot]\nname = \"x\"\n"));
    let config = file
        .given()
        .variable(
            "OUTBOXD_POSTGRES_URL",
            "postgresql://u:p@a,b:6/d?sslmode=require&target_session_attrs=primary",
        )
        .variable("OUTBOXD_POSTGRES_SSLMODE", "verify-ca")
        .set("postgres.database=other")
        .config();
    assert_eq!(config.postgres.user, "u");
    assert_eq!(config.postgres.hosts, [tcp("a", 5432), tcp("b", 6)]);
    assert_eq!(config.postgres.database, "other");
    assert_eq!(config.postgres.ssl_mode, SslMode::VerifyCa);
    assert_eq!(
        config.postgres.target_session_attrs,
        TargetSessionAttrs::Primary
    );
    let socket = Given::nothing()
        .broker()
        .set("postgres.url=host=/run/postgresql user=relay")
        .config();
    let directory = PathBuf::from("/run/postgresql");
    assert_eq!(
        socket.postgres.hosts,
        [Host::Unix {
            directory,
            port: 5432
        }]
    );
}

#[test]
fn a_flag_names_the_table_of_a_select_with_or_without_quotes() {
    for name in ["public.outbox", "\"public.outbox\""] {
        let file = File::new(SMALLEST);
        let config = file
            .given()
            .set(&format!("snapshot.select.{name}=SELECT 1"))
            .config();
        let tables: Vec<_> = config.snapshot.overrides.iter().map(|o| &o.table).collect();
        assert_eq!(tables, ["public.outbox"]);
    }
}

#[test]
fn passwords_come_from_files_too() {
    let file = File::new(&format!("{SMALLEST}sasl_password_file = \"sasl\"\n"));
    let write = |name: &str, text: &str| {
        let path = file.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    write("sasl", "hunter2\n");
    let secret = write("secret", "from file\n");
    let pgpass = write("pgpass", "*:*:*:relay:from pgpass\n");
    let password = |given: Given| {
        let config = given.config();
        assert!(!format!("{config:?}").contains("hunter2"));
        config
            .postgres
            .password
            .map(|password| password.expose().to_owned())
    };
    let named = file
        .given()
        .set(&format!("postgres.password_file={secret}"));
    assert_eq!(password(named).as_deref(), Some("from file"));
    let passfile = file.given().variable("PGPASSFILE", &pgpass);
    assert_eq!(password(passfile).as_deref(), Some("from pgpass"));
    assert_eq!(password(file.given()), None);
}

#[test]
fn all_faults_are_told_in_one_go() {
    let file = File::new(
        "[postgres]\nport = 70000\nsslmode = \"on\"\n[slot]\nname = \"Not A Slot\"\nnmae = 1\n\
         [relay]\nstatus_interval = \"soon\"\n[kafka]\nacks = 1\nbootstrap.servers = \"k:1\"\n\
         compresion.type = \"lz4\"\nenable.idempotence = false\n",
    );
    assert_eq!(
        file.faults(),
        "outboxd.toml: unknown key \"slot.nmae\"\n  \
         HINT:  The nearest known key is \"slot.name\".\n\
         outboxd.toml: postgres.port: \"70000\" is not a port\n\
         postgres.user: is not set\n\
         outboxd.toml: postgres.sslmode: \"on\" is not one of disable, allow, prefer, require, verify-ca, verify-full\n\
         outboxd.toml: slot.name: \"Not A Slot\" cannot name a replication slot: expected 1 to 63 of a-z, 0-9 and _\n\
         outboxd.toml: relay.status_interval: \"soon\" is not a duration such as 500ms, 30s or 5m\n\
         outboxd.toml: kafka.acks: property \"acks\" must stay at \"all\": a record counts as delivered when every in-sync replica has it\n\
         outboxd.toml: kafka.compresion.type: librdkafka has no property \"compresion.type\"; did you mean \"compression.type\"?\n\
         outboxd.toml: kafka.enable.idempotence: property \"enable.idempotence\" must stay at \"true\": without it a retry can reorder or repeat records"
    );
}

#[test]
fn values_that_make_no_sense_are_refused_with_what_would() {
    for (setting, message) in [
        (
            "postgres.connect_timeout=1ns",
            "\"1ns\" is out of range: 10ms to 1h",
        ),
        (
            "postgres.wal_sender_timeout=0s",
            "\"0s\" is out of range: 100ms to 1h",
        ),
        (
            "kafka.topic_timeout=2h",
            "\"2h\" is out of range: 1ms to 1h",
        ),
        (
            "relay.shutdown_timeout=999us",
            "\"999us\" is out of range: 1ms to 1day",
        ),
        ("relay.backoff_min=20s", "is longer than relay.backoff_max"),
        (
            "heartbeat.interval=1us",
            "\"1us\" is out of range: 1ms to 1day",
        ),
        (
            "relay.health_interval=often",
            "\"often\" is not a duration such as 500ms, 30s or 5m",
        ),
        (
            "snapshot.fetch_bytes=0",
            "\"0\" is out of range: 1 B to 1.0 GiB",
        ),
        (
            "relay.max_in_flight_bytes=1",
            "\"1\" is out of range: 1.0 KiB to 64.0 GiB",
        ),
        (
            "relay.max_in_flight_records=0",
            "\"0\" is out of range: 1 to 10000000",
        ),
        (
            "relay.max_in_flight_records=-1",
            "\"-1\" is not a whole number",
        ),
        (
            "types.money_fraction_digits=31",
            "\"31\" is out of range: 0 to 30",
        ),
        ("name=", "is empty"),
        ("name=a\nb", "\"a\\nb\" has a control character"),
        (
            "outbox.headers=seq:a\u{7}b",
            "\"seq:a\\u{7}b\" has a control character",
        ),
        ("outbox.key=", "is empty"),
        ("outbox.topic=", "is empty"),
        (
            "outbox.topic=order events",
            "\"order events\" gives no topic name: it has other characters than a-z, A-Z, 0-9, ., _ and -",
        ),
        (
            "heartbeat.topic=a b",
            "is not a topic name: it has other characters than a-z, A-Z, 0-9, ., _ and -",
        ),
        (
            "http.listen=9464",
            "\"9464\" is not a host and port such as 127.0.0.1:9464",
        ),
        (
            "log.level=loud",
            "\"loud\" is not one of off, error, warn, info, debug, trace",
        ),
        (
            "snapshot.select.public.outbx=SELECT 1",
            "\"public.outbx\" is no outbox table: public.outbox is",
        ),
    ] {
        let (key, _) = setting.split_once('=').unwrap();
        let file = File::new(SMALLEST);
        let mut given = file.given();
        if key == "heartbeat.topic" {
            given = given.set("heartbeat.interval=1s");
        }
        let faults = given.set(setting).faults();
        assert_eq!(faults, format!("--set {key}: {message}"), "{setting}");
    }
}

#[test]
fn a_host_name_may_listen_and_any_free_port() {
    let config = File::new(SMALLEST)
        .given()
        .set("http.listen=localhost:0")
        .config();
    assert_eq!(config.http.listen.unwrap().to_string(), "localhost:0");
}

#[test]
fn a_fault_in_the_syntax_names_the_line_and_shows_none_of_it() {
    let file = File::new("[postgres]\nuser = \"relay\"\npassword = \"hunter2\n");
    let faults = file.faults();
    assert!(faults.starts_with("outboxd.toml: line 3: "), "{faults}");
    assert!(!faults.contains("hunter2"), "{faults}");
}

#[test]
fn unknown_variables_and_flags_are_refused() {
    let given = Given::nothing()
        .broker()
        .set("postgres.user=relay")
        .set("slot.nam=x")
        .set("slot.name")
        .variable("OUTBOXD_SLOT_NAMED", "x")
        .variable("OUTBOXD_TEST_CACHE", "a script's own")
        .variable("OUTBOXD_HTTP_SERVICE_HOST", "10.0.0.1");
    assert_eq!(
        given.faults(),
        "OUTBOXD_SLOT_NAMED: unknown key \"slot.named\"\n  \
         HINT:  The nearest known key is \"slot.name\".\n\
         --set: unknown key \"slot.nam\"\n  \
         HINT:  The nearest known key is \"slot.name\".\n\
         --set: \"slot.name\" has no value\n  \
         HINT:  Write --set section.key=value."
    );
}

#[test]
fn secrets_are_shown_nowhere() {
    let config = Given::nothing()
        .set("postgres.url=postgresql://u:hunter2@h/d")
        .set("postgres.sslpassword=hunter2")
        .set("kafka.sasl.password=hunter2")
        .set("kafka.ssl.key.password=hunter2")
        .set("kafka.bootstrap.servers=k:1")
        .config();
    let shown = format!("{config:?} {:?}", config.settings.shown());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert_eq!(shown.matches("\"kafka.sasl.password\"").count(), 2);
}

#[test]
fn the_journals_key_is_the_relays_name_or_else_database_and_slot() {
    let key = |text: &str| {
        let config = File::new(&format!("{text}{SMALLEST}")).given().config();
        config
            .relay
            .journal
            .map(|journal| (journal.topic, journal.key))
    };
    let some = |topic: &str, key: &str| Some((topic.to_owned(), key.to_owned()));
    assert_eq!(key(""), some("outboxd.positions", "relay/outboxd"));
    assert_eq!(
        key("name = \"billing\"\n"),
        some("outboxd.positions", "billing")
    );
    assert_eq!(
        key("position.key = \"k\"\nname = \"billing\"\n"),
        some("outboxd.positions", "k")
    );
    assert_eq!(key("position.topic = \"\"\n"), None);
}
