//! The two threads of a producer: one takes commands and sends in order, one polls for reports.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, PurgeConfig};

use super::asker::Asker;
use super::batch_limit::BatchLimit;
use super::delivery::{Context, DeliveryReport, Fate};
use super::error::{DeliveryError, DeliveryErrorKind, PublishError, SizeLimit};
use super::health::Health;
use super::options::Options;
use super::publisher::{Command, Reports};
use super::topic::{Readiness, Topics};
use crate::ack::Ticket;
use crate::router::Record;

/// An idempotent producer of librdkafka's puts no request on the wire for a partition with five
/// records under way, and with `linger.ms=0` its broker thread spins until it may (librdkafka
/// 2.12.1: half of all processor time in a drain). So it gets records only when it can send them:
/// at once while this few are under way, else when all are settled.
const SENT_AT_ONCE: usize = 4;
/// At most one request for one partition: `batch.num.messages` and `batch.size` as we set it.
const HANDOVER_RECORDS: usize = 10_000;
const HANDOVER_BYTES: usize = 1_000_000;
/// A partition that does not answer holds the others back no longer than this.
const GATHER_LIMIT: Duration = Duration::from_millis(20);
/// librdkafka's queue is full, or a record has to go alone.
const HELD_WAIT: Duration = Duration::from_millis(5);
/// How long the end of the polling thread may take; reports end its wait at once.
const POLL_WAIT: Duration = Duration::from_millis(50);
/// What is given up at the end is reported by then.
const PURGE_WAIT: Duration = Duration::from_secs(1);

/// What both threads and librdkafka's callbacks know.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// Handed to librdkafka and without a report.
    outstanding: AtomicUsize,
    /// A record failed; nothing is sent until the caller says so.
    halted: AtomicBool,
    /// The polling thread is to end.
    ended: AtomicBool,
}

impl Traffic {
    pub(super) fn halt(&self) {
        self.halted.store(true, Ordering::Release);
    }

    /// True when none is left.
    pub(super) fn settle(&self) -> bool {
        self.outstanding.fetch_sub(1, Ordering::AcqRel) == 1
    }

    fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }

    fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Acquire)
    }
}

pub(super) struct Worker {
    producer: Arc<BaseProducer<Context>>,
    traffic: Arc<Traffic>,
    reports: Reports,
    message_max_bytes: usize,
    batches: BatchLimit,
    topics: Topics,
    /// Not yet handed to librdkafka.
    queue: VecDeque<(Ticket, Arc<Record>)>,
    /// More than one record was handed over since there was none outstanding: a refusal can mean
    /// any of them.
    several: bool,
    /// Were in a batch that the broker refused: sent alone, to find the one that it means.
    suspects: HashSet<Ticket>,
    /// The record under way is a suspect.
    alone: bool,
    /// Why the front of the queue cannot be sent yet.
    held: Option<Held>,
    /// Since when the front of the queue has waited for what is under way.
    gathering_since: Option<Instant>,
    /// The producer has lost its brokers for good.
    deserted: bool,
    /// Its partition was not there, so its topic was asked for once more: topics grow.
    looked_again_for: Option<Ticket>,
}

#[derive(Clone, Copy, Debug)]
enum Held {
    /// Until the brokers have said what they know of its topic, which comes as a command.
    ForTopic,
    /// Until something settles.
    ForRoom,
}

enum Sent {
    Yes,
    /// Try the same record again later.
    NotYet(Held),
    Failed(DeliveryErrorKind),
}

