//! What may be confirmed: nothing that the journal does not have.

use crate::lsn::Lsn;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ledger {
    acknowledged: Lsn,
    asked: Lsn,
}

impl Ledger {
    /// `acknowledged` is what the journal has.
    pub const fn new(acknowledged: Lsn) -> Self {
        Self {
            acknowledged,
            asked: acknowledged,
        }
    }

    /// `complete` is what may be confirmed as far as the events are concerned.
    pub fn confirmable(&self, complete: Lsn) -> Lsn {
        complete.min(self.acknowledged)
    }

    /// The journal is behind `complete`.
    pub fn is_behind(&self, complete: Lsn) -> bool {
        complete > self.acknowledged
    }

    /// The position to write now, where it has not been asked for.
    pub fn ask(&mut self, complete: Lsn) -> Option<Lsn> {
        let new = complete > self.asked;
        self.asked = self.asked.max(complete);
        new.then_some(complete)
    }

    /// Kafka has it.
    pub fn acknowledge(&mut self, lsn: Lsn) {
        self.acknowledged = self.acknowledged.max(lsn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_asked_for_once_and_confirmed_when_the_journal_has_it() {
        let lsn = Lsn::new;
        let mut ledger = Ledger::new(lsn(10));
        assert_eq!(ledger.confirmable(lsn(5)), lsn(5));
        assert_eq!(ledger.ask(lsn(10)), None);
        assert_eq!(ledger.ask(lsn(20)), Some(lsn(20)));
        assert_eq!(ledger.ask(lsn(20)), None);
        assert!(ledger.is_behind(lsn(20)));
        assert_eq!(ledger.confirmable(lsn(20)), lsn(10));
        ledger.acknowledge(lsn(20));
        assert_eq!(ledger.confirmable(lsn(30)), lsn(20));
        ledger.acknowledge(lsn(15));
        assert_eq!(ledger.confirmable(lsn(30)), lsn(20));
        assert!(!ledger.is_behind(lsn(20)));
    }
}
