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
    /// Of our last lead, where the journal was kept.
    generation: Option<u64>,
    /// Somebody else has streamed since: newer events than those that we have in flight may be in
    /// Kafka, and nobody would send them again behind ours.
    pub(super) others_streamed: bool,
    /// Events may be missing, or nobody knows, and the operator has said to go on.
    pub(super) gap_accepted: bool,
}

impl Noticed {
    pub(super) const fn new(
        origin: Option<StreamOrigin>,
        confirmed: Lsn,
        generation: Option<u64>,
    ) -> Self {
        Self {
            origin,
            confirmed,
            generation,
            others_streamed: false,
            gap_accepted: false,
        }
    }

    /// Of everything before it Kafka has all, on this server as it is.
    pub(super) fn own_position(&self, here: &StreamOrigin) -> Lsn {
        match self.origin.as_ref() == Some(here) && !self.others_streamed {
            true => self.confirmed,
            false => Lsn::ZERO,
        }
    }

    /// What stands there and is not ours was written by somebody who streamed. Its position says less:
    /// another one may have begun before it, and ours may stand behind it after a restart of the server.
    pub(super) fn journal(&mut self, entry: &Entry) {
        let is_elsewhere = self.origin.as_ref().is_some_and(|ours| {
            (ours.system_id.as_str(), ours.timeline) != (entry.system_id.as_str(), entry.timeline)
        });
        let is_later = match self.generation {
            Some(ours) => entry.generation > ours,
            None => entry.confirmed_lsn > self.confirmed,
        };
        self.others_streamed |= is_elsewhere || is_later;
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
        Noticed::new(Some(origin("77", 2)), Lsn::new(200), Some(5))
    }

    #[test]
    fn a_position_in_the_journal_that_is_not_ours_is_somebody_elses_stream() {
        let entry = |system_id, timeline, generation, confirmed| {
            let server = Server {
                system_id,
                timeline,
                database: "shop",
                slot: "outbox",
                written: Lsn::new(400),
                left_at: None,
            };
            Entry::first(generation, &server, Lsn::new(10)).at(Lsn::new(confirmed), 0)
        };
        for (entry, others) in [
            (entry("77", 2, 5, 200), false),
            // Ours has not arrived.
            (entry("77", 2, 4, 150), false),
            // Our own position after a restart of the server.
            (entry("77", 2, 5, 201), false),
            // From the slot's position, which was set back.
            (entry("77", 2, 6, 200), true),
            (entry("77", 3, 5, 150), true),
            (entry("88", 2, 5, 150), true),
        ] {
            let mut noticed = noticed();
            noticed.journal(&entry);
            assert_eq!(noticed.others_streamed, others, "{entry:?}");
        }
        // In flight is then what a snapshot has left, which begins anew.
        let mut first = Noticed::new(None, Lsn::ZERO, None);
        first.journal(&entry("77", 2, 1, 1));
        assert!(first.others_streamed);
    }

    #[test]
    fn our_own_position_counts_where_nobody_else_has_streamed_since() {
        let here = origin("77", 2);
        let mut noticed = noticed();
        assert_eq!(noticed.own_position(&here), Lsn::new(200));
        let restarted = StreamOrigin {
            started: "tomorrow".to_owned(),
            ..here.clone()
        };
        assert_eq!(noticed.own_position(&restarted), Lsn::ZERO);
        noticed.others_streamed = true;
        assert_eq!(noticed.own_position(&here), Lsn::ZERO);
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
