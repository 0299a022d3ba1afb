//! Everything around one pipeline under one seed, the steps it can take, and what has to hold.

use std::collections::VecDeque;
use std::ops::Range;

use outboxd::ack::{Limits, Outcome, Resend, Ticket};
use outboxd::lsn::Lsn;
use outboxd::pipeline::{Pipeline, PipelineError};
use outboxd::router::dead_letter::Reason;
use outboxd::router::{EventRouter, Options};

use super::broker::{Broker, Report, event_of};
use super::journal::JournalTopic;
use super::log::{Health, Log, Sent, Walsender};
use super::{Chance, Faults, Tally};
use crate::support::mutation::Random;

/// Faults cease after this many steps, so that every schedule can end.
const STEPS_WITH_FAULTS: u64 = 250;
const STEPS_AT_MOST: u64 = 50_000;

/// What the pretend server knows of the slot.
struct Slot {
    /// By the last status update that arrived.
    confirmed: Lsn,
    /// What a crash of the server leaves of it.
    durable: Lsn,
    /// Updates on their way.
    updates: VecDeque<Lsn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Streaming,
    /// The connection is gone; a new one waits for the window to be empty.
    Cut,
    /// Asked to stop: the open transaction, then nothing more.
    Stopping,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Read,
    HandOver,
    Serve,
    Report,
    Resend,
    AskJournal,
    StoreJournal,
    AcknowledgeJournal,
    SendStatus,
    ReceiveStatus,
    Checkpoint,
    Cut,
    CrashServer,
    PutServerBack,
    CrashRelay,
    Stop,
}

/// The records that the window has to hold, by our own count.
#[derive(Default)]
struct Outstanding {
    records: VecDeque<Held>,
    first: u64,
    bytes: usize,
    /// A report said so, and nothing was sent again yet.
    failed: bool,
}

struct Held {
    event: usize,
    size_bytes: usize,
    /// Of this, what a dead letter has beyond its record.
    grown_bytes: usize,
    acknowledged: bool,
}

pub(super) struct World<'a> {
    options: &'a Options,
    random: Random,
    limits: Limits,
    log: Log,
    walsender: Walsender,
    slot: Slot,
    pipeline: Pipeline,
    broker: Broker,
    journal: JournalTopic,
    outstanding: Outstanding,
    /// By event: some report of it said that it is stored.
    acknowledged: Vec<bool>,
    /// Items before which every event is acknowledged.
    complete_items: usize,
    confirmed: Lsn,
    /// Events that this process has confirmed in the server's history.
    spared: Range<usize>,
    /// The next stream is of another postmaster.
    restarted: bool,
    /// Another instance streams before this one's next stream.
    others_stream: bool,
    phase: Phase,
    faults: Faults,
    steps: u64,
    tally: Tally,
    trace: bool,
}

impl<'a> World<'a> {
    pub(super) fn new(seed: u64, options: &'a Options, trace: bool) -> Self {
        let mut random = Random::new(seed);
        let limits = Limits {
            records: 1 + random.below(20),
            bytes: 1 + random.below(5_000),
        };
        let log = Log::generate(&mut random, options.dead_letter_topic.is_some());
        let start = log.start;
        let mut world = Self {
            options,
            faults: Faults::draw(&mut random),
            random,
            limits,
            walsender: Walsender::default(),
            slot: Slot {
                confirmed: start,
                durable: start,
                updates: VecDeque::new(),
            },
            pipeline: pipeline(options, limits),
            broker: Broker::default(),
            journal: JournalTopic::new(start),
            outstanding: Outstanding::default(),
            acknowledged: vec![false; log.events.len()],
            complete_items: 0,
            log,
            confirmed: start,
            spared: 0..0,
            restarted: false,
            others_stream: false,
            phase: Phase::Streaming,
            steps: 0,
            tally: Tally::default(),
            trace,
        };
        world.start_process();
        world
    }

