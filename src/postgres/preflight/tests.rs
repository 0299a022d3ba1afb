use std::time::Duration;

use super::*;
use crate::lsn::Lsn;
use crate::pgoutput::ReplicaIdentity;
use crate::postgres::publication::PublicationMode;
use crate::postgres::slot::{CreateMode, WalStatus};
use crate::postgres::table::TableColumn;

fn healthy() -> ServerFacts {
    ServerFacts {
        version: 180_004,
        version_text: "18.4".into(),
        database: "shop".into(),
        in_recovery: false,
        wal_level: "logical".into(),
        max_replication_slots: 10,
        used_replication_slots: 1,
        max_wal_senders: 10,
        used_wal_senders: 1,
        max_slot_wal_keep_size_mb: 50_000,
        role: "relay".into(),
        superuser: false,
        replication: true,
        managed_replication: false,
        may_create: true,
        oldest_transaction: None,
    }
}

fn column(name: &str) -> TableColumn {
    TableColumn {
        name: name.into(),
        type_oid: 25,
        type_modifier: -1,
        type_sql: "text".into(),
        nullable: true,
        is_key: name == "id",
        generated: false,
    }
}

fn outbox() -> OutboxTable {
    OutboxTable {
        oid: 1,
        schema: "public".into(),
        name: "outbox".into(),
        replica_identity: ReplicaIdentity::Default,
        columns: ["id", "aggregate_id", "payload"].map(column).into(),
        partitions: None,
        row_security: false,
        estimated_rows: Some(12),
    }
}

fn wanted(name: &str, option: &'static str, purpose: ColumnPurpose) -> WantedColumn {
    WantedColumn {
        name: name.into(),
        option,
        purpose,
        required: true,
    }
}

const OPEN: TableFacts = TableFacts {
    readable: true,
    owned: true,
    row_security: false,
};

fn outcomes(checks: &[Check]) -> Vec<(&'static str, CheckOutcome)> {
    checks
        .iter()
        .map(|check| (check.name, check.outcome))
        .collect()
}

#[test]
fn a_good_server_has_nothing_to_say() {
    use CheckOutcome::Ok;
    let facts = healthy();
    assert_eq!(
        outcomes(&checks::server(&facts)),
        [("server version", Ok), ("primary", Ok), ("wal_level", Ok)]
    );
    assert_eq!(
        outcomes(&checks::capacity(&facts, StartPlan::SnapshotNewSlot)),
        [("replication slots", Ok), ("WAL senders", Ok)]
    );
    assert_eq!(checks::role(&facts).outcome, Ok);
    assert_eq!(checks::kept_log(&facts).outcome, Ok);
    assert_eq!(
        checks::open_transaction(&facts, StartPlan::CreateSlot),
        None
    );
}

#[test]
fn each_fault_of_the_server_is_named_with_its_remedy() {
    let facts = ServerFacts {
        version: 130_010,
        version_text: "13.10".into(),
        in_recovery: true,
        wal_level: "replica".into(),
        ..healthy()
    };
    let found: Vec<String> = checks::server(&facts)
        .into_iter()
        .map(|check| check.found)
        .collect();
    assert_eq!(
        found,
        [
            "13.10, expected 14 or later",
            "this server is a standby",
            "replica, expected logical"
        ]
    );
    let full = ServerFacts {
        used_replication_slots: 9,
        ..healthy()
    };
    let [slots, _] = checks::capacity(&full, StartPlan::SnapshotNewSlot);
    assert_eq!(
        slots,
        Check::error(
            "replication slots",
            "9 of 10 in use, 2 more needed",
            "Drop what is not used, or ALTER SYSTEM SET max_replication_slots = 11; then restart the server."
        )
    );
    let [slots, _] = checks::capacity(&full, StartPlan::Stream);
    assert_eq!(slots.outcome, CheckOutcome::Ok);
    let plain = ServerFacts {
        replication: false,
        ..healthy()
    };
    assert_eq!(
        checks::role(&plain).remedy.unwrap(),
        "ALTER ROLE \"relay\" REPLICATION; (on Amazon RDS: GRANT rds_replication TO \"relay\";)"
    );
    let managed = ServerFacts {
        managed_replication: true,
        ..plain
    };
    assert_eq!(checks::role(&managed).outcome, CheckOutcome::Ok);
    let unlimited = ServerFacts {
        max_slot_wal_keep_size_mb: -1,
        ..healthy()
    };
    assert_eq!(checks::kept_log(&unlimited).outcome, CheckOutcome::Warning);
}

