//! Retained rows are deleted when their time is over, by the instance that streams, and only what was
//! certainly delivered: what a look has found is deleted once the stream has confirmed everything that was
//! committed before the look, and the publication was seen to send it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio_postgres::Client;

use super::backoff::Backoff;
use super::partitions::Partitions;
use super::watching::Watch;
use super::{REPEAT_INTERVAL, Relay, RelayError, Sink, View};
use crate::lsn::Lsn;
use crate::observe::{Repeated, State};
use crate::postgres::housekeeping::{self, Deletion, ExpiredRows};
use crate::postgres::table::OutboxTable;
use crate::postgres::watched::SeenPartition;
use crate::postgres::{self, ObjectError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// A row is kept at least so long after the time that its column has.
    pub retain: Duration,
    pub column: String,
    /// Of one transaction.
    pub batch_rows: u32,
    /// Between two looks, where there was not more to do than one batch.
    pub interval: Duration,
}

/// While there is more to do.
const PAUSE: Duration = Duration::from_millis(200);
/// After a failure: the first pause, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// The stream that runs, as the loop tells it. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Streaming(watch::Sender<Now>);

#[derive(Debug, Default)]
struct Now {
    stand: Option<Stand>,
    /// There is to be none any more.
    rests: bool,
    partitions: Partitions,
}

/// Where the stream stands.
#[derive(Clone, Debug)]
struct Stand {
    from: Arc<From>,
    /// Acknowledged by Kafka, and told to the server.
    confirmed: Lsn,
    /// What was committed before it was published by the publication, by the last look.
    seen_published: Lsn,
}

impl Stand {
    fn is_beyond(&self, lsn: Lsn) -> bool {
        self.confirmed.min(self.seen_published) >= lsn
    }
}

/// What a stream reads, and where: another one is another value.
#[derive(Debug)]
struct From {
    server: postgres::Options,
    tables: Vec<OutboxTable>,
}

impl Streaming {
    pub(super) fn begin(&self, server: postgres::Options, tables: Vec<OutboxTable>) {
        self.0.send_modify(|now| {
            now.partitions.begin(&tables);
            let from = Arc::new(From { server, tables });
            let stand = Stand {
                from,
                confirmed: Lsn::ZERO,
                seen_published: Lsn::ZERO,
            };
            now.stand = Some(stand).filter(|_| !now.rests);
        });
    }

    pub(super) fn confirm(&self, lsn: Lsn) {
        self.0.send_if_modified(|now| match &mut now.stand {
            Some(stand) if stand.confirmed != lsn => {
                stand.confirmed = lsn;
                true
            }
            _ => false,
        });
    }

    pub(super) fn seen_published(&self, lsn: Lsn) {
        self.0.send_modify(|now| {
            if let Some(stand) = &mut now.stand {
                stand.seen_published = lsn;
            }
        });
    }

    /// Before the look counts as one: rows of the partitions that are returned stay from now on.
    pub(super) fn seen_partitions(&self, seen: &[SeenPartition]) -> Vec<String> {
        let mut left_out = Vec::new();
        self.0
            .send_modify(|now| left_out = now.partitions.look(seen));
        left_out
    }

    pub(super) fn end(&self) {
        self.0.send_modify(|now| now.stand = None);
    }

    pub(super) fn rests(&self) -> bool {
        self.0.borrow().rests
    }

    /// For the rest of the process, whichever streams it has. False where it does already.
    pub(super) fn rest(&self) -> bool {
        self.0.send_if_modified(|now| {
            now.stand = None;
            !std::mem::replace(&mut now.rests, true)
        })
    }
}

/// What of the options this run follows: of what somebody has only seen nothing is deleted.
pub(super) fn begin(options: &super::Options, sink: &Sink, view: &View) -> Option<Options> {
    let wanted = options.housekeeping.clone()?;
    let rests = !sink.publishes();
    view.metrics.housekeeping_wanted.set(1);
    view.status
        .change_housekeeping(|housekeeping| housekeeping.rests = rests);
    if rests {
        tracing::warn!(
            "housekeeping rests: housekeeping.retain is set, and this run does not publish to Kafka"
        );
    }
    Some(wanted).filter(|_| !rests)
}

