//! Records that a relay would publish beside those that Kafka Connect has published, event by event.
//! In whatever order in time the two come; in memory that is bounded by records and by bytes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::seen::Seen;
use super::waiting::Waiting;
use super::window::Window;

/// In what two records of one event differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Topic,
    Partition,
    Key,
    Value,
    Headers,
    Timestamp,
    /// Of one key: theirs stand in another order.
    Order,
    /// We would publish it, and they did not.
    Missing,
    /// They published it between others, and we would not.
    Extra,
    /// Two events that are not the same have one id: which belongs to which cannot be told.
    SameId,
    /// Without an id nothing can be compared.
    NoId,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) equal: u64,
    /// Events of which something differs.
    pub(super) different: u64,
    /// The connector's own.
    pub(super) repeats: u64,
    /// Published before the shadow's slot begins, or after it had ended.
    pub(super) outside: u64,
    /// Of those that were compared: without a key nobody can foretell it.
    pub(super) unplaced: u64,
    /// Theirs came so long before ours that they were no longer remembered.
    pub(super) too_far: u64,
}

/// How many of each kind, and the first of them, without payloads.
pub(super) type Differences = BTreeMap<Kind, (u64, String)>;

/// Of each side: what may wait for the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) records: usize,
    pub(super) bytes: usize,
}

/// Compares what a record's timestamp is only where a column decides it; else Debezium takes its
/// clock.
pub(super) struct Comparison {
    compares_timestamps: bool,
    room: Room,
    ours: Waiting,
    theirs: Waiting,
    taken: Taken,
    recent: Recent,
    aside: Aside,
    /// Those that ours have named, with the number of their partitions once it is known.
    topics: HashMap<Arc<str>, Option<u32>>,
    /// Of a key's last match: the place among ours, and theirs.
    orders: HashMap<u64, (u64, i64)>,
    /// Offsets of the first and the last match of a partition.
    spans: HashMap<(Arc<str>, i32), (i64, i64)>,
    tally: Tally,
    differences: Differences,
    alone: BTreeMap<Arc<str>, u64>,
}

#[derive(Default)]
struct Taken {
    ours: u64,
    theirs: u64,
    /// The place among theirs of the latest that had a match.
    matched: u64,
}

/// Events that were compared, as long as they are remembered, with what each side's was.
#[derive(Default)]
struct Recent {
    events: HashMap<u64, (u64, u64)>,
    order: VecDeque<u64>,
}

/// Theirs for which there was no room: their places, to be judged at the end.
#[derive(Default)]
struct Aside {
    places: HashMap<u64, (Arc<str>, i32, i64)>,
    order: VecDeque<u64>,
}

/// Repeats of a connector lie a flush interval back.
const REMEMBERED: usize = 500_000;

impl Comparison {
    pub(super) fn new(compares_timestamps: bool, room: Room) -> Self {
        Self {
            compares_timestamps,
            room,
            ours: Waiting::default(),
            theirs: Waiting::default(),
            taken: Taken::default(),
            recent: Recent::default(),
            aside: Aside::default(),
            topics: HashMap::new(),
            orders: HashMap::new(),
            spans: HashMap::new(),
            tally: Tally::default(),
            differences: Differences::new(),
            alone: BTreeMap::new(),
        }
    }

    /// More of ours than this wait for theirs: those come first.
    pub(super) fn wants_ours(&self) -> bool {
        self.ours.fits(self.room)
    }

    /// They wait as long as ours can still come.
    pub(super) fn wants_theirs(&self) -> bool {
        self.theirs.fits(self.room) || !self.wants_ours()
    }

    pub(super) fn has_partitions(&mut self, topic: &Arc<str>, partitions: u32) {
        self.topics.insert(Arc::clone(topic), Some(partitions));
    }