#[test]
fn a_long_transaction_is_named_when_a_slot_has_to_wait_for_it() {
    let facts = ServerFacts {
        oldest_transaction: Some(OpenTransaction {
            pid: 7,
            age: Duration::from_secs(90),
            application: "batch".into(),
        }),
        ..healthy()
    };
    assert_eq!(checks::open_transaction(&facts, StartPlan::Stream), None);
    let check = checks::open_transaction(&facts, StartPlan::SnapshotNewSlot).unwrap();
    assert_eq!(
        check.found,
        "process 7, application \"batch\", has been writing for 90 s: a new slot waits for its end"
    );
}

#[test]
fn a_missing_column_is_an_error_with_the_nearest_name() {
    let columns = [
        wanted("aggregateid", "table.field.event.key", ColumnPurpose::Key),
        WantedColumn {
            required: false,
            ..wanted(
                "seq",
                "table.fields.additional.placement",
                ColumnPurpose::Other,
            )
        },
    ];
    let checks = objects::table(&outbox(), &OPEN, &columns, StartPlan::Stream);
    assert_eq!(
        checks,
        [
            Check::ok("table", "\"public.outbox\": an ordinary table"),
            Check::error(
                "columns",
                "column \"aggregateid\" of \"public.outbox\" does not exist",
                "Set table.field.event.key to \"aggregate_id\", if that is the column."
            ),
            Check::warning(
                "columns",
                "column \"seq\" of \"public.outbox\" does not exist",
                "Set table.fields.additional.placement to one of: id, aggregate_id, payload."
            ),
        ]
    );
}

#[test]
fn the_right_to_read_counts_only_when_rows_are_read() {
    let closed = TableFacts {
        readable: false,
        row_security: true,
        ..OPEN
    };
    let checked = |plan| outcomes(&objects::table(&outbox(), &closed, &[], plan));
    assert_eq!(checked(StartPlan::Stream), [("table", CheckOutcome::Ok)]);
    assert_eq!(
        checked(StartPlan::SnapshotNewSlot),
        [
            ("table", CheckOutcome::Ok),
            ("SELECT", CheckOutcome::Error),
            ("row security", CheckOutcome::Error)
        ]
    );
}

#[test]
fn a_table_without_identity_is_a_warning() {
    let mut table = outbox();
    table
        .columns
        .iter_mut()
        .for_each(|column| column.is_key = false);
    assert_eq!(
        outcomes(&objects::table(&table, &OPEN, &[], StartPlan::Stream)),
        [
            ("table", CheckOutcome::Ok),
            ("replica identity", CheckOutcome::Warning)
        ]
    );
}

#[test]
fn a_publication_that_cannot_be_made_comes_with_its_sql() {
    let mut options = PublicationOptions::new("pub".parse().unwrap());
    let check = |options: &PublicationOptions, owns| {
        objects::missing_publication(options, &[outbox()], &healthy(), owns)
    };
    assert_eq!(check(&options, true).outcome, CheckOutcome::Ok);
    let refused = check(&options, false);
    assert_eq!(
        refused.found,
        "\"pub\" does not exist and role \"relay\" may not create it"
    );
    assert!(
        refused
            .remedy
            .unwrap()
            .contains("CREATE PUBLICATION \"pub\" FOR TABLE")
    );
    options.mode = PublicationMode::AllTables;
    assert_eq!(check(&options, true).outcome, CheckOutcome::Error);
    options.mode = PublicationMode::MustExist;
    assert_eq!(check(&options, true).outcome, CheckOutcome::Error);
}

