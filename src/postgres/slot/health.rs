//! Samples of the slot for those who watch it.

use tokio_postgres::Client;

use super::{SlotDescription, SlotName};
use crate::postgres::PostgresError;

/// One look at the slot over an ordinary connection; possible also while nothing streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotHealth {
    /// `None`: there is no such slot.
    pub slot: Option<SlotDescription>,
    /// `None` before the slot has decoded anything since the statistics were reset.
    pub decoding: Option<DecodingStatistics>,
}

/// `pg_stat_replication_slots`: what the server decoded for the slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodingStatistics {
    pub total_transactions: i64,
    pub total_bytes: i64,
    /// Transactions above `logical_decoding_work_mem`, which the server wrote to disk meanwhile.
    pub spilled_transactions: i64,
    pub spilled_bytes: i64,
}

impl SlotHealth {
    pub async fn sample(client: &Client, name: &SlotName) -> Result<Self, PostgresError> {
        let slot = SlotDescription::read(client, name).await?;
        let row = client
            .query_opt(
                "SELECT total_txns, total_bytes, spill_txns, spill_bytes
                   FROM pg_stat_replication_slots WHERE slot_name = $1",
                &[&name.as_str()],
            )
            .await?;
        let decoding = match row {
            Some(row) => Some(DecodingStatistics {
                total_transactions: row.try_get(0)?,
                total_bytes: row.try_get(1)?,
                spilled_transactions: row.try_get(2)?,
                spilled_bytes: row.try_get(3)?,
            }),
            None => None,
        };
        Ok(Self { slot, decoding })
    }
}

/// The session that holds the advisory lock of a slot's relay: the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    pub pid: i32,
    pub application: Option<String>,
    pub client: Option<String>,
}

impl Leader {
    pub async fn read(client: &Client, name: &SlotName) -> Result<Option<Self>, PostgresError> {
        // A lock on one bigint shows its halves as classid and objid, and 1 as objsubid.
        let row = client
            .query_opt(
                "SELECT l.pid, a.application_name, host(a.client_addr)
                   FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
                  WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
                    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                    AND l.classid::bigint = ($1::bigint >> 32) & 4294967295
                    AND l.objid::bigint = $1::bigint & 4294967295",
                &[&name.advisory_key()],
            )
            .await?;
        match row {
            Some(row) => Ok(Some(Self {
                pid: row.try_get(0)?,
                application: row.try_get(1)?,
                client: row.try_get(2)?,
            })),
            None => Ok(None),
        }
    }
}
