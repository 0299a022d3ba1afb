//! `outboxd shadow`: beside Debezium on a slot of its own. What a relay would publish is compared,
//! record by record, with what is in the topics; nothing is published.

mod compare;
mod report;
mod seen;
mod waiting;
mod window;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

use crate::cli::{ShadowArgs, exit};
use crate::config::Config;
use crate::errand::{Errand, KAFKA, POSTGRES};
use crate::kafka::{ReadError, Tail};
use crate::observe::{Metrics, Problem, State, Status, say};
use crate::postgres;
use crate::postgres::publication::PublicationMode;
use crate::postgres::slot::{self, SlotDescription};
use crate::postgres::snapshot::SnapshotMode;
use crate::relay::{OnBlocked, Relay, RelayError, RunOptions, Sink, View};
use crate::router::Record;
use compare::{Comparison, Room};
use seen::Seen;
use window::Window;

/// How long brokers may be silent at the start.
const PATIENCE: Duration = Duration::from_secs(30);
/// For theirs, once ours have ended.
const GRACE: Duration = Duration::from_secs(30);
/// The same where somebody asked for the end.
const GRACE_AT_A_STOP: Duration = Duration::from_secs(3);
const POLL_WAIT: Duration = Duration::from_millis(50);
const PROGRESS: Duration = Duration::from_secs(10);
/// Of each side: what may wait for the other.
const ROOM: Room = Room {
    records: 20_000,
    bytes: 64 << 20,
};
/// Between the relay and the comparison.
const QUEUE: usize = 200;
/// Read at once.
const TURN: usize = 1_000;

pub async fn run(config: &Config, args: &ShadowArgs, errand: &Errand) -> Result<u8, Problem> {
    let mut config = config.clone();
    // From here on: what the brokers take to answer is part of the time.
    let until = args.duration.and_then(|of| Instant::now().checked_add(of));
    become_shadow(&mut config, args)?;
    let tail = begin(&config, until, errand).await?;
    say(&format!(
        "nothing is published; slot {} holds back WAL until the end",
        config.slot.name
    ));
    let (records, ours) = sync_channel(QUEUE);
    let (stop, stopped) = watch::channel(false);
    let (ask, signals) = watch::channel(false);
    let compares_timestamps = config.router.timestamp_field.is_some();
    let work = Work {
        comparison: Comparison::new(compares_timestamps, ROOM),
        tail,
        window: Window::default(),
        ours,
        stop: Stopping(stop),
        signals,
        until,
        events: args.events,
        has_context: config.router.context.is_some(),
    };
    let comparing = tokio::task::spawn_blocking(move || work.all());
    let view = view(&config)?;
    let compared = async {
        let ended = relay(config.clone(), records, stopped, view.clone()).await;
        (ended, comparing.await)
    };
    let passing = pass_on(errand, ask, &view);
    let (ended, compared) = tokio::select! {
        both = compared => both,
        never = passing => match never {},
    };
    drop_slot(&config).await;
    let comparison = compared.map_err(|error| Problem::new(error.to_string()))?;
    let comparison = comparison.map_err(unread)?;
    report::lines(&comparison).iter().for_each(|line| say(line));
    ended.map_err(|error| error.problem())?;
    Ok(if comparison.is_equal() {
        exit::DRAINED
    } else {
        exit::FAILED
    })
}

/// Where the topics end, before the slot is made: what it sends is committed later, and published
/// later.
async fn begin(config: &Config, until: Option<Instant>, errand: &Errand) -> Result<Tail, Problem> {
    let asked = errand.asks(POSTGRES, "the slot");
    errand.attend(refuse_old_slot(config)).await??;
    drop(asked);
    let _asked = errand.asks(KAFKA, "where the topics end");
    let left = until.map_or(PATIENCE, |until| {
        until.saturating_duration_since(Instant::now())
    });
    let (kafka, prefix, patience) = (
        config.kafka.clone(),
        topic_prefix(config),
        left.min(PATIENCE),
    );
    let opening = tokio::task::spawn_blocking(move || Tail::open(&kafka, &prefix, patience));
    let opened = errand.attend(opening).await?;
    let opened = opened.map_err(|error| Problem::new(error.to_string()))?;
    opened.map_err(unread)
}

