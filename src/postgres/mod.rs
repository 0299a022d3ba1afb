//! Everything that talks to PostgreSQL.

mod channel;
mod connect;
mod error;
mod options;
pub mod publication;
mod replication;
mod session;
pub mod slot;
pub mod snapshot;
mod socket;
pub mod table;
mod tls;

pub use connect::{SESSION_SETTINGS, connect_replication};
pub use error::{PostgresError, chain, sqlstate};
pub use options::{Host, Options, SslMode, TargetSessionAttrs};
pub use replication::{
    Canceller, CreatedSlot, ReplicationSession, ReplicationStream, Row, SystemIdentity,
};
pub use session::connect;
