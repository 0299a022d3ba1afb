//! From facts of the server and the slot to checks.

use super::service::{Service, Takes};
use super::{Check, SeenSlot, ServerFacts};
use crate::postgres::slot::{
    FAILOVER_SINCE, Leader, SlotDescription, SlotHolder, SlotOptions, SlotVerdict, WalStatus,
};
use crate::postgres::snapshot::StartPlan;
use crate::postgres::table::OutboxTable;

/// Older servers have no logical slots that can be watched and copied as it is done here.
const OLDEST_VERSION: u32 = 140_000;

pub(super) fn server(facts: &ServerFacts) -> Vec<Check> {
    let version = match facts.version {
        OLDEST_VERSION.. => Check::ok("server version", &facts.version_text),
        _ => Check::error(
            "server version",
            format!("{}, expected 14 or later", facts.version_text),
            "Upgrade the server.",
        ),
    };
    let primary = if facts.in_recovery {
        Check::error(
            "primary",
            "this server is a standby",
            "Name the primary, or several hosts with target_session_attrs=read-write.",
        )
    } else {
        Check::ok("primary", "this server takes writes")
    };
    let service =
        (facts.service != Service::Own).then(|| Check::ok("service", facts.service.to_string()));
    let checks = [
        Some(version),
        service,
        Some(primary),
        Some(wal_level(facts)),
    ];
    checks.into_iter().flatten().collect()
}

fn wal_level(facts: &ServerFacts) -> Check {
    let name = "wal_level";
    if facts.wal_level == "logical" {
        return Check::ok(name, "logical");
    }
    let (parameter, value) = facts.service.logical_parameter();
    let set = match &facts.logical_parameter {
        Some(set) => format!(" ({parameter} is {set})"),
        None => String::new(),
    };
    let found = format!("{}, expected logical{set}", facts.wal_level);
    let remedy = match parameter {
        "wal_level" => "Set it and restart the server.".to_owned(),
        _ => format!(
            "{} has {parameter} for it: set that and restart the server.",
            facts.service
        ),
    };
    facts.service.set(
        Check::error(name, found, remedy),
        parameter,
        value,
        Takes::Restart,
    )
}

/// A new slot needs a place, and its snapshot another one for the temporary slot.
pub(super) fn capacity(facts: &ServerFacts, plan: StartPlan) -> [Check; 2] {
    let wanted = match plan {
        StartPlan::SnapshotNewSlot => 2,
        StartPlan::CreateSlot | StartPlan::ReplaceLostSlot => 1,
        StartPlan::Stream | StartPlan::SnapshotBeside => 0,
        StartPlan::SnapshotOnly | StartPlan::Refuse => 0,
    };
    let counted = |name, parameter: &str, used: i64, most: i64, wanted: i64| {
        let found = format!("{used} of {most} in use");
        if most - used >= wanted {
            return Check::ok(name, found);
        }
        let check = Check::error(
            name,
            format!("{found}, {wanted} more needed"),
            format!("Drop what is not used, or raise {parameter} and restart the server."),
        );
        let value = (used + wanted).to_string();
        facts.service.set(check, parameter, &value, Takes::Restart)
    };
    [
        counted(
            "replication slots",
            "max_replication_slots",
            facts.used_replication_slots,
            facts.max_replication_slots,
            wanted,
        ),
        counted(
            "WAL senders",
            "max_wal_senders",
            facts.used_wal_senders,
            facts.max_wal_senders,
            1,
        ),
    ]
}

