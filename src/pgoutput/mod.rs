//! The output plugin's messages, protocol version 1 in text format (PostgreSQL's manual,
//! "Logical Replication Message Formats"). Bytes in, values out.

mod decode;
mod message;
mod relation;
mod tuple;

pub use decode::decode;
pub use message::{Begin, Commit, Delete, Insert, LogicalMessage, Message, OldTuple, Update};
pub use relation::{Column, Relation, RelationCache, ReplicaIdentity};
pub use tuple::{Datum, Tuple};

/// A message that is not what the manual says.
pub type DecodeError = crate::reader::ReadError;
