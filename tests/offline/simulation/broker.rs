//! A producer and its broker, as bad as librdkafka and Kafka may be: a record fails with or without
//! being stored, what was handed over behind it is stored all the same, and reports come late and
//! in any order.

use std::collections::VecDeque;

use outboxd::ack::{Outcome, Resend, Ticket};
use outboxd::router::Record;

use super::log::{Log, TOPICS};
use super::{Chance, Faults};
use crate::support::mutation::Random;

pub(super) const PARTITIONS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attempt {
    ticket: Ticket,
    event: usize,
}

#[derive(Default)]
pub(super) struct Partition {
    /// Numbers of events in the order in which a consumer reads them.
    pub(super) log: Vec<usize>,
    in_flight: VecDeque<Attempt>,
}

#[derive(Default)]
pub(super) struct Broker {
    /// By topic, then by number.
    pub(super) partitions: [[Partition; PARTITIONS]; TOPICS.len()],
    /// Not yet handed to librdkafka.
    queue: VecDeque<Attempt>,
    /// A failure was seen: nothing is tried until [`Broker::resume`].
    halted: bool,
    reports: Vec<(Ticket, Outcome)>,
}

impl Broker {
    pub(super) fn send(&mut self, batch: Resend, log: &Log) {
        for (ticket, record) in batch {
            let event = event_of(&record, log);
            self.queue.push_back(Attempt { ticket, event });
        }
        self.answer_unsent();
    }

    /// One record from the queue to librdkafka; it may be refused there, without a partition.
    pub(super) fn hand_over(&mut self, log: &Log, random: &mut Random, faults: Faults) {
        let Some(attempt) = self.queue.pop_front() else {
            return;
        };
        if faults.delivery_fails(random) && random.one_in(4) {
            let refused = Outcome::Failed { partition: None };
            self.reports.push((attempt.ticket, refused));
            self.halted = true;
            self.answer_unsent();
            return;
        }
        let event = &log.events[attempt.event];
        let partition = match &event.key {
            Some(key) => key.bytes().map(usize::from).sum::<usize>() % PARTITIONS,
            None => random.below(PARTITIONS),
        };
        self.partitions[event.topic][partition]
            .in_flight
            .push_back(attempt);
    }

    /// One of the partitions that have a request deals with its oldest.
    pub(super) fn serve(&mut self, random: &mut Random, faults: Faults) {
        let numbered = self
            .partitions
            .iter_mut()
            .flat_map(|topic| (0..).zip(topic));
        let mut busy: Vec<_> = numbered
            .filter(|(_, partition)| !partition.in_flight.is_empty())
            .collect();
        if busy.is_empty() {
            return;
        }
        let (number, partition) = busy.swap_remove(random.below(busy.len()));
        let Some(attempt) = partition.in_flight.pop_front() else {
            return;
        };
        let outcome = if faults.delivery_fails(random) {
            if random.one_in(2) {
                partition.log.push(attempt.event);
            }
            let partition = random.one_in(2).then_some(number);
            Outcome::Failed { partition }
        } else {
            partition.log.push(attempt.event);
            Outcome::Acknowledged { partition: number }
        };
        self.reports.push((attempt.ticket, outcome));
    }

    /// Any one of the reports that wait.
    pub(super) fn report(&mut self, random: &mut Random) -> Option<(Ticket, Outcome)> {
        if self.reports.is_empty() {
            return None;
        }
        let report = self.reports.swap_remove(random.below(self.reports.len()));
        if let (_, Outcome::Failed { .. }) = report {
            self.halted = true;
            self.answer_unsent();
        }
        Some(report)
    }

    pub(super) fn resume(&mut self) {
        assert!(
            self.is_quiet(),
            "the window is settled and the broker is not"
        );
        self.halted = false;
    }

    pub(super) fn is_quiet(&self) -> bool {
        !self.has_queued() && !self.has_in_flight() && !self.has_reports()
    }

    pub(super) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    pub(super) fn has_in_flight(&self) -> bool {
        let mut partitions = self.partitions.iter().flatten();
        partitions.any(|partition| !partition.in_flight.is_empty())
    }

    pub(super) fn has_reports(&self) -> bool {
        !self.reports.is_empty()
    }

    /// The process is gone: of what was on its way to a partition, the first few arrive.
    pub(super) fn lose_producer(&mut self, random: &mut Random) {
        for partition in self.partitions.iter_mut().flatten() {
            let arrived = random.below(partition.in_flight.len() + 1);
            let arrived = partition.in_flight.drain(..arrived);
            partition.log.extend(arrived.map(|attempt| attempt.event));
            partition.in_flight.clear();
        }
        self.queue.clear();
        self.reports.clear();
        self.halted = false;
    }

    fn answer_unsent(&mut self) {
        if self.halted {
            let unsent = self.queue.drain(..);
            self.reports
                .extend(unsent.map(|attempt| (attempt.ticket, Outcome::NotSent)));
        }
    }
}

/// The event that a record stands for, after a look at where it is going.
pub(super) fn event_of(record: &Record, log: &Log) -> usize {
    let id = record.headers[0].value.as_deref().unwrap();
    let number: usize = std::str::from_utf8(id).unwrap().parse().unwrap();
    let event = &log.events[number];
    assert_eq!(&*record.topic, TOPICS[event.topic]);
    assert_eq!(
        record.key.as_deref(),
        event.key.as_deref().map(str::as_bytes)
    );
    number
}
