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
use crate::postgres::housekeeping::{self, Versions};
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

/// Of one pass over the tables, and some are stepped past: the server gets the list with each look.
const MOST_KEPT: usize = 10_000;
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
        pass: Pass::default(),
        client: None,
    };
    let mut backoff = Backoff::new(BACKOFF.0, BACKOFF.1);
    let mut repeated = Repeated::new(REPEAT_INTERVAL);
    loop {
        let Some(from) = keeper.stream().await else {
            return;
        };
        let failure = match keeper.round(&from).await {
            Ok(Round::More) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Ok(Round::Done(kept)) => kept.map(RelayError::from),
            Err(error) => Some(error),
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
        let pause = match has_failed {
            true => backoff.pause(),
            false => keeper.options.interval,
        };
        tokio::time::sleep(pause).await;
    }
}

/// What one batch of each table has come to.
enum Round {
    More,
    /// The end of a pass, and what is wrong with the rows that are still there.
    Done(Option<ObjectError>),
}

/// Batch after batch, until no more is found.
#[derive(Default)]
struct Pass {
    /// Stepped past, so that those behind them are found as well.
    kept: Versions,
    /// The first table that has such rows: how many of how many.
    told: Option<(String, u64, u64)>,
}

impl Pass {
    fn add(&mut self, table: &OutboxTable, found: usize, kept: Versions) {
        let (found, stayed) = (found as u64, kept.len() as u64);
        let name = table.qualified_name();
        match &mut self.told {
            Some((told, all_kept, all_found)) if *told == name => {
                *all_kept += stayed;
                *all_found += found;
            }
            None if stayed > 0 => self.told = Some((name, stayed, found)),
            _ => {}
        }
        self.kept.append(kept);
    }

    fn is_full(&self) -> bool {
        self.kept.len() >= MOST_KEPT
    }

    fn problem(self) -> Option<ObjectError> {
        let (table, kept, found) = self.told?;
        Some(ObjectError::ExpiredRowsKept { table, kept, found })
    }
}

struct Keeper {
    options: Options,
    stands: watch::Receiver<Now>,
    watch: Watch,
    view: View,
    /// The one that goes on.
    pass: Pass,
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
        // An error ends the pass.
        let mut pass = std::mem::take(&mut self.pass);
        let (mut is_more, mut is_done) = (false, true);
        let column = &self.options.column.clone();
        for table in &from.tables {
            let (retain, limit) = (self.options.retain, self.options.batch_rows);
            let sound = self.sound(table);
            let expired = housekeeping::expired(&client, &sound, column, retain, limit, &pass.kept);
            let expired = expired.await?;
            let found = expired.versions;
            if found.is_empty() {
                continue;
            }
            tracing::debug!(
                table = table.qualified_name(), rows = found.len(), until_lsn = %expired.committed_before,
                "rows whose time is over wait for their confirmation"
            );
            if !self.is_confirmed(from, expired.committed_before).await {
                // They are found again under the next stream.
                return Ok(Round::Done(None));
            }
            let sound = self.sound(table);
            let deletion = housekeeping::delete(&client, &sound, column, retain, &found).await?;
            self.view.metrics.housekeeping_rows.inc_by(deletion.deleted);
            let is_full = u32::try_from(found.len()) == Ok(limit);
            is_done &= !is_full;
            // Where neither is so, others are at work on the same rows.
            is_more |= is_full && (deletion.deleted > 0 || !deletion.kept.is_empty());
            pass.add(table, found.len(), deletion.kept);
        }
        self.client = Some((Arc::clone(from), client));
        if is_more && !pass.is_full() {
            self.pass = pass;
            return Ok(Round::More);
        }
        let shown = &self.view.metrics.housekeeping_rows_kept;
        shown.set(i64::try_from(pass.kept.len()).unwrap_or(i64::MAX));
        if is_done && pass.kept.is_empty() {
            self.complete();
        }
        Ok(Round::Done(pass.problem()))
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
    use crate::postgres::housekeeping::tests::{outbox, versions};
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
            pass: Pass::default(),
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

    #[test]
    fn rows_that_stay_are_told_once_at_the_end_of_the_pass() {
        let table = outbox(1184);
        let mut pass = Pass::default();
        pass.add(&table, 3, versions(0));
        assert!(pass.told.is_none());
        pass.add(&table, 1_000, versions(2));
        pass.add(&table, 10, versions(1));
        let of_another = OutboxTable {
            name: "other".into(),
            ..outbox(1184)
        };
        pass.add(&of_another, 5, versions(5));
        assert_eq!((pass.kept.len(), pass.is_full()), (8, false));
        let told = pass.problem().unwrap();
        assert_eq!(
            told.detail().unwrap(),
            "3 of 1010. The server reported no error."
        );
        let mut pass = Pass::default();
        pass.add(&table, 10_000, versions(10_000));
        assert!(pass.is_full());
        assert!(Pass::default().problem().is_none());
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
