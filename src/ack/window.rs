//! The records that Kafka has not acknowledged, and what to send again after a failure.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::Ticket;
use crate::router::Record;

/// How much may be outstanding. The window takes a record while it is below both, so one record
/// larger than `bytes` still passes, alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub records: usize,
    pub bytes: usize,
}

/// What became of one attempt to deliver a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Acknowledged {
        partition: i32,
    },
    /// Refused, or not known to be delivered, which is the same to us.
    Failed {
        partition: Option<i32>,
    },
    /// The producer had stopped at an earlier failure and did not try.
    NotSent,
}

/// Outstanding records in ticket order. One is released when it and all before it are acknowledged.
///
/// An idempotent producer is not gapless: after a refused batch, what was queued behind it is
/// still delivered (librdkafka 2.12 and Java's producer alike). So an acknowledged record stays
/// here while an earlier one is not, and is sent again behind it ([`Window::resend`]).
#[derive(Debug)]
pub struct Window {
    limits: Limits,
    entries: VecDeque<Entry>,
    /// The ticket of `entries[0]`, or of the next record where there is none.
    first: Ticket,
    bytes: usize,
    /// Attempts whose outcome is not known yet.
    in_flight: usize,
    /// Entries that have to be sent again.
    unsent: usize,
}

#[derive(Debug)]
struct Entry {
    record: Arc<Record>,
    size_bytes: usize,
    partition: Option<i32>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Acknowledged,
    Unsent,
}

/// Records in the order in which they have to go out again.
pub type Resend = Vec<(Ticket, Arc<Record>)>;

impl Window {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: VecDeque::new(),
            first: Ticket::default(),
            bytes: 0,
            in_flight: 0,
            unsent: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Room for one more record, and no failure that has to be made good first.
    pub fn can_accept(&self) -> bool {
        self.unsent == 0
            && self.bytes < self.limits.bytes
            && self.entries.len() < self.limits.records
    }

    /// Something has to be sent again.
    pub fn has_failures(&self) -> bool {
        self.unsent > 0
    }

    /// No attempt is under way: what a resend needs.
    pub fn is_settled(&self) -> bool {
        self.in_flight == 0
    }

    /// The ticket that the next record gets.
    pub fn next_ticket(&self) -> Ticket {
        Ticket(self.first.0 + self.entries.len() as u64)
    }

    /// Every ticket below this is acknowledged.
    pub fn released(&self) -> Ticket {
        self.first
    }

    /// Forgets every record. Tickets go on, so that a late outcome is nobody's.
    pub fn clear(&mut self) {
        self.first = self.next_ticket();
        self.entries.clear();
        (self.bytes, self.in_flight, self.unsent) = (0, 0, 0);
    }

    /// Takes a record that is about to be sent.
    pub fn issue(&mut self, record: Arc<Record>) -> Ticket {
        let ticket = self.next_ticket();
        let size_bytes = record.size_bytes();
        self.bytes += size_bytes;
        self.in_flight += 1;
        self.entries.push_back(Entry {
            record,
            size_bytes,
            partition: None,
            state: State::InFlight,
        });
        ticket
    }

    /// Notes an outcome and releases what can be. An outcome for a ticket that is not in flight
    /// (released, or settled already) says nothing new and is ignored.
    pub fn settle(&mut self, ticket: Ticket, outcome: Outcome) {
        let Some(entry) = self
            .entry_mut(ticket)
            .filter(|entry| entry.state == State::InFlight)
        else {
            return;
        };
        match outcome {
            Outcome::Acknowledged { partition } => {
                entry.partition = Some(partition);
                entry.state = State::Acknowledged;
            }
            Outcome::Failed { partition } => {
                entry.partition = partition.or(entry.partition);
                entry.state = State::Unsent;
                self.unsent += 1;
            }
            Outcome::NotSent => {
                entry.state = State::Unsent;
                self.unsent += 1;
            }
        }
        self.in_flight -= 1;
        self.release();
    }

    /// Another record under the ticket of one that failed; it goes out with the next resend. False
    /// where the ticket's record did not fail.
    pub fn replace(&mut self, ticket: Ticket, record: Arc<Record>) -> bool {
        let size_bytes = record.size_bytes();
        let Some(entry) = self
            .entry_mut(ticket)
            .filter(|entry| entry.state == State::Unsent)
        else {
            return false;
        };
        let before = std::mem::replace(&mut entry.size_bytes, size_bytes);
        entry.record = record;
        entry.partition = None;
        self.bytes = self.bytes - before + size_bytes;
        true
    }

