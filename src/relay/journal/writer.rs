//! The relay's end of the writing task.

use std::pin::Pin;

use tokio::sync::watch;

use super::keeper::Keeper;
use super::{Options, now_ms};
use crate::journal::Entry;
use crate::kafka::Options as KafkaOptions;
use crate::lsn::Lsn;
use crate::relay::error::Undelivered;
use crate::relay::{OnBlocked, RelayError, View};

/// What the writing task is to write.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) entry: Option<Entry>,
    pub(super) haste: Haste,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Haste {
    /// Once the pause between two writes is over.
    #[default]
    None,
    /// A position that somebody waits for.
    Urgent,
    /// Nothing is sent before it is written.
    Awaited,
}

/// What the writing task has done.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    pub(super) entry: Option<Entry>,
    /// The one that is wanted does not get there.
    pub(super) stuck: bool,
    /// The last attempt told what is wrong.
    pub(super) refused: Option<Undelivered>,
}

pub(in crate::relay) type Writing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Clones share the task.
#[derive(Clone, Debug)]
pub(in crate::relay) struct Writer {
    pub(in crate::relay) kafka: KafkaOptions,
    pub(in crate::relay) options: Options,
    on_blocked: OnBlocked,
    wanted: watch::Sender<Wanted>,
    written: watch::Receiver<Written>,
}

impl Writer {
    /// The task has to be run.
    pub(in crate::relay) fn new(
        kafka: &KafkaOptions,
        options: &Options,
        relay: &crate::relay::Options,
        view: View,
    ) -> (Self, Writing) {
        let (wanted, wants) = watch::channel(Wanted::default());
        let (writes, written) = watch::channel(Written::default());
        let keeper = Keeper::new(kafka, options, relay, view, wants, writes);
        let this = Self {
            kafka: kafka.clone(),
            options: options.clone(),
            on_blocked: relay.on_blocked.clone(),
            wanted,
            written,
        };
        (this, Box::pin(keeper.run()))
    }

    /// A position of the stream.
    pub(in crate::relay) fn want(&self, entry: &Entry, lsn: Lsn, urgent: bool) {
        let haste = if urgent { Haste::Urgent } else { Haste::None };
        let entry = Some(entry.at(lsn, now_ms()));
        self.wanted.send_replace(Wanted { entry, haste });
    }

    /// Until Kafka has it.
    pub(in crate::relay) async fn write(&mut self, entry: Entry) -> Result<(), RelayError> {
        let entry = entry.at(entry.confirmed_lsn, now_ms());
        self.wanted.send_replace(Wanted {
            entry: Some(entry.clone()),
            haste: Haste::Awaited,
        });
        while self.written.borrow_and_update().entry.as_ref() != Some(&entry) {
            self.check()?;
            self.changed().await?;
        }
        Ok(())
    }

    /// The writing task has news. Cancel-safe.
    pub(super) async fn changed(&mut self) -> Result<(), RelayError> {
        let changed = self.written.changed().await;
        changed.map_err(|_| RelayError::ProducerGone)
    }

    /// What was written last.
    pub(super) fn take(&mut self) -> Result<Option<Entry>, RelayError> {
        self.check()?;
        Ok(self.written.borrow_and_update().entry.clone())
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.written.borrow().stuck
    }

    fn check(&self) -> Result<(), RelayError> {
        match &self.written.borrow().refused {
            Some(refused) if self.on_blocked == OnBlocked::Exit => {
                Err(RelayError::Undeliverable(refused.clone()))
            }
            _ => Ok(()),
        }
    }
}
