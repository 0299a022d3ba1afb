//! What the server is told about its log, its walsenders and its commits, and what it costs.

use std::time::Duration;

use bytesize::ByteSize;
use humantime::format_duration;
use tokio_postgres::Client;

use super::service::{Service, Takes};
use super::{Check, ServerFacts, Wishes};
use crate::postgres::PostgresError;
use crate::postgres::slot::SlotStatistics;
use crate::wire::quote_identifier;

#[derive(Clone, Debug, PartialEq)]
pub struct ServerSettings {
    /// Megabytes; -1 without a limit.
    pub max_slot_wal_keep_size_mb: i64,
    pub max_wal_size_mb: i64,
    /// Of the slot that is furthest behind, whoever's it is; none without one.
    pub held: Option<HeldLog>,
    pub written: Option<WalWritten>,
    /// PostgreSQL 18 and later; zero: a slot may be idle for ever.
    pub idle_slot_timeout: Option<Duration>,
    /// The server's own; zero: none.
    pub wal_sender_timeout: Duration,
    pub logical_decoding_work_mem_kb: i64,
    pub synchronous_commit: String,
    pub synchronous_standby_names: String,
    pub wal_writer_delay: Duration,
}

/// The log that a slot keeps the server from removing, now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLog {
    pub slot: String,
    pub bytes: u64,
}

/// What the server has counted since it last began to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WalWritten {
    pub bytes: f64,
    pub over: Duration,
}

const SETTINGS: &str = "
    SELECT max(setting::bigint) FILTER (WHERE name = 'max_slot_wal_keep_size') AS keep_mb,
           max(setting::bigint) FILTER (WHERE name = 'max_wal_size') AS wal_mb,
           max(setting::bigint) FILTER (WHERE name = 'wal_sender_timeout') AS sender_ms,
           max(setting::bigint) FILTER (WHERE name = 'logical_decoding_work_mem') AS memory_kb,
           max(setting::bigint) FILTER (WHERE name = 'wal_writer_delay') AS writer_ms,
           extract(epoch FROM current_setting('idle_replication_slot_timeout', true)::interval)::float8
               AS idle_s,
           current_setting('synchronous_commit') AS commits,
           current_setting('synchronous_standby_names') AS standbys
      FROM pg_settings
     WHERE name IN ('max_slot_wal_keep_size', 'max_wal_size', 'wal_sender_timeout',
                    'logical_decoding_work_mem', 'wal_writer_delay')";

/// A slot that is lost already has nothing to lose.
const HELD: &str = "
    SELECT slot_name::text AS slot,
           pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                                ELSE pg_current_wal_lsn() END, restart_lsn)::bigint AS bytes
      FROM pg_replication_slots
     WHERE restart_lsn IS NOT NULL AND wal_status IS DISTINCT FROM 'lost'
     ORDER BY restart_lsn LIMIT 1";

const WRITTEN: &str = "
    SELECT wal_bytes::float8 AS bytes,
           extract(epoch FROM clock_timestamp() - stats_reset)::float8 AS over_s
      FROM pg_stat_wal WHERE stats_reset IS NOT NULL";

impl ServerSettings {
    pub async fn read(client: &Client) -> Result<Self, PostgresError> {
        let row = client.query_one(SETTINGS, &[]).await?;
        let number = |name: &str| -> Result<i64, PostgresError> {
            Ok(row.try_get::<_, Option<i64>>(name)?.unwrap_or(-1))
        };
        let ms = |number: i64| Duration::from_millis(u64::try_from(number).unwrap_or(0));
        let seconds = |number: f64| Duration::try_from_secs_f64(number).unwrap_or_default();
        let held = match client.query_opt(HELD, &[]).await? {
            Some(row) => Some(HeldLog {
                slot: row.try_get("slot")?,
                bytes: u64::try_from(row.try_get::<_, Option<i64>>("bytes")?.unwrap_or(0))
                    .unwrap_or(0),
            }),
            None => None,
        };
        let written = match client.query_opt(WRITTEN, &[]).await? {
            Some(row) => Some(WalWritten {
                bytes: row.try_get("bytes")?,
                over: seconds(row.try_get("over_s")?),
            }),
            None => None,
        };
        Ok(Self {
            max_slot_wal_keep_size_mb: number("keep_mb")?,
            max_wal_size_mb: number("wal_mb")?,
            held,
            written,
            idle_slot_timeout: row.try_get::<_, Option<f64>>("idle_s")?.map(seconds),
            wal_sender_timeout: ms(number("sender_ms")?),
            logical_decoding_work_mem_kb: number("memory_kb")?,
            synchronous_commit: row.try_get("commits")?,
            synchronous_standby_names: row.try_get("standbys")?,
            wal_writer_delay: ms(number("writer_ms")?),
        })
    }
}

