//! What happened to an outbox row, from the stream or from a snapshot.

mod change;

pub use change::{Change, Operation};
