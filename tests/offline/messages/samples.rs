//! One sample of each variant, with the names of one shop, and the section that speaks of it.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use outboxd::connect::NotFound;
use outboxd::journal::{EntryError, Gap};
use outboxd::lsn::Lsn;
use outboxd::outbox::ValueError;
use outboxd::pgoutput;
use outboxd::pipeline::{PipelineError, Unroutable};
use outboxd::postgres::slot::{SlotHolder, SlotVerdict};
use outboxd::postgres::snapshot::Fragment;
use outboxd::postgres::{ExpiredStep, ObjectError as Object, PostgresError as Postgres};
use outboxd::relay::RelayError;
use outboxd::router::RouteError as Route;
use outboxd::wire::ServerMessage;

use super::{ErrorType, Family, Sample, kafka, variant};

const CONNECTING: &str = "outboxdnotconnected";
const RECONNECTING: &str = "outboxdreconnecting";
pub(super) const SOURCE: &str = "blocked-by-source";
const ROW: &str = "blocked-by-row";
pub(super) const DELIVERY: &str = "blocked-by-delivery";
const LOST: &str = "outboxdslotlost";
const JOURNAL: &str = "the-position-journal";
pub(super) const JOURNAL_UNWRITTEN: &str = "blocked-by-journal";
pub(super) const MIGRATING: &str = "moving-from-debezium";
pub(super) const ENDED: &str = "it-ended-with-1";

pub(super) fn families() -> Vec<Family> {
    vec![
        family(
            "Connecting to PostgreSQL",
            "src/postgres/error.rs",
            "PostgresError",
            postgres(),
        ),
        family(
            "Table, publication, slot",
            "src/postgres/object_error.rs",
            "ObjectError",
            objects(),
        ),
        family(
            "The slot's state",
            "src/postgres/slot/state.rs",
            "SlotVerdict",
            verdicts(),
        ),
        family(
            "Rows that cannot be routed",
            "src/router/error.rs",
            "RouteError",
            rows(),
        ),
        family(
            "The stream",
            "src/pipeline/error.rs",
            "PipelineError",
            stream(),
        ),
        family(
            "Records that Kafka refuses",
            "src/kafka/error.rs",
            "DeliveryErrorKind",
            kafka::deliveries(),
        ),
        family(
            "The slot that was known",
            "src/journal/verdict.rs",
            "Gap",
            gaps(),
        ),
        family(
            "The position journal",
            "src/journal/entry.rs",
            "EntryError",
            entries(),
        ),
        Family {
            title: "What is waited for under way",
            of: None,
            samples: kafka::waiting(),
        },
        family(
            "Reading from Kafka",
            "src/kafka/reading.rs",
            "ReadError",
            kafka::reading(),
        ),
        family(
            "The producer",
            "src/kafka/error.rs",
            "PublishError",
            kafka::producer(),
        ),
        family(
            "The relay and its commands",
            "src/relay/error.rs",
            "RelayError",
            kafka::relay(),
        ),
    ]
}

fn family(
    title: &'static str,
    source: &'static str,
    name: &'static str,
    samples: Vec<Sample>,
) -> Family {
    let elsewhere: &[&str] = match name {
        "RelayError" => &[
            "Postgres",
            "Pipeline",
            "Publish",
            "Object",
            "Gap",
            "JournalEntry",
        ],
        _ => &[],
    };
    Family {
        title,
        of: Some(ErrorType {
            source,
            name,
            elsewhere,
        }),
        samples,
    }
}

pub(super) fn sample(
    variant: String,
    section: &'static str,
    error: impl Into<RelayError>,
) -> Sample {
    Sample {
        variant,
        section,
        problem: error.into().problem(),
    }
}

fn server(sqlstate: &str, message: &str) -> Box<ServerMessage> {
    Box::new(ServerMessage {
        severity: "ERROR".into(),
        sqlstate: sqlstate.into(),
        message: message.into(),
        detail: None,
        hint: None,
        routine: None,
    })
}

fn refused() -> Error {
    Error::new(ErrorKind::ConnectionRefused, "Connection refused")
}

fn malformed() -> pgoutput::DecodeError {
    pgoutput::decode(b"B").expect_err("a message that is cut off")
}