    pub fn record(&self, ticket: Ticket) -> Option<&Arc<Record>> {
        let index = usize::try_from(ticket.0.checked_sub(self.first.0)?).ok()?;
        self.entries.get(index).map(|entry| &entry.record)
    }

    /// What has to go out again after a failure, in ticket order: every unsent record and every
    /// later record of its partition, acknowledged or not, so that the last copies that a consumer
    /// reads are complete and in order. Where the partition of an unsent record is not known, its
    /// whole topic counts. Empty until everything in flight has settled.
    pub fn resend(&mut self) -> Resend {
        if !self.is_settled() || self.unsent == 0 {
            return Resend::new();
        }
        let mut broken = BrokenPartitions::default();
        let mut resend = Resend::new();
        for (index, entry) in self.entries.iter_mut().enumerate() {
            let unsent = entry.state == State::Unsent;
            if unsent {
                broken.insert(&entry.record.topic, entry.partition);
            }
            if unsent || broken.contains(&entry.record.topic, entry.partition) {
                entry.state = State::InFlight;
                resend.push((
                    Ticket(self.first.0 + index as u64),
                    Arc::clone(&entry.record),
                ));
            }
        }
        self.in_flight = resend.len();
        self.unsent = 0;
        resend
    }

    fn entry_mut(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        let index = usize::try_from(ticket.0.checked_sub(self.first.0)?).ok()?;
        self.entries.get_mut(index)
    }

    fn release(&mut self) {
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.state == State::Acknowledged)
        {
            let Some(entry) = self.entries.pop_front() else {
                return;
            };
            self.bytes -= entry.size_bytes;
            self.first = self.first.next();
        }
    }
}

/// Partitions behind whose first unsent record everything is sent again.
#[derive(Default)]
struct BrokenPartitions {
    topics: HashSet<Arc<str>>,
    partitions: HashSet<(Arc<str>, i32)>,
}

impl BrokenPartitions {
    fn insert(&mut self, topic: &Arc<str>, partition: Option<i32>) {
        match partition {
            Some(partition) => {
                self.partitions.insert((Arc::clone(topic), partition));
            }
            None => {
                self.topics.insert(Arc::clone(topic));
            }
        }
    }