/// Passes a request to stop on to the comparison, which ends the relay. A relay that does not stream
/// yet can be waiting in the server, for old transactions before there is a slot: without its client
/// that would go on, and make one.
async fn pass_on(errand: &Errand, ask: watch::Sender<bool>, view: &View) -> Infallible {
    errand.stop_requested().await;
    if view.status.state() != State::Streaming {
        errand.cancel().await;
    }
    ask.send_replace(true);
    std::future::pending().await
}

/// The end of the name that a shadow's slot has unless it is told another one.
const OF_A_SHADOW: &str = "_shadow";

/// A relay of its own slot, without a word to anybody.
fn become_shadow(config: &mut Config, args: &ShadowArgs) -> Result<(), Problem> {
    let name = match &args.slot {
        Some(name) => name.clone(),
        None => format!("{}{OF_A_SHADOW}", config.slot.name),
    };
    let slot = name.parse().map_err(|error: slot::SlotNameError| Problem {
        hint: Some("Name it with --slot.".to_owned()),
        ..Problem::new(error.to_string())
    })?;
    config.slot.name = slot;
    config.slot.failover = false;
    config.slot.drop_on_stop = false;
    config.slot.create = slot::CreateMode::Missing;
    config.snapshot.mode = SnapshotMode::NoData;
    // The connector reads through this one.
    config.publication.mode = PublicationMode::MustExist;
    config.relay.housekeeping = None;
    config.router.dead_letter_topic = None;
    config.relay.on_blocked = OnBlocked::Exit;
    config.relay.journal = None;
    config.relay.handover = None;
    config.relay.heartbeat = None;
    Ok(())
}

/// One that was left over begins before the topics are read.
async fn refuse_old_slot(config: &Config) -> Result<(), Problem> {
    let problem = |error: postgres::PostgresError| RelayError::from(error).problem();
    let client = postgres::connect(&config.postgres).await.map_err(problem)?;
    let name = &config.slot.name;
    let found = SlotDescription::read(&client, name)
        .await
        .map_err(problem)?;
    match found {
        None => Ok(()),
        Some(found) => Err(Problem {
            hint: Some(
                if name.as_str().ends_with(OF_A_SHADOW) && found.holder.is_none() {
                    format!(
                        "If a shadow was killed and left it: SELECT pg_drop_replication_slot('{name}'). Otherwise name another one with --slot."
                    )
                } else {
                    "Name another one with --slot. Do not drop this one: a relay or a connector may count on what it holds.".to_owned()
                },
            ),
            ..Problem::new(format!("replication slot \"{name}\" exists already"))
        }),
    }
}

async fn drop_slot(config: &Config) {
    let dropped = async {
        let client = postgres::connect(&config.postgres).await?;
        match SlotDescription::read(&client, &config.slot.name).await? {
            Some(_) => slot::drop(&client, &config.slot.name).await,
            None => Ok(()),
        }
    };
    if let Err(error) = dropped.await {
        let name = &config.slot.name;
        say(&format!(
            "slot {name} could not be dropped ({error}) and holds back WAL: SELECT pg_drop_replication_slot('{name}')"
        ));
    }
}

/// What every topic of the route begins with.
fn topic_prefix(config: &Config) -> String {
    let shown = config.settings.shown();
    let topic = shown.into_iter().find(|(key, _, _)| key == "outbox.topic");
    let topic = topic.map(|(_, topic, _)| topic).unwrap_or_default();
    topic.split('$').next().unwrap_or_default().to_owned()
}

fn view(config: &Config) -> Result<View, Problem> {
    let metrics = Metrics::new().map_err(|error| Problem::new(format!("metrics: {error}")))?;
    let (slot, publication) = (config.slot.name.as_str(), config.publication.name.as_str());
    let status = Status::new(&config.name, slot, publication, SystemTime::now());
    Ok(View::new(metrics, status))
}

async fn relay(
    config: Config,
    records: std::sync::mpsc::SyncSender<Arc<Record>>,
    stopped: watch::Receiver<bool>,
    view: View,
) -> Result<(), RelayError> {
    let relay = Relay::new(
        config,
        Sink::Watched(records),
        RunOptions::default(),
        view,
        stopped,
    )?;
    relay.run().await.map(drop)
}

