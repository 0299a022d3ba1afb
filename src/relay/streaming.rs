//! The loop: bytes in, records out, deliveries in, positions out.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tokio_postgres::Client;

use super::appetite::Appetite;
use super::describing::{Describing, described};
use super::heartbeat::Beats;
use super::housekeeping::REST_AFTER_UNSEEN;
use super::journal::{self, Journal};
use super::kill_point::Edge;
use super::outbound::until;
use super::settling::Settling;
use super::view::{Obstacle, UNROUTABLE};
use super::watching::{Finding, Findings};
use super::{Ended, Interrupted, Relay, RelayError, Until, shutdown};
use crate::connect::Search;
use crate::lsn::Lsn;
use crate::observe::{Problem, State};
use crate::pipeline::PipelineError;
use crate::postgres::table::OutboxTable;
use crate::postgres::watched::Watched;
use crate::postgres::{self, PostgresError, ReplicationSession, ReplicationStream};
use crate::router::DropReason;
use crate::timestamp::Timestamp;
use crate::wire::{CopyMessage, StartReplication, StatusUpdate};

/// What a stream is read from.
pub(super) struct Source {
    /// For ordinary sessions with the server that streams.
    pub(super) options: postgres::Options,
    pub(super) tables: Vec<OutboxTable>,
    /// The publication sent nothing else when the stream began.
    pub(super) only_ours: bool,
    /// As they were when the stream began.
    pub(super) watched: Watched,
}

/// What the loop keeps beside the stream.
pub(super) struct Loop {
    pub(super) source: Source,
    stream: ReplicationStream,
    pace: Pace,
    /// Set once a stop was asked for: when to give up waiting for Kafka.
    give_up_at: Option<Instant>,
    /// `--until current`: the position to reach.
    target: Option<Lsn>,
    /// The target is confirmed: nothing more is begun.
    reached: bool,
    /// It has brought a message, or has lasted.
    is_open: bool,
    settling: Settling,
    /// A row that cannot be routed stands at the front; nothing behind it is read.
    held: Option<Problem>,
    /// Since when nothing is read.
    paused_at: Option<Instant>,
    appetite: Appetite,
    beats: Option<Beats>,
    /// A table changed: what the catalog says of it is being read, its rows wait.
    pub(super) describing: Option<Describing>,
    /// Where it was read the last time.
    pub(super) catalog: Option<Client>,
    findings: Findings,
}

/// When the next status update is due.
struct Pace {
    status_interval: Duration,
    confirm_interval: Duration,
    sent_at: Instant,
    sent: Lsn,
    reply_now: bool,
}

impl Pace {
    fn due_at(&self, confirmed: Lsn) -> Instant {
        if self.reply_now {
            self.sent_at
        } else if confirmed > self.sent {
            self.sent_at + self.confirm_interval
        } else {
            self.sent_at + self.status_interval
        }
    }
}

async fn server_position(options: &postgres::Options) -> Result<Lsn, PostgresError> {
    let client = postgres::connect(options).await?;
    postgres::current_position(&client).await
}

impl Relay {
    /// Streams until a stop is asked for, `--until` is reached, or something breaks.
    pub(super) async fn stream(
        &mut self,
        session: ReplicationSession,
        source: Source,
        confirmed: Lsn,
        search: Option<Search>,
    ) -> Result<Ended, Interrupted> {
        let target = match self.run.until {
            Until::Stopped => None,
            Until::Current => Some(
                self.drive(server_position(&source.options))
                    .await?
                    .map_err(RelayError::from)?,
            ),
        };
        self.outbound.pipeline.start_stream(confirmed);
        self.outbound.server_clock.begin_stream();
        if let Some(search) = search {
            self.outbound.pipeline.start_after(search);
        }
        let start_lsn = self.outbound.pipeline.confirmed();
        if let Some(until) = self.outbound.pipeline.passes_over_until() {
            tracing::info!(
                from_lsn = %start_lsn, until_lsn = %until,
                "PostgreSQL was restarted and its slot stands before what was confirmed: passing over what is sent again"
            );
        }
        let (slot, publication) = (
            self.config.slot.name.clone(),
            self.config.publication.name.clone(),
        );
        let start = StartReplication {
            slot: slot.as_str(),
            publication: publication.as_str(),
            start_lsn,
        };
        let stream = self
            .drive(session.start(&start))
            .await?
            .map_err(RelayError::from)?;
        let names: Vec<_> = source
            .tables
            .iter()
            .map(|table| table.qualified_name())
            .collect();
        tracing::info!(lsn = %start_lsn, tables = names.join(", "), "streaming");
        self.view.set_state(State::Streaming);
        // Three updates within the time after which the server would give us up.
        let third = self.config.postgres.wal_sender_timeout / 3;
        let pace = Pace {
            status_interval: self.config.relay.status_interval.min(third),
            confirm_interval: self.config.relay.confirm_interval,
            sent_at: Instant::now(),
            sent: start_lsn,
            reply_now: true,
        };
        let watched = source.watched.clone();
        let findings = self.watch.begin(source.options.clone(), watched);
        self.streaming
            .begin(source.options.clone(), source.tables.clone());
        let state = Loop {
            source,
            stream,
            findings,
            pace,
            give_up_at: None,
            target,
            reached: false,
            is_open: false,
            settling: Settling::begin(start_lsn, Instant::now()),
            held: None,
            paused_at: None,
            appetite: Appetite::default(),
            beats: Beats::new(
                self.config.relay.heartbeat.as_ref(),
                &self.config.router.converters,
            ),
            describing: None,
            catalog: None,
        };
        let ended = self.run_loop(state).await;
        self.streaming.end();
        ended
    }

