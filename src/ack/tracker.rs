//! The one place from which a confirmed LSN comes.

use std::collections::VecDeque;

use super::Ticket;
use crate::lsn::Lsn;
use crate::timestamp::Timestamp;

/// Positions that wait for records, oldest first.
///
/// A mark says: once every ticket below `bound` is released, everything before `lsn` is in Kafka.
/// A transaction without a record and an idle keepalive are marks whose bound is already the next
/// ticket, so they wait exactly for what was issued before them and for nothing else.
#[derive(Debug)]
pub struct AckTracker {
    confirmed: Lsn,
    marks: VecDeque<Mark>,
    /// The transaction whose rows are arriving; nothing past its start may be marked.
    open: bool,
}

#[derive(Debug)]
struct Mark {
    bound: Ticket,
    lsn: Lsn,
    /// Of the oldest transaction that the mark stands for; none for a keepalive.
    commit_time: Option<Timestamp>,
}

/// A position that was reached, for the shell to narrate and measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfirmedCommit {
    pub lsn: Lsn,
    pub commit_time: Timestamp,
}

impl AckTracker {
    /// `confirmed` is what the slot has: the point from which the server streams.
    pub fn new(confirmed: Lsn) -> Self {
        Self {
            confirmed,
            marks: VecDeque::new(),
            open: false,
        }
    }

    /// Everything before this position is acknowledged or was never ours. Never goes backwards.
    pub fn confirmed(&self) -> Lsn {
        self.confirmed
    }

    pub fn is_open(&self) -> bool {
        self.open
    }

    /// The commit that has waited longest for its records.
    pub fn oldest_unconfirmed_commit(&self) -> Option<Timestamp> {
        self.marks.iter().find_map(|mark| mark.commit_time)
    }

    pub fn begin(&mut self) {
        debug_assert!(!self.open, "protocol 1 sends one transaction at a time");
        self.open = true;
    }

    /// `next` is the ticket that the next record will get: all of this transaction's are below it.
    pub fn commit(&mut self, end_lsn: Lsn, commit_time: Timestamp, next: Ticket) {
        debug_assert!(self.open, "a commit ends a transaction that began");
        self.open = false;
        self.mark(end_lsn, Some(commit_time), next);
    }

    /// The server has sent everything before `wal_end`. It may be inside a transaction that it is
    /// still sending, so this counts only between transactions.
    pub fn idle_at(&mut self, wal_end: Lsn, next: Ticket) {
        if !self.open {
            self.mark(wal_end, None, next);
        }
    }

    /// Forgets the open transaction: its stream ended before its commit, and a new stream sends it
    /// again from its start. Complete transactions keep their marks.
    pub fn abandon_open(&mut self) {
        self.open = false;
    }

    /// Forgets everything that waits for records: nobody here sends them any more.
    pub fn abandon(&mut self) {
        self.open = false;
        self.marks.clear();
    }

    /// A stream starts at `lsn`, the slot's position: what lies before was confirmed by somebody.
    pub fn start_at(&mut self, lsn: Lsn) {
        debug_assert!(
            self.marks.is_empty(),
            "a stream starts with an empty window"
        );
        self.confirmed = self.confirmed.max(lsn);
    }

    fn mark(&mut self, lsn: Lsn, commit_time: Option<Timestamp>, bound: Ticket) {
        if let Some(last) = self.marks.back_mut() {
            // A keepalive can repeat a position that a commit has passed; order is kept.
            let lsn = lsn.max(last.lsn);
            if last.bound == bound {
                last.lsn = lsn;
                last.commit_time = last.commit_time.or(commit_time);
                return;
            }
            self.marks.push_back(Mark {
                bound,
                lsn,
                commit_time,
            });
        } else if lsn > self.confirmed || commit_time.is_some() {
            self.marks.push_back(Mark {
                bound,
                lsn,
                commit_time,
            });
        }
    }