/// An average over less says nothing of the next day.
const LEAST_WINDOW: Duration = Duration::from_secs(600);
/// Gone in minutes on any server that is busy.
const SMALL_MB: i64 = 1024;

impl WalWritten {
    /// Bytes per second, where it was watched for long enough.
    fn rate(self) -> Option<f64> {
        let rate = self.bytes / self.over.as_secs_f64();
        (self.over >= LEAST_WINDOW && rate > 0.0).then_some(rate)
    }
}

pub(super) fn checks(
    settings: &ServerSettings,
    facts: &ServerFacts,
    statistics: &SlotStatistics,
    wishes: &Wishes<'_>,
) -> Vec<Check> {
    let mut checks = vec![kept_log(settings, facts.service, wishes.outage)];
    checks.extend(idle_slot(settings, facts.service, wishes.outage));
    checks.push(sender_timeout(settings, wishes));
    checks.push(decoding_memory(settings, &facts.role, statistics));
    checks.push(commits(settings, facts.service, wishes));
    checks
}

/// Without a limit a stopped relay fills the disk; with one it loses the slot. Both are chosen here.
pub(super) fn kept_log(settings: &ServerSettings, service: Service, outage: Duration) -> Check {
    let name = "max_slot_wal_keep_size";
    let rate = settings.written.and_then(WalWritten::rate);
    let wanted = rate.map(|rate| rate * outage.as_secs_f64());
    let forecast = match (wanted, settings.written) {
        (Some(wanted), Some(written)) => format!(
            "; in {} the server writes about {}, by its average of the last {}",
            rounded(outage),
            ByteSize(wanted as u64),
            rounded(written.over)
        ),
        _ => String::new(),
    };
    let limit_mb = settings.max_slot_wal_keep_size_mb;
    let limit = ByteSize::mib(u64::try_from(limit_mb).unwrap_or(0));
    let is_short = wanted.is_some_and(|wanted| wanted > limit.as_u64() as f64);
    let (found, remedy) = match limit_mb {
        ..0 => (
            format!(
                "not set: a slot that nobody reads keeps the log until the disk is full{forecast}"
            ),
            "Set it to what the disk can spare, well above what is written in the longest outage to survive.",
        ),
        _ if is_short || limit_mb < SMALL_MB => (
            format!(
                "{limit}: a slot that is further behind is lost, with all events in it{forecast}"
            ),
            "Raise it to what the disk can spare, well above what is written in the longest outage to survive (--outage).",
        ),
        _ => {
            let found = format!("{limit}: a slot that is further behind is lost{forecast}");
            return Check::ok(name, found);
        }
    };
    if service == Service::Azure {
        return Check::warning(name, found, AZURE);
    }
    // Twice the average, since outages do not come at quiet times.
    let gib = wanted.map_or(50, |wanted| in_gib(2.0 * wanted)).max(10);
    match &settings.held {
        Some(held) if in_gib(2.0 * held.bytes as f64) > gib => {
            Check::warning(name, found, first_the_slot(held))
        }
        _ => {
            let value = service.size(gib);
            let check = Check::warning(name, found, remedy);
            service.set(check, name, &value, Takes::Reload)
        }
    }
}

/// Microsoft's "Server parameters in Azure Database for PostgreSQL", Replication / Sending Servers:
/// read-only, and -1 the only value.
const AZURE: &str = "It cannot be set on this service: have an alert on outboxd_slot_retained_bytes, and on the disk's free space.";

fn in_gib(bytes: f64) -> u64 {
    (bytes / (1 << 30) as f64).ceil() as u64
}

/// The next checkpoint takes a slot away that is behind a limit which was set meanwhile.
fn first_the_slot(held: &HeldLog) -> String {
    format!(
        "Slot \"{}\" holds {} of log now, and a limit below that loses it at the next checkpoint. Let it catch up, or drop it if nobody needs it, and check again; a limit that spares it is {} GiB at least.",
        held.slot,
        ByteSize(held.bytes),
        in_gib(2.0 * held.bytes as f64)
    )
}

fn idle_slot(settings: &ServerSettings, service: Service, outage: Duration) -> Option<Check> {
    let name = "idle_replication_slot_timeout";
    let timeout = settings
        .idle_slot_timeout
        .filter(|limit| !limit.is_zero())?;
    let found = format!(
        "{}: a slot that nobody reads for so long is lost",
        rounded(timeout)
    );
    if timeout >= outage {
        return Some(Check::ok(name, found));
    }
    let remedy = format!(
        "Set it to nothing, or to more than the longest outage to survive ({}).",
        rounded(outage)
    );
    Some(service.set(
        Check::warning(name, found, remedy),
        name,
        "0",
        Takes::Reload,
    ))
}

