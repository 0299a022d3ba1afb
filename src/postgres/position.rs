//! Where the server writes now.

use tokio_postgres::Client;

use super::PostgresError;
use crate::lsn::Lsn;

/// Everything committed so far lies before this. The insert position counts, because with
/// `synchronous_commit=off` the flushed one trails the last commits.
pub async fn current_position(client: &Client) -> Result<Lsn, PostgresError> {
    let row = client
        .query_one("SELECT pg_current_wal_insert_lsn()::text", &[])
        .await?;
    let text: &str = row.try_get(0)?;
    let here = text
        .parse()
        .map_err(|_| PostgresError::unexpected("the server's position", b'D'))?;
    Ok(page_start(here))
}

/// The server as it is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSeen {
    /// Where it writes; a standby: what it has replayed.
    pub position: Lsn,
    pub in_recovery: bool,
    /// When its postmaster was started, in seconds since 1970 by its clock. What runs since then has
    /// one history; backends that crash do not change it.
    pub started: String,
}

impl ServerSeen {
    pub async fn look(client: &Client) -> Result<Self, PostgresError> {
        const SQL: &str = "SELECT pg_is_in_recovery() AS in_recovery,
                                  extract(epoch FROM pg_postmaster_start_time())::text AS started";
        let row = client.query_one(SQL, &[]).await?;
        Ok(Self {
            position: position_seen(client).await?,
            in_recovery: row.try_get("in_recovery")?,
            started: row.try_get("started")?,
        })
    }
}

/// Where the server writes; a standby: what it has replayed.
pub async fn position_seen(client: &Client) -> Result<Lsn, PostgresError> {
    const SQL: &str = "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                                    ELSE pg_current_wal_insert_lsn() END)::text";
    let row = client.query_one(SQL, &[]).await?;
    let text: &str = row.try_get(0)?;
    text.parse()
        .map_err(|_| PostgresError::unexpected("the server's position", b'D'))
}

/// At the start of a page the insert position stands behind the page's header, where nothing has
/// been written that a stream could reach.
fn page_start(lsn: Lsn) -> Lsn {
    const PAGE_BYTES: u64 = 8192;
    const LONG_HEADER_BYTES: u64 = 40;
    let offset = lsn.as_u64() % PAGE_BYTES;
    if offset <= LONG_HEADER_BYTES {
        Lsn::new(lsn.as_u64() - offset)
    } else {
        lsn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_behind_a_page_header_is_the_pages_start() {
        for (found, expected) in [(8192 + 24, 8192), (8192 + 40, 8192), (8192 + 41, 8192 + 41)] {
            assert_eq!(page_start(Lsn::new(found)), Lsn::new(expected));
        }
    }
}
