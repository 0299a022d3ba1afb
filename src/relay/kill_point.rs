//! Places at which the tests end the process, as `kill -9` or a power cut would. A build without debug
//! assertions knows none of them.

#[cfg(debug_assertions)]
use std::sync::Arc;
#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU64, Ordering};

/// What has just been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    /// A message of the stream was taken in.
    Received,
    /// Records were handed to the producer.
    Enqueued,
    /// Kafka's word was taken in.
    Acknowledged,
    /// The journal has a position; the server does not.
    Journalled,
    /// A position was written for the server; the one before has left.
    Status,
    SnapshotRow,
    /// Kafka has all rows of the snapshot; there is no slot yet.
    SnapshotDelivered,
    /// There is a slot, and nothing was read from it.
    SnapshotSlot,
    /// Drained after a request to stop; the server does not know.
    Drained,
    /// The journal knows that the slot is to be dropped; the server does not.
    Dropping,
    /// The slot is dropped; the journal does not know.
    Dropped,
    /// The server knows.
    Confirmed,
}

/// At which of them this process ends, and at the how manieth time: `KILL_AT=received:7`.
#[derive(Clone, Debug, Default)]
pub(super) struct KillPoint {
    #[cfg(debug_assertions)]
    planned: Option<Arc<Planned>>,
}

#[cfg(debug_assertions)]
#[derive(Debug)]
struct Planned {
    edge: String,
    passes_left: AtomicU64,
}

#[cfg(debug_assertions)]
impl KillPoint {
    pub(super) fn from_environment() -> Self {
        let planned = std::env::var("KILL_AT").ok().and_then(|text| {
            let (edge, passes) = text.split_once(':')?;
            Some(Arc::new(Planned {
                edge: edge.to_owned(),
                passes_left: AtomicU64::new(passes.parse().ok()?),
            }))
        });
        Self { planned }
    }

    pub(super) fn pass(&self, edge: Edge) {
        let Some(planned) = &self.planned else {
            return;
        };
        let is_last = || planned.passes_left.fetch_sub(1, Ordering::Relaxed) == 1;
        if planned.edge == format!("{edge:?}").to_ascii_lowercase() && is_last() {
            // Nothing is unwound, flushed or closed but by the kernel.
            std::process::abort();
        }
    }
}

#[cfg(not(debug_assertions))]
impl KillPoint {
    pub(super) fn from_environment() -> Self {
        Self::default()
    }

    #[inline]
    pub(super) fn pass(&self, _: Edge) {}
}
