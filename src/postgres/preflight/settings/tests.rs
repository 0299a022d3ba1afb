use super::*;
use crate::postgres::preflight::CheckOutcome;

const DAY: Duration = Duration::from_secs(86_400);
const WISHES: Wishes<'_> = Wishes {
    outage: DAY,
    wal_sender_timeout: Duration::from_secs(10),
    application_name: "outboxd",
};

fn settings() -> ServerSettings {
    ServerSettings {
        max_slot_wal_keep_size_mb: 50 << 10,
        max_wal_size_mb: 1024,
        held: None,
        // 100 kB/s: 8.6 GB a day.
        written: Some(WalWritten {
            bytes: 1e5 * 10.0 * 86_400.0,
            over: 10 * DAY,
        }),
        idle_slot_timeout: Some(Duration::ZERO),
        wal_sender_timeout: Duration::from_secs(60),
        logical_decoding_work_mem_kb: 64 << 10,
        synchronous_commit: "on".into(),
        synchronous_standby_names: String::new(),
        wal_writer_delay: Duration::from_millis(200),
    }
}

fn kept(limit_mb: i64, outage: Duration) -> (CheckOutcome, String, Option<String>) {
    let settings = ServerSettings {
        max_slot_wal_keep_size_mb: limit_mb,
        ..settings()
    };
    let check = kept_log(&settings, Service::Own, outage);
    (check.outcome, check.found, check.sql)
}

#[test]
fn the_limit_of_the_log_is_held_against_what_an_outage_writes() {
    use CheckOutcome::{Ok, Warning};
    let forecast = "; in 1day the server writes about 8.0 GiB, by its average of the last 10days";
    assert_eq!(
        kept(50 << 10, DAY),
        (
            Ok,
            format!("50.0 GiB: a slot that is further behind is lost{forecast}"),
            None
        )
    );
    let set = |size: &str| {
        let sql =
            format!("ALTER SYSTEM SET max_slot_wal_keep_size = '{size}'; SELECT pg_reload_conf();");
        Some(sql)
    };
    let (outcome, found, sql) = kept(4 << 10, DAY);
    assert_eq!((outcome, sql), (Warning, set("17GB")));
    assert!(
        found.starts_with("4.0 GiB: ") && found.ends_with(forecast),
        "{found}"
    );
    let (outcome, found, sql) = kept(-1, 7 * DAY);
    assert_eq!((outcome, sql), (Warning, set("113GB")));
    assert!(
        found.starts_with("not set: ") && found.contains("in 7days"),
        "{found}"
    );
}

#[test]
fn a_limit_that_would_lose_a_slot_is_not_handed_out() {
    let told = |held_gib: u64, service: Service| {
        let settings = ServerSettings {
            max_slot_wal_keep_size_mb: -1,
            held: Some(HeldLog {
                slot: "replica".into(),
                bytes: held_gib << 30,
            }),
            ..settings()
        };
        let check = kept_log(&settings, service, DAY);
        (check.remedy.unwrap(), check.sql.or(check.command))
    };
    // Of the 17 GiB that a day asks for, half can be held.
    let (_, sql) = told(8, Service::Own);
    assert_eq!(
        sql.as_deref(),
        Some("ALTER SYSTEM SET max_slot_wal_keep_size = '17GB'; SELECT pg_reload_conf();")
    );
    let (remedy, sql) = told(40, Service::Own);
    assert_eq!(sql, None);
    assert!(
        remedy.starts_with("Slot \"replica\" holds 40.0 GiB of log now")
            && remedy.ends_with("a limit that spares it is 80 GiB at least."),
        "{remedy}"
    );
    assert_eq!(told(40, Service::AmazonRds).1, None);
    let (_, command) = told(1, Service::AmazonRds);
    assert!(
        command.unwrap().contains("ParameterValue=17408,"),
        "17 GiB in megabytes"
    );
    let (_, command) = told(1, Service::CloudSql);
    assert!(command.unwrap().ends_with(",max_slot_wal_keep_size=17408"));
    let (remedy, command) = told(1, Service::Azure);
    assert_eq!((remedy.as_str(), command), (AZURE, None));
}

