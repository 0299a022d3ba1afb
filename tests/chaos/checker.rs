//! Reads all of a topic and compares it with what the source committed: one bit for an event, and a few
//! words for a key.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use openssl::hash::{MessageDigest, hash};

use crate::support::Event;

/// What was read of one key.
#[derive(Default)]
struct Key {
    partition: i32,
    seen: Vec<u64>,
    /// The last version that stands behind all before it. A repeat sets it back: what follows the
    /// repeated event has to come again, or the last copies are out of order.
    last: i64,
}

#[derive(Default)]
pub(crate) struct Checker {
    keys: HashMap<String, Key>,
    pub(crate) records: u64,
    pub(crate) repeats: u64,
    /// Overtook an event that had failed; came again behind it, or the key is out of order at the end.
    pub(crate) overtook: u64,
    /// Repeats that a leader sent after it had been frozen and thawed.
    pub(crate) after_thaw: u64,
    /// When thawed leaders may have sent something, in milliseconds since 1970.
    thaws: Vec<RangeInclusive<i64>>,
    altered: Vec<String>,
}

/// What is wrong, by kind, with a few examples each.
#[derive(Default)]
pub(crate) struct Verdict {
    pub(crate) events: i64,
    pub(crate) gaps: Vec<String>,
    pub(crate) out_of_order: Vec<String>,
    pub(crate) altered: Vec<String>,
    pub(crate) uncommitted: Vec<String>,
}

impl Verdict {
    pub(crate) fn is_clean(&self) -> bool {
        self.gaps.is_empty()
            && self.out_of_order.is_empty()
            && self.altered.is_empty()
            && self.uncommitted.is_empty()
    }
}

fn md5(text: &str) -> String {
    let digest = hash(MessageDigest::md5(), text.as_bytes()).unwrap();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The event that the load writes for this version of a key.
fn payload(key: &str, version: i64) -> String {
    let sum = md5(&format!("payload:{key}:{version}"));
    let fill = "x".repeat(usize::try_from(version * 37 % 400).unwrap());
    format!(r#"{{"sum": "{sum}", "fill": "{fill}"}}"#)
}

impl Checker {
    pub(crate) fn new(thaws: Vec<RangeInclusive<i64>>) -> Self {
        Self {
            thaws,
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, event: &Event) {
        self.records += 1;
        let name = event.key.as_deref().unwrap_or_default();
        let version = event.seq();
        let id = md5(&format!("{name}:{version}"));
        let (found_id, payload) = (
            event.header("id").unwrap_or_default(),
            payload(name, version),
        );
        let same_id = found_id.replace('-', "") == id;
        if !same_id || event.value.as_deref() != Some(&payload) {
            self.altered.push(format!(
                "{version} of {name} in partition {}: found id {found_id} and {:?}, expected {id} and {payload}",
                event.partition, event.value
            ));
        }
        let thawed = self
            .thaws
            .iter()
            .any(|thaw| thaw.contains(&event.timestamp_ms));
        let key = self.keys.entry(name.to_owned()).or_insert_with(|| Key {
            partition: event.partition,
            ..Key::default()
        });
        if key.partition != event.partition {
            self.altered
                .push(format!("{version} of {name}: another partition"));
        }
        let repeated = key.see(version);
        self.repeats += u64::from(repeated);
        if repeated && thawed && version <= key.last {
            self.after_thaw += 1;
        } else if version <= key.last + 1 {
            key.last = version;
        } else {
            self.overtook += 1;
        }
    }

    pub(crate) fn verdict(mut self, committed: &HashMap<String, i64>) -> Verdict {
        let mut verdict = Verdict {
            altered: std::mem::take(&mut self.altered),
            ..Verdict::default()
        };
        for (name, last) in committed {
            verdict.events += last;
            let key = self.keys.remove(name).unwrap_or_default();
            let missing: Vec<i64> = (1..=*last).filter(|version| !key.has(*version)).collect();
            if !missing.is_empty() {
                verdict.gaps.push(format!("{name}: {missing:?}"));
            } else if key.last != *last {
                let last_in_order = key.last;
                let told = format!(
                    "{name}: in order up to {last_in_order} of {last}, in partition {}",
                    key.partition
                );
                verdict.out_of_order.push(told);
            }
            if key.highest() > *last {
                let told = format!("{name}: {} where {last} was committed", key.highest());
                verdict.uncommitted.push(told);
            }
        }
        verdict.uncommitted.extend(self.keys.into_keys());
        verdict
    }
}

impl Key {
    /// True where it was seen before.
    fn see(&mut self, version: i64) -> bool {
        let (word, bit) = place(version);
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        let before = self.seen[word] & bit != 0;
        self.seen[word] |= bit;
        before
    }

    fn has(&self, version: i64) -> bool {
        let (word, bit) = place(version);
        self.seen.get(word).is_some_and(|seen| seen & bit != 0)
    }

    fn highest(&self) -> i64 {
        let bits = i64::try_from(self.seen.len() * 64).unwrap();
        (0..bits)
            .rev()
            .find(|version| self.has(*version))
            .unwrap_or(0)
    }
}

fn place(version: i64) -> (usize, u64) {
    let version = usize::try_from(version).unwrap();
    (version / 64, 1 << (version % 64))
}