fn postgres() -> Vec<Sample> {
    let pgoutput::DecodeError::Malformed(malformed) = malformed() else {
        panic!("it is the message that is wrong");
    };
    let driver = "port=x".parse::<tokio_postgres::Config>().unwrap_err();
    let samples = vec![
        (
            CONNECTING,
            Postgres::Unreachable {
                attempts: vec![("db:5432".into(), Postgres::Connect { source: refused() })],
            },
        ),
        (CONNECTING, Postgres::Connect { source: refused() }),
        (
            CONNECTING,
            Postgres::ConnectTimeout {
                after: Duration::from_secs(10),
            },
        ),
        (CONNECTING, Postgres::TlsRefused),
        (
            CONNECTING,
            Postgres::Tls {
                reason: "certificate verify failed".into(),
            },
        ),
        (
            CONNECTING,
            Postgres::TlsOptions {
                reason: "sslrootcert=system needs sslmode=verify-full",
            },
        ),
        (
            CONNECTING,
            Postgres::TlsFile {
                path: "ca.pem".into(),
                reason: "no certificate in it".into(),
            },
        ),
        (
            CONNECTING,
            Postgres::PasswordMissing {
                method: "scram-sha-256",
            },
        ),
        (
            CONNECTING,
            Postgres::AuthenticationMethod {
                method: "GSSAPI".into(),
            },
        ),
        (
            CONNECTING,
            Postgres::Scram {
                source: Error::other("the server's signature is wrong"),
            },
        ),
        (
            CONNECTING,
            Postgres::WrongServer {
                wanted: "a primary",
            },
        ),
        (
            CONNECTING,
            Postgres::Server(server(
                "55006",
                "replication slot \"outbox\" is active for PID 4711",
            )),
        ),
        (RECONNECTING, Postgres::Closed),
        (
            RECONNECTING,
            Postgres::Silent {
                after: Duration::from_secs(10),
            },
        ),
        (
            RECONNECTING,
            Postgres::Io {
                source: Error::new(ErrorKind::TimedOut, "Connection timed out"),
            },
        ),
        (RECONNECTING, Postgres::Malformed(malformed)),
        (
            RECONNECTING,
            Postgres::Unexpected {
                expected: "CopyBothResponse",
                tag: b'T',
            },
        ),
        (
            "a-publication-that-was-dropped",
            Postgres::PublicationSkipped(server("01000", "skipped loading publication \"outbox\"")),
        ),
        ("shutting-postgresql-down", Postgres::StreamEnded),
        ("shutting-postgresql-down", Postgres::StoppingServer),
        (CONNECTING, Postgres::Sql(Box::new(driver))),
    ];
    samples
        .into_iter()
        .map(|(section, error)| sample(variant(&error), section, error))
        .collect()
}

fn objects() -> Vec<Sample> {
    let name = || "outbox".to_owned();
    let table = || "public.outbox".to_owned();
    let create = "CREATE PUBLICATION \"outbox\" FOR TABLE \"public\".\"outbox\"".to_owned();
    let add = "ALTER PUBLICATION \"outbox\" ADD TABLE \"public\".\"outbox\"".to_owned();
    let inserts = "ALTER PUBLICATION \"outbox\" SET (publish = 'insert, update')".to_owned();
    let samples = vec![
        (CONNECTING, Object::Session(Postgres::Closed)),
        (
            SOURCE,
            Object::NoTable {
                filter: "public.outbx".into(),
                near: vec![table()],
            },
        ),
        (
            SOURCE,
            Object::NotPublishable {
                table: table(),
                kind: "a view",
            },
        ),
        (
            SOURCE,
            Object::PublicationMissing {
                name: name(),
                create_sql: create.clone(),
            },
        ),
        (
            "a-publication-that-was-dropped",
            Object::PublicationGone {
                name: name(),
                slot: name(),
                create_sql: create.clone(),
            },
        ),
        (
            SOURCE,
            Object::PublicationRefused {
                name: name(),
                sql: create,
                source: Postgres::Server(server("42501", "permission denied for database shop")),
            },
        ),
        (
            "rows-that-flow-nowhere",
            Object::PublicationLacksTable {
                name: name(),
                table: table(),
                sql: add,
                earlier: None,
            },
        ),
        (
            "rows-that-flow-nowhere",
            Object::PublicationLacksInserts {
                name: name(),
                sql: inserts,
            },
        ),
        (SOURCE, Object::PublicationForAllTables { name: name() }),
        (
            SOURCE,
            Object::SlotUnusable {
                name: name(),
                verdict: SlotVerdict::Physical,
            },
        ),
        (SOURCE, Object::SlotAppeared { name: name() }),
        (
            SOURCE,
            Object::NoRoomForSlot {
                name: name(),
                slots: 10,
            },
        ),
        (
            SOURCE,
            Object::SlotMoved {
                name: name(),
                expected: Lsn::new(0x178_BF40),
                found: "0/178C000".into(),
            },
        ),
        (
            SOURCE,
            Object::FailoverUnsupported {
                name: name(),
                server_version: 160_004,
            },
        ),
        (
            SOURCE,
            Object::RowsUnreadable {
                table: table(),
                sqlstate: "42501".into(),
            },
        ),
        (
            SOURCE,
            Object::RowsUnreadable {
                table: table(),
                sqlstate: "22012".into(),
            },
        ),
        (
            "publishing-rows-once-more",
            Object::SelectionRefused {
                option: "--where",
                text: "creatd_at > '2026-01-31'".into(),
                at: Some(1),
                source: Postgres::Server(server("42703", "column \"creatd_at\" does not exist")),
            },
        ),
        (
            "publishing-rows-once-more",
            Object::SelectionUnclosed {
                option: "--where",
                text: "true) or (true".into(),
                fault: Fragment::expression("true) or (true").unwrap_err(),
            },
        ),
        (
            "publishing-rows-once-more",
            Object::GeneratedColumn {
                table: table(),
                column: "total".into(),
            },
        ),
        (
            "housekeeping-of-retained-rows",
            Object::NoTimeColumn {
                table: table(),
                column: "created_at".into(),
                found: Some("bigint".into()),
            },
        ),
        expired(ExpiredStep::Find, "57014"),
        expired(ExpiredStep::Delete, "57014"),
        expired(ExpiredStep::Delete, "55P03"),
        expired(ExpiredStep::Delete, "42501"),
        expired(ExpiredStep::Delete, "23503"),
        expired(ExpiredStep::Delete, "P0001"),
        (
            "outboxdhousekeepingfailing",
            Object::ExpiredRowsKept {
                table: table(),
                kept: 2,
                found: 1000,
            },
        ),
        (
            SOURCE,
            Object::NotUtf8 {
                table: table(),
                column: "payload".into(),
            },
        ),
    ];
    samples
        .into_iter()
        .map(|(section, error)| sample(variant(&error), section, error))
        .collect()
}

