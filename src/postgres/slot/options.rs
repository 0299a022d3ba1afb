//! Which slot, and what may be done to it.

use std::fmt;
use std::str::FromStr;

use openssl::sha::sha256;

/// A name that the server takes for a replication slot: 1 to 63 of `a-z`, `0-9` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotName(String);

/// `max_identifier_length` of a server as it is built everywhere.
const MAX_BYTES: usize = 63;

impl SlotName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key of the advisory lock that the relay of this slot holds: the first eight bytes of
    /// SHA-256 over `outboxd:` and the slot's name, big-endian. [`SlotName::advisory_key_sql`] is
    /// the same in SQL. A database has its own advisory locks, as a slot has its own database.
    pub fn advisory_key(&self) -> i64 {
        let digest = self.digest("outboxd:");
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        i64::from_be_bytes(first)
    }

    /// An expression that gives [`SlotName::advisory_key`] in psql.
    pub fn advisory_key_sql(&self) -> String {
        format!(
            "('x' || left(encode(sha256('outboxd:{}'), 'hex'), 16))::bit(64)::bigint",
            self.0
        )
    }

    /// The temporary slot under which this slot's first snapshot is read. Always the same name for
    /// the same slot, so that two snapshots for one slot cannot run side by side.
    pub fn for_snapshot(&self) -> Self {
        let hash: String = self
            .digest("snapshot:")
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let readable: String = self.0.chars().take(MAX_BYTES - 26).collect();
        Self(format!("{readable}_snapshot_{hash}"))
    }

    fn digest(&self, prefix: &str) -> [u8; 32] {
        sha256(format!("{prefix}{}", self.0).as_bytes())
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotNameError(String);

impl fmt::Display for SlotNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" cannot name a replication slot: expected 1 to 63 of a-z, 0-9 and _",
            self.0.escape_debug()
        )
    }
}

impl std::error::Error for SlotNameError {}

impl FromStr for SlotName {
    type Err = SlotNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if (1..=MAX_BYTES).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(SlotNameError(text.to_owned()))
        }
    }
}

/// Whether the relay makes what it does not find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CreateMode {
    #[default]
    Missing,
    Never,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotOptions {
    pub name: SlotName,
    pub create: CreateMode,
    /// Let standbys keep a copy of the slot, so that a promoted one can go on (PostgreSQL 17).
    pub failover: bool,
    /// Debezium's `slot.drop.on.stop`. What is committed while the relay is down is then lost.
    pub drop_on_stop: bool,
}

impl SlotOptions {
    pub fn new(name: SlotName) -> Self {
        Self {
            name,
            create: CreateMode::Missing,
            failover: false,
            drop_on_stop: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(name: &str) -> SlotName {
        name.parse().unwrap()
    }

    #[test]
    fn only_what_the_server_takes_is_a_slot_name() {
        for name in ["a", "outbox_2", &"x".repeat(63)] {
            assert_eq!(slot(name).as_str(), name);
        }
        for name in ["", "Outbox", "out-box", "öl", "a b", &"x".repeat(64)] {
            let expected = Err(SlotNameError(name.to_owned()));
            assert_eq!(name.parse::<SlotName>(), expected, "{name:?}");
        }
    }

    #[test]
    fn advisory_key_of_a_name_never_changes() {
        assert_eq!(slot("outbox").advisory_key(), OUTBOX_KEY);
        assert_ne!(slot("outbox2").advisory_key(), OUTBOX_KEY);
    }

    /// printf 'outboxd:outbox' | sha256sum
    const OUTBOX_KEY: i64 = i64::from_be_bytes([0xee, 0x9b, 0x70, 0xa0, 0x6d, 0xf3, 0xe8, 0x2d]);

    #[test]
    fn snapshot_slots_of_long_names_differ_and_are_slot_names() {
        let one = slot(&"x".repeat(63)).for_snapshot();
        let other = slot(&"x".repeat(62)).for_snapshot();
        assert_ne!(one, other);
        assert_eq!(one.as_str().parse(), Ok(one.clone()));
        assert!(
            slot("outbox")
                .for_snapshot()
                .as_str()
                .starts_with("outbox_snapshot_")
        );
    }
}
