//! From nothing to a session that may stream: connect, take the lead, look at the source, make what
//! is missing.

use std::time::Duration;

use super::{RelayError, View};
use crate::config::Config;
use crate::lsn::Lsn;
use crate::observe::{Problem, State};
use crate::postgres::snapshot::SnapshotMode;
use crate::postgres::{
    self, PostgresError, ReplicationSession, Snapshot, SourceError, SourceProblem, Table,
};
use crate::wire::alter_slot_failover;

/// A session that holds the lead, and what is to be done with it.
pub(super) struct Opened {
    pub(super) session: ReplicationSession,
    pub(super) tables: Vec<Table>,
    pub(super) plan: Plan,
}

pub(super) enum Plan {
    /// Stream from the slot, which stands at this position.
    Stream { confirmed: Lsn },
    /// Publish the retained rows first.
    Snapshot(Snapshot),
}

pub(super) async fn open(config: &Config, view: &View) -> Result<Opened, RelayError> {
    let mut session = postgres::connect_replication(&config.postgres).await?;
    session.prepare(config.postgres.wal_sender_timeout).await?;
    take_lead(&mut session, config, view).await?;
    let client = postgres::connect(&config.postgres).await?;
    let tables = postgres::find_tables(&client, &config.tables).await?;
    let name = config.slot.name.as_str();
    let slot = postgres::find_slot(&client, name).await?;
    // An existing slot reads with the publication that it was made after: the publication comes
    // first in any case.
    postgres::ensure_publication(&client, &config.publication, &tables).await?;
    let plan = match slot {
        Some(slot) => {
            let confirmed = slot.check(name, &config.postgres.database)?;
            tracing::info!(slot = name, lsn = %confirmed, retained_bytes = slot.retained_bytes, "slot found");
            Plan::Stream { confirmed }
        }
        None if config.snapshot.mode == SnapshotMode::NoData => {
            let confirmed = postgres::create_slot(&client, &config.slot).await?;
            tracing::info!(slot = name, lsn = %confirmed, "slot created without a snapshot");
            set_failover(&mut session, config).await?;
            Plan::Stream { confirmed }
        }
        None => {
            let snapshot =
                Snapshot::begin(&mut session, client, &config.slot, tables.clone()).await?;
            let rows = snapshot.count_rows().await?;
            tracing::info!(
                slot = name, rows, lsn = %snapshot.consistent_point(),
                "new slot: publishing the rows that are in the table"
            );
            Plan::Snapshot(snapshot)
        }
    };
    Ok(Opened {
        session,
        tables,
        plan,
    })
}

/// Lock and stream end together, because both belong to this connection: no instance can hold one
/// without the other, and a waiting one is woken by the server.
async fn take_lead(
    session: &mut ReplicationSession,
    config: &Config,
    view: &View,
) -> Result<(), RelayError> {
    let key = config.slot.name.advisory_key();
    if session.try_lock(key).await? {
        return Ok(());
    }
    view.set_state(State::Standby);
    let waiting = CancelOnDrop(Some(session.canceller()));
    session.lock(key).await?;
    waiting.disarm();
    view.metrics.takeovers.inc();
    tracing::info!("another instance gave the lead free: taking over");
    view.set_state(State::Starting);
    Ok(())
}

/// A backend that waits for a lock does not see that its client is gone. Without this, a standby
/// that is stopped would get the lead later and hold it until the server notices.
struct CancelOnDrop(Option<postgres::Canceller>);

impl CancelOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(canceller) = self.0.take() else {
            return;
        };
        tokio::spawn(async move {
            let cancelled = tokio::time::timeout(Duration::from_secs(2), canceller.cancel()).await;
            tracing::debug!(?cancelled, "the wait for the lead was cancelled");
        });
    }
}

pub(super) async fn set_failover(
    session: &mut ReplicationSession,
    config: &Config,
) -> Result<(), PostgresError> {
    if config.slot.failover {
        session
            .query(&alter_slot_failover(config.slot.name.as_str()))
            .await?;
    }
    Ok(())
}

impl From<SourceError> for RelayError {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Postgres(error) => Self::Postgres(error),
            SourceError::Problem(problem) => Self::Source(problem.into()),
            SourceError::Lost(problem) => Self::Lost {
                problem: problem.into(),
                confirmed: Lsn::ZERO,
            },
        }
    }
}

impl From<SourceProblem> for Problem {
    fn from(problem: SourceProblem) -> Self {
        Self {
            message: problem.message,
            detail: problem.detail,
            hint: problem.hint,
        }
    }
}
