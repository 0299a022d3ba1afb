//! The retained rows, read once under a snapshot that fits the slot.

mod options;
mod plan;
mod read;

pub use options::{SelectOverride, SnapshotMode, SnapshotOptions};
pub use plan::StartPlan;
pub use read::{Snapshot, SnapshotRow};
