//! What a connector's offset says of a slot that stands beyond what the relay has confirmed to it.
//!
//! It is never reason enough to go on. An offset has where a connector has come to, and not where it
//! began to read: of a slot that somebody advanced, or dropped and made anew, before the connector used
//! it, it looks the same, and the rows between are in no topic.

use std::fmt;

use super::offset::{ConnectorOffset, Snapshot};
use crate::lsn::Lsn;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Testimony {
    /// The connector may have moved the slot: it has seen commits at least up to where that stands.
    MayHaveMoved { reached: Lsn },
    /// Something else has moved the slot, at least for the rest of the way.
    TooShort { reached: Lsn },
    /// It streams from where the slot stood after the snapshot, whoever had moved it there.
    Snapshot,
    /// It has seen no commit.
    NoCommit,
    /// It has none, or it was taken out.
    NoOffset,
    /// It is of another server, or of a later state of this one.
    BeyondServer { offset: Lsn, written: Lsn },
}

impl Testimony {
    /// The slot `stands` beyond what was confirmed to it, on a server that writes at `written`.
    pub fn of(offset: Option<&ConnectorOffset>, stands: Lsn, written: Lsn) -> Self {
        let Some(offset) = offset else {
            return Self::NoOffset;
        };
        let furthest = offset.furthest();
        if furthest > written {
            let offset = furthest;
            return Self::BeyondServer { offset, written };
        }
        match (offset.snapshot, offset.committed) {
            (Some(Snapshot::Complete | Snapshot::Incomplete), _) => Self::Snapshot,
            (None, None) => Self::NoCommit,
            (None, Some(reached)) if reached < stands => Self::TooShort { reached },
            (None, Some(reached)) => Self::MayHaveMoved { reached },
        }
    }
}

impl fmt::Display for Testimony {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MayHaveMoved { reached } => write!(
                f,
                "it has seen what was committed up to {reached}, so it may be the connector that moved the slot. Nothing proves it: where the slot was advanced, or dropped and made anew, before the connector used it, the offset looks the same"
            ),
            Self::TooShort { reached } => write!(
                f,
                "it has seen what was committed up to {reached} only, so something else moved the slot"
            ),
            Self::Snapshot => f.write_str(
                "it is of a snapshot, behind which the connector reads from where the slot stands, whoever moved it",
            ),
            Self::NoCommit => f.write_str("it has seen no commit, and says nothing of the slot"),
            Self::NoOffset => f.write_str("there is none, and nothing says that it used the slot"),
            Self::BeyondServer { offset, written } => write!(
                f,
                "{offset} lies beyond {written}, where the server writes: it belongs to another server, or this one was restored"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::offset::{Kind, Transaction};
    use super::*;
    use crate::timestamp::Timestamp;

    const WRITTEN: Lsn = Lsn::new(1_000);

    fn offset(lsn: u64, committed: Option<u64>, snapshot: Option<Snapshot>) -> ConnectorOffset {
        ConnectorOffset {
            lsn: Lsn::new(lsn),
            committed: committed.map(Lsn::new),
            transaction: Some(Transaction {
                xid: 5,
                commit_time: Timestamp::from_postgres_us(7),
            }),
            kind: Kind::Row,
            snapshot,
        }
    }

    /// Each kind of offset against each place of the slot and each server.
    #[test]
    fn only_a_streamed_commit_behind_which_the_slot_stands_lets_the_connector_have_moved_it() {
        let reached = Lsn::new(300);
        let beyond = |offset: u64, written| Testimony::BeyondServer {
            offset: Lsn::new(offset),
            written,
        };
        let places = [(200, 300), (300, 300), (301, 320), (400, 1_000)];
        for (stands, written) in places.map(|(stands, written)| (Lsn::new(stands), written)) {
            let written = Lsn::new(written);
            let said = |offset: &ConnectorOffset| Testimony::of(Some(offset), stands, written);
            assert_eq!(Testimony::of(None, stands, written), Testimony::NoOffset);
            let settled = match stands <= reached {
                true => Testimony::MayHaveMoved { reached },
                false => Testimony::TooShort { reached },
            };
            let in_a_row = match Lsn::new(320) > written {
                true => beyond(320, written),
                false => settled,
            };
            assert_eq!(said(&offset(300, Some(300), None)), settled);
            // A long transaction's row lies before the commit that was sent before it.
            assert_eq!(said(&offset(150, Some(300), None)), settled);
            assert_eq!(said(&offset(320, Some(300), None)), in_a_row);
            assert_eq!(said(&offset(250, None, None)), Testimony::NoCommit);
            for snapshot in [Snapshot::Complete, Snapshot::Incomplete] {
                for committed in [None, Some(300)] {
                    let of_snapshot = offset(250, committed, Some(snapshot));
                    assert_eq!(said(&of_snapshot), Testimony::Snapshot);
                }
                let elsewhere = offset(1_001, None, Some(snapshot));
                assert_eq!(said(&elsewhere), beyond(1_001, written));
            }
            for committed in [None, Some(300), Some(1_001)] {
                let elsewhere = offset(1_001, committed, None);
                assert_eq!(said(&elsewhere), beyond(1_001, written));
            }
            let later = offset(250, Some(1_002), None);
            assert_eq!(said(&later), beyond(1_002, written));
        }
    }

    /// The relay has confirmed up to 100; what did happen, and what the offset makes of it.
    #[test]
    fn an_offset_from_before_explains_no_move_and_one_from_after_proves_none() {
        let said = |offset: &ConnectorOffset, stands| {
            Testimony::of(Some(offset), Lsn::new(stands), WRITTEN)
        };
        let before = offset(100, Some(90), None);
        let reached = Lsn::new(90);
        assert_eq!(said(&before, 101), Testimony::TooShort { reached });
        // Advanced by somebody behind the connector's back.
        let behind = offset(400, Some(390), None);
        let reached = Lsn::new(390);
        assert_eq!(said(&behind, 391), Testimony::TooShort { reached });
        // The connector read from 100, or somebody advanced the slot to 300 and it read from there.
        for stands in [300, 390] {
            assert_eq!(said(&behind, stands), Testimony::MayHaveMoved { reached });
        }
    }
}
