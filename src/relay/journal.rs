//! The position journal: read with the lead and before a stream, written before each confirmation. A
//! task of its own writes, through a producer of its own: what keeps a position from being written
//! keeps it from being confirmed, and no event from being sent.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use smallvec::SmallVec;
use tokio::sync::watch;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::error::Undelivered;
use super::kill_point::Edge;
use super::view::Obstacle;
use super::{OnBlocked, Relay, RelayError, View};
use crate::ack::{Limits, Ticket};
use crate::journal::{Entry, Ledger};
use crate::kafka::{
    self, DeliveryReports, Fate, Offsets, Options as KafkaOptions, Publisher, ReadError, Reading,
};
use crate::lsn::Lsn;
use crate::observe::{Problem, Repeated};
use crate::router::Record;
use crate::timestamp::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub topic: String,
    /// Of this relay's entries among those of others.
    pub key: String,
}

/// How long the brokers may be silent while the journal is read.
const READ_PATIENCE: Duration = Duration::from_secs(10);
/// A position that waits longer than this shows.
const WRITE_PATIENCE: Duration = Duration::from_secs(3);
/// While no event was sent the position moves by the server's keepalives alone.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
const REPEAT_INTERVAL: Duration = Duration::from_secs(30);
/// One record is under way at a time.
const WINDOW: Limits = Limits {
    records: 10,
    bytes: 1 << 16,
};

/// What is under the key.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) newest: Option<Entry>,
    /// Of the last record, where nobody can read it.
    pub(super) unreadable: Option<RelayError>,
}

pub(super) async fn read(kafka: KafkaOptions, options: Options) -> Result<Stored, RelayError> {
    let read = tokio::task::spawn_blocking(move || read_blocking(&kafka, &options));
    read.await.unwrap_or(Err(RelayError::ProducerGone))
}

fn read_blocking(kafka: &KafkaOptions, options: &Options) -> Result<Stored, RelayError> {
    let began = std::time::Instant::now();
    let reading = Reading::start(kafka, &options.topic, &Offsets::new(), READ_PATIENCE);
    let mut reading = match reading {
        Err(ReadError::TopicMissing { .. }) => return Ok(Stored::default()),
        reading => reading.map_err(RelayError::JournalUnread)?,
    };
    let mut stored = Stored::default();
    let mut records = 0_u64;
    while let Some(record) = reading.read().map_err(RelayError::JournalUnread)? {
        records += 1;
        if record.key.as_deref() != Some(options.key.as_bytes()) {
            continue;
        }
        // Whoever takes the entry out knows why.
        let Some(value) = record.value else {
            stored = Stored::default();
            continue;
        };
        match Entry::from_json(&value) {
            Ok(entry) => {
                stored.unreadable = None;
                stored.newest = Some(match stored.newest.take() {
                    Some(newest) => newest.newest(entry),
                    None => entry,
                });
            }
            Err(source) => {
                stored.unreadable = Some(RelayError::JournalEntry {
                    topic: options.topic.clone(),
                    key: options.key.clone(),
                    offset: record.offset,
                    source,
                });
            }
        }
    }
    let took_ms = began.elapsed().as_millis();
    let newest = stored.newest.as_ref();
    let lsn = newest.map(|entry| entry.confirmed_lsn.to_string());
    tracing::debug!(records, took_ms, lsn, "the position journal was read");
    Ok(stored)
}

/// What the writing task is to write.
#[derive(Clone, Debug, Default)]
struct Wanted {
    entry: Option<Entry>,
    /// Somebody waits for it: before the pause between two writes is over.
    urgent: bool,
}

/// What the writing task has done.
#[derive(Clone, Debug, Default)]
struct Written {
    entry: Option<Entry>,
    /// The one that is wanted does not get there.
    stuck: bool,
    /// The last attempt told what is wrong.
    refused: Option<Undelivered>,
}

pub(super) type Writing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The relay's end of the writing task. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) kafka: KafkaOptions,
    pub(super) options: Options,
    on_blocked: OnBlocked,
    wanted: watch::Sender<Wanted>,
    written: watch::Receiver<Written>,
}