impl Worker {
    pub(super) fn new(
        options: &Options,
        health: Arc<Health>,
        commands: Sender<Command>,
        reports: Reports,
    ) -> Result<Self, PublishError> {
        let traffic = Arc::new(Traffic::default());
        let context = Context::new(
            health,
            Arc::clone(&traffic),
            commands.clone(),
            reports.clone(),
        );
        let producer: BaseProducer<Context> = options
            .client_config()
            .create_with_context(context)
            .map_err(PublishError::Client)?;
        let producer = Arc::new(producer);
        let topics = Topics::start(Asker::new(&producer, options, commands))?;
        Ok(Self {
            producer,
            traffic,
            reports,
            message_max_bytes: options.message_max_bytes(),
            batches: BatchLimit::new(options.batch_size()),
            topics,
            queue: VecDeque::new(),
            several: false,
            suspects: HashSet::new(),
            alone: false,
            held: None,
            gathering_since: None,
            deserted: false,
            looked_again_for: None,
        })
    }

    /// Starts the thread whose polls run the callbacks.
    pub(super) fn start_polling(&self) -> Result<JoinHandle<()>, PublishError> {
        let (producer, traffic) = (Arc::clone(&self.producer), Arc::clone(&self.traffic));
        std::thread::Builder::new()
            .name("kafka-reports".to_owned())
            .spawn(move || {
                while !traffic.ended.load(Ordering::Acquire) {
                    producer.poll(POLL_WAIT);
                }
            })
            .map_err(PublishError::Thread)
    }

    /// Until the command to close.
    pub(super) fn run(mut self, commands: &Receiver<Command>, poller: JoinHandle<()>) {
        self.serve(commands);
        self.traffic.ended.store(true, Ordering::Release);
        if poller.join().is_err() {
            tracing::error!("the thread of Kafka's reports panicked");
        }
    }

    fn serve(&mut self, commands: &Receiver<Command>) {
        loop {
            let mut next = self.next_command(commands);
            while let Some(command) = next {
                if let Command::Close(deadline) = command {
                    return self.close(deadline, commands);
                }
                self.take(command);
                next = commands.try_recv().ok();
            }
            self.turn();
        }
    }

    fn next_command(&self, commands: &Receiver<Command>) -> Option<Command> {
        // The callbacks hold a sender too, so the channel outlives this thread: the handle that is
        // dropped says so with a Close.
        match self.wait() {
            None => commands.recv().ok(),
            Some(wait) => commands.recv_timeout(wait).ok(),
        }
    }

