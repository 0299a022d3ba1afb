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

// A lock on one bigint shows its halves as classid and objid, and 1 as objsubid.
const LOCKS: &str = "
      FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
     WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND l.classid::bigint = ($1::bigint >> 32) & 4294967295
       AND l.objid::bigint = $1::bigint & 4294967295";

impl Leader {
    pub async fn read(client: &Client, name: &SlotName) -> Result<Option<Self>, PostgresError> {
        let sql = format!("SELECT l.pid, a.application_name, host(a.client_addr) {LOCKS}");
        let row = client.query_opt(&sql, &[&name.advisory_key()]).await?;
        match row {
            Some(row) => Ok(Some(Self {
                pid: row.try_get(0)?,
                application: row.try_get(1)?,
                client: row.try_get(2)?,
            })),
            None => Ok(None),
        }
    }

    /// Ends the session that has the lead now, if any has: looked for and ended in one statement.
    pub async fn end(client: &Client, name: &SlotName) -> Result<(), PostgresError> {
        let sql = format!("SELECT pg_terminate_backend(l.pid) {LOCKS}");
        client.query(&sql, &[&name.advisory_key()]).await?;
        Ok(())
    }
}
