//! Deleting retained rows of which it is certain that they are not needed any more. Which those are is
//! found first, with a position of the log; they are deleted once everything before it is confirmed.

use std::time::Duration;

use tokio_postgres::Client;

use super::table::OutboxTable;
use super::{ExpiredStep, ObjectError, current_position};
use crate::lsn::Lsn;
use crate::wire::quote_identifier;

/// Versions of rows: one that was changed since, or that lies in the place of another, is not meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpiredRows {
    tables: Vec<u32>,
    places: Vec<String>,
    made_by: Vec<String>,
    /// The transactions that wrote them have committed before it.
    pub committed_before: Lsn,
}

impl ExpiredRows {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// date, timestamp and timestamptz (`pg_type.dat` in PostgreSQL's source).
const TIMES: [u32; 3] = [1082, 1114, 1184];

/// Nobody waits long for a lock of ours, nor we for one of theirs.
const SHORT: &str = "SET LOCAL statement_timeout = '30s'; SET LOCAL lock_timeout = '1s';";

/// At most `limit` rows whose time lies further back than `retain`. A time without a zone is UTC.
///
/// The rows are seen under a snapshot, and the position is asked for afterwards: a transaction writes
/// its commit before others see its rows.
pub async fn expired(
    client: &Client,
    table: &OutboxTable,
    column: &str,
    retain: Duration,
    limit: u32,
) -> Result<ExpiredRows, ObjectError> {
    refuse_what_is_no_time(table, column)?;
    let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {SHORT}");
    let refused = |error| ObjectError::of_expired(table, column, ExpiredStep::Find, error);
    client.batch_execute(&begin).await?;
    let sql = expired_sql(table, column);
    let (seconds, limit) = (retain.as_secs_f64(), i64::from(limit));
    let found = client.query(&sql, &[&seconds, &limit]).await;
    let found = found.map_err(refused)?;
    let mut rows = ExpiredRows {
        committed_before: current_position(client).await?,
        ..ExpiredRows::default()
    };
    client.batch_execute("COMMIT").await?;
    for row in found {
        rows.tables.push(row.try_get(0)?);
        rows.places.push(row.try_get(1)?);
        rows.made_by.push(row.try_get(2)?);
    }
    Ok(rows)
}

/// What became of rows that were to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    pub deleted: u64,
    /// Still there and still due, though nobody else has touched them: a trigger, a rule or row security
    /// made less of the DELETE.
    pub kept: u64,
}

/// Deletes those of the rows that are still as they were.
pub async fn delete(
    client: &Client,
    table: &OutboxTable,
    column: &str,
    retain: Duration,
    rows: &ExpiredRows,
) -> Result<Deletion, ObjectError> {
    // A crash of the server that forgets it costs nothing: they are found again.
    let begin = format!("BEGIN; {SHORT} SET LOCAL synchronous_commit = off");
    client.batch_execute(&begin).await?;
    let sql = delete_sql(table);
    let refused = |error| ObjectError::of_expired(table, column, ExpiredStep::Delete, error);
    let deleted = client
        .execute(&sql, &[&rows.tables, &rows.places, &rows.made_by])
        .await
        .map_err(refused)?;
    let mut deletion = Deletion { deleted, kept: 0 };
    // Fewer is no sign yet: others delete and change rows as well.
    if deleted < rows.len() as u64 {
        let sql = kept_sql(table, column);
        let seconds = retain.as_secs_f64();
        let kept = client
            .query_one(&sql, &[&seconds, &rows.tables, &rows.places, &rows.made_by])
            .await
            .map_err(refused)?;
        deletion.kept = u64::try_from(kept.try_get::<_, i64>(0)?).unwrap_or(0);
    }
    // Triggers and foreign keys that are deferred speak here.
    client.batch_execute("COMMIT").await.map_err(refused)?;
    Ok(deletion)
}

fn refuse_what_is_no_time(table: &OutboxTable, column: &str) -> Result<(), ObjectError> {
    let found = table.column(column);
    if found.is_some_and(|found| TIMES.contains(&found.type_oid)) {
        return Ok(());
    }
    Err(ObjectError::NoTimeColumn {
        table: table.qualified_name(),
        column: column.to_owned(),
        found: found.map(|found| found.type_sql.clone()),
    })
}