    /// How long nothing can be done without a command.
    fn wait(&self) -> Option<Duration> {
        if let Some(since) = self.gathering_since {
            return Some(GATHER_LIMIT.saturating_sub(since.elapsed()));
        }
        match self.held {
            Some(Held::ForTopic) => return None,
            Some(Held::ForRoom) => return Some(HELD_WAIT),
            None => {}
        }
        (!self.queue.is_empty()).then_some(Duration::ZERO)
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Send(batch) => self.queue.extend(batch),
            Command::Resume => {
                self.traffic.halted.store(false, Ordering::Release);
                self.topics.forget_failure();
            }
            Command::Topic(answer) => self.topics.answer(answer),
            Command::Refused(report) => self.take_refused(report),
            Command::Deserted => self.desert(),
            // That it came ends the wait; a close is taken elsewhere.
            Command::AllSettled | Command::Close(_) => {}
        }
    }

    /// What is under way can reach nobody: it is given up, and its reports say that a new producer
    /// is needed.
    fn desert(&mut self) {
        self.deserted = true;
        self.purge();
    }

    /// The reports of what is given up come all the same.
    fn purge(&self) {
        self.producer
            .purge(PurgeConfig::default().queue().inflight());
    }

    /// Hands over what librdkafka can send now.
    fn turn(&mut self) {
        self.held = None;
        if self.deserted
            && !self.traffic.is_halted()
            && let Some((ticket, record)) = self.queue.pop_front()
        {
            self.fail(ticket, Arc::clone(&record.topic), deserted());
        }
        if self.should_gather() {
            return;
        }
        let (mut records, mut bytes) = (0, 0);
        while !self.traffic.is_halted() && records < HANDOVER_RECORDS && bytes < HANDOVER_BYTES {
            let Some((ticket, record)) = self.queue.pop_front() else {
                break;
            };
            match self.send(ticket, &record) {
                Sent::Yes => {
                    records += 1;
                    bytes += record.size_bytes();
                }
                Sent::NotYet(held) => {
                    self.queue.push_front((ticket, record));
                    self.held = Some(held);
                    break;
                }
                Sent::Failed(kind) => self.fail(ticket, Arc::clone(&record.topic), kind),
            }
        }
        if self.traffic.is_halted() {
            self.held = None;
            for (ticket, _) in std::mem::take(&mut self.queue) {
                let fate = Fate::NotSent;
                self.report(DeliveryReport { ticket, fate });
            }
        }
    }

    fn should_gather(&mut self) -> bool {
        let outstanding = self.traffic.outstanding();
        let must_wait = outstanding > 0
            && !self.traffic.is_halted()
            && !self.queue.is_empty()
            && outstanding + self.queue.len() > SENT_AT_ONCE;
        if must_wait {
            let since = *self.gathering_since.get_or_insert_with(Instant::now);
            if since.elapsed() < GATHER_LIMIT {
                return true;
            }
        }
        self.gathering_since = None;
        false
    }

    fn send(&mut self, ticket: Ticket, record: &Record) -> Sent {
        let facts = match self.topics.readiness(&record.topic) {
            Readiness::Wait => return Sent::NotYet(Held::ForTopic),
            Readiness::Failed(kind) => return Sent::Failed(kind),
            Readiness::Ready(facts) => facts,
        };
        if let Some(partition) = record.partition
            && !(0..facts.partitions).contains(&partition)
        {
            if self.looked_again_for.replace(ticket) != Some(ticket) {
                self.topics.forget(&record.topic);
                return self.send(ticket, record);
            }
            return Sent::Failed(DeliveryErrorKind::InvalidPartition {
                partition,
                count: facts.partitions,
            });
        }
        if record.timestamp_ms < 0 {
            let timestamp_ms = record.timestamp_ms;
            return Sent::Failed(DeliveryErrorKind::InvalidTimestamp { timestamp_ms });
        }
        let outstanding = self.traffic.outstanding();
        if outstanding > 0 && (self.alone || !self.suspects.is_empty()) {
            return Sent::NotYet(Held::ForRoom);
        }
        let limit = facts.max_message_bytes;
        if !self.batches.admit(record, limit, outstanding) {
            return Sent::NotYet(Held::ForRoom);
        }
        // Counted first: its report may come before `send` returns.
        let others = self.traffic.outstanding.fetch_add(1, Ordering::AcqRel);
        // A failure halts before it is counted off: after a count of none, a halt shows here. So no
        // record slips out behind a refusal that is still on its way, to be taken for the only one.
        if self.traffic.is_halted() {
            self.traffic.outstanding.fetch_sub(1, Ordering::AcqRel);
            return Sent::NotYet(Held::ForRoom);
        }
        let Err((error, _)) = self.producer.send(base_record(ticket, record)) else {
            self.several = others > 0;
            self.alone = !self.suspects.is_empty() && self.suspects.remove(&ticket);
            return Sent::Yes;
        };
        self.traffic.outstanding.fetch_sub(1, Ordering::AcqRel);
        match error {
            // Records count there until the last report of their batch has been handed out.
            KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)
                if self.producer.in_flight_count() > 0 =>
            {
                Sent::NotYet(Held::ForRoom)
            }
            // Full with nothing in it: larger than all of the queue.
            KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) => {
                Sent::Failed(self.too_large(record))
            }
            error => Sent::Failed(self.refusal(&error, record)),
        }
    }

    /// What `send` itself says. A fatal state of the producer counts before it.
    fn refusal(&self, error: &KafkaError, record: &Record) -> DeliveryErrorKind {
        if let Some(fatal) = DeliveryErrorKind::from_fatal(self.producer.client().fatal_error()) {
            return fatal;
        }
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::MessageSizeTooLarge) => self.too_large(record),
            _ => DeliveryErrorKind::from_error(error),
        }
    }

    fn too_large(&self, record: &Record) -> DeliveryErrorKind {
        DeliveryErrorKind::RecordTooLarge {
            size_bytes: record.length_bytes(),
            limit: SizeLimit::Relay(self.message_max_bytes),
        }
    }

    fn fail(&mut self, ticket: Ticket, topic: Arc<str>, kind: DeliveryErrorKind) {
        self.traffic.halt();
        self.topics.forget(&topic);
        let error = DeliveryError { topic, kind };
        let fate = Fate::Failed {
            partition: None,
            error,
        };
        self.report(DeliveryReport { ticket, fate });
    }

    /// What librdkafka reported, with what the producer and the topic say of it.
    fn take_refused(&mut self, mut report: DeliveryReport) {
        if let Fate::Failed { error, .. } = &mut report.fate {
            if let DeliveryErrorKind::RecordTooLarge {
                limit: SizeLimit::Topic(limit),
                ..
            } = &mut error.kind
            {
                *limit = self.topics.max_message_bytes(&error.topic);
            }
            self.topics.forget(&error.topic);
            let fatal = self.producer.client().fatal_error();
            if let Some(fatal) = DeliveryErrorKind::from_fatal(fatal) {
                error.kind = fatal;
            } else if self.deserted {
                error.kind = deserted();
            } else if error.kind.concerns_a_batch() {
                if self.several {
                    error.kind = error.kind.of_a_batch();
                }
                self.suspects.insert(report.ticket);
            }
        }
        self.report(report);
    }

    fn report(&self, report: DeliveryReport) {
        // Where nobody listens any more the relay is on its way out.
        drop(self.reports.send(report));
    }

    fn close(&mut self, deadline: Instant, commands: &Receiver<Command>) {
        // One that was dropped sends nothing more: what waits here may be somebody else's by now.
        if Instant::now() < deadline {
            self.drain(deadline, commands);
        }
        self.traffic.halt();
        self.turn();
        if self.traffic.outstanding() > 0 {
            self.purge();
            self.drain(Instant::now() + PURGE_WAIT, commands);
        }
        while let Ok(command) = commands.try_recv() {
            self.take(command);
        }
        self.turn();
    }

    /// Until nothing is outstanding and nothing can be sent, or until the deadline.
    fn drain(&mut self, deadline: Instant, commands: &Receiver<Command>) {
        loop {
            self.turn();
            if self.traffic.outstanding() == 0 && self.queue.is_empty() {
                return;
            }
            let patience = deadline.saturating_duration_since(Instant::now());
            if patience.is_zero() {
                return;
            }
            let wait = self.wait().unwrap_or(patience).min(patience);
            if let Ok(command) = commands.recv_timeout(wait) {
                self.take(command);
            }
        }
    }
}

fn deserted() -> DeliveryErrorKind {
    DeliveryErrorKind::ProducerFatal("librdkafka has no broker left to turn to".to_owned())
}

fn base_record(ticket: Ticket, record: &Record) -> BaseRecord<'_, [u8], [u8], usize> {
    // Tickets are counted on this machine: they fit its word.
    let opaque = usize::try_from(ticket.0).unwrap_or(usize::MAX);
    // librdkafka takes 0 for "now": the epoch itself goes as the millisecond after it.
    let mut base =
        BaseRecord::with_opaque_to(&record.topic, opaque).timestamp(record.timestamp_ms.max(1));
    base.partition = record.partition;
    base.key = record.key.as_deref();
    base.payload = record.value.as_deref();
    if !record.headers.is_empty() {
        let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
        for header in &record.headers {
            headers = headers.insert(Header {
                key: &header.name,
                value: header.value.as_deref(),
            });
        }
        base.headers = Some(headers);
    }
    base
}

#[cfg(test)]
mod tests;