#[test]
fn a_server_that_was_not_watched_for_long_is_not_forecast() {
    let mut settings = settings();
    settings.written = Some(WalWritten {
        bytes: 1e12,
        over: Duration::from_secs(5),
    });
    let check = kept_log(&settings, Service::Own, DAY);
    assert_eq!(
        check,
        Check::ok(
            "max_slot_wal_keep_size",
            "50.0 GiB: a slot that is further behind is lost"
        )
    );
    settings.max_slot_wal_keep_size_mb = 100;
    let check = kept_log(&settings, Service::Own, DAY);
    assert_eq!(check.outcome, CheckOutcome::Warning);
}

#[test]
fn what_commits_wait_for_is_told_with_its_price() {
    let told = |commits: &str, names: &str| {
        let settings = ServerSettings {
            synchronous_commit: commits.into(),
            synchronous_standby_names: names.into(),
            ..settings()
        };
        let check = super::commits(&settings, Service::Own, &WISHES);
        let is_own = |sql: &str| sql.starts_with("ALTER SYSTEM SET synchronous_commit");
        assert!(check.sql.as_deref().is_none_or(is_own), "{check:?}");
        (check.outcome, check.found)
    };
    use CheckOutcome::{Ok, Warning};
    for (commits, names, outcome, begins) in [
        (
            "on",
            "",
            Ok,
            "on: a commit waits for the disk; off would save that and add up to 600ms",
        ),
        ("off", "", Warning, "off: an event comes up to 600ms later"),
        (
            "on",
            "*",
            Warning,
            "on, and synchronous_standby_names (*) takes the relay",
        ),
        (
            "on",
            "ANY 1 (replica, \"Outboxd\")",
            Warning,
            "on, and synchronous_standby_names",
        ),
        ("local", "*", Ok, "local: "),
        (
            "remote_apply",
            "FIRST 1 (replica)",
            Ok,
            "remote_apply: a commit waits for standbys",
        ),
    ] {
        let (found_outcome, found) = told(commits, names);
        assert_eq!(found_outcome, outcome, "{commits} {names}");
        assert!(found.starts_with(begins), "{found}");
    }
}

#[test]
fn what_bites_later_is_a_warning() {
    let statistics = SlotStatistics {
        decoded_transactions: 90,
        spilled_transactions: 3,
        spilled_bytes: 1 << 30,
        ..SlotStatistics::default()
    };
    let check = decoding_memory(&settings(), "relay", &statistics);
    assert_eq!(
        (check.found.as_str(), check.sql.as_deref()),
        (
            "64.0 MiB: 3 of 90 transactions of this slot were larger and went over the server's disk, 1.0 GiB in all",
            Some("ALTER ROLE \"relay\" SET logical_decoding_work_mem = '256MB';"),
        )
    );
    let timeout = |seconds| {
        let idle_slot_timeout = Some(Duration::from_secs(seconds));
        let settings = ServerSettings {
            idle_slot_timeout,
            ..settings()
        };
        idle_slot(&settings, Service::Own, DAY).map(|check| check.outcome)
    };
    assert_eq!(timeout(0), None);
    assert_eq!(timeout(3600), Some(CheckOutcome::Warning));
    assert_eq!(timeout(200_000), Some(CheckOutcome::Ok));
    let wal_sender_timeout = Duration::from_secs(300);
    let slow = Wishes {
        wal_sender_timeout,
        ..WISHES
    };
    assert_eq!(
        sender_timeout(&settings(), &slow).outcome,
        CheckOutcome::Warning
    );
    assert_eq!(
        sender_timeout(&settings(), &WISHES).found,
        "1m on the server, 10s on the relay's own sessions"
    );
}

#[test]
fn a_service_has_its_own_way_to_set_a_parameter() {
    let set = |service: Service| {
        let check = Check::warning("x", "y", "z");
        let (name, value) = service.logical_parameter();
        let check = service.set(check, name, value, Takes::Restart);
        check.sql.or(check.command).unwrap_or_default()
    };
    for (service, expected) in [
        (Service::Own, "ALTER SYSTEM SET wal_level = 'logical';"),
        (
            Service::AmazonRds,
            "aws rds modify-db-parameter-group --db-parameter-group-name GROUP --parameters \"ParameterName=rds.logical_replication,ParameterValue=1,ApplyMethod=pending-reboot\"",
        ),
        (
            Service::CloudSql,
            "gcloud sql instances patch INSTANCE --database-flags=OTHER_FLAGS,cloudsql.logical_decoding=on",
        ),
        (
            Service::Azure,
            "az postgres flexible-server parameter set --resource-group GROUP --server-name SERVER --name wal_level --value logical",
        ),
    ] {
        assert_eq!(set(service), expected, "{service}");
    }
}
