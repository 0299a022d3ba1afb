//! One pass over the retained rows.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow, SimpleQueryStream};

use super::SnapshotOptions;
use crate::lsn::Lsn;
use crate::pgoutput::{Datum, Relation, Tuple};
use crate::postgres::slot::{self, SlotName, SlotOptions};
use crate::postgres::table::OutboxTable;
use crate::postgres::{ObjectError, PostgresError, ReplicationSession};
use crate::timestamp::Timestamp;
use crate::wire::{quote_identifier, quote_literal};

/// The rows of the outbox as they are at one point of the log, read without a store: while they
/// are published their slot is a temporary one, and goes with the session in a crash. Only
/// [`Snapshot::finish`] makes it permanent.
pub struct Snapshot {
    client: Client,
    /// Absent where a slot exists already, or none is wanted.
    temporary: Option<SlotName>,
    consistent_point: Lsn,
    taken_at: Timestamp,
    rows: u64,
    rows_read: u64,
    waiting: VecDeque<Scan>,
    reading: Option<(Scan, Pin<Box<SimpleQueryStream>>)>,
    /// Rows that were read by a call that was dropped before it returned them.
    batch: Vec<SnapshotRow>,
    batch_bytes: usize,
}

/// One table's SELECT.
struct Scan {
    relation: Arc<Relation>,
    sql: String,
}

impl Scan {
    fn unreadable(&self, error: tokio_postgres::Error) -> ObjectError {
        ObjectError::of_rows(self.relation.qualified_name(), error)
    }
}

/// A row in the text form of the stream.
#[derive(Debug)]
pub struct SnapshotRow {
    pub relation: Arc<Relation>,
    row: SimpleQueryRow,
}

impl SnapshotRow {
    /// Text or null by column, as the output plugin would send it.
    pub fn tuple(&self) -> Tuple<'_> {
        let datum = |index| {
            let text = self
                .row
                .try_get(index)
                .expect("the row was checked when it came");
            text.map_or(Datum::Null, |text| Datum::Text(text.as_bytes()))
        };
        Tuple {
            datums: (0..self.row.len()).map(datum).collect(),
        }
    }

    pub(super) const fn new(relation: Arc<Relation>, row: SimpleQueryRow) -> Self {
        Self { relation, row }
    }

    /// The bytes of the values, or the column that is not UTF-8.
    pub(super) fn check(&self) -> Result<usize, ObjectError> {
        let mut bytes = 0;
        for (index, column) in self.row.columns().iter().enumerate() {
            let text = self.row.try_get(index).map_err(|_| ObjectError::NotUtf8 {
                table: self.relation.qualified_name(),
                column: column.name().to_owned(),
            })?;
            bytes += text.map_or(0, str::len);
        }
        Ok(bytes)
    }
}

impl Snapshot {
    /// Creates the temporary slot on `session` and counts the rows under the snapshot that it
    /// exports. The publication must exist already. Waits for the transactions that are open now.
    /// The slot lives as long as `session`, which [`Snapshot::finish`] wants back.
    ///
    /// `client` is an ordinary session with the same server; the snapshot keeps it.
    pub async fn begin(
        session: &mut ReplicationSession,
        client: Client,
        options: &SnapshotOptions,
        slot: &SlotOptions,
        tables: &[OutboxTable],
    ) -> Result<Self, ObjectError> {
        slot::refuse_failover(slot, slot::server_version(&client).await?)?;
        room_for_two(&client, slot).await?;
        let temporary = slot.name.for_snapshot();
        let created = session.create_temporary_slot(temporary.as_str()).await?;
        // The exported snapshot is valid until the session's next command: it is taken at once.
        let begun = async {
            let (_, taken_at) = open(&client, Some(&created.snapshot_name)).await?;
            let point = created.consistent_point;
            Self::count(
                client,
                Some(temporary.clone()),
                point,
                taken_at,
                options,
                tables,
            )
            .await
        };
        match begun.await {
            Ok(snapshot) => Ok(snapshot),
            Err(error) => {
                // The first error is the one to tell; without the session the slot goes by itself.
                drop(drop_temporary(session, &temporary).await);
                Err(error)
            }
        }
    }

    /// Reads under a snapshot of its own, beside a slot that exists or without one. What commits
    /// later is in the slot's stream, and so may be what was read.
    pub async fn begin_beside(
        client: Client,
        options: &SnapshotOptions,
        tables: &[OutboxTable],
    ) -> Result<Self, ObjectError> {
        let (point, taken_at) = open(&client, None).await?;
        Self::count(client, None, point, taken_at, options, tables).await
    }

