//! The retained rows, read once under a snapshot that fits the slot.

mod fragment;
mod options;
mod plan;
mod read;
mod sample;
mod selection;

pub use fragment::{Fragment, FragmentFault, FragmentFaultKind};
pub use options::{SelectOverride, SnapshotMode, SnapshotOptions};
pub use plan::StartPlan;
pub use read::{Snapshot, SnapshotRow};
pub use sample::{FirstRow, first_row};
pub use selection::{SelectedRows, Selection};