/// The relay's sessions have a value of their own, of which the server's is no part.
fn sender_timeout(settings: &ServerSettings, wishes: &Wishes<'_>) -> Check {
    let server = match settings.wal_sender_timeout {
        Duration::ZERO => "none on the server".to_owned(),
        timeout => format!("{} on the server", format_duration(timeout)),
    };
    let own = wishes.wal_sender_timeout;
    let found = format!(
        "{server}, {} on the relay's own sessions",
        format_duration(own)
    );
    match own {
        own if own > Duration::from_secs(60) => Check::warning(
            "wal_sender_timeout",
            format!("{found}: an instance whose machine vanishes keeps the lead for so long"),
            "Set postgres.wal_sender_timeout to 10s, the default.",
        ),
        _ => Check::ok("wal_sender_timeout", found),
    }
}

/// Transactions that are larger are written to the server's disk and read again.
fn decoding_memory(settings: &ServerSettings, role: &str, statistics: &SlotStatistics) -> Check {
    let name = "logical_decoding_work_mem";
    let memory = ByteSize::kib(u64::try_from(settings.logical_decoding_work_mem_kb).unwrap_or(0));
    let (found, wanted) = match statistics.spilled_transactions {
        0 if memory >= ByteSize::mib(16) => {
            return Check::ok(
                name,
                format!("{memory}, and no transaction of this slot was larger"),
            );
        }
        0 => (
            format!("{memory}: larger transactions go over the server's disk"),
            ByteSize::mib(64),
        ),
        spilled => (
            format!(
                "{memory}: {spilled} of {} transactions of this slot were larger and went over the server's disk, {} in all",
                statistics.decoded_transactions,
                ByteSize(statistics.spilled_bytes)
            ),
            ByteSize((memory.as_u64() * 4).max(256 << 20)),
        ),
    };
    let megabytes = wanted.as_u64() >> 20;
    let role = quote_identifier(role);
    Check::warning(
        name,
        found,
        "Give the relay's sessions more; it counts from the next session on.",
    )
    .sql(format!("ALTER ROLE {role} SET {name} = '{megabytes}MB';"))
}

/// A walsender sends what is on the disk, and its client counts as a standby where it is named one.
fn commits(settings: &ServerSettings, service: Service, wishes: &Wishes<'_>) -> Check {
    let name = "synchronous_commit";
    let value = settings.synchronous_commit.as_str();
    let names = settings.synchronous_standby_names.trim();
    // The manual: the log writer may take up to three rounds.
    let late = settings.wal_writer_delay * 3;
    match value {
        "off" => {
            let check = Check::warning(
                name,
                format!(
                    "off: an event comes up to {} later than its commit, and a crash of the server loses both",
                    format_duration(late)
                ),
                "Turn it on, at least for transactions that write the outbox: each waits for one flush of the disk.",
            );
            service.set(check, name, "on", Takes::Reload)
        }
        "local" => Check::ok(name, "local: a commit waits for this server's disk alone"),
        _ if takes(names, wishes.application_name) => {
            // No statement: with a name that no standby has, every commit would hang.
            Check::warning(
                name,
                format!(
                    "{value}, and synchronous_standby_names ({names}) takes the relay for a standby: every commit waits for Kafka"
                ),
                "Name in synchronous_standby_names the standbys alone, by the application_name that each has in pg_stat_replication.",
            )
        }
        _ if names.is_empty() => Check::ok(
            name,
            format!(
                "{value}: a commit waits for the disk; off would save that and add up to {} to each event",
                format_duration(late)
            ),
        ),
        _ => Check::ok(
            name,
            format!("{value}: a commit waits for standbys ({names}), and its event does not"),
        ),
    }
}

/// As the server compares: a star takes all, and case does not count.
fn takes(names: &str, application: &str) -> bool {
    let words = names.split(|c: char| c.is_whitespace() || "(),\"".contains(c));
    words
        .filter(|word| !word.is_empty())
        .any(|word| word == "*" || word.eq_ignore_ascii_case(application))
}

/// Days or hours, and nothing smaller than a minute beside them.
fn rounded(duration: Duration) -> humantime::FormattedDuration {
    let seconds = duration.as_secs();
    let step = match seconds {
        0..60 => 1,
        60..7200 => 60,
        7200..172_800 => 3600,
        _ => 86_400,
    };
    format_duration(Duration::from_secs(seconds / step * step))
}

#[cfg(test)]
mod tests;
