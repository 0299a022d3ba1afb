//! What the server has counted for the slot, and who could keep a copy of it.

use tokio_postgres::Client;

use super::SlotName;
use crate::postgres::PostgresError;

/// Zero where the server has no statistics of the slot yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotStatistics {
    pub decoded_transactions: u64,
    pub decoded_bytes: u64,
    /// Larger than `logical_decoding_work_mem`: written to disk before they were sent.
    pub spilled_transactions: u64,
    pub spilled_bytes: u64,
    /// Physical slots in use. A standby that keeps copies of failover slots has one
    /// (`primary_slot_name`).
    pub physical_slots: u64,
}

/// The view is there since PostgreSQL 14, with a row for each slot that was used once.
const READ: &str = "
    SELECT coalesce(t.total_txns, 0), coalesce(t.total_bytes, 0),
           coalesce(t.spill_txns, 0), coalesce(t.spill_bytes, 0),
           (SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'physical' AND active)
      FROM (SELECT 1) one
      LEFT JOIN pg_stat_replication_slots t ON t.slot_name::text = $1";

impl SlotStatistics {
    pub async fn read(client: &Client, name: &SlotName) -> Result<Self, PostgresError> {
        let row = client.query_one(READ, &[&name.as_str()]).await?;
        let count = |column: usize| -> Result<u64, PostgresError> {
            Ok(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or(0))
        };
        Ok(Self {
            decoded_transactions: count(0)?,
            decoded_bytes: count(1)?,
            spilled_transactions: count(2)?,
            spilled_bytes: count(3)?,
            physical_slots: count(4)?,
        })
    }
}
