//! Records of one side that wait for the other's, in the order in which they came.

use std::collections::{BTreeMap, HashMap};

use super::compare::Room;
use super::seen::Seen;

#[derive(Default)]
pub(super) struct Waiting {
    records: BTreeMap<u64, (String, Seen)>,
    places: HashMap<String, u64>,
    bytes: usize,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// There is room for one more, of whatever size.
    pub(super) fn fits(&self, room: Room) -> bool {
        self.records.len() < room.records && self.bytes < room.bytes
    }

    /// One record has its place, of whatever size.
    pub(super) fn is_within(&self, room: Room) -> bool {
        self.records.len() <= 1 || (self.records.len() <= room.records && self.bytes <= room.bytes)
    }

    pub(super) fn get(&self, id: &str) -> Option<&Seen> {
        let (_, record) = self.records.get(self.places.get(id)?)?;
        Some(record)
    }

    /// `order` is later than those before.
    pub(super) fn insert(&mut self, id: String, order: u64, record: Seen) {
        self.bytes += record.bytes();
        self.places.insert(id.clone(), order);
        self.records.insert(order, (id, record));
    }

    /// With its order.
    pub(super) fn remove(&mut self, id: &str) -> Option<(u64, Seen)> {
        let order = self.places.remove(id)?;
        let (_, record) = self.records.remove(&order)?;
        self.bytes -= record.bytes();
        Some((order, record))
    }

    /// The oldest.
    pub(super) fn pop(&mut self) -> Option<(String, Seen)> {
        let (_, (id, record)) = self.records.pop_first()?;
        self.places.remove(&id);
        self.bytes -= record.bytes();
        Some((id, record))
    }
}
