//! Some of the retained rows, read beside a stream that goes on.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use tokio_postgres::error::ErrorPosition;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryStream};

use super::read::{SnapshotRow, open, select};
use super::{Fragment, SnapshotOptions};
use crate::lsn::Lsn;
use crate::pgoutput::Relation;
use crate::postgres::selecting::{ORDER_BY, WHERE};
use crate::postgres::table::OutboxTable;
use crate::postgres::{ObjectError, PostgresError};
use crate::timestamp::Timestamp;
use crate::wire::quote_identifier;

/// Which rows, and in which order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// As after WHERE.
    pub condition: Option<Fragment>,
    /// As after ORDER BY. Without it by the key, where that is one integer column, else as the
    /// rows lie in the table.
    pub order_by: Option<Fragment>,
    /// Of all tables together.
    pub limit: Option<u64>,
}

impl Selection {
    /// `condition` and `order_by` are SQL as the operator writes it.
    pub fn new(
        condition: Option<&str>,
        order_by: Option<&str>,
        limit: Option<u64>,
    ) -> Result<Self, ObjectError> {
        let unclosed = |option, text: &str| {
            let text = text.to_owned();
            move |fault| ObjectError::SelectionUnclosed {
                option,
                text,
                fault,
            }
        };
        let condition = condition
            .map(|text| Fragment::expression(text).map_err(unclosed(WHERE, text)))
            .transpose()?;
        let order_by = order_by
            .map(|text| Fragment::order(text).map_err(unclosed(ORDER_BY, text)))
            .transpose()?;
        Ok(Self {
            condition,
            order_by,
            limit,
        })
    }
}

/// One read-only transaction that sees the table as it was at its start.
pub struct SelectedRows {
    client: Client,
    point: Lsn,
    taken_at: Timestamp,
    estimate: u64,
    left: Option<u64>,
    waiting: VecDeque<Scan>,
    /// Its cursor is open.
    current: Option<Scan>,
    fetch: Option<Fetch>,
}

struct Scan {
    relation: Arc<Relation>,
    sql: Sql,
}

struct Fetch {
    rows: Pin<Box<SimpleQueryStream>>,
    taken: u32,
}

const FETCH_ROWS: u32 = 1000;

impl SelectedRows {
    /// Asks the server about every SELECT before the first row is read: an error of the operator's
    /// SQL comes now. `client` is an ordinary session, which is kept.
    pub async fn begin(
        client: Client,
        selection: &Selection,
        options: &SnapshotOptions,
        tables: &[OutboxTable],
    ) -> Result<Self, ObjectError> {
        let (point, taken_at) = open(&client, None).await?;
        let mut estimate = 0;
        let mut waiting = VecDeque::new();
        for table in tables {
            let sql = Sql::new(table, selection, options);
            estimate += sql.explain(&client, &table.qualified_name()).await?;
            let relation = table.relation();
            waiting.push_back(Scan { relation, sql });
        }
        let left = selection.limit;
        Ok(Self {
            client,
            point,
            taken_at,
            estimate: left.map_or(estimate, |limit| limit.min(estimate)),
            left,
            waiting,
            current: None,
            fetch: None,
        })
    }

    /// Where the server wrote when the transaction began.
    pub const fn point(&self) -> Lsn {
        self.point
    }

    /// The server's time at the start of the transaction.
    pub const fn taken_at(&self) -> Timestamp {
        self.taken_at
    }

    /// How many rows the server's planner expects.
    pub const fn estimate(&self) -> u64 {
        self.estimate
    }

    /// How the rows of each table that is still to be read are ordered, in SQL; `None`: as they lie.
    pub fn orders(&self) -> impl Iterator<Item = (String, Option<&str>)> {
        let scans = self.waiting.iter();
        scans.map(|scan| (scan.relation.qualified_name(), scan.sql.order.as_deref()))
    }