fn expired(step: ExpiredStep, sqlstate: &str) -> (&'static str, Object) {
    let error = Object::ExpiredRows {
        table: "public.outbox".into(),
        quoted_table: "\"public\".\"outbox\"".into(),
        quoted_column: "\"created_at\"".into(),
        step,
        sqlstate: sqlstate.into(),
    };
    ("housekeeping-of-retained-rows", error)
}

fn verdicts() -> Vec<Sample> {
    let holder = SlotHolder {
        pid: 4711,
        application: Some("Debezium Streaming".into()),
        client: Some("10.0.0.7".into()),
    };
    let samples = vec![
        (SOURCE, SlotVerdict::Usable),
        (SOURCE, SlotVerdict::Missing),
        (SOURCE, SlotVerdict::Physical),
        (
            SOURCE,
            SlotVerdict::WrongPlugin {
                found: "wal2json".into(),
            },
        ),
        (
            SOURCE,
            SlotVerdict::WrongDatabase {
                found: "postgres".into(),
                expected: "shop".into(),
            },
        ),
        (SOURCE, SlotVerdict::Temporary),
        (
            LOST,
            SlotVerdict::Lost {
                reason: "wal_removed".into(),
                confirmed_flush_lsn: Some(Lsn::new(0x178_BF40)),
                server_lsn: Lsn::new(0xA00_00F8),
            },
        ),
        (SOURCE, SlotVerdict::Synced),
        (
            SOURCE,
            SlotVerdict::BeingMade {
                by: Some(holder.clone()),
            },
        ),
        (CONNECTING, SlotVerdict::Active(holder)),
    ];
    let in_slot = |verdict| Object::SlotUnusable {
        name: "outbox".into(),
        verdict,
    };
    samples
        .into_iter()
        .map(|(section, verdict)| sample(variant(&verdict), section, in_slot(verdict)))
        .collect()
}

