//! The only room that sees both sides: open the source, stream, publish, confirm, and begin again
//! when something breaks.

mod appetite;
mod backoff;
mod brokers;
mod comparing;
mod describing;
mod disposition;
mod error;
mod foretelling;
mod handover;
mod health;
mod heartbeat;
mod housekeeping;
pub mod journal;
mod kill_point;
mod moved_slot;
mod noticed;
mod opening;
mod options;
mod origin;
mod outbound;
mod partitions;
mod replay;
mod server_clock;
mod settling;
mod showing;
mod shutdown;
mod snapshot;
mod standby;
mod streaming;
mod trouble;
mod view;
mod watching;

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use crate::config::Config;
use crate::lsn::Lsn;
use crate::observe::{Problem, Repeated, Role, State};
use crate::pipeline::Pipeline;
use crate::postgres::watched::Look;
use backoff::Backoff;
use comparing::Begins;
use disposition::{Disposition, disposition};
use handover::Handover;
use health::ServerEnd;
use housekeeping::{REST_AFTER_GAP, REST_AFTER_UNSEEN};
use journal::{Journal, Writer, Writing};
use kill_point::KillPoint;
use opening::{AfterSnapshot, Opened, Plan};
use origin::StreamOrigin;
use outbound::Outbound;
use snapshot::while_leading;
use watching::{Unseen, Watch};

pub use brokers::away as brokers_away;
use error::tried_again;
pub use error::{RelayError, Undelivered};
pub use foretelling::{Foretold, ForetoldOffset, ForetoldSlot};
pub use handover::{AT_SLOT, OffsetStore, Options as HandoverOptions, Useless};
pub use heartbeat::Options as HeartbeatOptions;
pub use housekeeping::Options as HousekeepingOptions;
pub use journal::Options as JournalOptions;
pub use moved_slot::{MovedSlot, SeenOffset};
pub use options::{OnBlocked, Options};
pub use outbound::Sink;
pub use replay::{Replay, Taken};
pub use shutdown::{Stop, stop_on_signals, stop_requested};
pub use standby::OnStandby;
use view::Obstacle;
pub use view::View;

/// How a relay came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Asked to stop; everything sent was acknowledged and confirmed.
    Drained,
    /// Asked to stop, and something was still outstanding: it is sent again at the next start.
    Undrained,
}

/// What one run is told beside its configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    pub until: Until,
    /// Stream although events may be missing, or the server is another one: once.
    pub accept_gap: bool,
}

/// When to end by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    #[default]
    Stopped,
    /// What was committed before the start of the stream has been confirmed.
    Current,
}

pub struct Relay {
    config: Config,
    run: RunOptions,
    view: View,
    stop: Stop,
    outbound: Outbound,
    /// The position journal's, where there is one, and its task until that runs.
    writer: Option<Writer>,
    writing: Option<Writing>,
    /// Of the stream.
    journal: Option<Journal>,
    /// Until it is settled where the connector stopped, and that this is behind us.
    handover: Option<Handover>,
    /// What the pipeline's position belongs to.
    origin: Option<StreamOrigin>,
    /// Since our last stream, as far as is known.
    others_streamed: bool,
    /// The server's process for our last session with the lead.
    last_backend: Option<i32>,
    /// A snapshot of this process is complete.
    snapshot_taken: bool,
    /// A snapshot was begun and is not complete.
    in_snapshot: bool,
    /// A gap was accepted, and no snapshot has been completed since. The journal does not tell an
    /// attempt behind it.
    gap_accepted: bool,
    show_at: tokio::time::Interval,
    backoff: Backoff,
    repeated: Repeated,
    updates_seen: u64,
    updates_said: Repeated,
    server_end: ServerEnd,
    kill_point: KillPoint,
    watch: Watch,
    /// Only of what Kafka has.
    housekeeping: Option<HousekeepingOptions>,
    streaming: housekeeping::Streaming,
    unseen: Unseen,
    /// The position that was last sent to the server.
    confirmed: Lsn,
}

/// Work that did not come to its end.
#[derive(Debug)]
pub enum Interrupted {
    /// By the request to stop.
    Stop,
    Failed(RelayError),
}