    /// One turn takes the first of these that is due: the request to stop; the status update,
    /// before everything that a busy stream could starve it with; deliveries and retries; the tick;
    /// new bytes, while there is room. Then everything that can move moves.
    async fn run_loop(&mut self, mut state: Loop) -> Result<Ended, Interrupted> {
        let mut rest = None;
        loop {
            self.take_buffered(&mut state)?;
            self.tell_passed();
            self.outbound.send();
            if let Some(rest) = rest.take() {
                // The runtime's timers count in milliseconds, and a wait of the runtime would wake
                // for every packet.
                std::thread::sleep(rest);
            }
            self.describe(&mut state, Duration::ZERO);
            self.note_works(&mut state);
            if self.is_done(&mut state) {
                return self.finish(state).await;
            }
            let reading = self.may_read(&state);
            self.note_pause(&mut state, reading);
            let beat_at = state.beats.as_ref().map(|beats| beats.due_at);
            let urgent = state.pace.reply_now || state.give_up_at.is_some() || state.reached;
            self.ask_journal(urgent);
            let due_at = state.pace.due_at(self.confirmable());
            tokio::select! {
                biased;
                () = shutdown::stop_requested(&mut self.stop), if state.give_up_at.is_none() => {
                    state.give_up_at = Some(Instant::now() + self.config.relay.shutdown_timeout);
                    self.view.set_state(State::Stopping);
                    if !self.outbound.is_empty() {
                        let patience_ms = self.config.relay.shutdown_timeout.as_millis();
                        tracing::info!(
                            patience_ms,
                            "stopping: waiting for what Kafka has not acknowledged yet; a second signal ends the wait"
                        );
                    }
                }
                () = tokio::time::sleep_until(due_at) => self.queue_status(&mut state),
                (client, types) = described(&mut state.describing) => {
                    (state.describing, state.catalog) = (None, client);
                    self.learn(&mut state, types);
                }
                Some(finding) = state.findings.recv() => self.take_finding(&mut state, finding)?,
                () = until(state.give_up_at) => return Ok(Ended::Undrained),
                turn = self.outbound.turn() => turn?,
                news = journal::news(&mut self.journal) => {
                    news?;
                    self.take_journal()?;
                }
                _ = self.show_at.tick() => self.on_tick(&mut state, reading)?,
                () = until(beat_at), if reading => self.beat(&mut state),
                moved = state.stream.progress(reading) => {
                    let bytes = moved.map_err(RelayError::from)?;
                    rest = state.appetite.rest_after(bytes, Instant::now());
                }
            }
        }
    }

    /// What hides rows ends the stream: nothing that passes by unseen is confirmed any more, and the
    /// next stream waits until it is mended. A stop is not held up by it.
    fn take_finding(&mut self, state: &mut Loop, finding: Finding) -> Result<(), RelayError> {
        match finding {
            Ok(look) => {
                if self.unseen.note(&look, &self.view) {
                    self.rest_housekeeping(REST_AFTER_UNSEEN);
                }
                self.note_partitions(&look);
                self.streaming.seen_published(look.before);
            }
            Err(error) if state.give_up_at.is_none() => return Err(error.into()),
            Err(_) => {}
        }
        Ok(())
    }

