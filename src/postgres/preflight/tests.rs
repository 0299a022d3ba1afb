use std::time::Duration;

use super::*;
use crate::lsn::Lsn;
use crate::pgoutput::ReplicaIdentity;
use crate::postgres::publication::PublicationMode;
use crate::postgres::slot::{CreateMode, SlotHolder, WalStatus};
use crate::postgres::table::TableColumn;

fn healthy() -> ServerFacts {
    ServerFacts {
        version: 180_004,
        version_text: "18.4".into(),
        database: "shop".into(),
        in_recovery: false,
        wal_level: "logical".into(),
        service: Service::Own,
        logical_parameter: None,
        max_replication_slots: 10,
        used_replication_slots: 1,
        max_wal_senders: 10,
        used_wal_senders: 1,
        synchronized_standby_slots: Some("standby".into()),
        sync_replication_slots: Some(true),
        role: "relay".into(),
        superuser: false,
        replication: true,
        managed_replication: false,
        may_create: true,
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

fn wanted(name: &str, option: &str, purpose: ColumnPurpose) -> WantedColumn {
    WantedColumn {
        name: name.into(),
        option: option.to_owned(),
        purpose,
        required: true,
    }
}

const OPEN: objects::Rights<'_> = objects::Rights {
    facts: TableFacts {
        readable: true,
        deletable: true,
        owned: true,
        row_security: false,
    },
    role: "relay",
};

fn seen<'a>(slot: Option<&'a SlotDescription>, verdict: &'a SlotVerdict) -> SeenSlot<'a> {
    SeenSlot {
        slot,
        verdict,
        leader: None,
    }
}

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
            "Drop what is not used, or raise max_replication_slots and restart the server."
        )
        .sql("ALTER SYSTEM SET max_replication_slots = 11;")
    );
    let [slots, _] = checks::capacity(&full, StartPlan::Stream);
    assert_eq!(slots.outcome, CheckOutcome::Ok);
    let plain = ServerFacts {
        replication: false,
        ..healthy()
    };
    assert_eq!(
        checks::role(&plain).sql.unwrap(),
        "ALTER ROLE \"relay\" REPLICATION;"
    );
    let managed = ServerFacts {
        managed_replication: true,
        ..plain
    };
    assert_eq!(checks::role(&managed).outcome, CheckOutcome::Ok);
}

#[test]
fn on_a_managed_service_the_remedy_is_the_services_own() {
    let told = |service: Service, parameter: Option<&str>| {
        let facts = ServerFacts {
            service,
            logical_parameter: parameter.map(str::to_owned),
            wal_level: "replica".into(),
            replication: false,
            ..healthy()
        };
        let [_, about, _, level] = <[Check; 4]>::try_from(checks::server(&facts)).unwrap();
        let role = checks::role(&facts).sql.unwrap();
        (about.found, level.found, level.command.unwrap(), role)
    };
    let (service, found, command, role) = told(Service::AmazonRds, Some("off"));
    assert_eq!(service, "Amazon RDS");
    assert_eq!(
        found,
        "replica, expected logical (rds.logical_replication is off)"
    );
    assert!(
        command.contains("ParameterName=rds.logical_replication,ParameterValue=1"),
        "{command}"
    );
    assert_eq!(role, "GRANT rds_replication TO \"relay\";");
    let (_, _, command, role) = told(Service::CloudSql, Some("off"));
    assert!(
        command.ends_with("cloudsql.logical_decoding=on"),
        "{command}"
    );
    assert_eq!(role, "ALTER ROLE \"relay\" REPLICATION;");
    let (_, found, command, _) = told(Service::Azure, None);
    assert_eq!(found, "replica, expected logical");
    assert!(
        command.ends_with("--name wal_level --value logical"),
        "{command}"
    );
}

