//! What the server says of the slot, and whether the relay can use it.

use std::fmt;

use tokio_postgres::{Client, Row};

use super::SlotName;
use crate::lsn::Lsn;
use crate::postgres::PostgresError;

/// One row of `pg_replication_slots`, with its holder. What a server does not have yet is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotDescription {
    pub name: String,
    /// Absent for physical slots.
    pub plugin: Option<String>,
    pub database: Option<String>,
    pub temporary: bool,
    pub holder: Option<SlotHolder>,
    pub restart_lsn: Option<Lsn>,
    pub confirmed_flush_lsn: Option<Lsn>,
    /// Absent where the slot reserves nothing.
    pub wal_status: Option<WalStatus>,
    /// Bytes that may still be written before the slot is lost; absent without a limit.
    pub safe_wal_bytes: Option<i64>,
    pub two_phase: bool,
    /// PostgreSQL 17 and later, as the next two.
    pub invalidation_reason: Option<String>,
    pub failover: Option<bool>,
    /// On a standby: kept up to date from the primary.
    pub synced: Option<bool>,
    /// Where the server writes (a standby: where it replays).
    pub server_lsn: Lsn,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotHolder {
    pub pid: i32,
    /// The name and address need `pg_read_all_stats`, or the same role.
    pub application: Option<String>,
    pub client: Option<String>,
}

/// `pg_replication_slots.wal_status`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalStatus {
    Reserved,
    Extended,
    Unreserved,
    Lost,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotVerdict {
    Usable,
    Missing,
    Physical,
    WrongPlugin {
        found: String,
    },
    WrongDatabase {
        found: String,
        expected: String,
    },
    /// Of another session, and gone with it.
    Temporary,
    /// The server has removed what the slot needs; it never comes back.
    Lost {
        reason: String,
        confirmed_flush_lsn: Option<Lsn>,
        server_lsn: Lsn,
    },
    /// Kept in step from the primary: it cannot be read before the standby is promoted.
    Synced,
    /// It has no position yet: a session waits for the transactions that were open when it began.
    BeingMade {
        by: Option<SlotHolder>,
    },
    Active(SlotHolder),
}

impl SlotDescription {
    /// Somebody streams from it.
    pub const fn is_held(&self) -> bool {
        self.holder.is_some()
    }

    pub async fn read(client: &Client, name: &SlotName) -> Result<Option<Self>, PostgresError> {
        let row = client.query_opt(DESCRIBE, &[&name.as_str()]).await?;
        row.as_ref().map(Self::from_row).transpose()
    }

    /// `own_pid` is the session that will stream: a slot that it holds is not held by another.
    pub fn verdict(&self, database: &str, own_pid: Option<i32>) -> SlotVerdict {
        let Some(plugin) = &self.plugin else {
            return SlotVerdict::Physical;
        };
        if plugin != "pgoutput" {
            return SlotVerdict::WrongPlugin {
                found: plugin.clone(),
            };
        }
        let found = self.database.as_deref().unwrap_or_default();
        if found != database {
            return SlotVerdict::WrongDatabase {
                found: found.to_owned(),
                expected: database.to_owned(),
            };
        }
        // One that the standby has invalidated is made anew from the primary.
        if self.synced == Some(true) {
            return SlotVerdict::Synced;
        }
        if let Some(reason) = self.lost_because() {
            return SlotVerdict::Lost {
                reason,
                confirmed_flush_lsn: self.confirmed_flush_lsn,
                server_lsn: self.server_lsn,
            };
        }
        if self.temporary {
            return SlotVerdict::Temporary;
        }
        if self.confirmed_flush_lsn.is_none() {
            let by = self.holder.clone();
            return SlotVerdict::BeingMade { by };
        }
        match &self.holder {
            Some(holder) if Some(holder.pid) != own_pid => SlotVerdict::Active(holder.clone()),
            _ => SlotVerdict::Usable,
        }
    }

    /// Bytes of log that the slot keeps the server from removing.
    pub fn retained_bytes(&self) -> u64 {
        self.restart_lsn
            .map_or(0, |from| self.server_lsn.bytes_since(from))
    }

    /// Bytes of log that are not confirmed.
    pub fn lag_bytes(&self) -> u64 {
        self.confirmed_flush_lsn
            .map_or(0, |from| self.server_lsn.bytes_since(from))
    }

    /// Why the server has invalidated it, where it has.
    pub fn lost_because(&self) -> Option<String> {
        let reason = || self.invalidation_reason.clone();
        match self.wal_status {
            Some(WalStatus::Lost) => Some(reason().unwrap_or_else(|| "wal_removed".to_owned())),
            _ => reason(),
        }
    }

