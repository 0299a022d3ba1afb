//! Records that a relay would publish beside those that Kafka Connect has published, event by event.
//! In whatever order in time the two come; in memory that is bounded by records.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::seen::Seen;

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
}

/// How many of each kind, and the first of them, without payloads.
pub(super) type Differences = BTreeMap<Kind, (u64, String)>;

/// Compares what a record's timestamp is only where a column decides it; else Debezium takes its
/// clock.
pub(super) struct Comparison {
    compares_timestamps: bool,
    /// Of each side.
    limit: usize,
    ours: HashMap<String, (u64, Seen)>,
    theirs: HashMap<String, Seen>,
    taken: u64,
    recent: Recent,
    /// Of a key's last match: the place among ours, and theirs.
    orders: HashMap<u64, (u64, i64)>,
    /// Offsets of the first and the last match of a partition.
    spans: HashMap<(Arc<str>, i32), (i64, i64)>,
    tally: Tally,
    differences: Differences,
}

/// Events that were compared, as long as they are remembered.
#[derive(Default)]
struct Recent {
    ids: HashSet<u64>,
    order: VecDeque<u64>,
}

/// Repeats of a connector lie a flush interval back.
const REMEMBERED: usize = 500_000;

impl Comparison {
    pub(super) fn new(compares_timestamps: bool, limit: usize) -> Self {
        Self {
            compares_timestamps,
            limit,
            ours: HashMap::new(),
            theirs: HashMap::new(),
            taken: 0,
            recent: Recent::default(),
            orders: HashMap::new(),
            spans: HashMap::new(),
            tally: Tally::default(),
            differences: Differences::new(),
        }
    }

    /// More of ours than this wait for theirs: those come first.
    pub(super) fn wants_ours(&self) -> bool {
        self.ours.len() < self.limit
    }

    /// They wait as long as ours can still come.
    pub(super) fn wants_theirs(&self) -> bool {
        self.theirs.len() < self.limit || !self.wants_ours()
    }

    pub(super) fn take_ours(&mut self, record: Seen) {
        self.taken += 1;
        let Some(id) = record.id() else {
            self.note(Kind::NoId, || format!("ours for topic {}", record.topic));
            return;
        };
        let order = self.taken;
        match self.theirs.remove(&id) {
            Some(theirs) => self.compare(&id, order, &record, &theirs),
            // A relay that connected again sends some again.
            None if self.recent.has(&id) => {}
            None => drop(self.ours.insert(id, (order, record))),
        }
    }

    pub(super) fn take_theirs(&mut self, record: Seen) {
        let Some(id) = record.id() else {
            self.note(Kind::NoId, || format!("theirs at {}", record.place()));
            return;
        };
        match self.ours.remove(&id) {
            Some((order, ours)) => self.compare(&id, order, &ours, &record),
            None if self.recent.has(&id) || self.theirs.contains_key(&id) => {
                self.tally.repeats += 1;
            }
            None => {
                if self.theirs.len() >= self.limit {
                    self.judge_theirs();
                }
                self.theirs.insert(id, record);
            }
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

    /// Nothing more comes: what waits has no counterpart.
    pub(super) fn end(&mut self) {
        let mut missing: Vec<_> = std::mem::take(&mut self.ours).into_iter().collect();
        missing.sort_by_key(|(_, (order, _))| *order);
        for (id, (_, record)) in missing {
            self.tally.different += 1;
            self.note(Kind::Missing, || {
                format!("event {} for topic {}", shown(&id), record.topic)
            });
        }
        self.judge_theirs();
    }

    /// Between two matches of its partition one of theirs is too many; before the first it was
    /// committed before our slot begins, after the last it may be ahead of us.
    fn judge_theirs(&mut self) {
        let mut waiting: Vec<_> = std::mem::take(&mut self.theirs).into_iter().collect();
        waiting.sort_by(|(_, a), (_, b)| (&a.topic, a.offset).cmp(&(&b.topic, b.offset)));
        for (id, record) in waiting {
            let place = (Arc::clone(&record.topic), record.partition.unwrap_or(-1));
            let span = self.spans.get(&place);
            if span.is_some_and(|(first, last)| (first..last).contains(&&record.offset)) {
                self.tally.different += 1;
                self.note(Kind::Extra, || {
                    format!("event {} at {}", shown(&id), record.place())
                });
            } else {
                self.tally.outside += 1;
            }
        }
    }

    fn compare(&mut self, id: &str, order: u64, ours: &Seen, theirs: &Seen) {
        self.recent.add(id);
        let place = (Arc::clone(&theirs.topic), theirs.partition.unwrap_or(-1));
        let at = theirs.offset;
        let span = self.spans.entry(place).or_insert((at, at));
        *span = (span.0.min(at), span.1.max(at));
        let mut found = ours.differences(theirs, self.compares_timestamps);
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
    fn add(&mut self, id: &str) {
        let hash = hash(id);
        if self.ids.insert(hash) {
            self.order.push_back(hash);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }

    fn has(&self, id: &str) -> bool {
        self.ids.contains(&hash(id))
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
