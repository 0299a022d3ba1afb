//! Deleting retained rows of which it is certain that they are not needed any more. Which those are is
//! found first, with a position of the log; they are deleted once everything before it is confirmed.

use std::time::Duration;

use tokio_postgres::{Client, Row};

use super::table::OutboxTable;
use super::{ExpiredStep, ObjectError, current_position};
use crate::lsn::Lsn;
use crate::wire::quote_identifier;

/// Versions of rows: one that was changed since, or that lies in the place of another, is not meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    tables: Vec<u32>,
    places: Vec<String>,
    made_by: Vec<String>,
}

impl Versions {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub fn append(&mut self, mut more: Self) {
        self.tables.append(&mut more.tables);
        self.places.append(&mut more.places);
        self.made_by.append(&mut more.made_by);
    }

    fn read(rows: &[Row]) -> Result<Self, ObjectError> {
        let mut versions = Self::default();
        for row in rows {
            versions.tables.push(row.try_get(0)?);
            versions.places.push(row.try_get(1)?);
            versions.made_by.push(row.try_get(2)?);
        }
        Ok(versions)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredRows {
    pub versions: Versions,
    /// The transactions that wrote them have committed before it.
    pub committed_before: Lsn,
}

/// date, timestamp and timestamptz (`pg_type.dat` in PostgreSQL's source).
const TIMES: [u32; 3] = [1082, 1114, 1184];

/// Nobody waits long for a lock of ours, nor we for one of theirs.
const SHORT: &str = "SET LOCAL statement_timeout = '30s'; SET LOCAL lock_timeout = '1s';";

/// At most `limit` rows whose time lies further back than `retain`, none of them in `but`. A time without a
/// zone is UTC.
///
/// The rows are seen under a snapshot, and the position is asked for afterwards: a transaction writes
/// its commit before others see its rows.
pub async fn expired(
    client: &Client,
    table: &OutboxTable,
    column: &str,
    retain: Duration,
    limit: u32,
    but: &Versions,
) -> Result<ExpiredRows, ObjectError> {
    refuse_what_is_no_time(table, column)?;
    let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {SHORT}");
    let refused = |error| ObjectError::of_expired(table, column, ExpiredStep::Find, error);
    client.batch_execute(&begin).await?;
    let sql = expired_sql(table, column);
    let (seconds, limit) = (retain.as_secs_f64(), i64::from(limit));
    let found = client
        .query(
            &sql,
            &[&seconds, &limit, &but.tables, &but.places, &but.made_by],
        )
        .await
        .map_err(refused)?;
    let committed_before = current_position(client).await?;
    client.batch_execute("COMMIT").await?;
    Ok(ExpiredRows {
        versions: Versions::read(&found)?,
        committed_before,
    })
}

/// What became of rows that were to go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    pub deleted: u64,
    /// Still there and still due, though nobody else has touched them: a trigger, a rule or row security
    /// made less of the DELETE.
    pub kept: Versions,
}

/// Deletes those of the rows that are still as they were.
pub async fn delete(
    client: &Client,
    table: &OutboxTable,
    column: &str,
    retain: Duration,
    rows: &Versions,
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
    // Fewer is no sign yet: others delete and change rows as well.
    let own = match deleted < rows.len() as u64 {
        true => Some(client.query_one(OWN, &[]).await?.try_get(0)?),
        false => None,
    };
    // Triggers and foreign keys that are deferred speak here.
    client.batch_execute("COMMIT").await.map_err(refused)?;
    let mut deletion = Deletion {
        deleted,
        kept: Versions::default(),
    };
    if let Some(own) = own {
        // What went is gone, whatever becomes of this.
        match kept(client, table, column, retain, rows, own).await {
            Ok(kept) => deletion.kept = kept,
            Err(error) => {
                tracing::debug!(%error, "what a DELETE has left was not found out");
                client.batch_execute("ROLLBACK").await?;
            }
        }
    }
    Ok(deletion)
}

/// The transaction that deletes, where it has written anything.
const OWN: &str = "SELECT pg_current_xact_id_if_assigned()::xid::text";

async fn kept(
    client: &Client,
    table: &OutboxTable,
    column: &str,
    retain: Duration,
    rows: &Versions,
    own: Option<String>,
) -> Result<Versions, ObjectError> {
    let begin = format!("BEGIN READ ONLY; {SHORT}");
    client.batch_execute(&begin).await?;
    let (sql, seconds) = (kept_sql(table, column), retain.as_secs_f64());
    let kept = client
        .query(
            &sql,
            &[&seconds, &rows.tables, &rows.places, &rows.made_by, &own],
        )
        .await?;
    client.batch_execute("COMMIT").await?;
    Versions::read(&kept)
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
        "SELECT due.tableoid, due.ctid::text, due.xmin::text FROM {} AS due \
          WHERE due.{} < now() - make_interval(secs => $1) \
            AND NOT EXISTS (SELECT FROM unnest($3::oid[], $4::text[]::tid[], $5::text[]::xid[]) AS seen(part, place, made_by) \
                             WHERE seen.part = due.tableoid AND seen.place = due.ctid AND seen.made_by = due.xmin){} LIMIT $2",
        source(table),
        quote_identifier(column),
        among(table) + not_brought_along(table)
    )
}

