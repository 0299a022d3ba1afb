//! What the journal claims of a slot that somebody drops or advances by hand.

use super::{Entry, Gap, Knowledge, Server, judge};
use crate::lsn::Lsn;

/// The journal's word on the slot as it stands on this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// On the server's timeline.
    entry: Entry,
    /// After a failover: where the server was left behind, and how far Kafka is.
    ahead: Option<(Lsn, Lsn)>,
}

impl Claim {
    /// `None` where the journal has none. An error says that the entry is of another server or slot:
    /// what is done here is nothing that it may be told. `stands` is where the slot is.
    pub fn of(
        entry: Option<&Entry>,
        server: &Server<'_>,
        stands: Lsn,
    ) -> Result<Option<Self>, Gap> {
        let ahead = match judge(entry, server, Some(stands)) {
            Ok(Knowledge::None | Knowledge::Dropped) => return Ok(None),
            Ok(Knowledge::Known { .. }) => None,
            Ok(Knowledge::Ahead { left_at, confirmed }) => Some((left_at, confirmed)),
            // Who moved it does not matter to whoever gives up what lies between, which is shown.
            Err(Gap::Moved { .. } | Gap::Missing { .. }) => None,
            Err(gap) => return Err(gap),
        };
        Ok(entry.map(|entry| Self {
            entry: moved_to(entry, server),
            ahead,
        }))
    }

    /// Everything before it is in Kafka and in this server's history.
    pub const fn shared(&self) -> Lsn {
        self.entry.confirmed_lsn
    }

    /// From where to where Kafka has events that this server, promoted since, does not have.
    pub const fn ahead(&self) -> Option<(Lsn, Lsn)> {
        self.ahead
    }

    /// To be written before the slot is dropped: until it is seen to be gone the claim stays.
    pub fn dropping(&self) -> Entry {
        self.entry.dropping(self.entry.confirmed_lsn)
    }

    /// To be written behind it.
    pub fn dropped(&self) -> Entry {
        self.dropping().dropped()
    }

    /// To be written once the slot stands at `stands`, where the journal does not cover that.
    pub fn advanced(&self, stands: Lsn) -> Option<Entry> {
        let entry = self.entry.taken_over();
        (stands > self.shared()).then(|| entry.on_timeline(entry.timeline, stands))
    }
}

/// An entry of an earlier timeline loses to those of later ones, and says nothing of a slot that is
/// gone from here.
fn moved_to(entry: &Entry, server: &Server<'_>) -> Entry {
    match server.left_at {
        Some(left_at) if entry.timeline != server.timeline => {
            entry.on_timeline(server.timeline, entry.confirmed_lsn.min(left_at))
        }
        _ => entry.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(timeline: u32, left_at: Option<u64>) -> Server<'static> {
        Server {
            system_id: "77",
            timeline,
            database: "shop",
            slot: "outbox",
            written: Lsn::new(400),
            left_at: left_at.map(Lsn::new),
        }
    }

    fn entry(timeline: u32, confirmed: u64) -> Entry {
        Entry::first(1, &server(timeline, None), Lsn::new(10)).at(Lsn::new(confirmed), 0)
    }

    fn claim(entry: &Entry, server: &Server<'_>, stands: u64) -> Claim {
        let claim = Claim::of(Some(entry), server, Lsn::new(stands));
        claim.unwrap().unwrap()
    }

    #[test]
    fn a_server_that_was_left_behind_may_not_tell_the_journal_anything() {
        let streaming_elsewhere = entry(2, 200);
        let old_primary = Claim::of(Some(&streaming_elsewhere), &server(1, None), Lsn::new(90));
        assert_eq!(
            old_primary,
            Err(Gap::OtherHistory {
                known: 2,
                found: 1,
                confirmed: Lsn::new(200)
            })
        );
        let disk_of_yesterday = Server {
            written: Lsn::new(150),
            ..server(2, None)
        };
        let rewound = Claim::of(Some(&streaming_elsewhere), &disk_of_yesterday, Lsn::new(90));
        assert!(matches!(rewound, Err(Gap::Rewound { .. })), "{rewound:?}");
    }

    #[test]
    fn after_a_failover_the_end_is_written_on_the_new_timeline_at_the_shared_position() {
        let known = entry(1, 200);
        let promoted = server(2, Some(180));
        let claim = claim(&known, &promoted, 150);
        assert_eq!(claim.shared(), Lsn::new(180));
        assert_eq!(claim.ahead(), Some((Lsn::new(180), Lsn::new(200))));
        let dropping = known.on_timeline(2, Lsn::new(180)).dropping(Lsn::new(180));
        assert_eq!(claim.dropping(), dropping);
        assert_eq!(claim.dropped(), dropping.dropped());
        // Cut off between the two: the next start sees that the slot is gone, or compares it.
        let next = server(2, None);
        assert_eq!(judge(Some(&dropping), &next, None), Ok(Knowledge::Dropped));
        let there = judge(Some(&dropping), &next, Some(Lsn::new(150)));
        let repeats_from = Some(Lsn::new(150));
        assert_eq!(there, Ok(Knowledge::Known { repeats_from }));
        let moved = judge(Some(&dropping), &next, Some(Lsn::new(190)));
        assert!(matches!(moved, Err(Gap::Moved { .. })), "{moved:?}");
    }

    #[test]
    fn a_move_is_written_where_the_journal_does_not_cover_it() {
        let known = entry(2, 200);
        let here = claim(&known, &server(2, None), 100);
        assert_eq!(here.advanced(Lsn::new(200)), None);
        let to = Lsn::new(300);
        assert_eq!(here.advanced(to), Some(known.taken_over().at(to, 0)));
        // Of a slot that was to be dropped and is there: it outranks the mark of the end.
        let kept = claim(&known.dropping(Lsn::new(200)), &server(2, None), 100);
        let advanced = kept.advanced(to).unwrap();
        assert_eq!(advanced.clone().newest(kept.dropped()), advanced);
        // The slot stood beyond: what it had skipped is given up with the rest.
        let moved = claim(&known, &server(2, None), 250);
        assert_eq!(moved.shared(), Lsn::new(200));
        assert_eq!(moved.advanced(to), Some(known.taken_over().at(to, 0)));
    }

    #[test]
    fn an_entry_of_a_slot_that_is_gone_claims_nothing() {
        let gone = entry(2, 200).dropping(Lsn::new(200)).dropped();
        for entry in [None, Some(&gone)] {
            assert_eq!(Claim::of(entry, &server(1, None), Lsn::new(5)), Ok(None));
        }
    }
}