    async fn count(
        client: Client,
        temporary: Option<SlotName>,
        consistent_point: Lsn,
        taken_at: Timestamp,
        options: &SnapshotOptions,
        tables: &[OutboxTable],
    ) -> Result<Self, ObjectError> {
        let mut rows = 0;
        for table in tables {
            let sql = format!("SELECT count(*) FROM {}", source(table, options));
            let counted = client.query_one(&sql, &[]).await;
            let counted =
                counted.map_err(|error| ObjectError::of_rows(table.qualified_name(), error))?;
            let counted: i64 = counted.try_get(0)?;
            rows += u64::try_from(counted).unwrap_or(0);
        }
        let scan = |table: &OutboxTable| Scan {
            relation: table.relation(),
            sql: select(table, options),
        };
        Ok(Self {
            client,
            temporary,
            consistent_point,
            taken_at,
            rows,
            rows_read: 0,
            waiting: tables.iter().map(scan).collect(),
            reading: None,
            batch: Vec::new(),
            batch_bytes: 0,
        })
    }

    /// The snapshot sees what committed before this position, and the slot streams the rest.
    pub fn consistent_point(&self) -> Lsn {
        self.consistent_point
    }

    /// The server's time at the start of the snapshot's transaction.
    pub fn taken_at(&self) -> Timestamp {
        self.taken_at
    }

    /// How many rows will be read, counted under the same snapshot.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub fn rows_read(&self) -> u64 {
        self.rows_read
    }

    /// The next rows, in the order in which they lie in the table; `None` after the last. Ends
    /// with the row that reaches `max_bytes`. Cancel-safe: a call that is dropped loses no row.
    pub async fn next_rows(
        &mut self,
        max_bytes: usize,
    ) -> Result<Option<Vec<SnapshotRow>>, ObjectError> {
        while self.batch_bytes < max_bytes {
            match self.next_row().await? {
                Some(row) => {
                    self.batch_bytes += row.check()?;
                    self.rows_read += 1;
                    self.batch.push(row);
                }
                None => break,
            }
        }
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        Ok((!batch.is_empty()).then_some(batch))
    }

    async fn next_row(&mut self) -> Result<Option<SnapshotRow>, ObjectError> {
        loop {
            if self.reading.is_none() {
                let Some(scan) = self.waiting.front() else {
                    return Ok(None);
                };
                let stream = self.client.simple_query_raw(&scan.sql).await;
                let stream = stream.map_err(|error| scan.unreadable(error))?;
                let scan = self.waiting.pop_front();
                self.reading = scan.map(|scan| (scan, Box::pin(stream)));
            }
            let Some((scan, stream)) = &mut self.reading else {
                continue;
            };
            match stream.next().await {
                Some(Ok(SimpleQueryMessage::Row(row))) => {
                    return Ok(Some(SnapshotRow::new(Arc::clone(&scan.relation), row)));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(scan.unreadable(error)),
                None => self.reading = None,
            }
        }
    }

    /// To be called when every row is acknowledged: makes the slot permanent at the consistent
    /// point and drops the temporary one, which would hold back the log as long as the session
    /// lives. Returns where the stream begins.
    pub async fn finish(
        self,
        session: &mut ReplicationSession,
        slot: &SlotOptions,
    ) -> Result<Lsn, ObjectError> {
        let Some(temporary) = &self.temporary else {
            return Ok(self.consistent_point);
        };
        let copied = slot::copy_temporary(session, temporary, &slot.name).await?;
        if copied != self.consistent_point {
            return Err(ObjectError::SlotMoved {
                name: slot.name.to_string(),
                expected: self.consistent_point,
                found: copied.to_string(),
            });
        }
        if slot.failover {
            slot::set_failover(session, slot).await?;
        }
        drop_temporary(session, temporary).await?;
        Ok(copied)
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("consistent_point", &self.consistent_point)
            .field("rows", &self.rows)
            .field("rows_read", &self.rows_read)
            .finish_non_exhaustive()
    }
}

/// Before a row is published: without room for the lasting slot all of them would come again and again.
async fn room_for_two(client: &Client, slot: &SlotOptions) -> Result<(), ObjectError> {
    const ROOM: &str = "SELECT slots, slots - (SELECT count(*) FROM pg_replication_slots) AS free
                          FROM (SELECT current_setting('max_replication_slots')::bigint AS slots) room";
    let row = client.query_one(ROOM, &[]).await?;
    let (slots, free): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    if free < 2 {
        let name = slot.name.to_string();
        return Err(ObjectError::NoRoomForSlot { name, slots });
    }
    Ok(())
}

