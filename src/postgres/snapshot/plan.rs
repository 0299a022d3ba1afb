//! What a start does with the slot and the retained rows.

use super::SnapshotMode;
use crate::postgres::slot::{CreateMode, SlotVerdict};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartPlan {
    /// Go on from the slot's position.
    Stream,
    /// Create the slot. Rows that are there already are not published.
    CreateSlot,
    /// Publish the rows that are there, under the snapshot of a new slot, then stream.
    SnapshotNewSlot,
    /// The same, in place of a slot that the server has invalidated.
    ReplaceLostSlot,
    /// Publish the rows that are there, then go on from the existing slot's position.
    SnapshotBeside,
    /// Publish the rows that are there and stop; no slot is made or moved.
    SnapshotOnly,
    /// There is no slot and none may be made, or it is of no use: say so.
    Refuse,
}

impl StartPlan {
    /// A slot that exists is never followed by a snapshot that nobody asked for: `initial` asks for
    /// one at the slot's beginning only.
    pub fn decide(mode: SnapshotMode, create: CreateMode, verdict: &SlotVerdict) -> Self {
        match (verdict, mode) {
            (_, SnapshotMode::InitialOnly) => Self::SnapshotOnly,
            (SlotVerdict::Missing, _) if create == CreateMode::Never => Self::Refuse,
            (SlotVerdict::Missing, SnapshotMode::NoData) => Self::CreateSlot,
            (
                SlotVerdict::Missing,
                SnapshotMode::Initial | SnapshotMode::Always | SnapshotMode::WhenNeeded,
            ) => Self::SnapshotNewSlot,
            (SlotVerdict::Usable, SnapshotMode::Always) => Self::SnapshotBeside,
            (
                SlotVerdict::Usable,
                SnapshotMode::Initial | SnapshotMode::NoData | SnapshotMode::WhenNeeded,
            ) => Self::Stream,
            (SlotVerdict::Lost { .. }, SnapshotMode::WhenNeeded)
                if create == CreateMode::Missing =>
            {
                Self::ReplaceLostSlot
            }
            _ => Self::Refuse,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsn::Lsn;

    const MODES: [SnapshotMode; 5] = [
        SnapshotMode::Initial,
        SnapshotMode::NoData,
        SnapshotMode::InitialOnly,
        SnapshotMode::Always,
        SnapshotMode::WhenNeeded,
    ];

    fn plans(create: CreateMode, verdict: &SlotVerdict) -> [StartPlan; 5] {
        MODES.map(|mode| StartPlan::decide(mode, create, verdict))
    }

    fn lost() -> SlotVerdict {
        SlotVerdict::Lost {
            reason: "wal_removed".into(),
            confirmed_flush_lsn: None,
            server_lsn: Lsn::ZERO,
        }
    }

    #[test]
    fn a_new_slot_begins_with_a_snapshot_unless_it_is_declined() {
        use StartPlan::{CreateSlot, Refuse, SnapshotNewSlot, SnapshotOnly};
        assert_eq!(
            plans(CreateMode::Missing, &SlotVerdict::Missing),
            [
                SnapshotNewSlot,
                CreateSlot,
                SnapshotOnly,
                SnapshotNewSlot,
                SnapshotNewSlot
            ]
        );
        assert_eq!(
            plans(CreateMode::Never, &SlotVerdict::Missing),
            [Refuse, Refuse, SnapshotOnly, Refuse, Refuse]
        );
    }

    #[test]
    fn an_existing_slot_is_followed_by_a_snapshot_only_when_asked_for() {
        use StartPlan::{SnapshotBeside, SnapshotOnly, Stream};
        for create in [CreateMode::Missing, CreateMode::Never] {
            assert_eq!(
                plans(create, &SlotVerdict::Usable),
                [Stream, Stream, SnapshotOnly, SnapshotBeside, Stream]
            );
        }
    }

    #[test]
    fn a_lost_slot_is_replaced_only_by_when_needed() {
        use StartPlan::{Refuse, ReplaceLostSlot, SnapshotOnly};
        assert_eq!(
            plans(CreateMode::Missing, &lost()),
            [Refuse, Refuse, SnapshotOnly, Refuse, ReplaceLostSlot]
        );
        assert_eq!(
            plans(CreateMode::Never, &lost()),
            [Refuse, Refuse, SnapshotOnly, Refuse, Refuse]
        );
    }

    #[test]
    fn a_slot_of_another_kind_is_refused() {
        assert_eq!(
            plans(CreateMode::Missing, &SlotVerdict::Physical),
            [
                StartPlan::Refuse,
                StartPlan::Refuse,
                StartPlan::SnapshotOnly,
                StartPlan::Refuse,
                StartPlan::Refuse
            ]
        );
    }
}
