//! The position journal: read with the lead and before a stream, written before each confirmation. A
//! task of its own writes, through a producer of its own: what keeps a position from being written
//! keeps it from being confirmed, and no event from being sent.

mod keeper;
mod pen;
mod stored;
mod writer;

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::kill_point::Edge;
use super::{Relay, RelayError};
use crate::ack::Ticket;
use crate::journal::{Entry, Ledger};
use crate::lsn::Lsn;
use crate::timestamp::Timestamp;

pub use keeper::unwritten;
pub use pen::write_once;
pub use stored::{Stored, read};
pub(super) use writer::{Writer, Writing};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub topic: String,
    /// Of this relay's entries among those of others.
    pub key: String,
}

/// While no event was sent the position moves by the server's keepalives alone.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);

fn now_ms() -> i64 {
    Timestamp::from(SystemTime::now()).as_unix_ms()
}

/// What a stream keeps of the journal.
#[derive(Debug)]
pub(super) struct Journal {
    writer: Writer,
    ledger: Ledger,
    /// Of the stream's slot and generation.
    entry: Entry,
    asked_at: Instant,
    /// Everything before it was acknowledged then; absent where a transaction was open, whose events
    /// may have been among them.
    released: Option<Ticket>,
    /// What was asked for urgently.
    urged: Lsn,
}

impl Journal {
    pub(super) fn new(writer: Writer, entry: Entry) -> Self {
        Self {
            writer,
            ledger: Ledger::new(entry.confirmed_lsn),
            entry,
            asked_at: Instant::now(),
            released: None,
            urged: Lsn::ZERO,
        }
    }

    /// Asks for the position to be written. Without an event that was acknowledged since the last time
    /// it can wait, unless it is `urgent`.
    fn ask(&mut self, complete: Lsn, released: Option<Ticket>, urgent: bool) {
        let idle = released.is_some() && released == self.released && !urgent;
        if idle && self.asked_at.elapsed() < IDLE_INTERVAL {
            return;
        }
        let asked = self.ledger.ask(complete);
        let waits = urgent && self.ledger.is_behind(complete) && self.urged < complete;
        if asked.is_some() || waits {
            self.writer.want(&self.entry, complete, urgent);
            (self.asked_at, self.released) = (Instant::now(), released);
        }
        if urgent {
            self.urged = self.urged.max(complete);
        }
    }

    fn take(&mut self) -> Result<(), RelayError> {
        if let Some(entry) = self.writer.take()?
            && (entry.generation, entry.timeline) == (self.entry.generation, self.entry.timeline)
        {
            self.ledger.acknowledge(entry.confirmed_lsn);
        }
        Ok(())
    }

    async fn write_within(&mut self, patience: Duration, entry: Entry) -> bool {
        let written = tokio::time::timeout(patience, self.writer.write(entry)).await;
        matches!(written, Ok(Ok(())))
    }

    pub(super) const fn generation(&self) -> u64 {
        self.entry.generation
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.writer.is_stuck()
    }
}

/// Ends when the journal has news; never without one.
pub(super) async fn news(journal: &mut Option<Journal>) -> Result<(), RelayError> {
    match journal {
        Some(journal) => journal.writer.changed().await,
        None => std::future::pending().await,
    }
}

impl Relay {
    /// What may be told to the server: the journal has it, where there is one.
    pub(super) fn confirmable(&self) -> Lsn {
        let complete = self.outbound.pipeline.confirmed();
        match &self.journal {
            Some(journal) => journal.ledger.confirmable(complete),
            None => complete,
        }
    }

    /// Everything that is complete may be told.
    pub(super) fn journal_is_complete(&self) -> bool {
        self.confirmable() == self.outbound.pipeline.confirmed()
    }

    pub(super) fn ask_journal(&mut self, urgent: bool) {
        let pipeline = &self.outbound.pipeline;
        let complete = pipeline.confirmed();
        let released = (!pipeline.is_midway()).then(|| pipeline.window().released());
        if let Some(journal) = &mut self.journal {
            journal.ask(complete, released, urgent);
        }
    }

    pub(super) fn take_journal(&mut self) -> Result<(), RelayError> {
        if let Some(journal) = &mut self.journal {
            journal.take()?;
            self.kill_point.pass(Edge::Journalled);
        }
        Ok(())
    }

    /// The slot is about to be dropped, as the operator has asked.
    pub(super) async fn may_drop_slot(&mut self) -> bool {
        let confirmed = self.confirmable();
        let Some(journal) = &mut self.journal else {
            return true;
        };
        let patience = self.config.relay.shutdown_timeout;
        journal.entry = journal.entry.dropping(confirmed);
        let written = journal.write_within(patience, journal.entry.clone()).await;
        if !written {
            tracing::warn!("the slot is kept: the position journal could not be told of its end");
        }
        written
    }

    /// The server has dropped it. Where the journal does not get that, the next start sees it.
    pub(super) async fn note_dropped(&mut self) {
        let patience = self.config.relay.shutdown_timeout;
        if let Some(journal) = &mut self.journal {
            let dropped = journal.entry.dropped();
            journal.write_within(patience, dropped).await;
        }
    }
}