    fn from_row(row: &Row) -> Result<Self, PostgresError> {
        let holder = row.try_get::<_, Option<i32>>("active_pid")?;
        Ok(Self {
            name: row.try_get("slot_name")?,
            plugin: row.try_get("plugin")?,
            database: row.try_get("database")?,
            temporary: row.try_get("temporary")?,
            holder: match holder {
                Some(pid) => Some(SlotHolder {
                    pid,
                    application: row.try_get("application_name")?,
                    client: row.try_get("client")?,
                }),
                None => None,
            },
            restart_lsn: lsn(row, "restart_lsn")?,
            confirmed_flush_lsn: lsn(row, "confirmed_flush_lsn")?,
            wal_status: row
                .try_get::<_, Option<&str>>("wal_status")?
                .and_then(WalStatus::from_catalog),
            safe_wal_bytes: row.try_get("safe_wal_size")?,
            two_phase: row.try_get("two_phase")?,
            invalidation_reason: row.try_get("invalidation_reason")?,
            failover: row.try_get("failover")?,
            synced: row.try_get("synced")?,
            server_lsn: lsn(row, "server_lsn")?.unwrap_or_default(),
        })
    }
}

/// Through `to_jsonb` a column that this server lacks reads as null: `failover`, `synced` and
/// `invalidation_reason` came with 17 (16 says `conflicting` instead). On a primary `synced` means
/// nothing: it stays true on a standby that was promoted (the manual, `pg_replication_slots`).
const DESCRIBE: &str = "
    SELECT s.slot_name::text, s.plugin::text, s.database::text, s.temporary, s.active_pid,
           a.application_name, coalesce(host(a.client_addr), a.client_hostname) AS client,
           s.restart_lsn::text, s.confirmed_flush_lsn::text, s.wal_status, s.safe_wal_size,
           s.two_phase,
           coalesce(j.column_of->>'invalidation_reason',
                    CASE WHEN (j.column_of->>'conflicting')::bool THEN 'conflicting' END)
               AS invalidation_reason,
           (j.column_of->>'failover')::bool AS failover,
           (j.column_of->>'synced')::bool AND pg_is_in_recovery() AS synced,
           (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                 ELSE pg_current_wal_insert_lsn() END)::text AS server_lsn
      FROM pg_replication_slots s
     CROSS JOIN LATERAL (SELECT to_jsonb(s) AS column_of) j
      LEFT JOIN pg_stat_activity a ON a.pid = s.active_pid
     WHERE s.slot_name = $1";

pub(super) fn lsn(row: &Row, column: &str) -> Result<Option<Lsn>, PostgresError> {
    let text = row.try_get::<_, Option<&str>>(column)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

impl WalStatus {
    fn from_catalog(text: &str) -> Option<Self> {
        match text {
            "reserved" => Some(Self::Reserved),
            "extended" => Some(Self::Extended),
            "unreserved" => Some(Self::Unreserved),
            "lost" => Some(Self::Lost),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Extended => "extended",
            Self::Unreserved => "unreserved",
            Self::Lost => "lost",
        }
    }
}

impl fmt::Display for SlotHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        if let Some(application) = self.application.as_deref().filter(|name| !name.is_empty()) {
            write!(f, ", application \"{}\"", application.escape_debug())?;
        }
        if let Some(client) = &self.client {
            write!(f, ", at {client}")?;
        }
        Ok(())
    }
}

impl fmt::Display for SlotVerdict {
    /// What follows `replication slot "name"` in a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usable => f.write_str("can be used"),
            Self::Missing => f.write_str("does not exist"),
            Self::Physical => f.write_str("is a physical slot, expected a logical one"),
            Self::WrongPlugin { found } => {
                write!(
                    f,
                    "uses the output plugin \"{found}\", expected \"pgoutput\""
                )
            }
            Self::WrongDatabase { found, expected } => {
                write!(
                    f,
                    "belongs to database \"{found}\", expected \"{expected}\""
                )
            }
            Self::Temporary => f.write_str("is a temporary slot of another session"),
            Self::Lost { .. } => f.write_str("was invalidated by the server"),
            Self::Synced => f.write_str("is kept in step from the primary and cannot be read here"),
            Self::BeingMade { by: None } => f.write_str("is still being made"),
            Self::BeingMade { by: Some(by) } => write!(f, "is still being made by {by}"),
            Self::Active(holder) => write!(f, "is in use by {holder}"),
        }
    }
}