impl<E: Into<RelayError>> From<E> for Interrupted {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

const REPEAT_INTERVAL: Duration = Duration::from_secs(30);
/// How often the numbers are shown, in every state.
const SHOW_INTERVAL: Duration = Duration::from_millis(500);

impl Relay {
    /// Makes the producer; nothing is connected yet.
    pub fn new(
        config: Config,
        sink: Sink,
        run: RunOptions,
        view: View,
        stop: Stop,
    ) -> Result<Self, RelayError> {
        let options = &config.relay;
        let limits = options.window();
        let bound = i64::try_from(limits.bytes).unwrap_or(i64::MAX);
        view.metrics.in_flight_limit_bytes.set(bound);
        let bound = i64::try_from(limits.records).unwrap_or(i64::MAX);
        view.metrics.in_flight_limit_records.set(bound);
        let pipeline = Pipeline::new(config.event_router(), limits);
        let kill_point = KillPoint::from_environment();
        let (writer, writing) = match (&sink, &options.journal) {
            (Sink::Kafka(kafka), Some(journal)) => {
                let (writer, writing) = Writer::new(kafka, journal, options, view.clone());
                (Some(writer), Some(writing))
            }
            _ => (None, None),
        };
        let handover = match &sink {
            Sink::Kafka(kafka) => config.relay.handover.as_ref().and_then(|options| {
                let has_journal = config.relay.journal.is_some();
                Handover::new(kafka, options, config.slot.name.as_str(), has_journal)
            }),
            _ => None,
        };
        let housekeeping = housekeeping::begin(options, &sink, &view);
        let mut outbound = Outbound::start(pipeline, sink, options, view.clone())?;
        outbound.kill_point = kill_point.clone();
        let backoff = Backoff::new(options.backoff_min, options.backoff_max);
        let repeated = Repeated::new(REPEAT_INTERVAL);
        let updates_said = Repeated::new(REPEAT_INTERVAL);
        Ok(Self {
            config,
            run,
            view,
            stop,
            outbound,
            writer,
            writing,
            journal: None,
            handover,
            origin: None,
            others_streamed: false,
            last_backend: None,
            snapshot_taken: false,
            in_snapshot: false,
            gap_accepted: false,
            show_at: outbound::every(SHOW_INTERVAL),
            backoff,
            repeated,
            updates_seen: 0,
            updates_said,
            server_end: ServerEnd::default(),
            kill_point,
            watch: Watch::default(),
            housekeeping,
            streaming: housekeeping::Streaming::default(),
            unseen: Unseen::default(),
            confirmed: Lsn::ZERO,
        })
    }

    /// Runs until a stop is requested or nothing can be done any more.
    pub async fn run(mut self) -> Result<Ended, RelayError> {
        let (config, view) = (self.config.clone(), self.view.clone());
        let (end, watch) = (self.server_end.clone(), self.watch.clone());
        let health = tokio::spawn(health::watch(config, view, end, watch));
        let query = tokio::spawn(heartbeat::run_query(
            self.config.relay.heartbeat.clone(),
            self.config.postgres.clone(),
            self.view.clone(),
        ));
        let housekeeping = tokio::spawn(housekeeping::run(
            self.housekeeping.clone(),
            self.streaming.clone(),
            self.watch.clone(),
            self.view.clone(),
        ));
        let writing = self.writing.take().map(tokio::spawn);
        let ended = self.run_sessions().await;
        if let Some(writing) = writing {
            writing.abort();
        }
        health.abort();
        query.abort();
        housekeeping.abort();
        self.view.set_state(State::Stopping);
        self.outbound.close(Duration::from_secs(1)).await;
        ended
    }

    async fn run_sessions(&mut self) -> Result<Ended, RelayError> {
        loop {
            match self.session().await {
                Ok(ended) => return Ok(ended),
                Err(Interrupted::Stop) => {
                    // Without us the server would still make the slot for which it waits.
                    self.config.postgres.sessions.cancel().await;
                    return Ok(self.stopped_without_stream());
                }
                Err(Interrupted::Failed(error)) => {
                    self.view.set_role(Role::None);
                    self.outbound.pipeline.end_stream();
                    self.give_up_search(&error);
                    match disposition(&error) {
                        Disposition::Exit => return Err(error),
                        Disposition::Hold => return self.hold(error).await,
                        Disposition::Wait if self.config.relay.on_blocked == OnBlocked::Exit => {
                            return Err(error);
                        }
                        Disposition::Retry | Disposition::Wait => {
                            match self.pause_after(&error).await {
                                Ok(()) => {}
                                Err(Interrupted::Stop) => return Ok(self.stopped_without_stream()),
                                Err(Interrupted::Failed(error)) => return Err(error),
                            }
                        }
                    }
                }
            }
        }
    }

    /// One connection, from opening to its end.
    async fn session(&mut self) -> Result<Ended, Interrupted> {
        self.view.set_state(State::Starting);
        self.in_snapshot = false;
        let Opened {
            mut session,
            origin,
            source,
            sound,
            in_recovery,
            types,
            plan,
            mut begins,
            resumption,
        } = self.open_source().await?;
        self.last_backend = Some(session.backend_pid());
        self.outbound.pipeline.learn_types(types);
        // What an earlier stream left in flight settles first, or rows that the server sends again
        // could overtake their own first copies.
        while_leading(&mut session, self.drain_window()).await?;
        let (session, confirmed, is_new) = match plan {
            Plan::Stream { confirmed, is_new } => {
                let has_unpublished = begins.as_ref().is_some_and(Begins::has_unpublished);
                if has_unpublished || self.gap_accepted {
                    self.rest_housekeeping(REST_AFTER_GAP);
                }
                (session, confirmed, is_new)
            }
            Plan::Snapshot { snapshot, then } => {
                let (session, from) = self.publish_snapshot(session, snapshot).await?;
                begins = begins.map(Begins::published);
                match then {
                    AfterSnapshot::NewSlot => (session, from, true),
                    AfterSnapshot::ExistingSlot { confirmed } => (session, confirmed, false),
                    AfterSnapshot::Nothing => return Ok(Ended::Drained),
                }
            }
        };
        let session = self
            .begin_journal(session, begins, confirmed, is_new)
            .await?;
        // Once: what comes later is another gap.
        self.run.accept_gap = false;
        let (before, after) = sound;
        self.follow(origin, is_new, Some(before).filter(|_| !in_recovery));
        let unseen = &mut self.unseen;
        if unseen.begin(before, after, &source.watched, &self.view) {
            self.rest_housekeeping(REST_AFTER_UNSEEN);
        }
        if resumption.is_settled {
            self.handover = None;
        }
        self.stream(session, source, confirmed, resumption.search)
            .await
    }

