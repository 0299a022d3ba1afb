//! What happened to an outbox row, from the stream or from a snapshot.

mod change;
mod value;

pub use change::{Change, Operation};
pub use value::{Value, ValueError};
