//! What was committed, and a walsender that sends it from any position.

use std::collections::VecDeque;
use std::ops::Range;

use outboxd::lsn::Lsn;
use outboxd::pgoutput::Relation;
use outboxd::timestamp::Timestamp;

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
    keys: usize,
    /// Some of the events have to become dead letters.
    ill: bool,
    /// How often the server was put back: the same numbers of transactions come again, at other times.
    histories: i64,
}

pub(super) enum Item {
    Transaction {
        transaction: Box<Transaction>,
        events: Range<usize>,
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
    /// From this position on, and not from a later one, the server sends it.
    fn begin(&self) -> Lsn {
        match self {
            Self::Transaction { transaction, .. } => transaction.commit_lsn,
            Self::Idle(position) => *position,
        }
    }

    pub(super) fn position(&self) -> Lsn {
        match self {
            Self::Transaction { transaction, .. } => transaction.end_lsn,
            Self::Idle(position) => *position,
        }
    }
}

impl Log {
    pub(super) fn generate(random: &mut Random, ill: bool) -> Self {
        let start = Lsn::new(0x1000);
        let most = if random.one_in(8) { 12 } else { 5 };
        let (count, keys) = (1 + random.below(most), 1 + random.below(4));
        let mut log = Self {
            items: Vec::new(),
            events: Vec::new(),
            start,
            keys,
            ill,
            histories: 0,
        };
        log.append(count, random);
        log
    }

    fn append(&mut self, count: usize, random: &mut Random) {
        let mut position = self.end().as_u64();
        for _ in 0..count {
            position += COMMIT_RECORD_BYTES + [0, 1, 0x400][random.below(3)];
            if random.one_in(4) {
                self.items.push(Item::Idle(Lsn::new(position)));
                position += COMMIT_RECORD_BYTES + [0, 0x38][random.below(2)];
            }
            let xid = u32::try_from(1 + self.items.len()).unwrap();
            let open = txn(xid).committed_at(Timestamp::from_postgres_us(self.histories));
            let first = self.events.len();
            let transaction = self.rows(open, random).commit(position);
            self.items.push(Item::Transaction {
                transaction: Box::new(transaction),
                events: first..self.events.len(),
            });
        }
    }

    pub(super) fn was_put_back(&self) -> bool {
        self.histories > 0
    }

    /// What was committed behind a place at or after `durable` was not, and other things were, further
    /// than before. How many items are kept. Events that were of the old history keep their numbers.
    pub(super) fn put_back(&mut self, durable: Lsn, random: &mut Random) -> usize {
        let written = self.end();
        // The slot's position may be one that the journal has of an earlier history.
        let begun = self.items.partition_point(|item| item.begin() < durable);
        let least = begun.max(self.items_up_to(durable));
        let kept = least + random.below(self.items.len() + 1 - least);
        self.items.truncate(kept);
        if self.end() < durable {
            self.items.push(Item::Idle(durable));
        }
        self.histories += 1;
        while self.end() <= written {
            self.append(1 + random.below(2), random);
        }
        kept
    }

    fn rows(&mut self, mut open: Open, random: &mut Random) -> Open {
        let ill = self.ill;
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
                    self.insert(open, &outbox, health, random)
                }
            };
        }
        open
    }

    fn insert(
        &mut self,
        open: Open,
        outbox: &Relation,
        health: Health,
        random: &mut Random,
    ) -> Open {
        let topic = random.below(TYPES.len());
        let kind = (health != Health::Unroutable).then_some(TYPES[topic]);
        let key = (!random.one_in(20)).then(|| format!("key {}", random.below(self.keys)));
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

    pub(super) fn events_of(&self, item: usize) -> Range<usize> {
        match &self.items[item] {
            Item::Transaction { events, .. } => events.clone(),
            Item::Idle(_) => 0..0,
        }
    }

    /// One past the last event that was committed before `item`.
    pub(super) fn events_before(&self, item: usize) -> usize {
        let before = (0..item).map(|item| self.events_of(item).end);
        before.max().unwrap_or(0)
    }

    /// The same of everything up to `position`.
    pub(super) fn events_up_to(&self, position: Lsn) -> usize {
        self.events_before(self.items_up_to(position))
    }

    fn items_up_to(&self, position: Lsn) -> usize {
        self.items
            .partition_point(|item| item.position() <= position)
    }

    /// Where the server writes, at the latest.
    pub(super) fn end(&self) -> Lsn {
        self.position_before(self.items.len())
    }

    /// The furthest position from which the server sends `item` and all behind it. A position that the
    /// journal has of an earlier history need not be one of this.
    pub(super) fn confirmable_before(&self, item: usize) -> Lsn {
        match self.items.get(item) {
            Some(item) if self.was_put_back() => item.begin(),
            _ => self.position_before(item),
        }
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
