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
    /// The newest transaction that is confirmed.
    last: Option<Committed>,
}

#[derive(Debug)]
struct Mark {
    bound: Ticket,
    lsn: Lsn,
    /// Of the oldest transaction that the mark stands for; none for a keepalive.
    commit_time: Option<Timestamp>,
    newest: Option<Committed>,
}

/// What tells a transaction from every other, in this history and in another one: the place where it
/// ends, its number and the moment of its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    pub end_lsn: Lsn,
    pub xid: u32,
    pub commit_time: Timestamp,
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
            last: None,
        }
    }

    /// Everything before this position is acknowledged or was never ours. Never goes backwards.
    pub fn confirmed(&self) -> Lsn {
        self.confirmed
    }

    /// The newest of the transactions that end at or before [`Self::confirmed`], if there was one.
    pub fn last_committed(&self) -> Option<Committed> {
        self.last
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
    pub fn commit(&mut self, transaction: Committed, next: Ticket) {
        debug_assert!(self.open, "a commit ends a transaction that began");
        self.open = false;
        self.mark(transaction.end_lsn, Some(transaction), next);
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

    fn mark(&mut self, lsn: Lsn, newest: Option<Committed>, bound: Ticket) {
        let mut mark = Mark {
            bound,
            lsn,
            commit_time: newest.map(|transaction| transaction.commit_time),
            newest,
        };
        if let Some(last) = self.marks.back_mut() {
            // A keepalive can repeat a position that a commit has passed; order is kept.
            mark.lsn = lsn.max(last.lsn);
            if last.bound == bound {
                last.lsn = mark.lsn;
                last.commit_time = last.commit_time.or(mark.commit_time);
                last.newest = newest.or(last.newest);
                return;
            }
            self.marks.push_back(mark);
        } else if lsn > self.confirmed || newest.is_some() {
            self.marks.push_back(mark);
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
            self.last = mark.newest.or(self.last);
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

    /// Its number is its position.
    fn at_noon(end: u32) -> Committed {
        Committed {
            end_lsn: lsn(u64::from(end)),
            xid: end,
            commit_time: NOON,
        }
    }

    fn released(tracker: &mut AckTracker, ticket: u64) -> Lsn {
        tracker.release(Ticket(ticket), |_| {});
        tracker.confirmed()
    }

    #[test]
    fn confirmed_lsn_waits_for_the_slowest_record_of_an_earlier_transaction() {
        let mut tracker = AckTracker::new(lsn(10));
        tracker.begin();
        tracker.commit(at_noon(20), Ticket(2));
        tracker.begin();
        tracker.commit(at_noon(30), Ticket(3));
        assert_eq!(released(&mut tracker, 1), lsn(10));
        assert_eq!(released(&mut tracker, 2), lsn(20));
        assert_eq!(released(&mut tracker, 3), lsn(30));
    }

    #[test]
    fn a_transaction_without_records_is_complete_once_everything_before_it_is() {
        let mut tracker = AckTracker::new(lsn(0));
        tracker.begin();
        tracker.commit(at_noon(20), Ticket(1));
        tracker.begin();
        tracker.commit(at_noon(30), Ticket(1));
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
        tracker.commit(at_noon(20), Ticket(5));
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
        tracker.commit(at_noon(200), Ticket(1));
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
        tracker.commit(at_noon(20), Ticket(1));
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
    fn the_newest_transaction_is_known_once_it_is_confirmed() {
        let mut tracker = AckTracker::new(lsn(0));
        assert_eq!(tracker.last_committed(), None);
        for (end, bound) in [(20, 1), (30, 1), (40, 2)] {
            tracker.begin();
            tracker.commit(at_noon(end), Ticket(bound));
            tracker.idle_at(lsn(u64::from(end) + 5), Ticket(bound));
        }
        tracker.release(Ticket(1), |_| {});
        assert_eq!(tracker.confirmed(), lsn(35));
        assert_eq!(tracker.last_committed(), Some(at_noon(30)));
        tracker.abandon();
        tracker.release(Ticket(2), |_| {});
        assert_eq!(tracker.last_committed(), Some(at_noon(30)));
    }

    #[test]
    fn keepalives_behind_a_dead_broker_take_one_place_only() {
        let mut tracker = AckTracker::new(lsn(0));
        tracker.begin();
        tracker.commit(at_noon(20), Ticket(1));
        for position in 21..1000 {
            tracker.idle_at(lsn(position), Ticket(1));
        }
        assert_eq!(tracker.marks.len(), 1);
    }
}