pub(super) fn role(facts: &ServerFacts) -> Check {
    let role = &facts.role;
    if facts.superuser {
        return Check::warning(
            "role",
            format!("\"{role}\" is a superuser"),
            "Use a role of its own with REPLICATION and SELECT on the outbox: outboxd setup prints the SQL.",
        );
    }
    if facts.replication || facts.managed_replication {
        return Check::ok("role", format!("\"{role}\" may replicate"));
    }
    let remedy = match facts.service {
        Service::Own => "Give it the right as a superuser.",
        Service::AmazonRds | Service::AmazonAurora => "Grant it as a member of rds_superuser.",
        Service::CloudSql => "Give it the right as a member of cloudsqlsuperuser, as postgres is.",
        Service::AlloyDb => "Give it the right as a member of alloydbsuperuser.",
        Service::Azure => "Give it the right as the server's administrator (azure_pg_admin).",
    };
    Check::error("role", format!("\"{role}\" may not replicate"), remedy)
        .sql(facts.service.allow_replication(role))
}

pub(super) fn slot(options: &SlotOptions, seen: &SeenSlot<'_>, plan: StartPlan) -> Check {
    let (name, verdict) = (&options.name, seen.verdict);
    match (seen.slot, seen.leader, verdict) {
        (None, Some(leader), _) => Check::ok(
            "slot",
            format!(
                "\"{name}\" is being made by a relay that runs: {}",
                of(leader)
            ),
        ),
        (Some(_), Some(leader), SlotVerdict::BeingMade { .. }) => Check::ok(
            "slot",
            format!(
                "\"{name}\" is being made by a relay that runs: {}",
                of(leader)
            ),
        ),
        (Some(slot), Some(leader), SlotVerdict::Usable) => Check::ok(
            "slot",
            format!(
                "\"{name}\" is read by a relay that runs, {}; it {}",
                of(leader),
                position(slot)
            ),
        ),
        (Some(slot), None, SlotVerdict::Usable)
            if slot.wal_status == Some(WalStatus::Unreserved) =>
        {
            Check::warning(
                "slot",
                format!(
                    "\"{name}\" {}: the server may remove what it needs at its next checkpoint",
                    position(slot)
                ),
                "Start the relay now, or raise max_slot_wal_keep_size first.",
            )
        }
        (Some(slot), None, SlotVerdict::Usable) => {
            Check::ok("slot", format!("\"{name}\" {}", position(slot)))
        }
        (Some(slot), _, SlotVerdict::Active(_)) => Check::warning(
            "slot",
            format!(
                "\"{name}\" {verdict}, which is no relay; it {}",
                position(slot)
            ),
            "Stop that reader first. Debezium's connector: stop it (PUT /connectors/NAME/stop), or delete it; one that is paused keeps the slot.",
        ),
        (_, _, SlotVerdict::Missing) if plan != StartPlan::Refuse => {
            Check::ok("slot", format!("\"{name}\" does not exist yet"))
        }
        (_, _, SlotVerdict::Lost { .. }) if plan == StartPlan::ReplaceLostSlot => Check::warning(
            "slot",
            format!(
                "\"{name}\" {verdict}. {}",
                verdict.detail().unwrap_or_default()
            ),
            "The mode when_needed replaces it and publishes the rows that are retained.",
        ),
        _ => {
            let detail = verdict.detail().map(|detail| format!(". {detail}"));
            Check::error(
                "slot",
                format!("\"{name}\" {verdict}{}", detail.unwrap_or_default()),
                verdict.hint(name.as_str()).unwrap_or_default(),
            )
        }
    }
}

fn of(leader: &Leader) -> String {
    let holder = SlotHolder {
        pid: leader.pid,
        application: leader.application.clone(),
        client: leader.client.clone(),
    };
    holder.to_string()
}

fn position(slot: &SlotDescription) -> String {
    let confirmed = slot.confirmed_flush_lsn.unwrap_or_default();
    let mut text = format!(
        "stands at {confirmed} and holds {} of log",
        bytesize::ByteSize(slot.retained_bytes())
    );
    if let Some(safe) = slot.safe_wal_bytes {
        let left = u64::try_from(safe).unwrap_or(0);
        text.push_str(&format!(
            "; {} more and it is lost",
            bytesize::ByteSize(left)
        ));
    }
    text
}

