//! What was committed against what arrived.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::consumer::{Delivery, Rows};
use super::shop::Note;

/// Keeps book of both ends. The two are heard of in any order.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    committed: HashSet<String>,
    rolled_back: u64,
    seen: HashSet<String>,
    /// By order: partition and version of its last record.
    last: HashMap<String, (i32, i64)>,
    records: u64,
    violations: u64,
}

impl Ledger {
    pub(super) fn note(&mut self, note: Note) {
        match note {
            Note::Committed { id, .. } => {
                self.committed.insert(id);
            }
            Note::RolledBack { .. } => self.rolled_back += 1,
        }
    }

    /// True for the first record of its event.
    ///
    /// In order means: in one partition, and each version follows the one before it or, where the
    /// relay began again, is a version that was there before.
    pub(super) fn deliver(&mut self, delivery: &Delivery) -> bool {
        self.records += 1;
        let found = (delivery.partition, delivery.version);
        let before = self.last.insert(delivery.order.clone(), found);
        let in_order = match before {
            None => delivery.version == 1,
            Some((partition, version)) => {
                partition == delivery.partition && delivery.version <= version + 1
            }
        };
        self.violations += u64::from(!in_order);
        self.seen.insert(delivery.id.clone())
    }

    pub(super) fn committed(&self) -> usize {
        self.committed.len()
    }

    pub(super) fn seen(&self) -> usize {
        self.seen.len()
    }

    /// Everything that was committed has arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.committed.is_subset(&self.seen)
    }

    pub(super) fn summary(&self, source: &Rows, consumer: &Rows) -> Summary {
        let lost = self.committed.difference(&self.seen).count();
        let never_committed = self.seen.difference(&self.committed).count();
        Summary {
            committed: self.committed.len(),
            rolled_back: self.rolled_back,
            delivered: self.seen.len() - never_committed,
            repeated: self.records - self.seen.len() as u64,
            lost,
            never_committed,
            violations: self.violations,
            orders: source.len(),
            states_equal: source == consumer,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Summary {
    committed: usize,
    rolled_back: u64,
    /// Different events; the repeats come on top.
    delivered: usize,
    repeated: u64,
    lost: usize,
    /// Published although the transaction was rolled back.
    never_committed: usize,
    violations: u64,
    orders: usize,
    states_equal: bool,
}

impl Summary {
    pub(super) const fn is_good(&self) -> bool {
        self.lost == 0 && self.never_committed == 0 && self.violations == 0 && self.states_equal
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [
            ("events committed", self.committed as u64, ""),
            ("events delivered", self.delivered as u64, ""),
            (
                "repeated",
                self.repeated,
                "sent again after kill -9, with the same id and version: skipped by the consumer",
            ),
            ("lost", self.lost as u64, ""),
            ("order violations", self.violations, ""),
            ("rolled back", self.rolled_back, ""),
            ("  of these published", self.never_committed as u64, ""),
        ];
        for (name, count, remark) in lines {
            let line = format!("  {name:<22}{count:>6}   {remark}");
            writeln!(f, "{}", line.trim_end())?;
        }
        let equal = if self.states_equal {
            "equals"
        } else {
            "DIFFERS from"
        };
        write!(
            f,
            "  the consumer's table {equal} the shop's: {} orders",
            self.orders
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(order: &str, version: i64) -> Delivery {
        Delivery {
            partition: 0,
            offset: 0,
            id: format!("{order}/{version}"),
            order: order.to_owned(),
            version,
            status: String::new(),
            committed_ms: 0,
        }
    }

    fn ledger(committed: &[i64], delivered: &[i64]) -> Ledger {
        let mut ledger = Ledger::default();
        for version in committed {
            ledger.note(Note::Committed {
                id: format!("a/{version}"),
                order: "a".to_owned(),
                version: *version,
            });
        }
        for version in delivered {
            ledger.deliver(&delivery("a", *version));
        }
        ledger
    }

    fn rows() -> Rows {
        vec![("a".to_owned(), "delivered".to_owned(), 3)]
    }

    #[test]
    fn a_repeated_suffix_is_in_order_and_is_counted() {
        let summary = ledger(&[1, 2, 3], &[1, 2, 1, 2, 3]).summary(&rows(), &rows());
        let expected = Summary {
            committed: 3,
            rolled_back: 0,
            delivered: 3,
            repeated: 2,
            lost: 0,
            never_committed: 0,
            violations: 0,
            orders: 1,
            states_equal: true,
        };
        assert_eq!(summary, expected);
        assert!(summary.is_good());
    }

    #[test]
    fn a_missing_event_is_lost_and_what_follows_it_is_out_of_order() {
        let ledger = ledger(&[1, 2, 3], &[1, 3]);
        assert!(!ledger.is_complete());
        let summary = ledger.summary(&rows(), &rows());
        assert_eq!((summary.lost, summary.violations), (1, 1));
        assert!(!summary.is_good());
    }

    #[test]
    fn a_gap_inside_a_repeat_is_out_of_order_too() {
        let summary = ledger(&[1, 2, 3], &[1, 2, 3, 1, 3]).summary(&rows(), &rows());
        assert_eq!((summary.lost, summary.violations), (0, 1));
        assert!(!summary.is_good());
    }

    #[test]
    fn an_event_of_a_rolled_back_transaction_must_not_arrive() {
        let summary = ledger(&[1, 2], &[1, 2, 3]).summary(&rows(), &rows());
        assert_eq!((summary.never_committed, summary.delivered), (1, 2));
        assert!(!summary.is_good());
    }

    #[test]
    fn different_tables_are_not_good() {
        let summary = ledger(&[1], &[1]).summary(&rows(), &Rows::new());
        assert!(!summary.is_good());
        assert!(summary.to_string().contains("DIFFERS"));
    }

    #[test]
    fn an_order_in_two_partitions_has_no_order() {
        let mut ledger = ledger(&[1, 2], &[1]);
        let elsewhere = Delivery {
            partition: 1,
            ..delivery("a", 2)
        };
        ledger.deliver(&elsewhere);
        assert_eq!(ledger.summary(&rows(), &rows()).violations, 1);
    }
}
