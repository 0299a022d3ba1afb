//! The messages of PostgreSQL's v3 protocol that a walsender session needs ("Message Formats" and
//! "Streaming Replication Protocol" in the manual). Bytes in, values out; postgres-protocol writes
//! the ordinary client messages.

mod backend;
mod command;
mod copy;
mod frame;

pub use backend::{Authentication, Backend, OneLine, ServerMessage};
pub use command::{
    StartReplication, alter_slot_failover, create_temporary_slot, drop_slot, quote_identifier,
    quote_literal,
};
pub use copy::{CopyMessage, StatusUpdate};
pub use frame::{Frame, LOGIN_LIMIT_BYTES, SESSION_LIMIT_BYTES, split};