pub(super) fn failover(
    options: &SlotOptions,
    slot: Option<&SlotDescription>,
    facts: &ServerFacts,
) -> Option<Check> {
    if !options.failover {
        return None;
    }
    let name = "failover";
    if facts.version < FAILOVER_SINCE {
        return Some(Check::error(
            name,
            format!("PostgreSQL {} has no failover slots", facts.version_text),
            "Turn slot.failover off, or use PostgreSQL 17 or later.",
        ));
    }
    if slot.and_then(|slot| slot.failover) == Some(false) {
        return Some(Check::warning(
            name,
            "the slot is not a failover slot",
            "The relay sets it at its start, before it streams.",
        ));
    }
    let good = match slot {
        Some(_) => "standbys may keep a copy of the slot",
        None => "the slot will be created as a failover slot",
    };
    Some(standbys(facts).unwrap_or_else(|| Check::ok(name, good)))
}

/// What else it takes for a promoted standby to go on with the slot (the manual, "Logical Replication
/// Failover").
fn standbys(facts: &ServerFacts) -> Option<Check> {
    if facts.synchronized_standby_slots.as_deref() == Some("") {
        // No statement: a name that no slot has stops every failover slot.
        return Some(Check::warning(
            "failover",
            "synchronized_standby_slots is empty: the relay can publish what a promoted standby does not have",
            "Name in it the physical slots of the standbys that may be promoted, as pg_replication_slots has them: while one of them is missing or not in use, every failover slot waits.",
        ));
    }
    (facts.sync_replication_slots == Some(false)).then(|| {
        Check::warning(
            "failover",
            "sync_replication_slots is off: as a standby this server keeps no copy of the slot",
            "Set it on every server, with hot_standby_feedback, primary_slot_name and a dbname in primary_conninfo.",
        )
        .sql("ALTER SYSTEM SET sync_replication_slots = on; SELECT pg_reload_conf();")
    })
}

/// Whether transactions that are open have to end first.
pub(super) const fn makes_slot(plan: StartPlan) -> bool {
    match plan {
        StartPlan::CreateSlot | StartPlan::SnapshotNewSlot | StartPlan::ReplaceLostSlot => true,
        StartPlan::Stream
        | StartPlan::SnapshotBeside
        | StartPlan::SnapshotOnly
        | StartPlan::Refuse => false,
    }
}

/// What the relay will do first.
pub(super) fn start(plan: StartPlan, seen: &SeenSlot<'_>, tables: &[OutboxTable]) -> Check {
    let rows = || {
        let known: Option<u64> = tables.iter().map(|table| table.estimated_rows).sum();
        match known {
            Some(0) => "the retained rows (none when the server last counted)".to_owned(),
            Some(rows) => format!("the retained rows (about {rows})"),
            None => "the retained rows (never counted by the server)".to_owned(),
        }
    };
    let name = "start";
    if seen.leader.is_some() && plan != StartPlan::SnapshotOnly {
        let found = "stands by, and takes over when the relay that runs ends";
        return Check::ok(name, found);
    }
    let from = seen
        .slot
        .and_then(|slot| slot.confirmed_flush_lsn)
        .unwrap_or_default();
    match plan {
        StartPlan::Stream => Check::ok(name, format!("streams from {from}")),
        StartPlan::CreateSlot => Check::ok(
            name,
            "creates the slot and streams what commits from then on",
        ),
        StartPlan::SnapshotNewSlot | StartPlan::ReplaceLostSlot => {
            Check::ok(name, format!("publishes {}, then streams", rows()))
        }
        StartPlan::SnapshotBeside => Check::ok(
            name,
            format!("publishes {}, then streams from {from}", rows()),
        ),
        StartPlan::SnapshotOnly => Check::ok(name, format!("publishes {} and stops", rows())),
        StartPlan::Refuse if matches!(seen.verdict, SlotVerdict::Active(_)) => Check::warning(
            name,
            format!("waits for the slot to be free, then streams from {from}"),
            "See the slot above.",
        ),
        StartPlan::Refuse => Check::error(
            name,
            "does not start: the slot cannot be used",
            "See the slot above.",
        ),
    }
}