impl Writer {
    /// The task has to be run.
    pub(super) fn new(
        kafka: &KafkaOptions,
        options: &Options,
        relay: &super::Options,
        view: View,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (wanted, wants) = watch::channel(Wanted::default());
        let (writes, written) = watch::channel(Written::default());
        let keeper = Keeper {
            kafka: kafka.beside(kafka::compacted(), WINDOW),
            options: options.clone(),
            interval: relay.confirm_interval,
            backoff: Backoff::new(relay.backoff_min, relay.backoff_max),
            repeated: Repeated::new(REPEAT_INTERVAL),
            producer: None,
            next: Ticket::default(),
            wants,
            writes,
            view,
        };
        let this = Self {
            kafka: kafka.clone(),
            options: options.clone(),
            on_blocked: relay.on_blocked.clone(),
            wanted,
            written,
        };
        (this, keeper.run())
    }

    fn want(&self, entry: Entry, urgent: bool) {
        let entry = Some(entry);
        self.wanted.send_replace(Wanted { entry, urgent });
    }

    /// Until Kafka has it.
    pub(super) async fn write(&mut self, entry: Entry) -> Result<(), RelayError> {
        let entry = entry.at(entry.confirmed_lsn, now_ms());
        self.want(entry.clone(), true);
        while self.written.borrow_and_update().entry.as_ref() != Some(&entry) {
            self.check()?;
            let changed = self.written.changed().await;
            changed.map_err(|_| RelayError::ProducerGone)?;
        }
        Ok(())
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
            self.writer.want(self.entry.at(complete, now_ms()), urgent);
            (self.asked_at, self.released) = (Instant::now(), released);
        }
        if urgent {
            self.urged = self.urged.max(complete);
        }
    }

    /// The writing task has news. Cancel-safe.
    async fn changed(&mut self) -> Result<(), RelayError> {
        let changed = self.writer.written.changed().await;
        changed.map_err(|_| RelayError::ProducerGone)
    }

    fn take(&mut self) -> Result<(), RelayError> {
        self.writer.check()?;
        let written = self.writer.written.borrow_and_update();
        if let Some(entry) = &written.entry
            && (entry.generation, entry.timeline) == (self.entry.generation, self.entry.timeline)
        {
            self.ledger.acknowledge(entry.confirmed_lsn);
        }
        Ok(())
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.writer.written.borrow().stuck
    }
}

