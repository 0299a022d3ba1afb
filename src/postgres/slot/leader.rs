//! Who relays from the slot.

use tokio_postgres::Client;

use super::SlotName;
use crate::postgres::PostgresError;

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
