//! What was committed, and a walsender that sends it from any position.

use std::collections::VecDeque;

use outboxd::lsn::Lsn;
use outboxd::pgoutput::Relation;

use super::Chance;
use crate::support::mutation::Random;
use crate::support::pgoutput_builder::{
    Open, Stream, Transaction, Value, WalMessage, outbox, table, txn,
};

pub(super) const TOPICS: [&str; 4] = [
    "outbox.event.Order",
    "outbox.event.Invoice",
    "outbox.event.Parcel",
    DEAD_LETTERS,
];
pub(super) const DEAD_LETTERS: &str = "dead-letters";
pub(super) const DEAD_LETTERS_TOPIC: usize = 3;
const TYPES: [&str; 3] = ["Order", "Invoice", "Parcel"];
/// Of a commit record; a commit may follow the previous one without a gap.
const COMMIT_RECORD_BYTES: u64 = 0x30;

/// The committed log, oldest first. Positions rise from item to item.
pub(super) struct Log {
    pub(super) items: Vec<Item>,
    /// In commit order, then row order. An event's number is its place here.
    pub(super) events: Vec<Event>,
    pub(super) start: Lsn,
}

pub(super) enum Item {
    Transaction {
        transaction: Box<Transaction>,
        /// One past its last event.
        events_end: usize,
    },
    /// Other people's WAL: only a keepalive tells of it.
    Idle(Lsn),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    pub(super) topic: usize,
    pub(super) key: Option<String>,
    pub(super) health: Health,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Health {
    Good,
    /// Its row has no topic.
    Unroutable,
    /// The broker refuses it in its own topic, for something in it.
    Poison,
}

impl Item {
    pub(super) fn position(&self) -> Lsn {
        match self {
            Self::Transaction { transaction, .. } => transaction.end_lsn,
            Self::Idle(position) => *position,
        }
    }
}

impl Log {
    /// `ill`: some of the events have to become dead letters.
    pub(super) fn generate(random: &mut Random, ill: bool) -> Self {
        let start = Lsn::new(0x1000);
        let mut log = Self {
            items: Vec::new(),
            events: Vec::new(),
            start,
        };
        let most = if random.one_in(8) { 12 } else { 5 };
        let (count, keys) = (1 + random.below(most), 1 + random.below(4));
        let mut position = start.as_u64();
        for xid in 1..=count {
            position += COMMIT_RECORD_BYTES + [0, 1, 0x400][random.below(3)];
            if random.one_in(4) {
                log.items.push(Item::Idle(Lsn::new(position)));
                position += COMMIT_RECORD_BYTES + [0, 0x38][random.below(2)];
            }
            let xid = u32::try_from(xid).unwrap();
            let transaction = log.rows(txn(xid), keys, ill, random).commit(position);
            log.items.push(Item::Transaction {
                transaction: Box::new(transaction),
                events_end: log.events.len(),
            });
        }
        log
    }

    fn rows(&mut self, mut open: Open, keys: usize, ill: bool, random: &mut Random) -> Open {
        let rows = match random.below(8) {
            0 => 0,
            1 => 5 + random.below(20),
            _ => 1 + random.below(4),
        };
        let outbox = outbox();
        for _ in 0..rows {
            open = match random.below(12) {
                0 => open.delete(&outbox, [Some("0"), None, None, None]),
                1 => open.update(&outbox, ["0", "Order", "a", "never published"]),
                2 => open.message("audit", b"not for us"),
                3 => open.truncate(&[&outbox, &other_table()]),
                _ => {
                    let health = match random.below(10) {
                        0 if ill => Health::Unroutable,
                        1 if ill => Health::Poison,
                        _ => Health::Good,
                    };
                    self.insert(open, &outbox, keys, health, random)
                }
            };
        }
        open
    }

    fn insert(
        &mut self,
        open: Open,
        outbox: &Relation,
        keys: usize,
        health: Health,
        random: &mut Random,
    ) -> Open {
        let topic = random.below(TYPES.len());
        let kind = (health != Health::Unroutable).then_some(TYPES[topic]);
        let key = (!random.one_in(20)).then(|| format!("key {}", random.below(keys)));
        let length = if random.one_in(15) { 1000 } else { 40 };
        let row: [Value; 4] = [
            self.events.len().to_string().into(),
            kind.into(),
            key.clone().into(),
            "x".repeat(random.below(length)).into(),
        ];
        self.events.push(Event { topic, key, health });
        open.insert_into(outbox, row)
    }

    /// How many events lie before `item`.
    pub(super) fn events_before(&self, item: usize) -> usize {
        let before = self.items[..item].iter().rev();
        let mut ends = before.filter_map(|item| match item {
            Item::Transaction { events_end, .. } => Some(*events_end),
            Item::Idle(_) => None,
        });
        ends.next().unwrap_or(0)
    }

    /// Where the server writes, at the latest.
    pub(super) fn end(&self) -> Lsn {
        self.position_before(self.items.len())
    }

    /// The position of everything before `item`.
    pub(super) fn position_before(&self, item: usize) -> Lsn {
        match item.checked_sub(1) {
            Some(last) => self.items[last].position(),
            None => self.start,
        }
    }
}

fn other_table() -> Relation {
    table(20_000, "public", "other")
}

pub(super) enum Sent {
    Wal(WalMessage),
    Keepalive(Lsn),
}

/// One walsender at a time; a reconnection starts it again.
#[derive(Default)]
pub(super) struct Walsender {
    stream: Stream,
    queue: VecDeque<Sent>,
    /// The first item that is not in `queue` or sent.
    next_item: usize,
}

impl Walsender {
    /// As the server does: transactions whose commit record lies before `from` are skipped.
    pub(super) fn start(log: &Log, from: Lsn) -> Self {
        let next_item = log.items.iter().position(|item| match item {
            Item::Transaction { transaction, .. } => transaction.commit_lsn >= from,
            Item::Idle(position) => *position > from,
        });
        Self {
            next_item: next_item.unwrap_or(log.items.len()),
            ..Self::default()
        }
    }

    /// Items of which everything was sent.
    pub(super) fn finished_items(&self) -> usize {
        self.next_item - usize::from(!self.queue.is_empty())
    }

    pub(super) fn next(&mut self, log: &Log, random: &mut Random) -> Option<Sent> {
        if self.queue.is_empty() {
            if random.one_in(10) {
                // Nothing new, or even an old position: a server repeats itself.
                let item = random.below(self.next_item + 1);
                return Some(Sent::Keepalive(log.position_before(item)));
            }
            self.fill(log, random)?;
        }
        self.queue.pop_front()
    }

    fn fill(&mut self, log: &Log, random: &mut Random) -> Option<()> {
        let item = log.items.get(self.next_item)?;
        self.next_item += 1;
        match item {
            Item::Idle(position) => self.queue.push_back(Sent::Keepalive(*position)),
            Item::Transaction { transaction, .. } => {
                for (index, message) in self.stream.send(transaction).into_iter().enumerate() {
                    if index > 0 && random.one_in(8) {
                        // Inside a transaction no position means anything, however far it is.
                        let ahead = random.below(log.items.len() + 1);
                        let position = log.position_before(ahead);
                        self.queue.push_back(Sent::Keepalive(position));
                    }
                    self.queue.push_back(Sent::Wal(message));
                }
            }
        }
        Some(())
    }
}
