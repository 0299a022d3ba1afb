//! The thread that owns the producer: take commands, send in order, poll, report.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
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

/// While deliveries are awaited. A shorter wait costs processor time, a longer one delays the
/// confirmation, never the record.
const IN_FLIGHT_WAIT: Duration = Duration::from_millis(1);
/// Nothing is awaited but a command, which ends the wait at once.
const IDLE_WAIT: Duration = Duration::from_millis(500);
/// While records are in flight, new ones gather this long or until there are so many, and then leave
/// together: a broker's work is per request, and a walsender's rows come one by one. With nothing in
/// flight the first one leaves at once.
const GATHER: Duration = Duration::from_millis(2);
const GATHER_RECORDS: usize = 1000;
/// Sends between two polls, so that reports flow while a long batch is handed over.
const SENDS_PER_POLL: usize = 1000;

enum Next {
    Nothing,
    Command(Command),
}

pub(super) struct Worker {
    producer: Arc<BaseProducer<Context>>,
    message_max_bytes: usize,
    batches: BatchLimit,
    topics: Topics,
    /// Not yet handed to librdkafka.
    queue: VecDeque<(Ticket, Arc<Record>)>,
    /// Handed over and without a report.
    outstanding: usize,
    /// More than one record was handed over since there was none outstanding: a refusal can mean
    /// any of them.
    several: bool,
    /// Were in a batch that the broker refused: sent alone, to find the one that it means.
    suspects: HashSet<Ticket>,
    /// A record failed; nothing is sent until the caller says so.
    halted: bool,
    settled: Vec<DeliveryReport>,
    /// Since when the front of the queue has waited for company.
    gathering_since: Option<Instant>,
}

enum Sent {
    Yes,
    /// Try the same record again later.
    NotYet,
    Failed(DeliveryErrorKind),
}

impl Worker {
    pub(super) fn new(
        options: &Options,
        health: Arc<Health>,
        commands: Sender<Command>,
    ) -> Result<Self, PublishError> {
        let producer: BaseProducer<Context> = options
            .client_config()
            .create_with_context(Context::new(health))
            .map_err(PublishError::Client)?;
        let producer = Arc::new(producer);
        let topics = Topics::start(Asker::new(&producer, options, commands))?;
        Ok(Self {
            producer,
            message_max_bytes: options.message_max_bytes(),
            batches: BatchLimit::new(options.batch_size()),
            topics,
            queue: VecDeque::new(),
            outstanding: 0,
            several: false,
            suspects: HashSet::new(),
            halted: false,
            settled: Vec::new(),
            gathering_since: None,
        })
    }

    pub(super) fn run(mut self, commands: &Receiver<Command>, reports: &Reports) {
        loop {
            match self.next_command(commands) {
                Next::Nothing => {}
                Next::Command(Command::Send(batch)) => self.queue.extend(batch),
                Next::Command(Command::Resume) => {
                    self.halted = false;
                    self.topics.forget_failure();
                }
                Next::Command(Command::Topic(answer)) => self.topics.answer(answer),
                Next::Command(Command::Close(deadline)) => {
                    self.close(deadline, commands, reports);
                    return;
                }
            }
            self.turn();
            if !self.report(reports) {
                return;
            }
        }
    }

    fn next_command(&self, commands: &Receiver<Command>) -> Next {
        let wait = if let Some(since) = self.gathering_since {
            GATHER.saturating_sub(since.elapsed()).min(IN_FLIGHT_WAIT)
        } else if self.outstanding > 0 {
            IN_FLIGHT_WAIT
        } else {
            IDLE_WAIT
        };
        match commands.recv_timeout(wait) {
            Ok(command) => Next::Command(command),
            Err(RecvTimeoutError::Timeout) => Next::Nothing,
            // The handle is gone without a Close: the same, without patience.
            Err(RecvTimeoutError::Disconnected) => Next::Command(Command::Close(Instant::now())),
        }
    }

    /// Sends what can be sent and collects what has settled.
    fn turn(&mut self) {
        if self.should_gather() {
            self.poll();
            return;
        }
        loop {
            let mut sends = 0;
            let mut held = false;
            while !self.halted && sends < SENDS_PER_POLL {
                let Some((ticket, record)) = self.queue.pop_front() else {
                    break;
                };
                match self.send(ticket, &record) {
                    Sent::Yes => {
                        self.several = self.outstanding > 0;
                        self.outstanding += 1;
                        sends += 1;
                    }
                    Sent::NotYet => {
                        self.queue.push_front((ticket, record));
                        held = true;
                        break;
                    }
                    Sent::Failed(kind) => {
                        self.fail(ticket, Arc::clone(&record.topic), kind);
                    }
                }
            }
            self.poll();
            if held || self.halted || self.queue.is_empty() {
                break;
            }
        }
        if self.halted {
            let unsent = self.queue.drain(..);
            self.settled
                .extend(unsent.map(|(ticket, _)| DeliveryReport {
                    ticket,
                    fate: Fate::NotSent,
                }));
        }
    }

