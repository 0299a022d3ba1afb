//! What the server has is not what the relay needs: tables, publication, slot.

use std::error::Error;
use std::fmt;

use super::selecting::{of_selection, place_in};
use super::slot::SlotVerdict;
use super::snapshot::FragmentFault;
use super::table::OutboxTable;
use super::{PostgresError, sqlstate};
use crate::lsn::Lsn;
use crate::wire::{OneLine, quote_identifier, quote_literal};

#[derive(Debug)]
pub enum ObjectError {
    /// The session failed, or the server refused for a reason of its own.
    Session(PostgresError),
    /// `near` are names of the catalog that resemble the filter.
    NoTable {
        filter: String,
        near: Vec<String>,
    },
    /// A view, a foreign table, an unlogged table: nothing that a publication can send.
    NotPublishable {
        table: String,
        kind: &'static str,
    },
    PublicationMissing {
        name: String,
        create_sql: String,
    },
    /// The slot is older than any publication that could be made now.
    PublicationGone {
        name: String,
        slot: String,
        create_sql: String,
    },
    /// The server did not let this role create or change the publication.
    PublicationRefused {
        name: String,
        sql: String,
        source: PostgresError,
    },
    PublicationLacksTable {
        name: String,
        table: String,
        sql: String,
        /// The table that had this name while it was streamed was another one.
        earlier: Option<EarlierTable>,
    },
    PublicationLacksInserts {
        name: String,
        sql: String,
    },
    /// Debezium's `filtered` cannot narrow a publication that is `FOR ALL TABLES`.
    PublicationForAllTables {
        name: String,
    },
    SlotUnusable {
        name: String,
        verdict: SlotVerdict,
    },
    /// The slot's name was taken while its first snapshot was read.
    SlotAppeared {
        name: String,
    },
    /// The snapshot's slot fits, and the one that is to stay does not.
    NoRoomForSlot {
        name: String,
        slots: i64,
    },
    /// The copy of the temporary slot does not stand where the snapshot was taken.
    SlotMoved {
        name: String,
        expected: Lsn,
        found: String,
    },
    /// `failover` on a server before PostgreSQL 17.
    FailoverUnsupported {
        name: String,
        server_version: u32,
    },
    /// The server refused the SELECT of a snapshot. Its text can quote values of the rows, so only
    /// the code is kept.
    RowsUnreadable {
        table: String,
        sqlstate: String,
    },
    /// The server does not take the SQL with which rows were to be chosen. No row was read, so its
    /// words quote the operator's own.
    SelectionRefused {
        /// The option whose text it is.
        option: &'static str,
        text: String,
        /// The character of it, from 1, where the server says so.
        at: Option<usize>,
        source: PostgresError,
    },
    /// Such SQL reaches into the statement around it.
    SelectionUnclosed {
        option: &'static str,
        text: String,
        fault: FragmentFault,
    },
    /// A column that the configuration names has no values in what the server sends.
    GeneratedColumn {
        table: String,
        column: String,
    },
    /// The column that was to tell how old a row is.
    NoTimeColumn {
        table: String,
        column: String,
        /// Its type; absent where there is no such column.
        found: Option<String>,
    },
    /// The server refused a statement of housekeeping's. A trigger's text, or a foreign key's, quotes
    /// values of the rows, so only the code is kept.
    ExpiredRows {
        table: String,
        /// As SQL names them.
        quoted_table: String,
        quoted_column: String,
        step: ExpiredStep,
        sqlstate: String,
    },
    /// A DELETE of housekeeping's succeeded, and rows that it named are there as before, or with other
    /// values and still due. `kept` of `found`.
    ExpiredRowsKept {
        table: String,
        kept: u64,
        found: u64,
    },
    /// A value of a retained row is not UTF-8: the database's encoding is SQL_ASCII.
    NotUtf8 {
        table: String,
        column: String,
    },
}

/// What housekeeping was about to do with rows whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiredStep {
    Find,
    Delete,
}