fn unread(error: ReadError) -> Problem {
    Problem {
        hint: Some(error.hint()),
        ..Problem::new(postgres::chain(&error))
    }
}

/// However the comparison ends, the relay ends with it: nobody else would ask it to.
struct Stopping(watch::Sender<bool>);

impl Stopping {
    fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    fn ask(&self) {
        self.0.send_replace(true);
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        self.ask();
    }
}

struct Work {
    comparison: Comparison,
    tail: Tail,
    window: Window,
    ours: Receiver<Arc<Record>>,
    stop: Stopping,
    signals: watch::Receiver<bool>,
    until: Option<Instant>,
    events: Option<u64>,
    /// `extended.headers.enabled` is set.
    has_context: bool,
}

impl Work {
    /// On a thread that may wait.
    fn all(mut self) -> Result<Comparison, ReadError> {
        let mut said = Instant::now();
        let mut moved = Instant::now();
        let mut ended = false;
        loop {
            let before = self.comparison.compared();
            ended |= self.take_ours();
            for (topic, partitions) in self.tail.found()? {
                self.comparison.has_partitions(&topic, partitions);
            }
            if self.take_theirs()? && !ended {
                self.look()?;
            }
            // Ours come no more, or have no room until one of theirs matches.
            let waits = ended || !self.comparison.wants_ours();
            if self.comparison.compared() > before || !waits {
                moved = Instant::now();
            }
            let grace = if *self.signals.borrow() {
                GRACE_AT_A_STOP
            } else {
                GRACE
            };
            let is_stuck = moved.elapsed() >= grace;
            if is_stuck && !ended && !self.stop.is_asked() {
                say(&format!(
                    "ending: {} of ours wait for theirs, and none came for {} s",
                    self.comparison.waiting(),
                    grace.as_secs()
                ));
            }
            if self.is_enough() || is_stuck {
                self.stop.ask();
            }
            if ended && (self.comparison.waiting() == 0 || is_stuck) {
                break;
            }
            if said.elapsed() >= PROGRESS {
                said = Instant::now();
                say(&report::progress(&self.comparison));
            }
        }
        let (_, matched) = self.comparison.progress();
        self.window.confirm(matched);
        self.comparison.end(&self.window);
        Ok(self.comparison)
    }

    /// True once the relay has ended.
    fn take_ours(&mut self) -> bool {
        // Once it is asked to end, the relay has no more than its window.
        while self.stop.is_asked() || self.comparison.wants_ours() {
            match self.ours.try_recv() {
                Ok(record) => {
                    if self.comparison.take_ours(Seen::ours(&record)) {
                        self.tail.name(&record.topic);
                    }
                }
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => return true,
            }
        }
        false
    }

    /// True where all were read that there are now.
    fn take_theirs(&mut self) -> Result<bool, ReadError> {
        for wait in std::iter::once(POLL_WAIT).chain(std::iter::repeat_n(Duration::ZERO, TURN)) {
            if !self.comparison.wants_theirs() {
                return Ok(false);
            }
            let Some((topic, record)) = self.tail.poll(wait)? else {
                return Ok(true);
            };
            let mut theirs = Seen::theirs(topic, record);
            if !self.has_context {
                theirs.without_context();
            }
            self.comparison.take_theirs(theirs);
        }
        Ok(false)
    }

    /// Where the topics end while both sides are at work.
    fn look(&mut self) -> Result<(), ReadError> {
        let (taken, matched) = self.comparison.progress();
        self.window.confirm(matched);
        let now = Instant::now();
        if self.comparison.compared() > 0 && self.window.wants(now) {
            let ends = self.tail.ends()?;
            self.window.take(ends, taken, now.elapsed());
        }
        Ok(())
    }

    fn is_enough(&self) -> bool {
        let events = self.events;
        *self.signals.borrow()
            || self.until.is_some_and(|until| Instant::now() >= until)
            || events.is_some_and(|events| self.comparison.compared() >= events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_that_fails_asks_the_relay_to_end() {
        let (stop, stopped) = watch::channel(false);
        let compare = move || {
            let stop = Stopping(stop);
            assert!(!stop.is_asked());
            Err::<(), _>("no right to read it")
        };
        assert!(compare().is_err());
        assert!(*stopped.borrow());
    }
}