/// Until it is aborted. What fails is told, and tried again later.
pub(super) async fn run(options: Option<Options>, streaming: Streaming, watch: Watch, view: View) {
    let Some(options) = options else {
        return;
    };
    let mut keeper = Keeper {
        options,
        stands: streaming.0.subscribe(),
        watch,
        view,
        client: None,
    };
    let mut backoff = Backoff::new(BACKOFF.0, BACKOFF.1);
    let mut repeated = Repeated::new(REPEAT_INTERVAL);
    loop {
        let Some(from) = keeper.stream().await else {
            return;
        };
        let (is_more, failure) = match keeper.round(&from).await {
            Ok(round) => (round.is_more, round.kept.map(RelayError::from)),
            Err(error) => (false, Some(error)),
        };
        keeper.view.status.change_housekeeping(|shown| {
            shown.error = failure.as_ref().map(RelayError::problem);
        });
        let has_failed = failure.is_some();
        match failure {
            None => {
                backoff.reset();
                if repeated.recovered() {
                    tracing::info!("recovered: housekeeping goes on");
                }
            }
            Some(error) => {
                keeper.view.metrics.housekeeping_failures.inc();
                let now = std::time::Instant::now();
                if let Some(unsaid) = repeated.say(&error.kind(), now) {
                    let problem = error.problem();
                    tracing::warn!(
                        detail = problem.detail.as_deref(),
                        hint = problem.hint.as_deref(),
                        repeated = unsaid,
                        "housekeeping failed, and is tried again: {}",
                        problem.message
                    );
                }
            }
        }
        let pause = match (is_more, has_failed) {
            (true, _) => PAUSE,
            (false, true) => backoff.pause(),
            (false, false) => keeper.options.interval,
        };
        tokio::time::sleep(pause).await;
    }
}

/// What one batch of each table has come to.
#[derive(Debug, Default)]
struct Round {
    /// Deleted was as much as is found at once.
    is_more: bool,
    kept: Option<ObjectError>,
}

struct Keeper {
    options: Options,
    stands: watch::Receiver<Now>,
    watch: Watch,
    view: View,
    /// With the server of a stream.
    client: Option<(Arc<From>, Client)>,
}

impl Keeper {
    /// The one that runs, or the next one. `None` when there will be none.
    async fn stream(&mut self) -> Option<Arc<From>> {
        let now = self.stands.wait_for(|now| now.stand.is_some()).await.ok()?;
        now.stand.as_ref().map(|stand| Arc::clone(&stand.from))
    }

    /// One batch of each table. After an error the session is given up.
    async fn round(&mut self, from: &Arc<From>) -> Result<Round, RelayError> {
        let client = match self.client.take() {
            Some((of, client)) if Arc::ptr_eq(&of, from) => client,
            _ => postgres::connect(&from.server).await?,
        };
        let mut round = Round::default();
        let (mut is_done, mut kept) = (true, 0);
        let column = &self.options.column.clone();
        for table in &from.tables {
            let (retain, limit) = (self.options.retain, self.options.batch_rows);
            let sound = self.sound(table);
            let found = housekeeping::expired(&client, &sound, column, retain, limit).await?;
            if found.is_empty() {
                continue;
            }
            tracing::debug!(
                table = table.qualified_name(), rows = found.len(), until_lsn = %found.committed_before,
                "rows whose time is over wait for their confirmation"
            );
            if !self.is_confirmed(from, found.committed_before).await {
                // They are found again under the next stream.
                return Ok(round);
            }
            let sound = self.sound(table);
            let deletion = housekeeping::delete(&client, &sound, column, retain, &found).await?;
            self.view.metrics.housekeeping_rows.inc_by(deletion.deleted);
            kept += deletion.kept;
            let is_full = u32::try_from(found.len()) == Ok(limit);
            is_done &= !is_full && deletion.kept == 0;
            round.is_more |= is_full && deletion.deleted > 0;
            round.kept = round.kept.or(kept_of(table, &found, deletion));
        }
        let shown = &self.view.metrics.housekeeping_rows_kept;
        shown.set(i64::try_from(kept).unwrap_or(i64::MAX));
        if is_done {
            self.complete();
        }
        self.client = Some((Arc::clone(from), client));
        Ok(round)
    }

    /// Without the partitions that may have come with rows that no stream had.
    fn sound(&self, table: &OutboxTable) -> OutboxTable {
        self.stands.borrow().partitions.of(table)
    }

    fn complete(&self) {
        let now = SystemTime::now();
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH);
        let completed = &self.view.metrics.housekeeping_completed_timestamp_seconds;
        completed.set(seconds.unwrap_or_default().as_secs_f64());
        self.view
            .status
            .change_housekeeping(|shown| shown.completed_at = Some(now));
    }

    /// Waits until this very stream has confirmed everything before `lsn`, and a look behind it has
    /// found nothing that hides rows. False where it ended, or something is in its way.
    async fn is_confirmed(&mut self, from: &Arc<From>, lsn: Lsn) -> bool {
        self.watch.look_now();
        let now = self.stands.wait_for(|now| match &now.stand {
            Some(stand) if Arc::ptr_eq(&stand.from, from) => stand.is_beyond(lsn),
            _ => true,
        });
        let is_there = match now.await {
            Ok(now) => matches!(&now.stand, Some(stand) if Arc::ptr_eq(&stand.from, from)),
            Err(_) => false,
        };
        is_there && self.view.status.state() == State::Streaming
    }
}