    fn should_gather(&mut self) -> bool {
        let wants_company = self.outstanding > 0
            && !self.halted
            && self.suspects.is_empty()
            && (1..GATHER_RECORDS).contains(&self.queue.len());
        if wants_company {
            let since = *self.gathering_since.get_or_insert_with(Instant::now);
            if since.elapsed() < GATHER {
                return true;
            }
        }
        self.gathering_since = None;
        false
    }

    fn send(&mut self, ticket: Ticket, record: &Record) -> Sent {
        let facts = match self.topics.readiness(&record.topic) {
            Readiness::Wait => return Sent::NotYet,
            Readiness::Failed(kind) => return Sent::Failed(kind),
            Readiness::Ready(facts) => facts,
        };
        if let Some(partition) = record.partition
            && !(0..facts.partitions).contains(&partition)
        {
            return Sent::Failed(DeliveryErrorKind::InvalidPartition {
                partition,
                count: facts.partitions,
            });
        }
        if record.timestamp_ms < 0 {
            let timestamp_ms = record.timestamp_ms;
            return Sent::Failed(DeliveryErrorKind::InvalidTimestamp { timestamp_ms });
        }
        if self.outstanding > 0 && !self.suspects.is_empty() {
            return Sent::NotYet;
        }
        let limit = facts.max_message_bytes;
        if !self.batches.admit(record, limit, self.outstanding) {
            return Sent::NotYet;
        }
        match self.producer.send(base_record(ticket, record)) {
            Ok(()) => Sent::Yes,
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _))
                if self.outstanding > 0 =>
            {
                Sent::NotYet
            }
            // Full with nothing in it: larger than all of the queue.
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                Sent::Failed(self.too_large(record))
            }
            Err((error, _)) => Sent::Failed(self.refusal(&error, record)),
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
        self.halted = true;
        self.topics.forget(&topic);
        let error = DeliveryError { topic, kind };
        let fate = Fate::Failed {
            partition: None,
            error,
        };
        self.settled.push(DeliveryReport { ticket, fate });
    }

    /// One call of librdkafka's serves one event, which may be a batch of one: it goes on until
    /// nothing settles any more.
    fn poll(&mut self) {
        loop {
            self.producer.poll(Duration::ZERO);
            let settled = self.producer.context().take();
            if settled.is_empty() {
                return;
            }
            self.outstanding = self.outstanding.saturating_sub(settled.len());
            self.take_settled(settled);
        }
    }

    fn take_settled(&mut self, mut settled: Vec<DeliveryReport>) {
        for report in &mut settled {
            match &mut report.fate {
                Fate::Failed { error, .. } => {
                    self.halted = true;
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
                    } else if error.kind.concerns_a_batch() {
                        if self.several {
                            error.kind = error.kind.of_a_batch();
                        }
                        self.suspects.insert(report.ticket);
                    }
                }
                Fate::Acknowledged { .. } | Fate::NotSent => {
                    if !self.suspects.is_empty() {
                        self.suspects.remove(&report.ticket);
                    }
                }
            }
        }
        self.settled.append(&mut settled);
    }

    /// False when nobody listens any more.
    fn report(&mut self, reports: &Reports) -> bool {
        self.settled.is_empty() || reports.send(std::mem::take(&mut self.settled)).is_ok()
    }

    fn close(mut self, deadline: Instant, commands: &Receiver<Command>, reports: &Reports) {
        while (self.outstanding > 0 || !self.queue.is_empty()) && Instant::now() < deadline {
            self.turn();
            if !self.report(reports) {
                break;
            }
            if self.halted && self.outstanding == 0 {
                break;
            }
            if let Ok(Command::Topic(answer)) = commands.recv_timeout(IN_FLIGHT_WAIT) {
                self.topics.answer(answer);
            }
        }
        self.halted = true;
        self.turn();
        if self.outstanding > 0 {
            self.producer
                .purge(PurgeConfig::default().queue().inflight());
            let given_up = Instant::now() + Duration::from_secs(1);
            while self.outstanding > 0 && Instant::now() < given_up {
                self.poll();
            }
        }
        self.report(reports);
    }
}

fn base_record(ticket: Ticket, record: &Record) -> BaseRecord<'_, [u8], [u8], usize> {
    // Tickets are counted on this machine: they fit its word.
    let opaque = usize::try_from(ticket.0).unwrap_or(usize::MAX);
    // librdkafka takes 0 for \"now\": the epoch itself goes as the millisecond after it.
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
