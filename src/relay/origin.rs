//! Which history a position belongs to.

use super::Relay;
use super::housekeeping::REST_AFTER_UNSEEN;
use crate::journal::Server;
use crate::lsn::Lsn;

/// What a position belongs to: on another server or another timeline the same number is another
/// place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StreamOrigin {
    pub(super) system_id: String,
    pub(super) timeline: u32,
    /// Of the postmaster. A server that was put back to an earlier state of its disk has the same
    /// identifier and timeline, and another history.
    pub(super) started: String,
}

/// How a stream's origin compares with that of the stream before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Continuity {
    Same,
    /// The same server by its name, and nobody knows what its disk was meanwhile.
    Restarted,
    Other,
}

impl StreamOrigin {
    /// As the journal knows it.
    pub(super) fn server<'a>(&'a self, database: &'a str, slot: &'a str) -> Server<'a> {
        Server {
            system_id: &self.system_id,
            timeline: self.timeline,
            database,
            slot,
            written: Lsn::ZERO,
            left_at: None,
        }
    }

    fn after(&self, earlier: &Self) -> Continuity {
        let same = (&self.system_id, self.timeline) == (&earlier.system_id, earlier.timeline);
        match same {
            false => Continuity::Other,
            true if self.started == earlier.started => Continuity::Same,
            true => Continuity::Restarted,
        }
    }
}

impl Relay {
    /// A position of ours counts before the slot's only where both are of one history: while the
    /// postmaster that we confirmed it to lives. On another server, another timeline, with a new slot
    /// or after a restart from an older disk it would skip what was never sent. What a crash has made
    /// the server forget comes again.
    pub(super) fn follow(&mut self, origin: StreamOrigin, confirmed: Lsn, is_new: bool) {
        let pipeline = &mut self.outbound.pipeline;
        let earlier = self.origin.as_ref().filter(|_| !is_new);
        match earlier.map_or(Continuity::Other, |earlier| origin.after(earlier)) {
            Continuity::Same => {}
            Continuity::Restarted => {
                let ours = pipeline.confirmed();
                if confirmed < ours {
                    tracing::info!(
                        lsn = %confirmed, confirmed_lsn = %ours,
                        "PostgreSQL was restarted and its slot stands before what was confirmed: events from there on come again"
                    );
                }
                pipeline.forget_position();
            }
            Continuity::Other => {
                if let Some(known) = &self.origin {
                    tracing::warn!(
                        known_system = known.system_id, known_timeline = known.timeline,
                        system = origin.system_id, timeline = origin.timeline,
                        new_slot = is_new, lsn = %confirmed,
                        "another server, timeline or slot than before: streaming from the slot's own position"
                    );
                }
                pipeline.forget_position();
                if self.unseen.forget() {
                    self.rest_housekeeping(REST_AFTER_UNSEEN);
                }
            }
        }
        self.origin = Some(origin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_of_ours_counts_only_while_the_same_postmaster_lives() {
        let origin = |system: &str, timeline, started: &str| StreamOrigin {
            system_id: system.into(),
            timeline,
            started: started.into(),
        };
        let known = origin("77", 2, "1796000000.000001");
        let after = |found: StreamOrigin| found.after(&known);
        assert_eq!(after(known.clone()), Continuity::Same);
        let restarted = origin("77", 2, "1796000000.000002");
        assert_eq!(after(restarted), Continuity::Restarted);
        for other in [
            origin("77", 3, "1796000000.000001"),
            origin("78", 2, "1796000000.000001"),
        ] {
            assert_eq!(after(other), Continuity::Other);
        }
    }
}