impl SlotVerdict {
    pub const fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Lost {
                reason,
                confirmed_flush_lsn,
                server_lsn,
            } => {
                let from = confirmed_flush_lsn
                    .map_or_else(|| "an unknown position".to_owned(), |lsn| lsn.to_string());
                Some(format!(
                    "The reason is \"{reason}\". Rows committed from {from} to {server_lsn} cannot be streamed."
                ))
            }
            Self::BeingMade { .. } => Some(
                "It has no position before the transactions have ended that were open when it was begun."
                    .to_owned(),
            ),
            _ => None,
        }
    }

    pub fn hint(&self, slot: &str) -> Option<String> {
        let hint = match self {
            Self::Usable => return None,
            Self::Missing => format!(
                "Create it: SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput');"
            ),
            Self::Physical | Self::WrongPlugin { .. } => {
                "Choose another slot name: a slot's kind cannot be changed.".to_owned()
            }
            Self::WrongDatabase { found, .. } => {
                format!("Connect to database \"{found}\", or choose another slot name.")
            }
            Self::Temporary => "Choose another slot name, or end that session.".to_owned(),
            Self::Lost { .. } => format!(
                "Find out which events are missing before the slot is given up: SELECT pg_drop_replication_slot('{slot}'); then outboxd run --accept-gap makes a new one and, with snapshot.mode = initial, publishes the rows that are in the table."
            ),
            Self::Synced => "Connect to the primary.".to_owned(),
            Self::BeingMade { .. } => {
                "Wait for them, or end what has been open for long: SELECT pid, xact_start, state, query FROM pg_stat_activity WHERE xact_start IS NOT NULL ORDER BY xact_start;".to_owned()
            }
            Self::Active(holder) => format!(
                "Stop the other reader, or end it: SELECT pg_terminate_backend({});",
                holder.pid
            ),
        };
        Some(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described() -> SlotDescription {
        SlotDescription {
            name: "outbox".into(),
            plugin: Some("pgoutput".into()),
            database: Some("shop".into()),
            temporary: false,
            holder: None,
            restart_lsn: Some(Lsn::new(100)),
            confirmed_flush_lsn: Some(Lsn::new(150)),
            wal_status: Some(WalStatus::Reserved),
            safe_wal_bytes: None,
            two_phase: false,
            invalidation_reason: None,
            failover: None,
            synced: None,
            server_lsn: Lsn::new(400),
        }
    }

    fn verdict_of(change: impl FnOnce(&mut SlotDescription)) -> SlotVerdict {
        let mut slot = described();
        change(&mut slot);
        slot.verdict("shop", Some(7))
    }

    #[test]
    fn a_slot_is_usable_when_it_is_ours_to_read() {
        assert_eq!(verdict_of(|_| ()), SlotVerdict::Usable);
        let held = |pid| SlotHolder {
            pid,
            application: None,
            client: None,
        };
        assert_eq!(
            verdict_of(|slot| slot.holder = Some(held(7))),
            SlotVerdict::Usable
        );
        assert_eq!(
            verdict_of(|slot| slot.holder = Some(held(8))),
            SlotVerdict::Active(held(8))
        );
    }

    #[test]
    fn a_slot_of_another_kind_or_place_is_named_as_such() {
        assert_eq!(verdict_of(|slot| slot.plugin = None), SlotVerdict::Physical);
        assert_eq!(
            verdict_of(|slot| slot.plugin = Some("wal2json".into())),
            SlotVerdict::WrongPlugin {
                found: "wal2json".into()
            }
        );
        assert_eq!(
            verdict_of(|slot| slot.database = Some("other".into())),
            SlotVerdict::WrongDatabase {
                found: "other".into(),
                expected: "shop".into()
            }
        );
        assert_eq!(
            verdict_of(|slot| slot.temporary = true),
            SlotVerdict::Temporary
        );
        assert_eq!(
            verdict_of(|slot| slot.synced = Some(true)),
            SlotVerdict::Synced
        );
        let invalidated = |slot: &mut SlotDescription| {
            (slot.synced, slot.wal_status) = (Some(true), Some(WalStatus::Lost));
        };
        assert_eq!(verdict_of(invalidated), SlotVerdict::Synced);
    }

    #[test]
    fn a_slot_without_a_position_is_one_that_is_still_being_made() {
        let by = SlotHolder {
            pid: 8,
            application: None,
            client: None,
        };
        let being_made = |slot: &mut SlotDescription| {
            (slot.confirmed_flush_lsn, slot.wal_status) = (None, None);
            slot.holder = Some(by.clone());
        };
        let verdict = verdict_of(being_made);
        assert_eq!(verdict.to_string(), "is still being made by process 8");
        assert_eq!(verdict, SlotVerdict::BeingMade { by: Some(by) });
    }

    #[test]
    fn a_lost_slot_says_why_and_what_is_gone() {
        let lost = |reason: &str| SlotVerdict::Lost {
            reason: reason.into(),
            confirmed_flush_lsn: Some(Lsn::new(150)),
            server_lsn: Lsn::new(400),
        };
        let found = verdict_of(|slot| slot.wal_status = Some(WalStatus::Lost));
        assert_eq!(found, lost("wal_removed"));
        let found = verdict_of(|slot| slot.invalidation_reason = Some("idle_timeout".into()));
        assert_eq!(found, lost("idle_timeout"));
        assert_eq!(
            found.detail().unwrap(),
            "The reason is \"idle_timeout\". Rows committed from 0/96 to 0/190 cannot be streamed."
        );
    }

    #[test]
    fn retained_and_unconfirmed_bytes_are_counted_apart() {
        assert_eq!(
            (described().retained_bytes(), described().lag_bytes()),
            (300, 250)
        );
    }

    #[test]
    fn the_holder_is_named_as_far_as_it_is_known() {
        let holder = SlotHolder {
            pid: 42,
            application: Some("Debezium Streaming".into()),
            client: Some("10.0.0.7".into()),
        };
        assert_eq!(
            SlotVerdict::Active(holder).to_string(),
            "is in use by process 42, application \"Debezium Streaming\", at 10.0.0.7"
        );
    }
}