/// What to do about it, by the code alone.
fn hint_of_expired(table: &str, column: &str, step: ExpiredStep, code: &str) -> String {
    match (code, step) {
        (sqlstate::QUERY_CANCELED, ExpiredStep::Find) => format!(
            "It is given up after 30 s, and a large table takes longer without an index: CREATE INDEX CONCURRENTLY ON {table} ({column});"
        ),
        (sqlstate::QUERY_CANCELED, ExpiredStep::Delete) => format!(
            "It is given up after 30 s. Lower housekeeping.batch_rows, and see what each deleted row costs: triggers of {table}, and foreign keys that refer to it without an index of theirs."
        ),
        (sqlstate::LOCK_NOT_AVAILABLE, _) => format!(
            "Nobody is made to wait for it, so it gives up after a second. Who holds the lock, while it is held: SELECT pid, mode, query FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE relation = {}::regclass AND granted; Several relays that delete from one table wait for each other, too.",
            quote_literal(table)
        ),
        (sqlstate::INSUFFICIENT_PRIVILEGE, _) => format!(
            "Run as the table's owner: GRANT SELECT, DELETE ON {table} TO …; A trigger of the table needs its own rights."
        ),
        (code, _) if code.starts_with("23") => format!(
            "Another table refers to rows of {table}: drop the foreign key, or give it ON DELETE CASCADE and an index. The server's log has its words."
        ),
        _ => "The server's log has its words, which may quote values of the rows.".to_owned(),
    }
}

/// What became of a table whose name another one has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EarlierTable {
    RenamedTo(String),
    Dropped,
}

impl ObjectError {
    /// Outbox rows that are inserted meanwhile reach no stream.
    pub fn hides_rows(&self) -> bool {
        matches!(
            self,
            Self::NoTable { .. }
                | Self::NotPublishable { .. }
                | Self::PublicationMissing { .. }
                | Self::PublicationGone { .. }
                | Self::PublicationLacksTable { .. }
                | Self::PublicationLacksInserts { .. }
        )
    }

    /// What a SELECT over the rows of `table` met. The server's words are left out whatever the code:
    /// a function can raise any of them, with any text.
    pub(super) fn of_rows(table: String, error: tokio_postgres::Error) -> Self {
        match error.code().map(|code| code.code()) {
            Some(code) if !sqlstate::concerns_the_server(code) => Self::RowsUnreadable {
                table,
                sqlstate: code.to_owned(),
            },
            _ => Self::Session(PostgresError::without_words(error)),
        }
    }

