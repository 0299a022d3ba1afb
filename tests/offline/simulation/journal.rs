//! The position journal's topic: one record is under way at a time, and what becomes of it is known
//! late or never.

use outboxd::journal::{Entry, Knowledge, Ledger, Server, judge};
use outboxd::lsn::Lsn;

use super::{Chance, Faults};
use crate::support::mutation::Random;

const SERVER: Server<'static> = Server {
    system_id: "1",
    timeline: 1,
    database: "shop",
    slot: "outbox",
    written: Lsn::ZERO,
    left_at: None,
};

pub(super) struct JournalTopic {
    /// All of it, oldest first.
    records: Vec<Entry>,
    ledger: Ledger,
    /// Asked for and not sent.
    wanted: Option<Lsn>,
    sent: Option<Sent>,
}

#[derive(Clone, Copy)]
struct Sent {
    lsn: Lsn,
    stored: bool,
}

impl JournalTopic {
    pub(super) fn new(start: Lsn) -> Self {
        Self {
            records: vec![Entry::first(1, &SERVER, start)],
            ledger: Ledger::new(start),
            wanted: None,
            sent: None,
        }
    }

    pub(super) fn ask(&mut self, complete: Lsn) {
        self.wanted = self.ledger.ask(complete).or(self.wanted);
        if self.sent.is_none() {
            let stored = false;
            self.sent = self.wanted.take().map(|lsn| Sent { lsn, stored });
        }
    }

    /// It may be stored without the relay's knowing, and is sent again then.
    pub(super) fn store(&mut self, random: &mut Random, faults: Faults) {
        let Some(sent) = &mut self.sent else {
            return;
        };
        let fails = faults.delivery_fails(random);
        if !fails || random.one_in(2) {
            self.records.push(self.records[0].at(sent.lsn, 0));
        }
        sent.stored |= !fails;
    }

    pub(super) fn acknowledge(&mut self) {
        if let Some(sent) = self.sent.filter(|sent| sent.stored) {
            self.ledger.acknowledge(sent.lsn);
            self.sent = None;
        }
    }

    pub(super) fn confirmable(&self, complete: Lsn) -> Lsn {
        self.ledger.confirmable(complete)
    }

    pub(super) fn stored(&self) -> Lsn {
        self.newest().confirmed_lsn
    }

    pub(super) fn lose_producer(&mut self, random: &mut Random) {
        if let Some(sent) = self.sent.take()
            && random.one_in(2)
        {
            self.records.push(self.records[0].at(sent.lsn, 0));
        }
        self.wanted = None;
    }

    /// A process begins: whatever was cut off, nothing looks like a gap.
    pub(super) fn read(&mut self, slot: Lsn, written: Lsn) {
        let newest = self.newest();
        let server = Server { written, ..SERVER };
        let known = judge(Some(&newest), &server, Some(slot));
        let repeats_from = (slot < newest.confirmed_lsn).then_some(slot);
        assert_eq!(known, Ok(Knowledge::Known { repeats_from }));
        self.ledger = Ledger::new(newest.confirmed_lsn);
        (self.wanted, self.sent) = (None, None);
    }

    fn newest(&self) -> Entry {
        let mut records = self.records.iter().cloned();
        let first = records.next().expect("the slot's first entry");
        records.fold(first, Entry::newest)
    }
}