/// A partition that was filled before it was attached, by one transaction, has rows that no stream had.
fn not_brought_along(table: &OutboxTable) -> &'static str {
    match table.partitions {
        Some(_) => {
            " AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits AS link \
                             WHERE link.inhrelid = due.tableoid AND link.xmin = due.xmin)"
        }
        None => "",
    }
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

/// Of the rows that a DELETE was to have: as they were, or written anew by its transaction, `$5` (a trigger
/// that marks rows instead of deleting them). `currtid2` says where the latest version of a row lies, so that
/// nothing but these places is read.
fn kept_sql(table: &OutboxTable, column: &str) -> String {
    format!(
        "SELECT kept.tableoid, kept.ctid::text, kept.xmin::text FROM {} AS kept \
          WHERE kept.ctid = ANY (ARRAY(SELECT CASE WHEN has_table_privilege(part, 'SELECT') THEN currtid2(part::regclass::text, place) ELSE place END \
                                         FROM unnest($2::oid[], $3::text[]::tid[]) AS seen(part, place))) \
            AND kept.{} < now() - make_interval(secs => $1) \
            AND (kept.xmin = $5::text::xid \
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
pub(crate) mod tests {
    use super::*;
    use crate::pgoutput::ReplicaIdentity;
    use crate::postgres::table::{Partition, TableColumn};

    pub(crate) fn outbox(type_oid: u32) -> OutboxTable {
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

    pub(crate) fn versions(count: u32) -> Versions {
        Versions {
            tables: vec![1; count as usize],
            places: (0..count).map(|row| format!("(0,{row})")).collect(),
            made_by: vec!["700".into(); count as usize],
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
        let expired = expired_sql(&table, "At");
        assert!(
            expired.contains(" FROM ONLY \"public\".\"outbox\" AS due WHERE due.\"At\" < now()")
        );
        assert!(expired.ends_with(" LIMIT $2"));
        // Without it the whole table would be read for each batch.
        let places = " FROM ONLY \"public\".\"outbox\" AS kept WHERE kept.ctid = ANY (";
        assert!(kept_sql(&table, "At").contains(places));
        let partition = |oid| Partition {
            oid,
            schema: "public".into(),
            name: format!("p{oid}"),
        };
        table.partitions = Some(vec![partition(2), partition(3)]);
        let among = " AND tableoid = ANY ('{2,3}'::oid[])";
        let brought = " link.xmin = due.xmin) LIMIT $2";
        let expired = expired_sql(&table, "At");
        assert!(expired.contains(among) && expired.ends_with(brought));
        assert!(delete_sql(&table).ends_with(among));
        assert!(kept_sql(&table, "At").ends_with(among));
        assert!(delete_sql(&table).starts_with("DELETE FROM \"public\".\"outbox\" AS kept WHERE "));
    }
}