#[test]
fn a_long_transaction_is_named_with_what_ends_it() {
    let session = |application: Option<&str>, seconds| OpenTransaction::Session {
        pid: 7,
        application: application.map(str::to_owned),
        open_for: Duration::from_secs(seconds),
    };
    let told = |open: &OpenTransaction| {
        let check = open.check()?;
        Some((check.found, check.sql.unwrap()))
    };
    assert_eq!(told(&session(Some("batch"), 3)), None);
    let waits = "a new slot waits for its end";
    let end = "SELECT pg_terminate_backend(7);".to_owned();
    assert_eq!(
        told(&session(Some("batch"), 90)),
        Some((
            format!("process 7, application \"batch\", has been writing for 90 s: {waits}"),
            end.clone()
        ))
    );
    assert_eq!(
        told(&session(None, 2)),
        Some((
            format!(
                "process 7 has been writing for more than 2 s (who it is takes pg_read_all_stats to see): {waits}"
            ),
            end
        ))
    );
    let prepared = |seconds| OpenTransaction::Prepared {
        gid: "it's".into(),
        open_for: Duration::from_secs(seconds),
    };
    assert_eq!(prepared(5).check(), None);
    let check = prepared(50).check().unwrap();
    assert_eq!(
        (check.found, check.sql),
        (
            format!("the prepared transaction \"it\\'s\" has been there for 50 s: {waits}"),
            None
        )
    );
}

#[test]
fn a_slot_that_the_next_checkpoint_may_lose_is_a_warning() {
    let options = SlotOptions::new("outbox".parse().unwrap());
    let slot = SlotDescription {
        wal_status: Some(WalStatus::Unreserved),
        ..described()
    };
    let seen = seen(Some(&slot), &SlotVerdict::Usable);
    let check = checks::slot(&options, &seen, StartPlan::Stream);
    assert_eq!(check.outcome, CheckOutcome::Warning);
    assert!(
        check
            .found
            .ends_with("the server may remove what it needs at its next checkpoint")
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
                "Did you mean \"aggregate_id\"? Set table.field.event.key to it."
            ),
            Check::warning(
                "columns",
                "column \"seq\" of \"public.outbox\" does not exist",
                "Set table.fields.additional.placement to one of: id, aggregate_id, payload."
            ),
            Check::ok("replica identity", "\"public.outbox\" has id"),
        ]
    );
}

#[test]
fn the_right_to_read_counts_only_when_rows_are_read() {
    let closed = objects::Rights {
        facts: TableFacts {
            readable: false,
            deletable: false,
            owned: false,
            row_security: true,
        },
        ..OPEN
    };
    let sql = |plan| {
        let checks = objects::table(&outbox(), &closed, &[], plan);
        checks
            .into_iter()
            .filter_map(|check| check.sql)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        sql(StartPlan::SnapshotNewSlot),
        [
            "GRANT USAGE ON SCHEMA \"public\" TO \"relay\"; GRANT SELECT ON \"public\".\"outbox\" TO \"relay\";",
            "ALTER ROLE \"relay\" BYPASSRLS;"
        ]
    );
    let checked = |plan| outcomes(&objects::table(&outbox(), &closed, &[], plan));
    assert_eq!(
        checked(StartPlan::Stream),
        [
            ("table", CheckOutcome::Ok),
            ("replica identity", CheckOutcome::Ok)
        ]
    );
    assert_eq!(
        checked(StartPlan::SnapshotNewSlot),
        [
            ("table", CheckOutcome::Ok),
            ("replica identity", CheckOutcome::Ok),
            ("SELECT", CheckOutcome::Error),
            ("row security", CheckOutcome::Error)
        ]
    );
}

