//! One retained row, to show what would become of it.

use tokio_postgres::{Client, SimpleQueryMessage};

use super::SnapshotOptions;
use super::read::{SnapshotRow, open, select};
use crate::lsn::Lsn;
use crate::postgres::ObjectError;
use crate::postgres::table::OutboxTable;
use crate::timestamp::Timestamp;

/// The first row of a table as a snapshot reads it, and when and where it was read.
#[derive(Debug)]
pub struct FirstRow {
    pub read_at: Timestamp,
    pub lsn: Lsn,
    /// Absent where the table holds none.
    pub row: Option<SnapshotRow>,
}

/// Reads it in a transaction of its own, which is read-only and ended again.
pub async fn first_row(
    client: &Client,
    table: &OutboxTable,
    options: &SnapshotOptions,
) -> Result<FirstRow, ObjectError> {
    let (lsn, read_at) = open(client, None).await?;
    let sql = format!("{} LIMIT 1", select(table, options));
    let answer = client.simple_query(&sql).await;
    let messages = answer.map_err(|error| ObjectError::of_rows(table.qualified_name(), error))?;
    client.batch_execute("ROLLBACK").await?;
    let row = messages.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(SnapshotRow::new(table.relation(), row)),
        _ => None,
    });
    if let Some(row) = &row {
        row.check()?;
    }
    Ok(FirstRow { read_at, lsn, row })
}
