//! Publishing the retained rows, under the window like everything else.

use std::sync::Arc;
use std::time::SystemTime;

use super::{Interrupted, Relay, RelayError, opening, shutdown};
use crate::lsn::Lsn;
use crate::observe::State;
use crate::postgres::{ReplicationSession, Snapshot};
use crate::timestamp::Timestamp;

impl Relay {
    /// Publishes every row, waits until Kafka has all of them, then makes the permanent slot.
    pub(super) async fn publish_snapshot(
        &mut self,
        mut session: ReplicationSession,
        snapshot: Snapshot,
    ) -> Result<(ReplicationSession, Lsn), Interrupted> {
        self.view.set_state(State::Snapshotting);
        let consistent_point = snapshot.consistent_point();
        let taken_at = Timestamp::from(SystemTime::now());
        let mut published: u64 = 0;
        for table in snapshot.tables() {
            let mut rows = snapshot.rows(table).await.map_err(RelayError::from)?;
            let relation = Arc::clone(&table.relation);
            loop {
                self.wait_for_room().await?;
                let pipeline = &mut self.outbound.pipeline;
                let taken = rows.next(|row| {
                    pipeline.handle_snapshot_row(&relation, row, consistent_point, taken_at)
                });
                // Rows come from the server's snapshot at its pace; deliveries are looked at
                // whenever the window fills.
                match taken.await.map_err(RelayError::from)? {
                    None => break,
                    Some(routed) => routed.map_err(RelayError::Pipeline)?,
                }
                self.outbound.send();
                published += 1;
                if published.is_multiple_of(SHOW_EVERY) {
                    self.show();
                    tracing::info!(rows = published, "snapshot goes on");
                }
            }
        }
        self.drain_window().await?;
        let finish = snapshot.finish(&mut session, &self.config.slot);
        let confirmed = finish.await.map_err(RelayError::from)?;
        opening::set_failover(&mut session, &self.config)
            .await
            .map_err(RelayError::from)?;
        tracing::info!(rows = published, lsn = %confirmed, "snapshot complete: slot created");
        Ok((session, confirmed))
    }

    async fn wait_for_room(&mut self) -> Result<(), Interrupted> {
        if *self.stop.borrow() {
            return Err(Interrupted::Stop);
        }
        while !self.outbound.can_accept() {
            tokio::select! {
                biased;
                () = shutdown::requested(&mut self.stop) => return Err(Interrupted::Stop),
                turn = self.outbound.turn() => turn?,
            }
        }
        Ok(())
    }
}

const SHOW_EVERY: u64 = 100_000;
