//! Everything that talks to PostgreSQL.

mod channel;
mod connect;
mod error;
mod options;
mod replication;
mod session;
mod socket;
mod tls;

pub use connect::{SESSION_SETTINGS, connect_replication};
pub use error::{PostgresError, chain, sqlstate};
pub use options::{Host, Options, SslMode, TargetSessionAttrs};
pub use replication::{
    Canceller, CreatedSlot, ReplicationSession, ReplicationStream, Row, SystemIdentity,
};
pub use session::connect;