fn kept_of(table: &OutboxTable, found: &ExpiredRows, deletion: Deletion) -> Option<ObjectError> {
    (deletion.kept > 0).then(|| ObjectError::ExpiredRowsKept {
        table: table.qualified_name(),
        kept: deletion.kept,
        found: found.len() as u64,
    })
}

pub(super) const REST_AFTER_UNSEEN: &str = "Publish what is missing: outboxd snapshot, or a start with snapshot.mode = always. Housekeeping goes on with the next start.";
pub(super) const REST_AFTER_GAP: &str = "A gap was accepted. A start with snapshot.mode = always publishes what is in the table, and housekeeping goes on; where nothing of it is missing in Kafka, or outboxd snapshot has published it, a start with --accept-gap ends the rest.";

impl Relay {
    /// Rows may be in the table of which Kafka knows nothing, and which no stream will have: until the
    /// end of this process none is deleted.
    pub(super) fn rest_housekeeping(&self, hint: &str) {
        if self.streaming.rest() && self.housekeeping.is_some() {
            let status = &self.view.status;
            status.change_housekeeping(|housekeeping| housekeeping.rests = true);
            tracing::warn!(
                hint,
                "housekeeping rests: rows in the table may not have been published"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Metrics, Status};
    use futures_util::FutureExt;

    fn server() -> postgres::Options {
        postgres::Options {
            hosts: Vec::new(),
            user: String::new(),
            password: None,
            database: String::new(),
            ssl_mode: postgres::SslMode::Disable,
            ssl_root_cert: None,
            ssl_cert: None,
            ssl_key: None,
            ssl_key_password: None,
            target_session_attrs: postgres::TargetSessionAttrs::Any,
            application_name: String::new(),
            connect_timeout: Duration::ZERO,
            wal_sender_timeout: Duration::ZERO,
            sessions: postgres::Sessions::default(),
        }
    }

    fn keeper(streaming: &Streaming) -> Keeper {
        let status = Status::new("n", "s", "p", SystemTime::UNIX_EPOCH);
        Keeper {
            options: Options {
                retain: Duration::ZERO,
                column: String::new(),
                batch_rows: 1,
                interval: Duration::ZERO,
            },
            stands: streaming.0.subscribe(),
            watch: Watch::default(),
            view: View::new(Metrics::new().unwrap(), status),
            client: None,
        }
    }

    async fn in_a_stream() -> (Streaming, Keeper, Arc<From>) {
        let streaming = Streaming::default();
        streaming.begin(server(), Vec::new());
        let mut keeper = keeper(&streaming);
        keeper.view.set_state(State::Streaming);
        let from = keeper.stream().await.unwrap();
        (streaming, keeper, from)
    }

    #[tokio::test]
    async fn what_was_found_waits_until_the_same_stream_has_confirmed_it() {
        let (streaming, mut keeper, from) = in_a_stream().await;
        streaming.confirm(Lsn::new(9));
        let waiting = keeper.is_confirmed(&from, Lsn::new(10));
        let mut waiting = std::pin::pin!(waiting);
        assert_eq!(waiting.as_mut().now_or_never(), None);
        streaming.confirm(Lsn::new(10));
        // Confirmed is also what the publication kept from the stream.
        assert_eq!(waiting.as_mut().now_or_never(), None);
        streaming.seen_published(Lsn::new(9));
        assert_eq!(waiting.as_mut().now_or_never(), None);
        streaming.seen_published(Lsn::new(10));
        assert!(waiting.await);
    }

    #[tokio::test]
    async fn once_rows_may_have_passed_by_unseen_nothing_is_deleted_under_any_stream() {
        let (streaming, mut keeper, from) = in_a_stream().await;
        streaming.confirm(Lsn::new(10));
        streaming.seen_published(Lsn::new(10));
        assert!(keeper.is_confirmed(&from, Lsn::new(10)).await);
        assert!(!streaming.rests());
        assert!(streaming.rest());
        assert!(!streaming.rest(), "it is told once");
        assert!(streaming.rests());
        streaming.seen_published(Lsn::new(20));
        assert!(!keeper.is_confirmed(&from, Lsn::new(10)).await);
        streaming.end();
        streaming.begin(server(), Vec::new());
        assert!(keeper.stream().now_or_never().is_none());
    }

    #[tokio::test]
    async fn another_stream_or_an_obstacle_gives_up_what_was_found() {
        let (streaming, mut keeper, from) = in_a_stream().await;
        streaming.confirm(Lsn::new(10));
        streaming.seen_published(Lsn::new(10));
        keeper.view.set_state(State::Blocked);
        assert!(!keeper.is_confirmed(&from, Lsn::new(10)).await);
        keeper.view.set_state(State::Streaming);
        streaming.end();
        assert!(!keeper.is_confirmed(&from, Lsn::new(10)).await);
        streaming.begin(server(), Vec::new());
        streaming.confirm(Lsn::new(10));
        streaming.seen_published(Lsn::new(10));
        assert!(!keeper.is_confirmed(&from, Lsn::new(10)).await);
    }
}