    /// Among the events, so that one that cannot be delivered shows as an event would.
    fn beat(&mut self, state: &mut Loop) {
        let beats = state.beats.as_mut();
        let record = beats.and_then(|beats| beats.take(&self.config.router.converters));
        if let Some(record) = record {
            self.outbound.pipeline.publish_beside(record);
        }
    }

    /// A stop finishes the transaction whose rows are already on their way, and comes to where we were
    /// before the server was restarted: records would otherwise come a second time.
    fn may_read(&self, state: &Loop) -> bool {
        let wanted =
            (state.give_up_at.is_none() && !state.reached) || self.outbound.pipeline.is_midway();
        let undescribed = self.outbound.pipeline.undescribed().is_some();
        wanted && !undescribed && state.held.is_none() && self.outbound.can_accept()
    }

    /// Whole messages in the buffer, as long as the window has room.
    fn take_buffered(&mut self, state: &mut Loop) -> Result<(), RelayError> {
        while self.may_read(state) {
            let pipeline = &mut self.outbound.pipeline;
            let (mut reply, mut sent_at) = (false, None);
            let heard_at = state.stream.heard_at();
            let taken = state.stream.next(|message| match message {
                CopyMessage::XLogData {
                    start_lsn,
                    sent,
                    body,
                } => {
                    sent_at = Some(sent);
                    pipeline.handle_wal(start_lsn, body)
                }
                CopyMessage::Keepalive {
                    wal_end,
                    sent,
                    reply_requested,
                } => {
                    (reply, sent_at) = (reply_requested, Some(sent));
                    pipeline.handle_keepalive(wal_end)
                }
            })?;
            state.pace.reply_now |= reply;
            if let Some(sent) = sent_at {
                self.outbound.server_clock.hear(sent, heard_at);
            }
            match taken {
                None => break,
                Some(Ok(())) => {
                    self.kill_point.pass(Edge::Received);
                    self.note_open(state);
                }
                Some(Err(error @ PipelineError::Route(_))) => self.hold_row(state, error)?,
                Some(Err(error)) => return Err(RelayError::Pipeline(error)),
            }
        }
        Ok(())
    }

    /// The connection, the position and everything before the row are kept.
    fn hold_row(&mut self, state: &mut Loop, error: PipelineError) -> Result<(), RelayError> {
        let error = RelayError::Pipeline(error);
        if self.config.relay.on_blocked == super::OnBlocked::Exit {
            return Err(error);
        }
        self.view
            .metrics
            .records_failed
            .with_label_values(&[UNROUTABLE])
            .inc();
        let problem = self.worded(&error);
        self.view.report(&problem, 0);
        self.view.block(Obstacle::Row, problem.clone());
        state.held = Some(problem);
        Ok(())
    }

    fn note_open(&mut self, state: &mut Loop) {
        if !state.is_open {
            state.is_open = true;
            self.opened();
        }
    }

    fn note_works(&mut self, state: &mut Loop) {
        let pipeline = &self.outbound.pipeline;
        let (confirmed, inside) = (pipeline.confirmed(), pipeline.is_midway());
        if state
            .settling
            .proves_itself(confirmed, inside, Instant::now())
        {
            self.recovered();
        }
    }

    fn is_done(&self, state: &mut Loop) -> bool {
        let pipeline = &self.outbound.pipeline;
        let quiet = self.outbound.is_empty() && (!pipeline.is_midway() || state.held.is_some());
        if let Some(target) = state.target
            && pipeline.confirmed() >= target
        {
            state.reached = true;
        }
        (state.reached || state.give_up_at.is_some()) && quiet && self.journal_is_complete()
    }

    fn queue_status(&mut self, state: &mut Loop) {
        let silent_for = state.stream.heard_at().elapsed();
        let confirmed = self.confirmable();
        let update = StatusUpdate {
            written: self.outbound.pipeline.received().max(confirmed),
            flushed: confirmed,
            // Our updates keep the server from asking us, so we ask it: a dead connection is
            // noticed from the missing answer.
            reply_requested: silent_for >= state.pace.status_interval,
        };
        state
            .stream
            .queue_status(update, Timestamp::from(SystemTime::now()));
        state.pace.sent_at = Instant::now();
        state.pace.sent = confirmed;
        self.confirmed = confirmed;
        self.streaming.confirm(confirmed);
        state.pace.reply_now = false;
        self.view.metrics.status_updates.inc();
        self.kill_point.pass(Edge::Status);
    }