    /// True where its topic is named for the first time.
    pub(super) fn take_ours(&mut self, record: Seen) -> bool {
        let is_new = !self.topics.contains_key(&record.topic);
        if is_new {
            self.topics.insert(Arc::clone(&record.topic), None);
        }
        self.taken.ours += 1;
        let order = self.taken.ours;
        let Some(id) = record.id() else {
            self.note(Kind::NoId, || format!("ours for topic {}", record.topic));
            return is_new;
        };
        if let Some((at, theirs)) = self.theirs.remove(&id) {
            self.taken.matched = self.taken.matched.max(at);
            self.compare(&id, order, &record, &theirs);
        } else if let Some((ours, _)) = self.recent.get(&id) {
            // A relay that connected again sends some again.
            self.is_same(&id, ours == record.print(), &record);
        } else if let Some(ours) = self.ours.get(&id) {
            let same = ours.print() == record.print();
            self.is_same(&id, same, &record);
        } else if self.aside.remove(&id) {
            self.tally.too_far += 1;
        } else {
            self.ours.insert(id, order, record);
        }
        is_new
    }

    pub(super) fn take_theirs(&mut self, record: Seen) {
        self.taken.theirs += 1;
        let order = self.taken.theirs;
        let Some(id) = record.id() else {
            self.note(Kind::NoId, || format!("theirs at {}", record.place()));
            return;
        };
        if let Some((order, ours)) = self.ours.remove(&id) {
            self.taken.matched = self.taken.theirs;
            self.compare(&id, order, &ours, &record);
        } else if let Some((_, theirs)) = self.recent.get(&id) {
            self.tally.repeats += u64::from(self.is_same(&id, theirs == record.print(), &record));
        } else if let Some(theirs) = self.theirs.get(&id) {
            let same = theirs.print() == record.print();
            self.tally.repeats += u64::from(self.is_same(&id, same, &record));
        } else if self.aside.has(&id) {
            self.tally.repeats += 1;
        } else {
            self.theirs.insert(id, order, record);
            self.set_aside();
        }
    }

    /// Two events of one id can be told where they are unlike.
    fn is_same(&mut self, id: &str, is_same: bool, record: &Seen) -> bool {
        if !is_same {
            self.tally.different += 1;
            let topic = &record.topic;
            self.note(Kind::SameId, || {
                format!("event {} for topic {topic}", shown(id))
            });
        }
        is_same
    }

