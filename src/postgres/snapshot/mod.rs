//! The retained rows, read once under a snapshot that fits the slot.

mod options;

pub use options::{SelectOverride, SnapshotMode, SnapshotOptions};