    fn on_tick(&mut self, state: &mut Loop, reading: bool) -> Result<(), RelayError> {
        if state.settling.has_lasted(Instant::now()) {
            self.note_open(state);
        }
        self.outbound.count_confirmed();
        let waits = state.held.is_some() || self.outbound.pipeline.undescribed().is_some();
        let journal_is_stuck = self.journal.as_ref().is_some_and(Journal::is_stuck);
        if self.server_end.is_near() && (waits || journal_is_stuck || self.outbound.is_stuck()) {
            return Err(PostgresError::StoppingServer.into());
        }
        self.show();
        self.warn_of_updates();
        let patience = self.config.postgres.wal_sender_timeout;
        let silent_for = state.stream.heard_at().elapsed();
        if reading && silent_for > patience {
            return Err(PostgresError::Silent { after: silent_for }.into());
        }
        Ok(())
    }

    /// Updates of outbox rows publish nothing, which somebody may not expect.
    fn warn_of_updates(&mut self) {
        let updates = self
            .outbound
            .pipeline
            .counters()
            .dropped
            .get(&DropReason::Update)
            .copied();
        if updates.unwrap_or(0) > self.updates_seen {
            self.updates_seen = updates.unwrap_or(0);
            let said = self.updates_said.say("updates", std::time::Instant::now());
            if said.is_some() {
                tracing::warn!(
                    updates,
                    hint = "Insert outbox rows only. A row that is updated is not published again.",
                    "outbox rows were updated: nothing is published for them"
                );
            }
        }
    }

    fn note_pause(&self, state: &mut Loop, reading: bool) {
        match (reading, state.paused_at) {
            (false, None) => state.paused_at = Some(Instant::now()),
            (false, Some(since)) => {
                let now = Instant::now();
                let paused = &self.view.metrics.backpressure_seconds;
                paused.inc_by((now - since).as_secs_f64());
                state.paused_at = Some(now);
            }
            (true, Some(since)) => {
                self.view
                    .metrics
                    .backpressure_seconds
                    .inc_by(since.elapsed().as_secs_f64());
                state.paused_at = None;
                // What the server said meanwhile waits in the socket: it was not silent.
                state.stream.hear();
            }
            _ => {}
        }
    }

    /// Everything is acknowledged: the last position, and the server's word that it has it.
    async fn finish(&mut self, state: Loop) -> Result<Ended, Interrupted> {
        self.view.set_state(State::Stopping);
        let confirmed = self.confirmable();
        let held = state.held.is_some();
        let last = StatusUpdate {
            written: self.outbound.pipeline.received().max(confirmed),
            flushed: confirmed,
            reply_requested: false,
        };
        // A row that blocks is only in the slot, and so is what `--until` leaves for the next start.
        let drained = state.give_up_at.is_some() && !held;
        let drops = self.config.slot.drop_on_stop && drained && self.may_drop_slot().await;
        let slot = Some(&self.config.slot).filter(|_| drops);
        let now = Timestamp::from(SystemTime::now());
        let finished = state.stream.finish(last, now, slot.map(|slot| &slot.name));
        let patience = self.config.relay.shutdown_timeout;
        self.kill_point.pass(Edge::Drained);
        if drops {
            self.kill_point.pass(Edge::Dropping);
        }
        match tokio::time::timeout(patience, finished).await {
            Ok(Ok(())) => {
                self.confirmed = confirmed;
                if let Some(slot) = slot.cloned() {
                    tracing::warn!(slot = %slot.name, "slot dropped, as slot.drop_on_stop asks");
                    self.kill_point.pass(Edge::Dropped);
                    self.note_dropped().await;
                }
            }
            Ok(Err(error)) => {
                tracing::warn!("the last position may not have reached the server: {error}");
            }
            Err(_) => tracing::warn!("the server did not take the last position in time"),
        }
        self.kill_point.pass(Edge::Confirmed);
        self.show();
        if held {
            tracing::warn!(lsn = %confirmed, "stopped in front of a row that cannot be routed");
            return Ok(Ended::Undrained);
        }
        tracing::info!(lsn = %confirmed, "drained and confirmed");
        Ok(Ended::Drained)
    }
}
