//! Transactions as a test writes them, and a stream that sends them as a walsender does.
//!
//! ```ignore
//! let paid = txn(1).insert("Order", "7").insert("Order", "8").commit(0x200);
//! let mut stream = Stream::default();
//! for message in stream.send(&paid) {
//!     pipeline.handle_wal(message.lsn, &message.body)?;
//! }
//! ```

use std::collections::BTreeSet;

use outboxd::lsn::Lsn;
use outboxd::pgoutput::{
    Begin, Column, Commit, Datum, Delete, Insert, LogicalMessage, Message, OldTuple, Relation,
    ReplicaIdentity, Tuple, Update,
};
use outboxd::timestamp::Timestamp;

use super::pgoutput_encoder::encode;

/// Bytes of a commit record without anything optional, as PostgreSQL 14 to 18 write it.
const COMMIT_RECORD_BYTES: u64 = 0x30;

/// The outbox's own table in tests: `id`, `aggregatetype`, `aggregateid`, `payload`, all text.
pub fn outbox() -> Relation {
    table(16_384, "public", "outbox")
        .key("id", 25)
        .column("aggregatetype", 25)
        .column("aggregateid", 25)
        .column("payload", 25)
}

/// A table without columns; add them with [`Columns`].
pub fn table(oid: u32, namespace: &str, name: &str) -> Relation {
    Relation {
        oid,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        replica_identity: ReplicaIdentity::Default,
        columns: Vec::new(),
    }
}

pub trait Columns {
    fn column(self, name: &str, type_oid: u32) -> Self;
    /// A column of the replica identity.
    fn key(self, name: &str, type_oid: u32) -> Self;
}

impl Columns for Relation {
    fn column(mut self, name: &str, type_oid: u32) -> Self {
        self.columns.push(Column {
            name: name.to_owned(),
            type_oid,
            type_modifier: -1,
            is_key: false,
        });
        self
    }

    fn key(self, name: &str, type_oid: u32) -> Self {
        let mut table = self.column(name, type_oid);
        table.columns.last_mut().unwrap().is_key = true;
        table
    }
}

/// A column's value; from a `&str`, a `String`, or an `Option` of them for NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Null,
    UnchangedToast,
    Text(Vec<u8>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.as_bytes().to_vec())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into_bytes())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

type Row = Vec<Value>;

#[derive(Clone, Debug)]
enum Change {
    Insert(Relation, Row),
    Update(Relation, Option<Row>, Row),
    Delete(Relation, Row),
    Truncate(Vec<Relation>),
    Message(String, Vec<u8>),
}

/// A transaction that is being written.
#[derive(Clone, Debug)]
pub struct Open {
    xid: u32,
    commit_time: Timestamp,
    origin: Option<String>,
    changes: Vec<Change>,
}

/// A transaction as the log holds it: a stream can send it as often as it has to.
#[derive(Clone, Debug)]
pub struct Transaction {
    pub xid: u32,
    pub commit_time: Timestamp,
    pub commit_lsn: Lsn,
    /// The first position after it.
    pub end_lsn: Lsn,
    origin: Option<String>,
    changes: Vec<Change>,
}

pub fn txn(xid: u32) -> Open {
    Open {
        xid,
        commit_time: Timestamp::default(),
        origin: None,
        changes: Vec::new(),
    }
}

impl Open {
    pub fn committed_at(mut self, time: Timestamp) -> Self {
        self.commit_time = time;
        self
    }

    /// The transaction came from another server through replication.
    pub fn origin(mut self, name: &str) -> Self {
        self.origin = Some(name.to_owned());
        self
    }

    /// A row of [`outbox`]. Its `id` is the transaction and the row's number in it (`1.2`), its
    /// payload names it (`{"event":"1.2"}`).
    pub fn insert(self, aggregate_type: &str, aggregate_id: &str) -> Self {
        let id = format!("{}.{}", self.xid, self.changes.len() + 1);
        let payload = format!("{{\"event\":\"{id}\"}}");
        self.insert_event(&id, aggregate_type, aggregate_id, &payload)
    }

    pub fn insert_event(
        self,
        id: &str,
        aggregate_type: &str,
        aggregate_id: &str,
        payload: &str,
    ) -> Self {
        self.insert_into(&outbox(), [id, aggregate_type, aggregate_id, payload])
    }

    pub fn insert_into<V: Into<Value>>(
        self,
        table: &Relation,
        row: impl IntoIterator<Item = V>,
    ) -> Self {
        self.change(Change::Insert(table.clone(), values(table, row)))
    }

    /// An update that left the replica identity alone.
    pub fn update<V: Into<Value>>(
        self,
        table: &Relation,
        row: impl IntoIterator<Item = V>,
    ) -> Self {
        self.change(Change::Update(table.clone(), None, values(table, row)))
    }

    /// An update whose old row the server sends too: NULL in `old` outside the key, or the whole row
    /// under `REPLICA IDENTITY FULL`.
    pub fn update_from<V: Into<Value>>(
        self,
        table: &Relation,
        old: impl IntoIterator<Item = V>,
        row: impl IntoIterator<Item = V>,
    ) -> Self {
        let old = Some(values(table, old));
        self.change(Change::Update(table.clone(), old, values(table, row)))
    }

    /// As for an update, `old` is NULL outside the key or the whole row.
    pub fn delete<V: Into<Value>>(
        self,
        table: &Relation,
        old: impl IntoIterator<Item = V>,
    ) -> Self {
        self.change(Change::Delete(table.clone(), values(table, old)))
    }