    /// Until everything is published and the last clean stop has left nothing to repeat.
    pub(super) fn run(mut self) -> Tally {
        while !self.is_done() {
            self.steps += 1;
            assert!(self.steps < STEPS_AT_MOST, "no end in sight");
            if self.steps == STEPS_WITH_FAULTS {
                self.faults = Faults::none();
            }
            let step = self.choose();
            self.take(step);
            if self.trace {
                let (confirmed, window) = (self.pipeline.confirmed(), self.pipeline.window());
                let (first, next) = (window.released().0, window.next_ticket().0);
                eprintln!("{step:?}: confirmed {confirmed}, outstanding {first}..{next}");
            }
            self.check_step();
        }
        self.take(Step::Stop);
        self.check_end();
        self.tally.steps = self.steps;
        self.tally
    }

    fn is_done(&self) -> bool {
        self.phase == Phase::Streaming
            && self.slot.confirmed == self.log.position_before(self.log.items.len())
            && self.pipeline.window().is_empty()
            && !self.pipeline.is_midway()
    }

    fn choose(&mut self) -> Step {
        if self.faults.disaster_strikes(&mut self.random) {
            let disasters = [
                Step::Cut,
                Step::CrashServer,
                Step::PutServerBack,
                Step::CrashRelay,
                Step::Stop,
            ];
            return disasters[self.random.below(disasters.len())];
        }
        loop {
            let step = match self.random.below(30) {
                0..5 => Step::Read,
                5..10 => Step::HandOver,
                10..15 => Step::Serve,
                15..20 => Step::Report,
                20 => Step::Resend,
                21 => Step::SendStatus,
                22 => Step::ReceiveStatus,
                23..25 => Step::AskJournal,
                25..27 => Step::StoreJournal,
                27..29 => Step::AcknowledgeJournal,
                _ => Step::Checkpoint,
            };
            if self.is_worth_a_step(step) {
                return step;
            }
        }
    }

    /// Steps that would do nothing only cost time. That nothing is read or sent again too early is
    /// looked at all the same.
    fn is_worth_a_step(&self, step: Step) -> bool {
        match step {
            Step::HandOver => self.broker.has_queued(),
            Step::Serve => self.broker.has_in_flight(),
            Step::Report => self.broker.has_reports(),
            Step::ReceiveStatus => !self.slot.updates.is_empty(),
            _ => true,
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Read => self.read(),
            Step::HandOver => {
                let (random, faults) = (&mut self.random, self.faults);
                self.broker.hand_over(&self.log, random, faults);
            }
            Step::Serve => self.broker.serve(&mut self.random, self.faults),
            Step::Report => self.report(),
            Step::Resend => self.resend(),
            Step::AskJournal => self.journal.ask(self.pipeline.confirmed()),
            Step::StoreJournal => self.journal.store(&mut self.random, self.faults),
            Step::AcknowledgeJournal => self.journal.acknowledge(),
            Step::SendStatus if self.phase != Phase::Cut => {
                let update = self.journal.confirmable(self.pipeline.confirmed());
                self.slot.updates.push_back(update);
            }
            Step::SendStatus => {}
            Step::ReceiveStatus => {
                let update = self.slot.updates.pop_front();
                self.slot.confirmed = self.slot.confirmed.max(update.unwrap_or(Lsn::ZERO));
            }
            Step::Checkpoint => self.slot.durable = self.slot.confirmed,
            Step::Cut => self.cut(),
            Step::CrashServer => self.crash_server(),
            Step::PutServerBack => {
                self.crash_server();
                self.put_back();
            }
            Step::CrashRelay => {
                self.tally.crashes += 1;
                self.broker.lose_producer(&mut self.random);
                self.journal.lose_producer(&mut self.random);
                self.start_process();
            }
            Step::Stop if self.phase == Phase::Streaming => self.phase = Phase::Stopping,
            Step::Stop => {}
        }
        self.go_on();
    }

