//! What one row would look like on the wire: through the router that the relay has.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio_postgres::Client;

use crate::config::Config;
use crate::lsn::Lsn;
use crate::outbox::{Change, Operation, TypeCatalog, plausible_text};
use crate::pgoutput::{Datum, Tuple};
use crate::postgres::preflight::{Check, CheckOutcome};
use crate::postgres::snapshot::{FirstRow, first_row};
use crate::postgres::table::{OutboxTable, TableColumn};
use crate::postgres::{ObjectError, PostgresError};
use crate::router::{ColumnRole, Note, Options, Record, Routed};
use crate::timestamp::Timestamp;

/// One row and the record that it becomes.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) table: String,
    pub(super) source: Source,
    pub(super) record: Record,
    pub(super) note: Option<Note>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    FirstRow,
    /// From the columns' types, since there was no row; and why.
    MadeUp(String),
}

/// A table may be long and its beginning empty, or locked: the sample is not worth a long wait.
const PATIENCE: Duration = Duration::from_secs(5);

/// Of a table whose columns suit. An error is what the relay would meet with this row.
pub(super) async fn take(
    config: &Config,
    client: &Client,
    table: &OutboxTable,
    catalog: &TypeCatalog,
) -> Result<Sample, Check> {
    let mut router = config.event_router();
    router.learn_types(catalog.clone());
    let reading = tokio::time::timeout(PATIENCE, first_row(client, table, &config.snapshot));
    let (found, source) = match reading.await {
        Ok(Ok(found)) if found.row.is_some() => (found, Source::FirstRow),
        Ok(Ok(found)) => (found, Source::MadeUp("the table holds none".to_owned())),
        Ok(Err(error)) => (nothing(), Source::MadeUp(error.to_string())),
        Err(_) => {
            // The server would wait on without us.
            config.postgres.sessions.cancel().await;
            let error = ObjectError::Session(PostgresError::Silent { after: PATIENCE });
            (nothing(), Source::MadeUp(error.to_string()))
        }
    };
    let made_up = made_up(&config.router, table, catalog);
    let tuple = match &found.row {
        Some(row) => row.tuple(),
        None => as_tuple(&made_up),
    };
    let relation = table.relation();
    let change = Change {
        operation: Operation::Read,
        relation: &relation,
        new: Some(&tuple),
        commit_time: found.read_at,
        commit_lsn: found.lsn,
    };
    let table = table.qualified_name();
    match router.route(&change) {
        Ok(Routed::Publish { record, note }) => Ok(Sample {
            table,
            source,
            record,
            note,
        }),
        Ok(Routed::Drop(reason)) => {
            let found = format!("a row of \"{table}\" is dropped: {}", reason.as_str());
            Err(Check {
                outcome: CheckOutcome::Warning,
                ..Check::ok("row", found)
            })
        }
        Err(error) => {
            let (which, outcome) = match &source {
                Source::FirstRow => ("the first row", CheckOutcome::Error),
                Source::MadeUp(_) => ("a made-up row", CheckOutcome::Warning),
            };
            let found = format!(
                "{which} of \"{table}\" cannot be routed: {}",
                config.door.reword(&error.to_string())
            );
            let check = Check::error("row", found, config.door.reword(&error.hint()));
            Err(Check { outcome, ..check })
        }
    }
}

fn nothing() -> FirstRow {
    FirstRow {
        read_at: Timestamp::from(SystemTime::now()),
        lsn: Lsn::ZERO,
        row: None,
    }
}

/// Texts by column; a column that the options do not name has whatever its type allows.
fn made_up(options: &Options, table: &OutboxTable, catalog: &TypeCatalog) -> Vec<Option<String>> {
    let roles = options.columns();
    // Of a column with several purposes, the route is the most particular; it comes last.
    let wish = |name: &str| {
        let of_column = roles.iter().rev().filter(|(column, ..)| *column == name);
        let mut wishes = of_column.filter_map(|(_, _, role, _)| match role {
            ColumnRole::Route => Some("order"),
            ColumnRole::Payload => Some("{\"status\": \"shipped\"}"),
            ColumnRole::Key => Some("ORD-1"),
            _ => None,
        });
        wishes.next().unwrap_or("text")
    };
    let text = |column: &TableColumn| {
        let (oid, modifier) = (column.type_oid, column.type_modifier);
        plausible_text(oid, modifier, catalog, wish(&column.name))
    };
    table.streamed_columns().map(text).collect()
}

fn as_tuple(texts: &[Option<String>]) -> Tuple<'_> {
    let datums = texts.iter().map(|text| match text {
        Some(text) => Datum::Text(text.as_bytes()),
        None => Datum::Null,
    });
    Tuple {
        datums: datums.collect(),
    }
}

impl Sample {
    /// The topic is that of an event and no invention: of a row that is there, or of every row.
    pub(super) fn real_topic(&self, config: &Config) -> Option<Arc<str>> {
        let topic = &config.router.topic;
        let is_constant = topic.topic("order") == topic.topic("another");
        (is_constant || self.source == Source::FirstRow).then(|| Arc::clone(&self.record.topic))
    }
}
