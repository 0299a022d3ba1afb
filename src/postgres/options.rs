//! How to reach the server. Both kinds of session (replication and ordinary SQL) use the same.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::Sessions;
use crate::secret::Secret;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Tried in order until one accepts and fits `target_session_attrs`. Never empty.
    pub hosts: Vec<Host>,
    pub user: String,
    pub password: Option<Secret>,
    pub database: String,
    pub ssl_mode: SslMode,
    pub ssl_root_cert: Option<PathBuf>,
    pub ssl_cert: Option<PathBuf>,
    pub ssl_key: Option<PathBuf>,
    pub ssl_key_password: Option<Secret>,
    pub target_session_attrs: TargetSessionAttrs,
    pub application_name: String,
    /// Per host: name resolution, TCP, TLS and authentication together.
    pub connect_timeout: Duration,
    /// The replication session's own `wal_sender_timeout`: how long a lock outlives a vanished
    /// holder.
    pub wal_sender_timeout: Duration,
    /// Those that are open by these options.
    pub sessions: Sessions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    Tcp {
        host: String,
        port: u16,
    },
    /// The folder of the socket file `.s.PGSQL.PORT`.
    Unix {
        directory: PathBuf,
        port: u16,
    },
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix { directory, port } => write!(f, "{}:{port}", directory.display()),
        }
    }
}

/// libpq's `sslmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SslMode {
    Disable,
    Allow,
    #[default]
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// libpq's `target_session_attrs`, the values that make sense for a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetSessionAttrs {
    #[default]
    Any,
    ReadWrite,
    Primary,
}