async fn drop_temporary(
    session: &mut ReplicationSession,
    temporary: &SlotName,
) -> Result<(), PostgresError> {
    let name = quote_literal(temporary.as_str());
    session
        .query(&format!("SELECT pg_drop_replication_slot({name})"))
        .await
        .map(drop)
}

/// Begins the transaction under the exported snapshot, or under its own. Returns the position and
/// the time.
///
/// No timeout of the role's may end it, however long Kafka takes. A sequential scan begins at the
/// first page, so that rows come in about the order in which they were inserted. Row security
/// raises an error instead of leaving rows out.
pub(super) async fn open(
    client: &Client,
    exported: Option<&str>,
) -> Result<(Lsn, Timestamp), PostgresError> {
    let mut sql = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY".to_owned();
    if let Some(name) = exported {
        sql.push_str(&format!(
            "; SET TRANSACTION SNAPSHOT {}",
            quote_literal(name)
        ));
    }
    client.batch_execute(&sql).await?;
    client.query(SETTINGS, &[]).await?;
    let row = client.query_one(NOW, &[]).await?;
    let point: &str = row.try_get(0)?;
    let point = point
        .parse()
        .map_err(|_| PostgresError::unexpected("the server's position", b'D'))?;
    Ok((point, Timestamp::from_postgres_us(row.try_get(1)?)))
}

/// Only those that this server knows: `transaction_timeout` came with PostgreSQL 17.
const SETTINGS: &str = "
    SELECT set_config(wanted.name, wanted.value, true)
      FROM (VALUES ('statement_timeout', '0'), ('lock_timeout', '0'),
                   ('idle_in_transaction_session_timeout', '0'), ('transaction_timeout', '0'),
                   ('synchronize_seqscans', 'off'), ('max_parallel_workers_per_gather', '0'),
                   ('row_security', 'off'), ('standard_conforming_strings', 'on')) AS wanted(name, value)
      JOIN pg_settings s ON s.name = wanted.name";

const NOW: &str = "
    SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                 ELSE pg_current_wal_lsn() END)::text,
           ((extract(epoch FROM transaction_timestamp()) - 946684800) * 1000000)::bigint";

pub(super) fn select(table: &OutboxTable, options: &SnapshotOptions) -> String {
    let columns: Vec<String> = table
        .streamed_columns()
        .map(|column| quote_identifier(&column.name))
        .collect();
    format!(
        "SELECT {} FROM {}",
        columns.join(", "),
        source(table, options)
    )
}

/// An ordinary table without those that inherit from it: their rows arrive under their own names.
pub(super) fn source(table: &OutboxTable, options: &SnapshotOptions) -> String {
    if let Some(statement) = options.statement_for(&table.schema, &table.name) {
        let statement = statement.trim().trim_end_matches(';');
        return format!("({statement}\n) AS retained");
    }
    match table.partitions {
        Some(_) => table.quoted_name(),
        None => format!("ONLY {}", table.quoted_name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgoutput::ReplicaIdentity;
    use crate::postgres::snapshot::SelectOverride;
    use crate::postgres::table::TableColumn;

    fn outbox() -> OutboxTable {
        let column = |name: &str, generated| TableColumn {
            name: name.into(),
            type_oid: 25,
            type_modifier: -1,
            type_sql: "text".into(),
            nullable: true,
            is_key: false,
            generated,
        };
        OutboxTable {
            oid: 1,
            schema: "Sales".into(),
            name: "Outbox".into(),
            replica_identity: ReplicaIdentity::Default,
            columns: vec![
                column("id", false),
                column("pay\"load", false),
                column("sum", true),
            ],
            partitions: None,
            row_security: false,
            estimated_rows: None,
        }
    }

    #[test]
    fn only_what_the_stream_has_too_is_selected() {
        let options = SnapshotOptions::default();
        assert_eq!(
            select(&outbox(), &options),
            "SELECT \"id\", \"pay\"\"load\" FROM ONLY \"Sales\".\"Outbox\""
        );
        let root = OutboxTable {
            partitions: Some(Vec::new()),
            ..outbox()
        };
        assert_eq!(source(&root, &options), "\"Sales\".\"Outbox\"");
    }

    #[test]
    fn an_override_stands_in_for_the_table() {
        let options = SnapshotOptions {
            overrides: vec![SelectOverride {
                table: "Sales.Outbox".into(),
                statement: "SELECT * FROM o -- newest;\n;".into(),
            }],
            ..SnapshotOptions::default()
        };
        assert_eq!(
            select(&outbox(), &options),
            "SELECT \"id\", \"pay\"\"load\" FROM (SELECT * FROM o -- newest;\n\n) AS retained"
        );
    }
}
