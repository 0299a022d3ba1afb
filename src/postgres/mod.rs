//! Everything that talks to PostgreSQL.

pub mod catalog;
mod certificate;
mod channel;
mod connect;
mod error;
mod object_error;
mod options;
pub mod preflight;
pub mod publication;
mod replication;
mod session;
pub mod slot;
pub mod snapshot;
mod socket;
mod source;
pub mod table;
mod tls;
mod transport;

pub use connect::{SESSION_SETTINGS, connect_replication};
pub use error::{PostgresError, chain, sqlstate};
pub use object_error::ObjectError;
pub use options::{Host, Options, SslMode, TargetSessionAttrs};
pub use replication::{
    Canceller, CreatedSlot, ReplicationSession, ReplicationStream, Row, SystemIdentity,
};
pub use session::connect;
pub use source::{
    Slot, Snapshot, SnapshotRows, SourceError, SourceProblem, Table, create_slot, current_position,
    ensure_publication, find_slot, find_tables, may_create,
};