    /// Every ticket below `released` is acknowledged. Moves the confirmed LSN as far as that
    /// allows and reports the transactions that it passed.
    pub fn release(&mut self, released: Ticket, mut passed: impl FnMut(ConfirmedCommit)) {
        while self
            .marks
            .front()
            .is_some_and(|mark| mark.bound <= released)
        {
            let Some(mark) = self.marks.pop_front() else {
                return;
            };
            self.confirmed = self.confirmed.max(mark.lsn);
            if let Some(commit_time) = mark.commit_time {
                passed(ConfirmedCommit {
                    lsn: mark.lsn,
                    commit_time,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_postgres_us(0);

    fn lsn(position: u64) -> Lsn {
        Lsn::new(position)
    }

    fn released(tracker: &mut AckTracker, ticket: u64) -> Lsn {
        tracker.release(Ticket(ticket), |_| {});
        tracker.confirmed()
    }

    #[test]
    fn confirmed_lsn_waits_for_the_slowest_record_of_an_earlier_transaction() {
        let mut tracker = AckTracker::new(lsn(10));
        tracker.begin();
        tracker.commit(lsn(20), NOON, Ticket(2));
        tracker.begin();
        tracker.commit(lsn(30), NOON, Ticket(3));
        assert_eq!(released(&mut tracker, 1), lsn(10));
        assert_eq!(released(&mut tracker, 2), lsn(20));
        assert_eq!(released(&mut tracker, 3), lsn(30));
    }

    #[test]
    fn a_transaction_without_records_is_complete_once_everything_before_it_is() {
        let mut tracker = AckTracker::new(lsn(0));
        tracker.begin();
        tracker.commit(lsn(20), NOON, Ticket(1));
        tracker.begin();
        tracker.commit(lsn(30), NOON, Ticket(1));
        assert_eq!(released(&mut tracker, 0), lsn(0));
        assert_eq!(released(&mut tracker, 1), lsn(30));
    }

    #[test]
    fn an_idle_keepalive_moves_the_confirmed_lsn() {
        let mut tracker = AckTracker::new(lsn(10));
        tracker.idle_at(lsn(500), Ticket(0));
        assert_eq!(released(&mut tracker, 0), lsn(500));
    }

    #[test]
    fn a_keepalive_inside_a_transaction_confirms_nothing() {
        let mut tracker = AckTracker::new(lsn(10));
        tracker.begin();
        tracker.idle_at(lsn(500), Ticket(3));
        assert_eq!(released(&mut tracker, 3), lsn(10));
    }

    #[test]
    fn a_keepalive_behind_outstanding_records_waits_for_them() {
        let mut tracker = AckTracker::new(lsn(10));
        tracker.begin();
        tracker.commit(lsn(20), NOON, Ticket(5));
        tracker.idle_at(lsn(500), Ticket(5));
        assert_eq!(released(&mut tracker, 4), lsn(10));
        assert_eq!(released(&mut tracker, 5), lsn(500));
    }

    #[test]
    fn an_older_keepalive_never_moves_it_backwards() {
        let mut tracker = AckTracker::new(lsn(100));
        tracker.idle_at(lsn(50), Ticket(0));
        assert_eq!(released(&mut tracker, 0), lsn(100));
        tracker.begin();
        tracker.commit(lsn(200), NOON, Ticket(1));
        tracker.idle_at(lsn(150), Ticket(1));
        assert_eq!(released(&mut tracker, 1), lsn(200));
    }

    #[test]
    fn an_abandoned_transaction_is_not_confirmed() {
        let mut tracker = AckTracker::new(lsn(10));
        tracker.begin();
        tracker.abandon_open();
        assert_eq!(released(&mut tracker, 9), lsn(10));
        assert!(!tracker.is_open());
    }

    #[test]
    fn passed_commits_are_reported_with_their_time() {
        let mut tracker = AckTracker::new(lsn(0));
        tracker.begin();
        tracker.commit(lsn(20), NOON, Ticket(1));
        assert_eq!(tracker.oldest_unconfirmed_commit(), Some(NOON));
        let mut passed = Vec::new();
        tracker.release(Ticket(1), |commit| passed.push(commit));
        assert_eq!(
            passed,
            [ConfirmedCommit {
                lsn: lsn(20),
                commit_time: NOON
            }]
        );
        assert_eq!(tracker.oldest_unconfirmed_commit(), None);
    }

    #[test]
    fn keepalives_behind_a_dead_broker_take_one_place_only() {
        let mut tracker = AckTracker::new(lsn(0));
        tracker.begin();
        tracker.commit(lsn(20), NOON, Ticket(1));
        for position in 21..1000 {
            tracker.idle_at(lsn(position), Ticket(1));
        }
        assert_eq!(tracker.marks.len(), 1);
    }
}