#[test]
fn the_right_to_delete_is_a_warning_for_housekeeping_alone() {
    let closed = objects::Rights {
        facts: TableFacts {
            deletable: false,
            ..OPEN.facts
        },
        ..OPEN
    };
    assert_eq!(
        objects::deletable(&outbox(), &OPEN).outcome,
        CheckOutcome::Ok
    );
    let hidden = objects::Rights {
        facts: TableFacts {
            row_security: true,
            ..OPEN.facts
        },
        ..OPEN
    };
    let check = objects::deletable(&outbox(), &hidden);
    assert_eq!(
        (check.outcome, check.sql.as_deref()),
        (
            CheckOutcome::Warning,
            Some("ALTER ROLE \"relay\" BYPASSRLS;")
        )
    );
    let check = objects::deletable(&outbox(), &closed);
    assert_eq!(check.outcome, CheckOutcome::Warning);
    assert_eq!(
        check.sql.as_deref(),
        Some(
            "GRANT USAGE ON SCHEMA \"public\" TO \"relay\"; GRANT SELECT, DELETE ON \"public\".\"outbox\" TO \"relay\";"
        )
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
    let filter = TableFilter::exact("public.outbox").unwrap();
    let check = |options: &PublicationOptions, owns| {
        objects::missing_publication(options, &filter, &[outbox()], &healthy(), owns, None)
    };
    assert_eq!(check(&options, true).outcome, CheckOutcome::Ok);
    let refused = check(&options, false);
    assert_eq!(
        refused.found,
        "\"pub\" does not exist and role \"relay\" may not create it"
    );
    assert_eq!(
        refused.sql.unwrap(),
        "CREATE PUBLICATION \"pub\" FOR TABLE \"public\".\"outbox\" WITH (publish = 'insert, update', publish_via_partition_root = true);"
    );
    let without_table =
        objects::missing_publication(&options, &filter, &[], &healthy(), false, None);
    assert_eq!(
        without_table,
        Check::error(
            "publication",
            "\"pub\" does not exist",
            "First the table: the publication is made for \"public.outbox\"."
        )
    );
    let slot = described();
    let beside_a_slot = objects::missing_publication(
        &options,
        &filter,
        &[outbox()],
        &healthy(),
        true,
        Some(&slot),
    );
    assert_eq!(beside_a_slot.outcome, CheckOutcome::Error);
    assert!(
        beside_a_slot
            .found
            .starts_with("publication \"pub\" does not exist. Replication slot \"outbox\" exists"),
        "{beside_a_slot:?}"
    );
    options.mode = PublicationMode::AllTables;
    assert_eq!(check(&options, true).outcome, CheckOutcome::Error);
    options.mode = PublicationMode::MustExist;
    assert_eq!(check(&options, true).outcome, CheckOutcome::Error);
}

#[test]
fn a_failover_slot_needs_standbys_that_are_never_behind_and_keep_a_copy() {
    let mut options = SlotOptions::new("outbox".parse().unwrap());
    let facts = healthy();
    assert_eq!(checks::failover(&options, None, &facts), None);
    options.failover = true;
    let told = |facts: &ServerFacts| {
        let check = checks::failover(&options, None, facts).unwrap();
        (check.outcome, check.found)
    };
    let good = "the slot will be created as a failover slot".to_owned();
    assert_eq!(told(&facts), (CheckOutcome::Ok, good));
    let ahead = ServerFacts {
        synchronized_standby_slots: Some(String::new()),
        ..facts.clone()
    };
    let (outcome, message) = told(&ahead);
    assert_eq!(outcome, CheckOutcome::Warning);
    assert!(message.starts_with("synchronized_standby_slots is empty"));
    assert_eq!(checks::failover(&options, None, &ahead).unwrap().sql, None);
    let copies_nothing = ServerFacts {
        sync_replication_slots: Some(false),
        ..facts
    };
    let (outcome, message) = told(&copies_nothing);
    assert_eq!(outcome, CheckOutcome::Warning);
    assert!(message.starts_with("sync_replication_slots is off"));
}

fn described() -> SlotDescription {
    SlotDescription {
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
    }
}

#[test]
fn the_slot_check_says_where_it_stands_and_what_it_holds() {
    let options = SlotOptions::new("outbox".parse().unwrap());
    let slot = described();
    let check = checks::slot(
        &options,
        &seen(Some(&slot), &SlotVerdict::Usable),
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
    let check = |plan| checks::slot(&options, &seen(None, &SlotVerdict::Missing), plan).outcome;
    assert_eq!(check(missing(CreateMode::Missing)), CheckOutcome::Ok);
    assert_eq!(check(missing(CreateMode::Never)), CheckOutcome::Error);
}

#[test]
fn beside_a_relay_that_runs_the_second_one_stands_by() {
    let options = SlotOptions::new("outbox".parse().unwrap());
    let leader = Leader {
        pid: 42,
        application: Some("outboxd".into()),
        client: None,
    };
    let seen = SeenSlot {
        leader: Some(&leader),
        ..seen(None, &SlotVerdict::Missing)
    };
    assert_eq!(
        checks::slot(&options, &seen, StartPlan::SnapshotNewSlot),
        Check::ok(
            "slot",
            "\"outbox\" is being made by a relay that runs: process 42, application \"outboxd\""
        )
    );
    assert_eq!(
        checks::start(StartPlan::Stream, &seen, &[outbox()]),
        Check::ok(
            "start",
            "stands by, and takes over when the relay that runs ends"
        )
    );
}

#[test]
fn another_reader_of_the_slot_is_a_warning_and_no_word_of_ending_it() {
    let options = SlotOptions::new("outbox".parse().unwrap());
    let holder = SlotHolder {
        pid: 42,
        application: Some("Debezium Streaming".into()),
        client: None,
    };
    let slot = SlotDescription {
        holder: Some(holder.clone()),
        ..described()
    };
    let verdict = SlotVerdict::Active(holder);
    let seen = seen(Some(&slot), &verdict);
    let slot = checks::slot(&options, &seen, StartPlan::Refuse);
    let start = checks::start(StartPlan::Refuse, &seen, &[outbox()]);
    assert_eq!(
        outcomes(&[slot.clone(), start.clone()]),
        [
            ("slot", CheckOutcome::Warning),
            ("start", CheckOutcome::Warning)
        ]
    );
    assert_eq!(
        slot.remedy.unwrap(),
        "Stop that reader first. Debezium's connector: stop it (PUT /connectors/NAME/stop), or delete it; one that is paused keeps the slot."
    );
    assert_eq!(
        start.found,
        "waits for the slot to be free, then streams from 0/FF"
    );
}

#[test]
fn the_start_is_foretold() {
    let found = |plan| checks::start(plan, &seen(None, &SlotVerdict::Missing), &[outbox()]).found;
    assert_eq!(
        found(StartPlan::SnapshotNewSlot),
        "publishes the retained rows (about 12), then streams"
    );
    assert_eq!(
        found(StartPlan::SnapshotOnly),
        "publishes the retained rows (about 12) and stops"
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
        deletes: true,
    };
    let sql: Vec<String> = setup_steps(&preflight, "relay", "shop", &SetupFacts::default())
        .into_iter()
        .map(|step| step.sql)
        .collect();
    assert_eq!(
        sql,
        [
            "ALTER SYSTEM SET wal_level = 'logical'",
            "CREATE ROLE \"relay\" LOGIN REPLICATION",
            "GRANT CONNECT ON DATABASE \"shop\" TO \"relay\"",
            "CREATE TABLE \"app\".\"outbox\" (\"id\" uuid PRIMARY KEY, \"aggregateid\" text NOT NULL, \"payload\" jsonb)",
            "GRANT USAGE ON SCHEMA \"app\" TO \"relay\"",
            "GRANT SELECT ON TABLE \"app\".\"outbox\" TO \"relay\"",
            "GRANT DELETE ON TABLE \"app\".\"outbox\" TO \"relay\"",
            "CREATE PUBLICATION \"outbox\" FOR TABLE \"app\".\"outbox\" WITH (publish = 'insert, update', publish_via_partition_root = true)",
            "SELECT lsn::text FROM pg_create_logical_replication_slot('outbox', 'pgoutput')",
        ]
    );
}