    /// The next row; `None` after the last. A call that is dropped before its end takes rows with it.
    pub async fn next(&mut self) -> Result<Option<SnapshotRow>, ObjectError> {
        while self.left != Some(0) {
            let Some(scan) = &self.current else {
                let Some(scan) = self.waiting.front() else {
                    return Ok(None);
                };
                self.client.batch_execute(CLOSE).await?;
                let declare = format!("DECLARE {CURSOR} NO SCROLL CURSOR FOR {}", scan.sql.text);
                // One that takes no second statement.
                let declared = self.client.execute(&declare, &[]).await;
                declared.map_err(|error| scan.unreadable(error))?;
                self.current = self.waiting.pop_front();
                continue;
            };
            let Some(fetch) = &mut self.fetch else {
                let sql = format!("FETCH {FETCH_ROWS} FROM {CURSOR}");
                let rows = self.client.simple_query_raw(&sql).await;
                let rows = Box::pin(rows.map_err(|error| scan.unreadable(error))?);
                self.fetch = Some(Fetch { rows, taken: 0 });
                continue;
            };
            match fetch.rows.next().await {
                Some(Ok(SimpleQueryMessage::Row(row))) => {
                    fetch.taken += 1;
                    self.left = self.left.map(|left| left - 1);
                    let row = SnapshotRow::new(Arc::clone(&scan.relation), row);
                    row.check()?;
                    return Ok(Some(row));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(scan.unreadable(error)),
                None => {
                    if fetch.taken < FETCH_ROWS {
                        self.current = None;
                    }
                    self.fetch = None;
                }
            }
        }
        Ok(None)
    }
}

impl std::fmt::Debug for SelectedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SelectedRows")
            .field("point", &self.point)
            .field("estimate", &self.estimate)
            .finish_non_exhaustive()
    }
}

const CURSOR: &str = "outboxd_selection";
/// Without an error where there is none.
const CLOSE: &str = "CLOSE ALL";

impl Scan {
    fn unreadable(&self, error: tokio_postgres::Error) -> ObjectError {
        ObjectError::of_rows(self.relation.qualified_name(), error)
    }
}

/// A SELECT, and where the operator's own texts stand in it.
struct Sql {
    text: String,
    order: Option<String>,
    theirs: Vec<Theirs>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Theirs {
    option: &'static str,
    text: String,
    /// Characters before it.
    starts: usize,
}

impl Sql {
    fn new(table: &OutboxTable, selection: &Selection, options: &SnapshotOptions) -> Self {
        let mut sql = Self {
            text: select(table, options),
            order: None,
            theirs: Vec::new(),
        };
        if let Some(condition) = &selection.condition {
            // On lines of its own: what follows is no part of a comment at its end.
            sql.text.push_str(" WHERE (\n");
            sql.push_theirs(WHERE, condition.as_str());
            sql.text.push_str("\n)");
        }
        if let Some(order) = &selection.order_by {
            sql.text.push_str(" ORDER BY\n");
            sql.push_theirs(ORDER_BY, order.as_str());
            sql.text.push('\n');
            sql.order = Some(order.as_str().to_owned());
        } else if let Some(key) = integer_key(table) {
            sql.text.push_str(&format!(" ORDER BY {key}"));
            sql.order = Some(key);
        }
        if let Some(limit) = selection.limit {
            sql.text.push_str(&format!(" LIMIT {limit}"));
        }
        sql
    }

    fn push_theirs(&mut self, option: &'static str, text: &str) {
        self.theirs.push(Theirs {
            option,
            text: text.to_owned(),
            starts: self.text.chars().count(),
        });
        self.text.push_str(text);
    }

    /// The planner's number of rows.
    async fn explain(&self, client: &Client, table: &str) -> Result<u64, ObjectError> {
        let refused = |error| self.refusal(table, error);
        // The extended protocol takes one statement alone, so that a text of the operator's cannot
        // end the transaction and begin another one.
        client.prepare(&self.text).await.map_err(refused)?;
        // Each line of the plan is a row; the first one has the whole number.
        let plan = client.query(&format!("EXPLAIN {}", self.text), &[]).await;
        // The planner computes what is constant: whatever a function says then may be of rows.
        let plan = plan.map_err(|error| ObjectError::of_rows(table.to_owned(), error))?;
        let first = plan.first().map(|row| row.try_get::<_, &str>(0));
        Ok(rows_in(first.transpose()?.unwrap_or_default()))
    }

