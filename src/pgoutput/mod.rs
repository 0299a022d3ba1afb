//! The output plugin's messages, protocol version 1 in text format (PostgreSQL's manual,
//! "Logical Replication Message Formats"). Bytes in, values out.
//!
//! Numbers are big-endian; a name ends with a zero byte and is UTF-8, because the session's client
//! encoding is; a datum is bytes. Version 1 carries only committed transactions, one after the
//! other: Begin, then Relation and Type before the first row that needs them, rows, Commit.

mod decode;
mod error;
mod message;
mod relation;
mod tuple;

#[cfg(test)]
mod tests;

pub use decode::decode;
pub use error::DecodeError;
pub use message::{Begin, Commit, Delete, Insert, LogicalMessage, Message, OldTuple, Update};
pub use relation::{Column, Relation, RelationCache, ReplicaIdentity};
pub use tuple::{Datum, Tuple};
