//! Everything that talks to PostgreSQL.

mod canceller;
pub mod catalog;
mod certificate;
mod channel;
mod connect;
mod error;
pub mod housekeeping;
mod object_error;
mod options;
mod position;
pub mod preflight;
pub mod publication;
mod replication;
mod selecting;
mod session;
mod sessions;
pub mod slot;
pub mod snapshot;
mod socket;
pub mod sqlstate;
pub mod table;
mod tls;
mod transport;
pub mod watched;

pub use canceller::{CancelOnDrop, Canceller};
pub use connect::{SESSION_SETTINGS, connect_replication};
pub use error::{PostgresError, chain};
pub use object_error::{EarlierTable, ExpiredStep, ObjectError};
pub use options::{Host, Options, SslMode, TargetSessionAttrs};
pub use position::{ServerSeen, current_position, position_seen};
pub use replication::{CreatedSlot, ReplicationSession, ReplicationStream, Row, SystemIdentity};
pub use session::connect;
pub use sessions::Sessions;
