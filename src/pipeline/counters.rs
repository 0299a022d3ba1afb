//! What the shell tells of.

use std::collections::BTreeMap;

use crate::router::dead_letter::{Origin, Reason};
use crate::router::{DropReason, Note};

/// What has happened since the start; the shell turns differences into metrics and log lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub records: u64,
    pub transactions: u64,
    pub largest_transaction_records: u64,
    pub resent: u64,
    pub dropped: BTreeMap<DropReason, u64>,
    /// By the reason's code.
    pub dead_letters: BTreeMap<&'static str, u64>,
    pub notes: BTreeMap<Note, u64>,
}

/// An event that went to the dead-letter topic instead, for the shell to tell of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub reason: Reason,
    pub origin: Origin,
    pub event_id: Option<String>,
}