    /// What follows from an empty window: a new connection, or the end of a clean stop.
    fn go_on(&mut self) {
        let quiet = self.pipeline.window().is_empty() && !self.pipeline.is_midway();
        let complete = self.pipeline.confirmed();
        match self.phase {
            Phase::Cut if quiet => self.start_stream(),
            Phase::Stopping if quiet && self.journal.confirmable(complete) == complete => {
                self.finish_stop();
            }
            _ => {}
        }
    }

    fn read(&mut self) {
        let wanted = match self.phase {
            Phase::Streaming => true,
            Phase::Stopping => self.pipeline.is_midway(),
            Phase::Cut => false,
        };
        if !wanted || !self.pipeline.can_accept() {
            return;
        }
        let taken = match self.walsender.next(&self.log, &mut self.random) {
            Some(Sent::Wal(message)) => self.pipeline.handle_wal(message.lsn, &message.body),
            Some(Sent::Keepalive(wal_end)) => self.pipeline.handle_keepalive(wal_end),
            None => Ok(()),
        };
        if let Some(passed) = self.pipeline.take_passed() {
            self.tally.passed_rows += passed.rows;
        }
        match taken {
            Ok(()) => {}
            // The journal's position of an earlier history may lie inside of a record of this one.
            Err(PipelineError::OtherHistory { .. }) if self.log.was_put_back() => {
                self.tally.other_histories += 1;
                self.spares_nothing();
                self.pipeline.end_stream();
                self.phase = Phase::Cut;
            }
            Err(error) => panic!("{error}"),
        }
        let outgoing = self.pipeline.take_outgoing();
        self.outstanding.issue(&outgoing, &self.log, &self.spared);
        self.broker.send(outgoing, &self.log);
    }

    fn report(&mut self) {
        let Some(report) = self.broker.report(&mut self.random) else {
            return;
        };
        let Report {
            ticket, outcome, ..
        } = report;
        let held = self.outstanding.get(ticket);
        match outcome {
            Outcome::Acknowledged { .. } => {
                held.acknowledged = true;
                self.acknowledged[held.event] = true;
                self.tally.dead_letters +=
                    u64::from(self.log.events[held.event].health != Health::Good);
                self.outstanding.release();
            }
            Outcome::Failed { .. } | Outcome::NotSent => {
                self.tally.failures += 1;
                self.outstanding.failed = true;
            }
        }
        self.pipeline.handle_delivery(ticket, outcome);
        if report.lies_in_the_record {
            self.make_dead_letter(ticket);
        }
    }

    fn make_dead_letter(&mut self, ticket: Ticket) {
        let reason = Reason {
            code: "poison",
            message: String::new(),
        };
        assert!(self.pipeline.make_dead_letter(ticket, reason));
        let letter = self.pipeline.window().record(ticket).unwrap();
        let grown_bytes = letter.size_bytes() - self.outstanding.get(ticket).size_bytes;
        self.outstanding.grow(ticket, grown_bytes);
    }

    fn resend(&mut self) {
        let (failed, settled) = (self.outstanding.failed, self.broker.is_quiet());
        let resend = self.pipeline.take_resend();
        if !failed || !settled {
            assert_eq!(resend, [], "sent again too early");
            return;
        }
        assert!(resend.is_sorted_by_key(|(ticket, _)| *ticket));
        self.tally.resent += resend.len() as u64;
        for (ticket, _) in &resend {
            self.outstanding.get(*ticket).acknowledged = false;
        }
        self.outstanding.failed = false;
        self.broker.resume();
        self.broker.send(resend, &self.log);
    }

    fn cut(&mut self) {
        if self.phase == Phase::Streaming {
            self.tally.cuts += 1;
            self.pipeline.end_stream();
            self.slot.updates.clear();
            if self.random.one_in(4) {
                self.give_up();
            }
            self.phase = Phase::Cut;
        }
    }

    fn crash_server(&mut self) {
        self.cut();
        if self.phase == Phase::Cut {
            self.slot.confirmed = self.slot.durable;
            self.restarted = true;
        }
    }