    /// The oldest make room once both sides are full.
    fn set_aside(&mut self) {
        while !self.theirs.is_within(self.room)
            && let Some((id, record)) = self.theirs.pop()
        {
            self.tally.too_far += self.aside.add(&id, &record);
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.ours.len()
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(super) fn compared(&self) -> u64 {
        self.tally.equal + self.tally.different
    }

    pub(super) fn differences(&self) -> &Differences {
        &self.differences
    }

    /// Topics of the route that ours have never named, with how many were written to each while
    /// both sides were at work.
    pub(super) fn alone(&self) -> &BTreeMap<Arc<str>, u64> {
        &self.alone
    }

    pub(super) fn is_equal(&self) -> bool {
        self.differences.is_empty() && self.alone.is_empty() && self.tally.equal > 0
    }

    /// How many of theirs were taken, and how many when the last came that had a match.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.taken.theirs, self.taken.matched)
    }

    /// Nothing more comes: what waits has no counterpart.
    pub(super) fn end(&mut self, window: &Window) {
        while let Some((id, record)) = self.ours.pop() {
            self.tally.different += 1;
            self.note(Kind::Missing, || {
                format!("event {} for topic {}", shown(&id), record.topic)
            });
        }
        let aside = std::mem::take(&mut self.aside);
        for (topic, partition, offset) in aside.places.into_values() {
            let place = || format!("{topic}/{partition} offset {offset}");
            self.judge(window, (&topic, partition, offset), place);
        }
        while let Some((id, record)) = self.theirs.pop() {
            let place = || format!("event {} at {}", shown(&id), record.place());
            let partition = record.partition.unwrap_or(-1);
            self.judge(window, (&record.topic, partition, record.offset), place);
        }
        let written = window.written().into_iter();
        self.alone = written
            .filter(|(topic, _)| !self.topics.contains_key(topic))
            .collect();
    }

    /// Between two matches of its partition one of theirs is too many; before the first it was
    /// committed before our slot begins, after the last it may be ahead of us. A partition without
    /// a match goes by the time in which there were others.
    fn judge(
        &mut self,
        window: &Window,
        (topic, partition, offset): (&Arc<str>, i32, i64),
        what: impl FnOnce() -> String,
    ) {
        let is_extra = match self.spans.get(&(Arc::clone(topic), partition)) {
            Some((first, last)) => (*first..*last).contains(&offset),
            None => window.has(topic, partition, offset),
        };
        if is_extra {
            self.tally.different += 1;
            self.note(Kind::Extra, what);
        } else {
            self.tally.outside += 1;
        }
    }

    fn compare(&mut self, id: &str, order: u64, ours: &Seen, theirs: &Seen) {
        self.recent.add(id, (ours.print(), theirs.print()));
        let place = (Arc::clone(&theirs.topic), theirs.partition.unwrap_or(-1));
        let at = theirs.offset;
        let span = self.spans.entry(place).or_insert((at, at));
        *span = (span.0.min(at), span.1.max(at));
        let partitions = self.topics.get(&ours.topic).copied().flatten();
        let placed = ours.placed(partitions);
        self.tally.unplaced += u64::from(placed.is_none());
        let mut found = ours.differences(theirs, placed, self.compares_timestamps);
        if self.is_out_of_order(order, theirs) {
            found.push((
                Kind::Order,
                "another event of its key came first".to_owned(),
            ));
        }
        match found.is_empty() {
            true => self.tally.equal += 1,
            false => self.tally.different += 1,
        }
        for (kind, what) in found {
            self.note(kind, || {
                format!("event {} at {}: {what}", shown(id), theirs.place())
            });
        }
    }

    /// Against the last match of its key, whichever side of the two came first.
    fn is_out_of_order(&mut self, order: u64, theirs: &Seen) -> bool {
        let Some(key) = &theirs.key else {
            return false;
        };
        let mut hasher = DefaultHasher::new();
        (&theirs.topic, theirs.partition, key).hash(&mut hasher);
        if self.orders.len() >= REMEMBERED {
            self.orders.clear();
        }
        let here = (order, theirs.offset);
        let last = self.orders.insert(hasher.finish(), here);
        last.is_some_and(|(order, offset)| (order < here.0) != (offset < here.1))
    }

    fn note(&mut self, kind: Kind, what: impl FnOnce() -> String) {
        let (count, _) = self.differences.entry(kind).or_insert_with(|| (0, what()));
        *count += 1;
    }
}

impl Recent {
    fn add(&mut self, id: &str, prints: (u64, u64)) {
        let hash = hash(id);
        if self.events.insert(hash, prints).is_none() {
            self.order.push_back(hash);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.events.remove(&oldest);
        }
    }

    fn get(&self, id: &str) -> Option<(u64, u64)> {
        self.events.get(&hash(id)).copied()
    }
}

impl Aside {
    /// How many are forgotten for it.
    fn add(&mut self, id: &str, record: &Seen) -> u64 {
        let hash = hash(id);
        let partition = record.partition.unwrap_or(-1);
        let place = (Arc::clone(&record.topic), partition, record.offset);
        if self.places.insert(hash, place).is_none() {
            self.order.push_back(hash);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            return u64::from(self.places.remove(&oldest).is_some());
        }
        0
    }

    fn has(&self, id: &str) -> bool {
        self.places.contains_key(&hash(id))
    }

    fn remove(&mut self, id: &str) -> bool {
        self.places.remove(&hash(id)).is_some()
    }
}

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// An id is short; what is longer is something else.
fn shown(id: &str) -> String {
    id.chars().take(100).collect()
}

#[cfg(test)]
mod tests;