fn expired_sql(table: &OutboxTable, column: &str) -> String {
    format!(
        "SELECT tableoid, ctid::text, xmin::text FROM {} WHERE {} < now() - make_interval(secs => $1){} LIMIT $2",
        source(table),
        quote_identifier(column),
        among(table)
    )
}

/// The places alone are found without a scan of the table; what lies there is compared.
fn delete_sql(table: &OutboxTable) -> String {
    format!(
        "DELETE FROM {} AS kept WHERE kept.ctid = ANY ($2::text[]::tid[]) \
            AND EXISTS (SELECT FROM unnest($1::oid[], $2::text[]::tid[], $3::text[]::xid[]) AS seen(part, place, made_by) \
                         WHERE seen.part = kept.tableoid AND seen.place = kept.ctid AND seen.made_by = kept.xmin){}",
        source(table),
        among(table)
    )
}

/// Of the rows that a DELETE of the same transaction was to have: as they were, or written anew by that
/// very transaction (a trigger that marks rows instead of deleting them).
fn kept_sql(table: &OutboxTable, column: &str) -> String {
    format!(
        "SELECT count(*) FROM {} AS kept WHERE kept.{} < now() - make_interval(secs => $1) \
            AND (kept.xmin = pg_current_xact_id_if_assigned()::xid \
                 OR EXISTS (SELECT FROM unnest($2::oid[], $3::text[]::tid[], $4::text[]::xid[]) AS seen(part, place, made_by) \
                            WHERE seen.part = kept.tableoid AND seen.place = kept.ctid AND seen.made_by = kept.xmin)){}",
        source(table),
        quote_identifier(column),
        among(table)
    )
}

/// Of a partitioned table in those partitions alone that it was given with.
fn among(table: &OutboxTable) -> String {
    let Some(partitions) = &table.partitions else {
        return String::new();
    };
    let oids: Vec<_> = partitions.iter().map(|leaf| leaf.oid.to_string()).collect();
    format!(" AND tableoid = ANY ('{{{}}}'::oid[])", oids.join(","))
}

fn source(table: &OutboxTable) -> String {
    match table.partitions {
        Some(_) => table.quoted_name(),
        None => format!("ONLY {}", table.quoted_name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgoutput::ReplicaIdentity;
    use crate::postgres::table::{Partition, TableColumn};

    fn outbox(type_oid: u32) -> OutboxTable {
        OutboxTable {
            oid: 1,
            schema: "public".into(),
            name: "outbox".into(),
            replica_identity: ReplicaIdentity::Default,
            columns: vec![TableColumn {
                name: "At".into(),
                type_oid,
                type_modifier: -1,
                type_sql: "bigint".into(),
                nullable: true,
                is_key: false,
                generated: false,
            }],
            partitions: None,
            row_security: false,
            estimated_rows: None,
        }
    }

    #[test]
    fn only_a_column_that_is_a_time_tells_how_old_a_row_is() {
        for time in TIMES {
            assert!(refuse_what_is_no_time(&outbox(time), "At").is_ok());
        }
        let refused = |column| refuse_what_is_no_time(&outbox(20), column).unwrap_err();
        assert_eq!(
            [refused("At"), refused("at")].map(|error| error.to_string()),
            [
                "column \"At\" of \"public.outbox\" has type bigint, expected timestamptz, timestamp or date",
                "table \"public.outbox\" has no column \"at\"",
            ]
        );
    }

    #[test]
    fn rows_are_found_and_deleted_in_the_table_alone_or_in_the_partitions_that_are_named() {
        let mut table = outbox(1184);
        assert_eq!(
            expired_sql(&table, "At"),
            "SELECT tableoid, ctid::text, xmin::text FROM ONLY \"public\".\"outbox\" WHERE \"At\" < now() - make_interval(secs => $1) LIMIT $2"
        );
        let partition = |oid| Partition {
            oid,
            schema: "public".into(),
            name: format!("p{oid}"),
        };
        table.partitions = Some(vec![partition(2), partition(3)]);
        let among = " AND tableoid = ANY ('{2,3}'::oid[])";
        assert!(expired_sql(&table, "At").ends_with(&format!("{among} LIMIT $2")));
        assert!(delete_sql(&table).ends_with(among));
        assert!(kept_sql(&table, "At").ends_with(among));
        assert!(delete_sql(&table).starts_with("DELETE FROM \"public\".\"outbox\" AS kept WHERE "));
    }
}