    /// What a statement met that was to find or delete rows of `table` whose time is over. Whatever the
    /// code, the text can be that of a trigger.
    pub(super) fn of_expired(
        table: &OutboxTable,
        column: &str,
        step: ExpiredStep,
        error: tokio_postgres::Error,
    ) -> Self {
        match error.code().map(|code| code.code().to_owned()) {
            Some(sqlstate) => Self::ExpiredRows {
                table: table.qualified_name(),
                quoted_table: table.quoted_name(),
                quoted_column: quote_identifier(column),
                step,
                sqlstate,
            },
            None => error.into(),
        }
    }

    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Session(error) | Self::PublicationRefused { source: error, .. } => error.detail(),
            Self::SelectionRefused { text, at, source, .. } => {
                let place = at.map(|at| place_in(text, at));
                let details = [place, source.detail()].into_iter().flatten();
                let details = details.collect::<Vec<_>>().join(" ");
                (!details.is_empty()).then_some(details)
            }
            Self::SelectionUnclosed { text, fault, .. } => Some(place_in(text, fault.at)),
            Self::GeneratedColumn { .. } => Some(
                "The column is generated, and replication leaves such columns out (before PostgreSQL 18, and from 18 on where the publication does not say publish_generated_columns); a snapshot reads what the stream has.".into(),
            ),
            Self::NoTable { near, .. } if !near.is_empty() => {
                Some(format!("The database has {}.", near.join(", ")))
            }
            Self::PublicationLacksTable {
                earlier: Some(earlier),
                ..
            } => Some(match earlier {
                EarlierTable::RenamedTo(name) => format!(
                    "The table that was streamed under this name is \"{name}\" now, and this one is another."
                ),
                EarlierTable::Dropped => {
                    "The table that was streamed under this name was dropped, and this one is another."
                        .into()
                }
            }),
            Self::SlotUnusable { verdict, .. } => verdict.detail(),
            Self::ExpiredRowsKept { kept, found, .. } => Some(format!(
                "{kept} of {found}. The server reported no error."
            )),
            Self::PublicationGone { slot, .. } => Some(format!(
                "Replication slot \"{slot}\" exists. What was committed while there was no publication cannot be sent through a younger one; the server refuses it (42704)."
            )),
            _ => None,
        }
    }

    pub fn hint(&self) -> Option<String> {
        let run = |sql: &str| Some(format!("Run as its owner or a superuser: {sql};"));
        match self {
            Self::Session(error) => error.hint(),
            Self::NoTable { .. } => Some(
                "Name the outbox as schema.table, with the case it has in the catalog, and see that the connection goes to the right database.".into(),
            ),
            Self::NotPublishable { .. } => Some("Name an ordinary or a partitioned table.".into()),
            Self::PublicationMissing { create_sql: sql, .. }
            | Self::PublicationRefused { sql, .. }
            | Self::PublicationLacksTable { sql, .. }
            | Self::PublicationLacksInserts { sql, .. } => run(sql),
            Self::PublicationGone { slot, create_sql, .. } => Some(format!(
                "If no table was written to since the publication was dropped, make it again: {create_sql}; Otherwise drop the slot too (SELECT pg_drop_replication_slot('{slot}');) and start once with --accept-gap: it publishes the retained rows again, and events that were already deleted are lost."
            )),
            Self::PublicationForAllTables { .. } => Some(
                "Use another publication name, or the mode all_tables to keep it as it is.".into(),
            ),
            Self::SlotUnusable { name, verdict } => verdict.hint(name),
            Self::SlotAppeared { name } => Some(format!(
                "Drop it and start again, so that snapshot and stream meet: SELECT pg_drop_replication_slot('{name}'); A start that takes it as it is leaves out what was committed between the two."
            )),
            Self::NoRoomForSlot { .. } => Some(
                "Drop a slot that nobody uses, or raise max_replication_slots and restart PostgreSQL."
                    .into(),
            ),
            Self::SlotMoved { name, .. } => Some(format!(
                "Drop the slot and start again: SELECT pg_drop_replication_slot('{name}');"
            )),
            Self::FailoverUnsupported { .. } => {
                Some("Turn slot.failover off, or use PostgreSQL 17 or later.".into())
            }
            Self::RowsUnreadable { table, sqlstate } => Some(match sqlstate.as_str() {
                sqlstate::INSUFFICIENT_PRIVILEGE => "Run as the table's owner: GRANT SELECT to the relay's role. Where the table has row security, its policies must not leave rows out: as a superuser, ALTER ROLE … BYPASSRLS.".to_owned(),
                _ => format!(
                    "Run the snapshot's SELECT by hand to see the server's words, which may quote values. Correct snapshot.select.\"{table}\" or the condition that was given."
                ),
            }),
            Self::SelectionRefused { option, source, .. } => {
                source.hint().or_else(|| Some(of_selection(option)))
            }
            Self::SelectionUnclosed { option, .. } => Some(of_selection(option)),
            Self::GeneratedColumn { column, .. } => Some(format!(
                "Let the service or a trigger fill an ordinary column and name that one, or drop the expression: ALTER TABLE … ALTER COLUMN {} DROP EXPRESSION (of a stored one).",
                quote_identifier(column)
            )),
            Self::NoTimeColumn { .. } => Some(
                "Set housekeeping.column to a column with the time of the insert, or housekeeping.retain to nothing.".into(),
            ),
            Self::ExpiredRows {
                quoted_table,
                quoted_column,
                step,
                sqlstate,
                ..
            } => Some(hint_of_expired(quoted_table, quoted_column, *step, sqlstate)),
            Self::ExpiredRowsKept { table, .. } => Some(format!(
                "A trigger before the DELETE, a rule, or a policy of row security keeps them: \\d of \"{table}\" in psql shows which. Let the relay's role delete them, or set housekeeping.retain to nothing."
            )),
            Self::NotUtf8 { .. } => Some(
                "Convert the value; databases with the encoding SQL_ASCII hold any bytes.".into(),
            ),
        }
    }

    /// The statement that the hint asks for, without its semicolon.
    pub fn sql(&self) -> Option<&str> {
        match self {
            Self::PublicationMissing {
                create_sql: sql, ..
            }
            | Self::PublicationRefused { sql, .. }
            | Self::PublicationLacksTable { sql, .. }
            | Self::PublicationLacksInserts { sql, .. } => Some(sql),
            _ => None,
        }
    }

    /// The server's own code, where it was the server that refused.
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Self::Session(error)
            | Self::PublicationRefused { source: error, .. }
            | Self::SelectionRefused { source: error, .. } => error.sqlstate(),
            Self::RowsUnreadable { sqlstate, .. } | Self::ExpiredRows { sqlstate, .. } => {
                Some(sqlstate)
            }
            _ => None,
        }
    }
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(error) => error.fmt(f),
            Self::NoTable { filter, .. } => write!(f, "no table matches \"{filter}\""),
            Self::NotPublishable { table, kind } => {
                write!(f, "\"{table}\" is {kind}: its rows cannot be published")
            }
            Self::PublicationMissing { name, .. } | Self::PublicationGone { name, .. } => {
                write!(f, "publication \"{name}\" does not exist")
            }
            Self::PublicationRefused { name, source, .. } => {
                write!(
                    f,
                    "publication \"{name}\" cannot be created or changed: {source}"
                )
            }
            Self::PublicationLacksTable { name, table, .. } => {
                write!(f, "table \"{table}\" is not in publication \"{name}\"")
            }
            Self::PublicationLacksInserts { name, .. } => {
                write!(f, "publication \"{name}\" does not publish inserts")
            }
            Self::PublicationForAllTables { name } => write!(
                f,
                "publication \"{name}\" is FOR ALL TABLES and cannot be set to the outbox alone"
            ),
            Self::SlotUnusable { name, verdict } => {
                write!(f, "replication slot \"{name}\" {verdict}")
            }
            Self::SlotAppeared { name } => write!(
                f,
                "replication slot \"{name}\" was created by someone else while the snapshot was read"
            ),
            Self::NoRoomForSlot { name, slots } => write!(
                f,
                "no room for replication slot \"{name}\": max_replication_slots is {slots}, and a snapshot needs two free ones"
            ),
            Self::SlotMoved {
                name,
                expected,
                found,
            } => write!(
                f,
                "replication slot \"{name}\" stands at {found}, expected the snapshot's point {expected}"
            ),
            Self::FailoverUnsupported {
                name,
                server_version,
            } => write!(
                f,
                "replication slot \"{name}\" cannot be a failover slot on PostgreSQL {}",
                server_version / 10_000
            ),
            Self::RowsUnreadable { table, sqlstate } => write!(
                f,
                "the rows of table \"{table}\" cannot be read: SQLSTATE {}, {}",
                OneLine(sqlstate),
                sqlstate::meaning(sqlstate)
            ),
            Self::SelectionRefused { option, source, .. } => {
                write!(f, "the server does not take {option}: {source}")
            }
            Self::SelectionUnclosed { option, fault, .. } => {
                write!(
                    f,
                    "{option} is no SQL that stands for itself: {}",
                    fault.kind
                )
            }
            Self::GeneratedColumn { table, column } => write!(
                f,
                "column \"{column}\" of \"{table}\" has no values that can be published"
            ),
            Self::NoTimeColumn {
                table,
                column,
                found: None,
            } => {
                write!(f, "table \"{table}\" has no column \"{column}\"")
            }
            Self::NoTimeColumn {
                table,
                column,
                found: Some(found),
            } => write!(
                f,
                "column \"{column}\" of \"{table}\" has type {found}, expected timestamptz, timestamp or date"
            ),
            Self::ExpiredRows {
                table,
                step,
                sqlstate,
                ..
            } => write!(
                f,
                "rows of table \"{table}\" whose time is over cannot be {}: SQLSTATE {}, {}",
                match step {
                    ExpiredStep::Find => "found",
                    ExpiredStep::Delete => "deleted",
                },
                OneLine(sqlstate),
                sqlstate::meaning(sqlstate)
            ),
            Self::ExpiredRowsKept { table, .. } => write!(
                f,
                "rows of table \"{table}\" whose time is over are still there after their DELETE"
            ),
            Self::NotUtf8 { table, column } => {
                write!(
                    f,
                    "a value of column \"{column}\" of table \"{table}\" is not UTF-8"
                )
            }
        }
    }
}

impl Error for ObjectError {}

impl From<PostgresError> for ObjectError {
    fn from(error: PostgresError) -> Self {
        Self::Session(error)
    }
}

impl From<tokio_postgres::Error> for ObjectError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Session(error.into())
    }
}
