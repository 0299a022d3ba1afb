//! Making, changing and dropping the slot. The publication comes first: a slot cannot see one that
//! is younger than itself.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Client;

use super::{SlotName, SlotOptions};
use crate::lsn::Lsn;
use crate::postgres::{ObjectError, PostgresError, ReplicationSession, sqlstate};
use crate::wire::{alter_slot_failover, drop_slot, quote_literal};

/// The first server that keeps slots on its standbys.
pub(in crate::postgres) const FAILOVER_SINCE: u32 = 170_000;

/// `server_version_num`
pub async fn server_version(client: &Client) -> Result<u32, PostgresError> {
    let row = client
        .query_one("SELECT current_setting('server_version_num')::int4", &[])
        .await?;
    Ok(u32::try_from(row.try_get::<_, i32>(0)?).unwrap_or(0))
}

/// Creates the permanent slot; the stream will hold what commits from here on. Waits for the
/// transactions that are open now. Returns the slot's first position.
pub async fn create(client: &Client, options: &SlotOptions) -> Result<Lsn, ObjectError> {
    let name = &options.name;
    refuse_failover(options, server_version(client).await?)?;
    let sql = create_sql(options);
    match client.query_one(&sql, &[]).await {
        Ok(row) => position(row.try_get(0)?),
        Err(error)
            if error
                .code()
                .is_some_and(|code| code.code() == sqlstate::DUPLICATE_OBJECT) =>
        {
            Err(ObjectError::SlotAppeared {
                name: name.to_string(),
            })
        }
        Err(error) => Err(error.into()),
    }
}

pub(in crate::postgres) fn create_sql(options: &SlotOptions) -> String {
    let failover = if options.failover {
        ", failover => true"
    } else {
        ""
    };
    format!(
        "SELECT lsn::text FROM pg_create_logical_replication_slot({}, 'pgoutput'{failover})",
        quote_literal(options.name.as_str())
    )
}

/// Copies the temporary slot of `session` to the permanent one: same position, and now it stays.
pub(in crate::postgres) async fn copy_temporary(
    session: &mut ReplicationSession,
    temporary: &SlotName,
    name: &SlotName,
) -> Result<Lsn, ObjectError> {
    let sql = format!(
        "SELECT lsn FROM pg_copy_logical_replication_slot({}, {}, false)",
        quote_literal(temporary.as_str()),
        quote_literal(name.as_str()),
    );
    match session.query_value(&sql).await {
        Ok(lsn) => position(&lsn.unwrap_or_default()),
        Err(error) if error.sqlstate() == Some(sqlstate::DUPLICATE_OBJECT) => {
            Err(ObjectError::SlotAppeared {
                name: name.to_string(),
            })
        }
        Err(error) => Err(error.into()),
    }
}

/// Sets the failover property of a slot that exists: it can be set only between streams.
pub async fn set_failover(
    session: &mut ReplicationSession,
    options: &SlotOptions,
) -> Result<(), ObjectError> {
    let version = session.query_value("SHOW server_version_num").await?;
    refuse_failover(
        options,
        version.and_then(|text| text.parse().ok()).unwrap_or(0),
    )?;
    session
        .query(&alter_slot_failover(options.name.as_str()))
        .await?;
    Ok(())
}

pub async fn drop(client: &Client, name: &SlotName) -> Result<(), PostgresError> {
    client
        .query("SELECT pg_drop_replication_slot($1)", &[&name.as_str()])
        .await?;
    Ok(())
}

const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The same as soon as nobody uses it, within `patience`. When this has failed with the server's word
/// the slot is there, and is not dropped later on.
pub async fn drop_when_free(
    session: &mut ReplicationSession,
    name: &SlotName,
    patience: Duration,
) -> Result<(), PostgresError> {
    let command = drop_slot(name.as_str());
    let until = Instant::now() + patience;
    loop {
        let tried = timeout(patience, session.query(&command)).await;
        let silent = |_| PostgresError::Silent { after: patience };
        match tried.map_err(silent).flatten() {
            Err(error)
                if error.sqlstate() == Some(sqlstate::OBJECT_IN_USE) && Instant::now() < until =>
            {
                sleep(LOOK_INTERVAL).await;
            }
            tried => return tried.map(std::mem::drop),
        }
    }
}

/// Ends the session that uses the slot now, if any does: looked for and ended in one statement.
pub async fn end_reader(client: &Client, name: &SlotName) -> Result<(), PostgresError> {
    let end = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots \
                WHERE slot_name = $1 AND active_pid IS NOT NULL";
    client.query(end, &[&name.as_str()]).await?;
    Ok(())
}

/// Moves the slot forward, as far as the server has decoded up to `to`. Returns where it stands.
pub async fn advance(
    session: &mut ReplicationSession,
    name: &SlotName,
    to: Lsn,
) -> Result<Lsn, ObjectError> {
    let name = quote_literal(name.as_str());
    let sql = format!("SELECT end_lsn FROM pg_replication_slot_advance({name}, '{to}')");
    position(&session.query_value(&sql).await?.unwrap_or_default())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// How far the log is on disk (a standby: replayed), which no slot can be moved beyond.
    pub written: Lsn,
    pub in_recovery: bool,
}

pub async fn reach(client: &Client) -> Result<Reach, ObjectError> {
    let sql = "SELECT (CASE WHEN r.in_recovery THEN pg_last_wal_replay_lsn() \
                            ELSE pg_current_wal_flush_lsn() END)::text, r.in_recovery \
                 FROM pg_is_in_recovery() AS r(in_recovery)";
    let row = client.query_one(sql, &[]).await?;
    Ok(Reach {
        written: position(row.try_get(0)?)?,
        in_recovery: row.try_get(1)?,
    })
}

pub(in crate::postgres) fn refuse_failover(
    options: &SlotOptions,
    server_version: u32,
) -> Result<(), ObjectError> {
    if options.failover && server_version < FAILOVER_SINCE {
        return Err(ObjectError::FailoverUnsupported {
            name: options.name.to_string(),
            server_version,
        });
    }
    Ok(())
}

fn position(text: &str) -> Result<Lsn, ObjectError> {
    text.parse()
        .map_err(|_| PostgresError::unexpected("a slot's position", b'D').into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failover_is_asked_for_only_where_the_server_has_it() {
        let mut options = SlotOptions::new("outbox".parse().unwrap());
        assert!(refuse_failover(&options, 140_000).is_ok());
        assert_eq!(
            create_sql(&options),
            "SELECT lsn::text FROM pg_create_logical_replication_slot('outbox', 'pgoutput')"
        );
        options.failover = true;
        assert!(refuse_failover(&options, FAILOVER_SINCE).is_ok());
        assert_eq!(
            refuse_failover(&options, 160_004).unwrap_err().to_string(),
            "replication slot \"outbox\" cannot be a failover slot on PostgreSQL 16"
        );
        assert_eq!(
            create_sql(&options),
            "SELECT lsn::text FROM pg_create_logical_replication_slot('outbox', 'pgoutput', failover => true)"
        );
    }
}
