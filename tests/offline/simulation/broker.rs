//! A producer and its broker, as bad as librdkafka and Kafka may be: a record fails with or without
//! being stored, what was handed over behind it is stored all the same, and reports come late and
//! in any order.

use std::collections::VecDeque;
use std::ops::Range;

use outboxd::ack::{Outcome, Resend, Ticket};
use outboxd::router::{Header, Record};

use super::log::{DEAD_LETTERS, DEAD_LETTERS_TOPIC, Event, Health, Log, TOPICS};
use super::{Chance, Faults};
use crate::support::mutation::Random;

pub(super) const PARTITIONS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attempt {
    ticket: Ticket,
    event: usize,
    /// Where it is going.
    topic: usize,
    /// It cannot be stored there.
    is_poison: bool,
}

/// What the producer says of one attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) ticket: Ticket,
    pub(super) outcome: Outcome,
    /// The record itself is what the broker does not want.
    pub(super) lies_in_the_record: bool,
}

impl Report {
    fn new(ticket: Ticket, outcome: Outcome) -> Self {
        Self {
            ticket,
            outcome,
            lies_in_the_record: false,
        }
    }
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
    reports: Vec<Report>,
}

impl Broker {
    pub(super) fn send(&mut self, batch: Resend, log: &Log) {
        for (ticket, record) in batch {
            let event = event_of(&record, log);
            let topic = TOPICS.iter().position(|topic| **topic == *record.topic);
            let topic = topic.unwrap();
            let is_ill = log.events[event].health == Health::Poison;
            self.queue.push_back(Attempt {
                ticket,
                event,
                topic,
                is_poison: is_ill && topic != DEAD_LETTERS_TOPIC,
            });
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
            self.reports.push(Report::new(attempt.ticket, refused));
            self.halted = true;
            self.answer_unsent();
            return;
        }
        let partition = partition_of(&log.events[attempt.event], attempt.topic, random);
        self.partitions[attempt.topic][partition]
            .in_flight
            .push_back(attempt);
    }

    /// By another instance, one after the other.
    pub(super) fn store_by_another(
        &mut self,
        events: Range<usize>,
        log: &Log,
        random: &mut Random,
    ) {
        for number in events {
            let event = &log.events[number];
            let topic = match event.health {
                Health::Good => event.topic,
                Health::Unroutable | Health::Poison => DEAD_LETTERS_TOPIC,
            };
            let partition = partition_of(event, topic, random);
            self.partitions[topic][partition].log.push(number);
        }
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
        let outcome = if attempt.is_poison {
            let partition = random.one_in(2).then_some(number);
            Outcome::Failed { partition }
        } else if faults.delivery_fails(random) {
            if random.one_in(2) {
                partition.log.push(attempt.event);
            }
            let partition = random.one_in(2).then_some(number);
            Outcome::Failed { partition }
        } else {
            partition.log.push(attempt.event);
            Outcome::Acknowledged { partition: number }
        };
        self.reports.push(Report {
            lies_in_the_record: attempt.is_poison,
            ..Report::new(attempt.ticket, outcome)
        });
    }

    /// Any one of the reports that wait.
    pub(super) fn report(&mut self, random: &mut Random) -> Option<Report> {
        if self.reports.is_empty() {
            return None;
        }
        let report = self.reports.swap_remove(random.below(self.reports.len()));
        if let Outcome::Failed { .. } = report.outcome {
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
            let arrived = arrived.filter(|attempt| !attempt.is_poison);
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
                .extend(unsent.map(|attempt| Report::new(attempt.ticket, Outcome::NotSent)));
        }
    }
}

fn partition_of(event: &Event, topic: usize, random: &mut Random) -> usize {
    match &event.key {
        Some(key) => (key.bytes().map(usize::from).sum::<usize>() + topic) % PARTITIONS,
        None => random.below(PARTITIONS),
    }
}

/// The event that a record stands for, after a look at where it is going.
pub(super) fn event_of(record: &Record, log: &Log) -> usize {
    let is_dead_letter = *record.topic == *DEAD_LETTERS;
    let id = if is_dead_letter {
        let event_id = |header: &&Header| *header.name == *"outboxd.dead_letter.event_id";
        record.headers.iter().find(event_id).unwrap()
    } else {
        &record.headers[0]
    };
    let id = id.value.as_deref().unwrap();
    let number: usize = std::str::from_utf8(id).unwrap().parse().unwrap();
    let event = &log.events[number];
    match event.health {
        Health::Good => assert!(!is_dead_letter),
        Health::Unroutable => assert!(is_dead_letter),
        Health::Poison => {}
    }
    if !is_dead_letter {
        assert_eq!(&*record.topic, TOPICS[event.topic]);
    }
    assert_eq!(
        record.key.as_deref(),
        event.key.as_deref().map(str::as_bytes)
    );
    number
}