    /// An error in the words of the operator's own files.
    fn worded(&self, error: &RelayError) -> Problem {
        let door = &self.config.door;
        error.problem().reworded(|text| door.reword(text))
    }

    /// The same, with what it may have cost.
    fn problem_of(&mut self, error: &RelayError) -> Problem {
        let mut problem = self.worded(error);
        self.unseen.add_to(error, &mut problem);
        problem
    }

    /// A look has been taken: what it found out about partitions counts first.
    fn note_partitions(&self, look: &Look) {
        let left_out = self.streaming.seen_partitions(&look.partitions);
        if !left_out.is_empty() && self.housekeeping.is_some() {
            tracing::warn!(
                partitions = left_out.join(", "),
                hint = "Rows that a table had before it was attached were in no stream: outboxd snapshot publishes them. Housekeeping deletes from these partitions after the next start.",
                "housekeeping leaves out partitions that were attached while the relay ran"
            );
        }
    }

    /// The source is seen to work: the next failure is a new one.
    fn recovered(&mut self) {
        self.backoff.reset();
        if self.repeated.recovered() {
            tracing::info!("recovered: connected to PostgreSQL");
        }
    }

    /// Nothing stands in the way of the source now.
    fn opened(&mut self) {
        self.view.set_problem(None);
        self.view.unblock(Obstacle::Source);
    }

    /// Waits for `work` and deals with deliveries meanwhile.
    async fn drive<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Interrupted> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                () = stop_requested(&mut self.stop) => return Err(Interrupted::Stop),
                turn = self.outbound.turn() => turn?,
                done = &mut work => return Ok(done),
                _ = self.show_at.tick() => self.show(),
            }
        }
    }

    /// Waits until nothing is outstanding.
    async fn drain_window(&mut self) -> Result<(), Interrupted> {
        self.turn_until(Outbound::is_empty).await
    }

    /// Deals with deliveries until they have brought what is waited for.
    async fn turn_until(&mut self, done: impl Fn(&Outbound) -> bool) -> Result<(), Interrupted> {
        while !done(&self.outbound) {
            tokio::select! {
                biased;
                () = stop_requested(&mut self.stop) => return Err(Interrupted::Stop),
                turn = self.outbound.turn() => turn?,
                _ = self.show_at.tick() => self.show(),
            }
        }
        Ok(())
    }

    async fn pause_after(&mut self, error: &RelayError) -> Result<(), Interrupted> {
        self.view
            .metrics
            .reconnects
            .with_label_values(&[error.reason()])
            .inc();
        let problem = tried_again(self.problem_of(error));
        if let Some(unsaid) = self.repeated.say(&error.kind(), std::time::Instant::now()) {
            self.view.report(&problem, unsaid);
        }
        self.view.set_state(State::Starting);
        if disposition(error) == Disposition::Wait {
            self.view.block(Obstacle::Source, problem);
        } else {
            self.view.set_problem(Some(problem));
        }
        // Whether a row still stands in the way is for the next stream to say.
        self.view.unblock(Obstacle::Row);
        let pause = self.backoff.pause();
        self.drive(tokio::time::sleep(pause)).await
    }

    /// Nothing can go on without the operator: stay up, keep saying so, confirm nothing.
    async fn hold(&mut self, error: RelayError) -> Result<Ended, RelayError> {
        let problem = self.problem_of(&error);
        self.view.report(&problem, 0);
        if error.is_loss() {
            self.view.set_problem(Some(problem));
            self.view.set_state(State::Lost);
        } else {
            self.view.block(Obstacle::Source, problem);
        }
        // One that is to end by itself has nobody to wait for.
        if self.config.relay.on_blocked == OnBlocked::Exit || self.run.until == Until::Current {
            return Err(error);
        }
        loop {
            match self.drive(std::future::pending::<()>()).await {
                Ok(()) => {}
                Err(Interrupted::Stop) => return Ok(self.stopped_without_stream()),
                Err(Interrupted::Failed(error)) => return Err(error),
            }
        }
    }

    /// Without a stream nothing can be confirmed; what is outstanding comes again.
    fn stopped_without_stream(&self) -> Ended {
        if self.outbound.is_empty() && !self.in_snapshot {
            Ended::Drained
        } else {
            Ended::Undrained
        }
    }
}
