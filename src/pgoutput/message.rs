//! One value per message of the plugin. Texts and tuples borrow from the message's bytes.

use super::{Relation, Tuple};
use crate::lsn::Lsn;
use crate::timestamp::Timestamp;

#[derive(Debug, PartialEq)]
pub enum Message<'a> {
    Begin(Begin),
    Commit(Commit),
    Origin {
        commit_lsn: Lsn,
        name: &'a str,
    },
    Relation(Relation),
    Type {
        oid: u32,
        namespace: &'a str,
        name: &'a str,
    },
    Insert(Insert<'a>),
    Update(Update<'a>),
    Delete(Delete<'a>),
    Truncate {
        relations: Vec<u32>,
        cascade: bool,
        restart_identity: bool,
    },
    Message(LogicalMessage<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Where the commit record starts: the transaction's name in errors, known from the first row.
    pub final_lsn: Lsn,
    pub commit_time: Timestamp,
    pub xid: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    pub commit_lsn: Lsn,
    /// The first position after the transaction: what may be confirmed once its rows are.
    pub end_lsn: Lsn,
    pub commit_time: Timestamp,
}

#[derive(Debug, PartialEq)]
pub struct Insert<'a> {
    pub relation: u32,
    pub new: Tuple<'a>,
}

#[derive(Debug, PartialEq)]
pub struct Update<'a> {
    pub relation: u32,
    /// Boxed, as it is rare here and every message would carry its room.
    pub old: Option<Box<OldTuple<'a>>>,
    pub new: Tuple<'a>,
}

#[derive(Debug, PartialEq)]
pub struct Delete<'a> {
    pub relation: u32,
    pub old: OldTuple<'a>,
}

/// What the replica identity kept of the row before the change.
#[derive(Debug, PartialEq)]
pub enum OldTuple<'a> {
    Key(Tuple<'a>),
    Full(Tuple<'a>),
}

/// A message of `pg_logical_emit_message`.
#[derive(Debug, PartialEq)]
pub struct LogicalMessage<'a> {
    pub transactional: bool,
    pub lsn: Lsn,
    pub prefix: &'a str,
    pub content: &'a [u8],
}