fn rows() -> Vec<Sample> {
    let column = || "aggregatetype".to_owned();
    let event_id = || "5f0c1c7e".to_owned();
    let errors = vec![
        Route::MissingColumn {
            column: "agregateid".into(),
            option: "outbox.key",
            nearest: Some("aggregateid".into()),
        },
        Route::UnsupportedType {
            column: "area".into(),
            option: "outbox.headers",
        },
        Route::RouteType {
            column: column(),
            found: "integer",
        },
        Route::NullRoute { column: column() },
        Route::IllegalTopic {
            topic: "outbox.event.new order".into(),
            column: column(),
            reason: "it has other characters",
        },
        Route::OwnTopic {
            topic: "outboxd.positions".into(),
            column: column(),
            holds: "the relay's positions",
            setting: "position.topic",
        },
        Route::OwnTopic {
            topic: "dead".into(),
            column: column(),
            holds: "dead letters",
            setting: "errors.dead_letter.topic",
        },
        Route::Value(ValueError {
            column: "created_at".into(),
            expected: "a timestamp",
        }),
        Route::Converter {
            column: "payload".into(),
            converter: "ByteArrayConverter",
            expected: "bytea",
            found: "jsonb",
        },
        Route::NotATimestamp {
            column: "created_at".into(),
        },
        Route::NotAnInteger {
            column: "part".into(),
            found: "text",
        },
        Route::TimestampBefore1970 {
            column: "created_at".into(),
            event_id: event_id(),
        },
        Route::Partition {
            column: "part".into(),
            partition: -1,
            event_id: event_id(),
            topic: "outbox.event.order".into(),
        },
        Route::Update,
        Route::NoRow,
    ];
    let unroutable = |source| {
        RelayError::Pipeline(PipelineError::Route(Box::new(Unroutable {
            table: "public.outbox".into(),
            commit_lsn: Lsn::new(0xF0D_95E8),
            row: 3,
            source,
        })))
    };
    errors
        .into_iter()
        .map(|error| sample(variant(&error), ROW, unroutable(error)))
        .collect()
}

fn stream() -> Vec<Sample> {
    let lsn = Lsn::new(0xF0D_95E8);
    let samples = vec![
        (
            RECONNECTING,
            PipelineError::Decode {
                lsn,
                source: malformed(),
            },
        ),
        (
            RECONNECTING,
            PipelineError::OutOfOrder {
                lsn,
                message: "Commit",
                expected: "Begin",
            },
        ),
        (
            MIGRATING,
            PipelineError::ConnectorOffset {
                lsn,
                source: NotFound::Elsewhere {
                    xid: 730,
                    found: Some(1200),
                },
            },
        ),
        (
            MIGRATING,
            PipelineError::ConnectorOffset {
                lsn,
                source: NotFound::TooOld {
                    xid: 1200,
                    passed: 730,
                    older_by: Duration::from_secs(3 * 3600),
                },
            },
        ),
        (
            JOURNAL,
            PipelineError::OtherHistory {
                lsn,
                source: NotFound::Elsewhere {
                    xid: 1200,
                    found: None,
                },
            },
        ),
        (
            ROW,
            PipelineError::Route(Box::new(Unroutable {
                table: "public.outbox".into(),
                commit_lsn: lsn,
                row: 3,
                source: Route::NullRoute {
                    column: "aggregatetype".into(),
                },
            })),
        ),
    ];
    samples
        .into_iter()
        .map(|(section, error)| sample(variant(&error), section, RelayError::Pipeline(error)))
        .collect()
}

fn gaps() -> Vec<Sample> {
    let slot = || "outbox".to_owned();
    let (from, to) = (Lsn::new(0x178_BF40), Lsn::new(0xA00_00F8));
    let (confirmed, written) = (to, from);
    let (known, found) = (2, 1);
    let gaps = vec![
        (
            JOURNAL,
            Gap::OtherSlot {
                slot: slot(),
                known_database: "shop".into(),
                known_slot: "billing".into(),
            },
        ),
        (
            JOURNAL,
            Gap::OtherSystem {
                known: "7591362839572347713".into(),
                found: "7591362904712683264".into(),
                confirmed,
            },
        ),
        (
            JOURNAL,
            Gap::OtherHistory {
                known,
                found,
                confirmed,
            },
        ),
        (JOURNAL, Gap::Rewound { confirmed, written }),
        (
            LOST,
            Gap::Missing {
                slot: slot(),
                from,
                to,
            },
        ),
        (
            JOURNAL,
            Gap::Moved {
                slot: slot(),
                from,
                to,
            },
        ),
    ];
    gaps.into_iter()
        .map(|(section, gap)| sample(variant(&gap), section, gap))
        .collect()
}

fn entries() -> Vec<Sample> {
    let errors = vec![
        EntryError::Malformed {
            reason: "Syntax at column 1".into(),
        },
        EntryError::Version { found: 2 },
    ];
    let in_topic = |source| RelayError::JournalEntry {
        topic: "outboxd.positions".into(),
        key: "shop/outbox".into(),
        offset: 4711,
        source,
    };
    errors
        .into_iter()
        .map(|error| sample(variant(&error), JOURNAL, in_topic(error)))
        .collect()
}