    fn refusal(&self, table: &str, error: tokio_postgres::Error) -> ObjectError {
        let of_rows = |error| ObjectError::of_rows(table.to_owned(), error);
        let Some(told) = error.as_db_error() else {
            return error.into();
        };
        let position = match told.position() {
            Some(ErrorPosition::Original(position)) => usize::try_from(*position).ok(),
            _ => None,
        };
        let class = told.code().code().get(..2);
        if told.code().code() == "42501" || !matches!(class, Some("22" | "42" | "0A")) {
            return of_rows(error);
        }
        match whose(&self.theirs, position) {
            Some((theirs, at)) => ObjectError::SelectionRefused {
                option: theirs.option,
                text: theirs.text.clone(),
                at,
                source: PostgresError::from(error),
            },
            None => of_rows(error),
        }
    }
}

/// Whose text the server speaks of, and the character of it. An error at what follows is one of
/// the text's end.
fn whose(theirs: &[Theirs], position: Option<usize>) -> Option<(&Theirs, Option<usize>)> {
    let Some(position) = position else {
        return Some((theirs.first()?, None));
    };
    let before = theirs.iter().rev();
    let text = before.clone().find(|theirs| theirs.starts < position)?;
    Some((text, Some(position - text.starts)))
}

/// From the first line of a plan: `Seq Scan on outbox  (cost=0.00..22.00 rows=1200 width=36)`.
fn rows_in(plan: &str) -> u64 {
    let rows = plan.rsplit_once(" rows=").map(|(_, rest)| rest);
    let digits = rows.and_then(|rest| rest.split(' ').next());
    digits.and_then(|rows| rows.parse().ok()).unwrap_or(0)
}

/// int8, int2 and int4 (`pg_type.dat` in PostgreSQL's source).
const INTEGERS: [u32; 3] = [20, 21, 23];

/// An identity or a sequence counts up in the order of the inserts, which pages that were freed and
/// filled again do not keep.
fn integer_key(table: &OutboxTable) -> Option<String> {
    let mut keys = table.columns.iter().filter(|column| column.is_key);
    let (Some(key), None) = (keys.next(), keys.next()) else {
        return None;
    };
    let counts = INTEGERS.contains(&key.type_oid);
    counts.then(|| quote_identifier(&key.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgoutput::ReplicaIdentity;
    use crate::postgres::table::TableColumn;

    fn outbox(key: u32) -> OutboxTable {
        let column = |name: &str, type_oid, is_key| TableColumn {
            name: name.into(),
            type_oid,
            type_modifier: -1,
            type_sql: String::new(),
            nullable: true,
            is_key,
            generated: false,
        };
        OutboxTable {
            oid: 1,
            schema: "public".into(),
            name: "outbox".into(),
            replica_identity: ReplicaIdentity::Default,
            columns: vec![column("no", key, true), column("payload", 25, false)],
            partitions: None,
            row_security: false,
            estimated_rows: None,
        }
    }

    fn sql(key: u32, selection: Selection) -> Sql {
        Sql::new(&outbox(key), &selection, &SnapshotOptions::default())
    }

    #[test]
    fn rows_are_ordered_by_an_integer_key_unless_told_otherwise() {
        let all = "SELECT \"no\", \"payload\" FROM ONLY \"public\".\"outbox\"";
        let found = sql(20, Selection::default());
        assert_eq!(found.text, format!("{all} ORDER BY \"no\""));
        assert_eq!(found.order.as_deref(), Some("\"no\""));
        let found = sql(2950, Selection::default());
        assert_eq!((found.text.as_str(), found.order), (all, None));
        let told = Selection::new(Some("no > 5 -- late"), Some("at, no"), Some(7)).unwrap();
        assert_eq!(
            sql(20, told).text,
            format!("{all} WHERE (\nno > 5 -- late\n) ORDER BY\nat, no\n LIMIT 7")
        );
    }

    #[test]
    fn a_position_of_the_servers_is_one_in_the_operators_text() {
        let found = sql(
            2950,
            Selection::new(Some("ö = 5"), Some("at"), None).unwrap(),
        );
        let place = |text: &str| {
            let bytes = found.text.find(text).unwrap();
            Some(found.text[..bytes].chars().count() + 1)
        };
        let of = |position| whose(&found.theirs, position).map(|(t, at)| (t.option, at));
        assert_eq!(of(place("= 5")), Some((WHERE, Some(3))));
        assert_eq!(of(place(") ORDER")), Some((WHERE, Some(7))));
        assert_eq!(of(place("at\n")), Some((ORDER_BY, Some(1))));
        assert_eq!(of(place("payload")), None);
        assert_eq!(of(None), Some((WHERE, None)));
    }

    #[test]
    fn the_planners_rows_are_in_the_first_line_of_a_plan() {
        let line = "Seq Scan on \"a rows=3 b\"  (cost=0.00..22.00 rows=1200 width=36)";
        assert_eq!((rows_in(line), rows_in("")), (1200, 0));
    }
}