    pub fn truncate(self, tables: &[&Relation]) -> Self {
        let tables = tables.iter().map(|table| (*table).clone()).collect();
        self.change(Change::Truncate(tables))
    }

    /// `pg_logical_emit_message(true, prefix, content)`.
    pub fn message(self, prefix: &str, content: &[u8]) -> Self {
        self.change(Change::Message(prefix.to_owned(), content.to_owned()))
    }

    /// Ends the transaction; the commit record lies right before `end_lsn`.
    pub fn commit(self, end_lsn: u64) -> Transaction {
        let commit_lsn = end_lsn.checked_sub(COMMIT_RECORD_BYTES);
        Transaction {
            xid: self.xid,
            commit_time: self.commit_time,
            commit_lsn: Lsn::new(commit_lsn.expect("an end behind a commit record")),
            end_lsn: Lsn::new(end_lsn),
            origin: self.origin,
            changes: self.changes,
        }
    }

    fn change(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }
}

fn values<V: Into<Value>>(table: &Relation, row: impl IntoIterator<Item = V>) -> Row {
    let row: Row = row.into_iter().map(Into::into).collect();
    assert_eq!(row.len(), table.columns.len(), "columns of {}", table.name);
    row
}

/// What one XLogData carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalMessage {
    pub lsn: Lsn,
    pub body: Vec<u8>,
}

/// One replication stream: it describes a table before its first row, and again when it has
/// changed. A reconnection is a new stream.
#[derive(Debug, Default)]
pub struct Stream {
    described: Vec<Relation>,
}

impl Stream {
    /// A transaction's messages from Begin to Commit. Rows lie before the commit record, and may
    /// lie before the end of a transaction that committed earlier, as on a real server.
    pub fn send(&mut self, transaction: &Transaction) -> Vec<WalMessage> {
        let count = transaction.changes.len() as u64;
        let row_lsn = |index: u64| {
            let before_commit = transaction
                .commit_lsn
                .as_u64()
                .saturating_sub(count - index);
            Lsn::new(before_commit)
        };
        let mut sent = vec![wal(row_lsn(0), &Message::Begin(transaction.begin()))];
        if let Some(name) = &transaction.origin {
            let commit_lsn = transaction.commit_lsn;
            sent.push(wal(row_lsn(0), &Message::Origin { commit_lsn, name }));
        }
        for (index, change) in (0..).zip(&transaction.changes) {
            let lsn = row_lsn(index);
            for table in change.tables() {
                sent.extend(self.describe(lsn, table));
            }
            sent.push(wal(lsn, &change.message(lsn)));
        }
        let commit = Message::Commit(transaction.commit());
        sent.push(wal(transaction.end_lsn, &commit));
        sent
    }

    fn describe(&mut self, lsn: Lsn, table: &Relation) -> Option<WalMessage> {
        if self.described.contains(table) {
            return None;
        }
        self.described.retain(|known| known.oid != table.oid);
        self.described.push(table.clone());
        Some(wal(lsn, &Message::Relation(table.clone())))
    }

    /// The oids of the tables described so far.
    pub fn described(&self) -> BTreeSet<u32> {
        self.described.iter().map(|table| table.oid).collect()
    }
}

impl Transaction {
    fn begin(&self) -> Begin {
        Begin {
            final_lsn: self.commit_lsn,
            commit_time: self.commit_time,
            xid: self.xid,
        }
    }

    fn commit(&self) -> Commit {
        Commit {
            commit_lsn: self.commit_lsn,
            end_lsn: self.end_lsn,
            commit_time: self.commit_time,
        }
    }
}

impl Change {
    fn tables(&self) -> &[Relation] {
        match self {
            Self::Insert(table, _) | Self::Update(table, ..) | Self::Delete(table, _) => {
                std::slice::from_ref(table)
            }
            Self::Truncate(tables) => tables,
            Self::Message(..) => &[],
        }
    }

    fn message(&self, lsn: Lsn) -> Message<'_> {
        match self {
            Self::Insert(table, row) => Message::Insert(Insert {
                relation: table.oid,
                new: tuple(row),
            }),
            Self::Update(table, old, row) => Message::Update(Update {
                relation: table.oid,
                old: old.as_ref().map(|old| Box::new(old_tuple(table, old))),
                new: tuple(row),
            }),
            Self::Delete(table, old) => Message::Delete(Delete {
                relation: table.oid,
                old: old_tuple(table, old),
            }),
            Self::Truncate(tables) => Message::Truncate {
                relations: tables.iter().map(|table| table.oid).collect(),
                cascade: false,
                restart_identity: false,
            },
            Self::Message(prefix, content) => Message::Message(LogicalMessage {
                transactional: true,
                lsn,
                prefix,
                content,
            }),
        }
    }
}

fn wal(lsn: Lsn, message: &Message<'_>) -> WalMessage {
    WalMessage {
        lsn,
        body: encode(message),
    }
}

fn tuple(row: &Row) -> Tuple<'_> {
    let datum = |value| match value {
        &Value::Null => Datum::Null,
        &Value::UnchangedToast => Datum::UnchangedToast,
        Value::Text(text) => Datum::Text(text),
    };
    Tuple {
        datums: row.iter().map(datum).collect(),
    }
}

fn old_tuple<'a>(table: &Relation, row: &'a Row) -> OldTuple<'a> {
    match table.replica_identity {
        ReplicaIdentity::Full => OldTuple::Full(tuple(row)),
        _ => OldTuple::Key(tuple(row)),
    }
}