    fn contains(&self, topic: &Arc<str>, partition: Option<i32>) -> bool {
        self.topics.contains(topic)
            || partition.is_some_and(|p| self.partitions.contains(&(Arc::clone(topic), p)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use smallvec::SmallVec;

    const LIMITS: Limits = Limits {
        records: 100,
        bytes: 1_000_000,
    };

    fn record(topic: &str, value: &'static str) -> Arc<Record> {
        Arc::new(Record {
            topic: topic.into(),
            partition: None,
            key: None,
            value: Some(Bytes::from_static(value.as_bytes())),
            headers: SmallVec::new(),
            timestamp_ms: 0,
        })
    }

    fn window_of(topics: &[&str]) -> Window {
        let mut window = Window::new(LIMITS);
        for topic in topics {
            window.issue(record(topic, "x"));
        }
        window
    }

    fn ack(window: &mut Window, ticket: u64, partition: i32) {
        window.settle(Ticket(ticket), Outcome::Acknowledged { partition });
    }

    fn fail(window: &mut Window, ticket: u64, partition: Option<i32>) {
        window.settle(Ticket(ticket), Outcome::Failed { partition });
    }

    fn tickets(resend: &Resend) -> Vec<u64> {
        resend.iter().map(|(ticket, _)| ticket.0).collect()
    }

    #[test]
    fn what_was_cleared_is_gone_and_a_late_outcome_of_it_is_nobodys() {
        let mut window = Window::new(LIMITS);
        let gone = [
            window.issue(record("t", "a")),
            window.issue(record("t", "b")),
        ];
        window.settle(gone[1], Outcome::Failed { partition: None });
        window.clear();
        assert_eq!((window.len(), window.bytes()), (0, 0));
        assert!(window.is_settled() && !window.has_failures());
        let next = window.issue(record("t", "c"));
        assert!(next > gone[1]);
        window.settle(gone[0], Outcome::Acknowledged { partition: 0 });
        assert_eq!(window.released(), next, "it still waits");
    }

    #[test]
    fn releases_in_order_whatever_the_order_of_acknowledgement() {
        let mut window = window_of(&["t", "t", "t"]);
        ack(&mut window, 2, 0);
        ack(&mut window, 1, 0);
        assert_eq!(window.released(), Ticket(0));
        ack(&mut window, 0, 0);
        assert_eq!(
            (window.released(), window.len(), window.bytes()),
            (Ticket(3), 0, 0)
        );
    }

    #[test]
    fn is_full_by_bytes_or_by_count_but_takes_one_oversized_record() {
        let mut window = Window::new(Limits {
            records: 2,
            bytes: 10,
        });
        assert!(window.can_accept());
        window.issue(record("t", "longer than ten bytes"));
        assert!(!window.can_accept());
        ack(&mut window, 0, 0);
        assert!(window.can_accept());

        let mut window = Window::new(Limits {
            records: 2,
            bytes: 1_000_000,
        });
        window.issue(record("t", "a"));
        window.issue(record("t", "b"));
        assert!(!window.can_accept());
    }

    #[test]
    fn resends_the_failed_record_and_every_later_one_of_its_partition() {
        let mut window = window_of(&["t"; 6]);
        ack(&mut window, 0, 0);
        fail(&mut window, 1, Some(0));
        ack(&mut window, 2, 1);
        ack(&mut window, 3, 0);
        ack(&mut window, 4, 1);
        ack(&mut window, 5, 0);
        assert!(!window.can_accept());
        assert_eq!(tickets(&window.resend()), [1, 3, 5]);
        assert!(!window.has_failures());
        for ticket in [1, 3, 5] {
            ack(&mut window, ticket, 0);
        }
        assert!(window.is_empty());
    }

    #[test]
    fn an_unknown_partition_counts_as_the_whole_topic() {
        let mut window = window_of(&["t", "t", "other", "t"]);
        fail(&mut window, 0, None);
        ack(&mut window, 1, 3);
        ack(&mut window, 2, 3);
        ack(&mut window, 3, 4);
        assert_eq!(tickets(&window.resend()), [0, 1, 3]);
    }

    #[test]
    fn a_failed_record_is_replaced_under_its_ticket_and_goes_out_with_what_is_behind_it_there() {
        let mut window = window_of(&["t", "t", "dead", "t"]);
        assert!(
            !window.replace(Ticket(0), record("dead", "a")),
            "it did not fail"
        );
        fail(&mut window, 0, Some(0));
        let bytes = window.bytes();
        assert!(window.replace(Ticket(0), record("dead", "a longer one")));
        assert_eq!(window.bytes(), bytes + "a longer one".len() - "x".len());
        ack(&mut window, 1, 0);
        ack(&mut window, 2, 0);
        window.settle(Ticket(3), Outcome::NotSent);
        let resend = window.resend();
        assert_eq!(
            tickets(&resend),
            [0, 2, 3],
            "what was behind it in t stays there"
        );
        assert_eq!(resend[0].1, record("dead", "a longer one"));
        for ticket in [0, 2, 3] {
            ack(&mut window, ticket, 0);
        }
        assert_eq!((window.released(), window.bytes()), (Ticket(4), 0));
    }

    #[test]
    fn nothing_is_resent_before_everything_in_flight_has_settled() {
        let mut window = window_of(&["t", "t"]);
        fail(&mut window, 0, Some(0));
        assert!(window.resend().is_empty());
        assert!(!window.is_settled());
        window.settle(Ticket(1), Outcome::NotSent);
        assert_eq!(tickets(&window.resend()), [0, 1]);
    }

    #[test]
    fn a_second_failure_starts_the_resend_over() {
        let mut window = window_of(&["t", "t", "t"]);
        fail(&mut window, 0, Some(0));
        ack(&mut window, 1, 0);
        ack(&mut window, 2, 0);
        assert_eq!(tickets(&window.resend()), [0, 1, 2]);
        ack(&mut window, 0, 0);
        fail(&mut window, 1, Some(0));
        ack(&mut window, 2, 0);
        assert_eq!(tickets(&window.resend()), [1, 2]);
    }

    #[test]
    fn a_late_outcome_for_a_released_ticket_is_ignored() {
        let mut window = window_of(&["t", "t"]);
        ack(&mut window, 0, 0);
        fail(&mut window, 0, Some(0));
        ack(&mut window, 7, 0);
        assert_eq!(
            (window.released(), window.has_failures()),
            (Ticket(1), false)
        );
    }
}