/// Ends when the journal has news; never without one.
pub(super) async fn news(journal: &mut Option<Journal>) -> Result<(), RelayError> {
    match journal {
        Some(journal) => journal.changed().await,
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
        let released = (!pipeline.in_transaction()).then(|| pipeline.window().released());
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

    /// The slot is about to be dropped, as the operator has asked: the next one begins without a
    /// claim.
    pub(super) async fn may_drop_slot(&mut self) -> bool {
        let Some(journal) = &mut self.journal else {
            return true;
        };
        let dropped = journal.entry.without_slot();
        let patience = self.config.relay.shutdown_timeout;
        let written = tokio::time::timeout(patience, journal.writer.write(dropped)).await;
        let written = matches!(written, Ok(Ok(())));
        if !written {
            tracing::warn!("the slot is kept: the position journal could not be told of its end");
        }
        written
    }
}

/// The writing task.
struct Keeper {
    kafka: KafkaOptions,
    options: Options,
    interval: Duration,
    backoff: Backoff,
    repeated: Repeated,
    /// Made for the first entry: one that only waits for the lead needs none.
    producer: Option<(Publisher, DeliveryReports)>,
    next: Ticket,
    wants: watch::Receiver<Wanted>,
    writes: watch::Sender<Written>,
    view: View,
}

impl Keeper {
    /// Until nobody wants anything any more. Whatever was wanted meanwhile, the last one is written.
    async fn run(mut self) {
        while self.wants.changed().await.is_ok() {
            let began = Instant::now();
            self.write().await;
            // A receiver of its own: what it has seen is still new to the loop.
            let mut next = self.wants.clone();
            tokio::select! {
                () = tokio::time::sleep_until(began + self.interval) => {}
                _ = next.wait_for(|wanted| wanted.urgent) => {}
            }
        }
    }

    async fn write(&mut self) {
        loop {
            let Some(entry) = self.wants.borrow_and_update().entry.clone() else {
                return;
            };
            match self.attempt(&entry).await {
                Ok(()) => {
                    self.done(entry);
                    return;
                }
                Err(error) => {
                    self.failed(error);
                    tokio::time::sleep(self.backoff.pause()).await;
                }
            }
        }
    }

    fn done(&mut self, entry: Entry) {
        self.backoff.reset();
        if self.repeated.recovered() || self.writes.borrow().stuck {
            tracing::info!("recovered: the position journal is written again");
        }
        self.view.unblock(Obstacle::Journal);
        self.view.metrics.journal_writes.inc();
        let position = i64::try_from(entry.confirmed_lsn.as_u64());
        let metrics = &self.view.metrics;
        metrics.journal_lsn_bytes.set(position.unwrap_or(i64::MAX));
        self.writes.send_replace(Written {
            entry: Some(entry),
            ..Written::default()
        });
    }

    /// `None` in an error: no producer, and the next attempt makes one.
    async fn attempt(&mut self, entry: &Entry) -> Result<(), Option<kafka::DeliveryError>> {
        let mut producer = match self.producer.take() {
            Some(producer) => producer,
            None => Publisher::start(&self.kafka).map_err(|error| {
                tracing::error!("{error}");
                None
            })?,
        };
        let ticket = self.next;
        self.next = Ticket(ticket.0 + 1);
        producer.0.resume();
        producer.0.send(vec![(ticket, self.record(entry))]);
        let mut patience = Some(Instant::now() + WRITE_PATIENCE);
        loop {
            tokio::select! {
                reports = producer.1.recv() => {
                    let Some(reports) = reports else { return Err(None) };
                    match reports.into_iter().find(|report| report.ticket == ticket) {
                        None => {}
                        Some(report) => match report.fate {
                            Fate::Acknowledged { .. } => {
                                self.producer = Some(producer);
                                return Ok(());
                            }
                            Fate::Failed { error, .. } => {
                                if !error.needs_new_producer() {
                                    self.producer = Some(producer);
                                }
                                return Err(Some(error));
                            }
                            Fate::NotSent => return Err(None),
                        },
                    }
                }
                () = super::outbound::until(patience) => {
                    patience = None;
                    self.silent(producer.0.health().outage());
                }
            }
        }
    }

    fn record(&self, entry: &Entry) -> Arc<Record> {
        Arc::new(Record {
            topic: self.options.topic.as_str().into(),
            partition: None,
            key: Some(Bytes::copy_from_slice(self.options.key.as_bytes())),
            value: Some(entry.to_json().into()),
            headers: SmallVec::new(),
            timestamp_ms: entry.written_at_ms,
        })
    }

    fn silent(&self, reason: Option<String>) {
        let problem = self.problem("no answer from Kafka".to_owned(), reason, None);
        self.view.block(Obstacle::Journal, problem);
        self.writes.send_modify(|written| written.stuck = true);
    }

    fn failed(&mut self, error: Option<kafka::DeliveryError>) {
        let Some(error) = error else {
            return;
        };
        let (said, hint) = (error.to_string(), error.hint());
        let settled = !error.concerns_the_attempt();
        let undelivered = Undelivered::new(error, None);
        let problem = self.problem(said, None, Some(hint));
        let now = std::time::Instant::now();
        if let Some(unsaid) = self.repeated.say(&undelivered.kind(), now) {
            self.view.report(&problem, unsaid);
        }
        self.view.block(Obstacle::Journal, problem);
        self.writes.send_modify(|written| {
            written.stuck = true;
            written.refused = settled.then_some(undelivered);
        });
    }

    fn problem(&self, reason: String, detail: Option<String>, hint: Option<String>) -> Problem {
        let topic = &self.options.topic;
        let without = format!(
            "The topic can be made by hand: kafka-topics.sh --create --topic {topic} --partitions 1 --config cleanup.policy=compact. With position.topic set to nothing there is no journal, and docs/operating.md says what is not noticed then."
        );
        Problem {
            message: format!("the position cannot be written to the journal: {reason}"),
            detail: Some(format!(
                "Events are sent, and none is confirmed to PostgreSQL until its position is in topic \"{topic}\".{}",
                detail.map(|text| format!(" {text}")).unwrap_or_default()
            )),
            hint: Some(match hint {
                Some(hint) => format!("{hint} {without}"),
                None => without,
            }),
        }
    }
}
