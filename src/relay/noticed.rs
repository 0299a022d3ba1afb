//! What the opening of a stream has found out, also where it fails behind it.

use super::origin::StreamOrigin;
use crate::journal::Entry;
use crate::lsn::Lsn;

#[derive(Debug)]
pub(super) struct Noticed {
    /// Of our last stream; absent where there was none.
    origin: Option<StreamOrigin>,
    /// Of everything before it we know that Kafka has it.
    confirmed: Lsn,
    /// Somebody else has streamed since: newer events than those that we have in flight may be in
    /// Kafka, and nobody would send them again behind ours.
    pub(super) others_streamed: bool,
    /// Events may be missing, or nobody knows, and the operator has said to go on.
    pub(super) gap_accepted: bool,
}

impl Noticed {
    pub(super) const fn new(origin: Option<StreamOrigin>, confirmed: Lsn) -> Self {
        Self {
            origin,
            confirmed,
            others_streamed: false,
            gap_accepted: false,
        }
    }

    /// What stands there and is not ours was written by somebody who streamed.
    pub(super) fn journal(&mut self, entry: &Entry) {
        let is_elsewhere = self.origin.as_ref().is_some_and(|ours| {
            (ours.system_id.as_str(), ours.timeline) != (entry.system_id.as_str(), entry.timeline)
        });
        self.others_streamed |= is_elsewhere || entry.confirmed_lsn > self.confirmed;
    }

    /// Without a word of the journal's. Where there is no slot nobody streams; and the position of a
    /// slot on another server says nothing, while what is in flight may be nowhere else.
    pub(super) fn slot(&mut self, here: &StreamOrigin, stands: Option<Lsn>) {
        let Some(stands) = stands else {
            return;
        };
        let is_beyond = stands > self.confirmed;
        self.others_streamed |= match &self.origin {
            Some(ours) if ours.system_id != here.system_id => false,
            Some(ours) => ours.timeline != here.timeline || is_beyond,
            None => is_beyond,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Server;

    fn origin(system_id: &str, timeline: u32) -> StreamOrigin {
        StreamOrigin {
            system_id: system_id.to_owned(),
            timeline,
            started: "today".to_owned(),
        }
    }

    fn noticed() -> Noticed {
        Noticed::new(Some(origin("77", 2)), Lsn::new(200))
    }

    #[test]
    fn a_position_in_the_journal_that_is_not_ours_is_somebody_elses_stream() {
        let entry = |system_id, timeline, confirmed| {
            let server = Server {
                system_id,
                timeline,
                database: "shop",
                slot: "outbox",
                written: Lsn::new(400),
                left_at: None,
            };
            Entry::first(1, &server, Lsn::new(10)).at(Lsn::new(confirmed), 0)
        };
        for (entry, others) in [
            (entry("77", 2, 200), false),
            (entry("77", 2, 150), false),
            (entry("77", 2, 201), true),
            (entry("77", 3, 150), true),
            (entry("88", 2, 150), true),
        ] {
            let mut noticed = noticed();
            noticed.journal(&entry);
            assert_eq!(noticed.others_streamed, others, "{entry:?}");
        }
        // In flight is then what a snapshot has left, which begins anew.
        let mut first = Noticed::new(None, Lsn::ZERO);
        first.journal(&entry("77", 2, 1));
        assert!(first.others_streamed);
    }

    #[test]
    fn a_slot_beyond_our_position_was_confirmed_to_by_somebody_else() {
        for (here, stands, others) in [
            (origin("77", 2), Some(200), false),
            (origin("77", 2), Some(100), false),
            (origin("77", 2), Some(201), true),
            (origin("77", 2), None, false),
            (origin("77", 3), Some(100), true),
            (origin("77", 3), None, false),
            (origin("88", 2), Some(999), false),
        ] {
            let mut noticed = noticed();
            noticed.slot(&here, stands.map(Lsn::new));
            assert_eq!(noticed.others_streamed, others, "{here:?} {stands:?}");
        }
    }
}
