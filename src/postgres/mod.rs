//! Everything that talks to PostgreSQL.

mod options;

pub use options::{Host, Options, SslMode, TargetSessionAttrs};