    /// The disk is an older one, and was written to since.
    fn put_back(&mut self) {
        if self.phase != Phase::Cut {
            return;
        }
        let kept = self.log.put_back(self.slot.durable, &mut self.random);
        self.acknowledged.resize(self.log.events.len(), false);
        self.complete_items = self.complete_items.min(kept);
        self.spared.end = self.spared.end.min(self.log.events_before(kept));
        self.tally.put_back += 1;
    }

    /// Another instance has the lead meanwhile, and may stream.
    fn give_up(&mut self) {
        self.others_stream = self.random.one_in(2);
        self.pipeline.give_up();
        self.broker.lose_producer(&mut self.random);
        self.outstanding = Outstanding {
            first: self.outstanding.first + self.outstanding.records.len() as u64,
            ..Outstanding::default()
        };
    }

    /// Before what it confirms from now on.
    fn spares_nothing(&mut self) {
        let begun = self.log.events_up_to(self.slot.confirmed);
        self.spared = begun..begun;
    }

    /// From where the slot stands, and it dies without a word to the server.
    fn another_streams(&mut self) {
        let first = self.log.events_up_to(self.slot.confirmed);
        let items = self.log.items.len();
        let behind = (0..items).filter(|item| self.log.events_of(*item).start >= first);
        let behind: Vec<_> = behind
            .filter(|item| !self.log.events_of(*item).is_empty())
            .collect();
        let count = self.random.below(behind.len() + 1);
        for item in &behind[..count] {
            let events = self.log.events_of(*item);
            self.broker
                .store_by_another(events, &self.log, &mut self.random);
        }
        self.tally.others += u64::from(count > 0);
    }

    fn start_process(&mut self) {
        self.pipeline = pipeline(self.options, self.limits);
        self.outstanding = Outstanding::default();
        self.confirmed = self.slot.confirmed;
        (self.restarted, self.others_stream) = (false, false);
        self.spares_nothing();
        self.journal.read(self.slot.confirmed, self.log.end());
        self.start_stream();
    }

    /// The server starts at what it is asked for, or at the slot's position where that is later.
    fn start_stream(&mut self) {
        self.slot.updates.clear();
        if std::mem::take(&mut self.others_stream) {
            self.another_streams();
            self.pipeline.forget_position();
            self.confirmed = self.slot.confirmed;
            self.restarted = false;
            self.spares_nothing();
        }
        if std::mem::take(&mut self.restarted) {
            let written = Some(self.log.end());
            assert_eq!(self.pipeline.server_restarted(written), None);
            self.confirmed = self.slot.confirmed;
        }
        self.pipeline.start_stream(self.slot.confirmed);
        let from = self.pipeline.confirmed().max(self.slot.confirmed);
        self.walsender = Walsender::start(&self.log, from);
        self.phase = Phase::Streaming;
    }

    /// The last position reaches the server, and the next process has nothing to repeat.
    fn finish_stop(&mut self) {
        self.tally.stops += 1;
        self.slot.confirmed = self.pipeline.confirmed();
        let finished = self.walsender.finished_items();
        self.start_process();
        assert_eq!(
            self.walsender.finished_items(),
            finished,
            "a clean stop left something to send again"
        );
    }

