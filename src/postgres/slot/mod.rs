//! The replication slot: the server's memory of what the relay has confirmed.

mod options;

pub use options::{CreateMode, SlotName, SlotNameError, SlotOptions};
