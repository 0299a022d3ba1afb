//! Which history a position belongs to.

use super::housekeeping::REST_AFTER_UNSEEN;
use super::{Relay, RelayError};
use crate::connect::{Passed, Whose};
use crate::journal::Server;
use crate::lsn::Lsn;
use crate::pipeline::PipelineError;

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
    /// The same server by its name; what its disk was meanwhile is to be shown.
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
    /// A position of ours counts before the slot's only where both are of one history. After a restart
    /// the disk may be an older one that was written to since, on another server, another timeline or
    /// with a new slot a position of ours says nothing: it would skip what was never sent. Behind another
    /// instance, which may have begun before it and not come as far, it would leave the last copies out of
    /// order. `written` is where a primary writes.
    pub(super) fn follow(&mut self, origin: StreamOrigin, is_new: bool, written: Option<Lsn>) {
        let others_streamed = std::mem::take(&mut self.others_streamed);
        let pipeline = &mut self.outbound.pipeline;
        let earlier = self.origin.as_ref().filter(|_| !is_new);
        match earlier.map_or(Continuity::Other, |earlier| origin.after(earlier)) {
            Continuity::Same | Continuity::Restarted if others_streamed => {
                tracing::info!(
                    "another instance has streamed since: streaming from the slot's own position"
                );
                pipeline.forget_position();
            }
            Continuity::Same => {}
            Continuity::Restarted => {
                if let Some(last) = pipeline.server_restarted(written) {
                    tracing::warn!(
                        last_lsn = %last, written_lsn = written.map(tracing::field::display),
                        "PostgreSQL was restarted and writes before what was confirmed last: streaming from the slot's own position"
                    );
                }
            }
            Continuity::Other => {
                if let Some(known) = &self.origin {
                    tracing::warn!(
                        known_system = known.system_id,
                        known_timeline = known.timeline,
                        system = origin.system_id,
                        timeline = origin.timeline,
                        new_slot = is_new,
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

    /// The stream did not have the connector's place: from now on it begins at the slot's.
    pub(super) fn give_up_search(&mut self, error: &RelayError) {
        let is_search = matches!(
            error,
            RelayError::Pipeline(PipelineError::ConnectorOffset { .. })
        );
        if is_search {
            self.handover = None;
        }
    }

    pub(super) fn tell_passed(&mut self) {
        let Some(Passed {
            whose,
            rows,
            commit_lsn,
        }) = self.outbound.pipeline.take_passed()
        else {
            return;
        };
        match whose {
            Whose::Connector => tracing::info!(
                rows, %commit_lsn,
                "what Kafka Connect had delivered was passed over: publishing what follows"
            ),
            Whose::Relay => tracing::info!(
                rows, %commit_lsn,
                "what was confirmed before the server was restarted was passed over: publishing what follows"
            ),
        }
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