    fn check_step(&mut self) {
        while self.item_is_complete(self.complete_items) {
            self.complete_items += 1;
        }
        if self.restarted {
            // What it has confirmed is of the server before.
            return;
        }
        let confirmed = self.pipeline.confirmed();
        self.spared.end = self.spared.end.max(self.log.events_up_to(confirmed));
        let highest = self.log.confirmable_before(self.complete_items);
        assert!(
            confirmed <= highest,
            "confirmed {confirmed}, and only what lies before {highest} is acknowledged"
        );
        assert!(
            confirmed >= self.confirmed,
            "confirmed went back from {} to {confirmed}",
            self.confirmed
        );
        self.confirmed = confirmed;
        let told = self.slot.updates.iter().chain([&self.slot.confirmed]);
        let furthest = told.max().copied().unwrap_or_default();
        let stored = self.journal.stored();
        assert!(
            furthest <= stored,
            "the server is told of {furthest}, and the journal has {stored}"
        );
        let (window, ours) = (self.pipeline.window(), &self.outstanding);
        assert_eq!(
            (window.released(), window.len(), window.bytes()),
            (Ticket(ours.first), ours.records.len(), ours.bytes),
            "what is released, outstanding and held in bytes"
        );
        assert!(window.len() <= self.limits.records);
        let newest = ours.records.back().map_or(0, |held| held.size_bytes);
        let grown: usize = ours.records.iter().map(|held| held.grown_bytes).sum();
        assert!(ours.bytes - grown < self.limits.bytes + newest.max(1));
        assert!(
            !(ours.failed && self.pipeline.can_accept()),
            "something new is taken before a failure is made good"
        );
    }

    fn item_is_complete(&self, item: usize) -> bool {
        item < self.log.items.len()
            && self.acknowledged[self.log.events_of(item)]
                .iter()
                .all(|acknowledged| *acknowledged)
    }

    /// What a consumer has read last is complete and in order, key by key. What is of a history that the
    /// server does not have any more stands wherever it stands.
    fn check_end(&self) {
        let items = 0..self.log.items.len();
        let committed: Vec<_> = items.flat_map(|item| self.log.events_of(item)).collect();
        let mut seen = vec![false; self.log.events.len()];
        for partition in self.broker.partitions.iter().flatten() {
            let mut last_place = vec![None; self.log.events.len()];
            for (place, event) in partition.log.iter().enumerate() {
                seen[*event] = true;
                last_place[*event] = Some(place);
            }
            let placed: Vec<_> = committed
                .iter()
                .filter_map(|event| Some((&self.log.events[*event], event, last_place[*event]?)))
                .filter(|(event, ..)| event.key.is_some())
                .collect();
            for (at, (event, number, place)) in placed.iter().enumerate() {
                let mut later = placed[at + 1..].iter();
                let overtaken =
                    later.find(|(other, _, after)| other.key == event.key && after < place);
                assert!(
                    overtaken.is_none(),
                    "event {number} of {:?} is read last behind a later one: {:?}",
                    event.key,
                    partition.log
                );
            }
        }
        let lost: Vec<_> = committed.iter().filter(|event| !seen[**event]).collect();
        assert!(lost.is_empty(), "never stored: {lost:?}");
        let last = self.log.position_before(self.log.items.len());
        assert_eq!(self.pipeline.confirmed(), last);
        assert!(self.broker.is_quiet());
    }
}

impl Outstanding {
    fn issue(&mut self, outgoing: &Resend, log: &Log, spared: &Range<usize>) {
        for (ticket, record) in outgoing {
            let event = event_of(record, log);
            assert!(
                !spared.contains(&event),
                "confirmed, and sent again: {event}"
            );
            assert_eq!(ticket.0, self.first + self.records.len() as u64);
            let size_bytes = record.size_bytes();
            self.bytes += size_bytes;
            self.records.push_back(Held {
                event,
                size_bytes,
                grown_bytes: 0,
                acknowledged: false,
            });
        }
    }

    fn get(&mut self, ticket: Ticket) -> &mut Held {
        let index = usize::try_from(ticket.0 - self.first).unwrap();
        &mut self.records[index]
    }

    fn grow(&mut self, ticket: Ticket, bytes: usize) {
        self.bytes += bytes;
        let held = self.get(ticket);
        held.size_bytes += bytes;
        held.grown_bytes += bytes;
    }

    fn release(&mut self) {
        while self.records.front().is_some_and(|held| held.acknowledged) {
            self.bytes -= self.records.pop_front().map_or(0, |held| held.size_bytes);
            self.first += 1;
        }
    }
}

fn pipeline(options: &Options, limits: Limits) -> Pipeline {
    Pipeline::new(EventRouter::new(options.clone()), limits)
}