#[test]
fn the_slot_check_says_where_it_stands_and_what_it_holds() {
    let options = SlotOptions::new("outbox".parse().unwrap());
    let slot = SlotDescription {
        name: "outbox".into(),
        plugin: Some("pgoutput".into()),
        database: Some("shop".into()),
        temporary: false,
        holder: None,
        restart_lsn: Some(Lsn::new(0)),
        confirmed_flush_lsn: Some(Lsn::new(255)),
        wal_status: Some(WalStatus::Reserved),
        safe_wal_bytes: Some(1 << 30),
        two_phase: false,
        invalidation_reason: None,
        failover: None,
        synced: None,
        server_lsn: Lsn::new(40 << 30),
    };
    let check = checks::slot(
        &options,
        Some(&slot),
        &SlotVerdict::Usable,
        StartPlan::Stream,
    );
    assert_eq!(
        check,
        Check::ok(
            "slot",
            "\"outbox\" stands at 0/FF and holds 40.0 GiB of log; 1.0 GiB more and it is lost"
        )
    );
    let missing = |create| StartPlan::decide(Default::default(), create, &SlotVerdict::Missing);
    let check = |plan| checks::slot(&options, None, &SlotVerdict::Missing, plan).outcome;
    assert_eq!(check(missing(CreateMode::Missing)), CheckOutcome::Ok);
    assert_eq!(check(missing(CreateMode::Never)), CheckOutcome::Error);
}

#[test]
fn the_start_is_foretold() {
    let found = |plan| checks::start(plan, None, &[outbox()]).found;
    assert_eq!(
        found(StartPlan::SnapshotNewSlot),
        "publishes about 12 retained rows, then streams"
    );
    assert_eq!(
        found(StartPlan::SnapshotOnly),
        "publishes about 12 retained rows and stops"
    );
    assert_eq!(found(StartPlan::Stream), "streams from 0/0");
}

#[test]
fn setup_makes_the_publication_before_the_slot() {
    let slot = SlotOptions::new("outbox".parse().unwrap());
    let publication = PublicationOptions::new("outbox".parse().unwrap());
    let tables = TableFilter::exact("app.outbox").unwrap();
    let columns = [
        wanted("id", "table.field.event.id", ColumnPurpose::Id),
        wanted("aggregateid", "table.field.event.key", ColumnPurpose::Key),
        wanted(
            "payload",
            "table.field.event.payload",
            ColumnPurpose::Payload,
        ),
    ];
    let preflight = Preflight {
        slot: &slot,
        publication: &publication,
        tables: &tables,
        snapshot: &SnapshotOptions::default(),
        columns: &columns,
    };
    let sql: Vec<String> = setup_steps(&preflight, "relay", "shop", &[])
        .into_iter()
        .map(|step| step.sql)
        .collect();
    assert_eq!(
        sql,
        [
            "CREATE ROLE \"relay\" LOGIN REPLICATION",
            "GRANT CONNECT ON DATABASE \"shop\" TO \"relay\"",
            "CREATE TABLE \"app\".\"outbox\" (\"id\" uuid PRIMARY KEY, \"aggregateid\" text NOT NULL, \"payload\" jsonb)",
            "GRANT USAGE ON SCHEMA \"app\" TO \"relay\"",
            "GRANT SELECT ON TABLE \"app\".\"outbox\" TO \"relay\"",
            "CREATE PUBLICATION \"outbox\" FOR TABLE \"app\".\"outbox\" WITH (publish = 'insert, update', publish_via_partition_root = true)",
            "SELECT lsn::text FROM pg_create_logical_replication_slot('outbox', 'pgoutput')",
        ]
    );
}
