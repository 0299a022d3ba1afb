//! Publishing the retained rows, under the window like everything else.

use std::future::Future;

use super::kill_point::Edge;
use super::outbound::Outbound;
use super::{Interrupted, Relay, RelayError};
use crate::lsn::Lsn;
use crate::observe::State;
use crate::postgres::ReplicationSession;
use crate::postgres::snapshot::Snapshot;

const SHOW_EVERY: u64 = 100_000;

/// The lead belongs to the session, which says nothing while the rows are published: with its end
/// another instance has the lead, and what went out afterwards would overtake that one's events.
pub(super) async fn while_leading<T>(
    session: &mut ReplicationSession,
    work: impl Future<Output = Result<T, Interrupted>>,
) -> Result<T, Interrupted> {
    tokio::select! {
        biased;
        error = session.broken() => Err(RelayError::from(error).into()),
        done = work => done,
    }
}

impl Relay {
    /// Publishes every row, waits until Kafka has all of them, then makes the slot permanent.
    /// Returns where the stream begins.
    pub(super) async fn publish_snapshot(
        &mut self,
        mut session: ReplicationSession,
        mut snapshot: Snapshot,
    ) -> Result<(ReplicationSession, Lsn), Interrupted> {
        self.view.set_state(State::Snapshotting);
        self.in_snapshot = true;
        let (consistent_point, taken_at) = (snapshot.consistent_point(), snapshot.taken_at());
        let (mut shown, mut published) = (0, 0);
        let metrics = self.view.metrics.clone();
        let expected = i64::try_from(snapshot.rows()).unwrap_or(i64::MAX);
        metrics.snapshot_rows.set(expected);
        // Rows that are held at once beside the window.
        let fetch_bytes = self.config.snapshot.fetch_bytes;
        loop {
            let fetch = self.drive(snapshot.next_rows(fetch_bytes));
            let fetched = while_leading(&mut session, fetch).await?;
            let fetched = fetched.map_err(|error| RelayError::of_snapshot(error, published));
            let Some(rows) = fetched? else {
                break;
            };
            for row in rows {
                if !self.outbound.can_accept() {
                    while_leading(&mut session, self.turn_until(Outbound::can_accept)).await?;
                }
                let (relation, tuple) = (&row.relation, row.tuple());
                self.outbound
                    .pipeline
                    .handle_snapshot_row(relation, &tuple, consistent_point, taken_at)
                    .map_err(RelayError::Pipeline)?;
                self.outbound.send();
                published += 1;
                self.kill_point.pass(Edge::SnapshotRow);
                metrics.snapshot_rows_read.inc();
            }
            if snapshot.rows_read() >= shown + SHOW_EVERY {
                shown = snapshot.rows_read();
                tracing::info!(rows = shown, of = snapshot.rows(), "snapshot goes on");
            }
        }
        while_leading(&mut session, self.drain_window()).await?;
        self.kill_point.pass(Edge::SnapshotDelivered);
        let rows = snapshot.rows_read();
        let confirmed = snapshot.finish(&mut session, &self.config.slot).await?;
        self.kill_point.pass(Edge::SnapshotSlot);
        (self.in_snapshot, self.snapshot_taken) = (false, true);
        self.gap_accepted = false;
        self.opened();
        self.recovered();
        tracing::info!(rows, lsn = %confirmed, "snapshot complete");
        Ok((session, confirmed))
    }
}
