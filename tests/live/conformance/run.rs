//! One case from its beginning to its end.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::SinkExt;
use serde_json::{Map, Value, json};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::case::{Base, Case, Done, Special, Step};
use super::lane::Lane;
use super::records::{self, Reading};
use crate::support::Relay;

/// What outboxd made of a case.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) end: End,
    pub(super) records: Vec<Value>,
    pub(super) partitions: BTreeMap<String, usize>,
    pub(super) sql_errors: Vec<String>,
    pub(super) queries: Map<String, Value>,
    pub(super) log: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Everything committed is published and confirmed.
    Published,
    /// `blocked`, `lost`, `exit N` or `starting`, which it tries again and again, and what it says
    /// of it.
    Halted { how: String, message: String },
}

const PATIENCE: Duration = Duration::from_secs(40);
/// Of a start: pauses between them grow from a fraction of a second.
const ATTEMPTS: Duration = Duration::from_secs(5);
/// A delivery that fails is tried in several ways before one record is blamed; a row is blamed at
/// once.
const SETTLED: Duration = Duration::from_secs(2);
/// The cases have intervals of at most half a second.
const HEARTBEATS: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

pub(super) async fn run(lane: &Lane, base: &Base, case: &Case) -> Seen {
    lane.clean().await;
    let from_ms = now_ms();
    let mut run = Run {
        lane,
        base,
        done: &case.done,
        later: Map::new(),
        sessions: HashMap::new(),
        sql_errors: Vec::new(),
        relay: None,
        log: Vec::new(),
        halted: None,
    };
    run.set_up().await;
    let holder = match case.done.hold_slot {
        true => Some(lane.hold_slot().await),
        false => None,
    };
    run.relay = Some(lane.relay(base, &case.done, &run.later));
    let mut halted = run.wait_for_start().await;
    if halted.is_none() {
        run.take_steps().await;
        halted = run.wait_for_end().await;
        if halted.is_none() {
            wait_for_heartbeat(lane, &case.expect.records).await;
        }
    }
    let queries = run.ask().await;
    let epoch_ms = match &case.done.record_age_from {
        Some(sql) => Some(run.moment_ms(sql).await),
        None => None,
    };
    let halted = run.finish(halted);
    drop(holder);
    let reading = Reading {
        from_ms,
        to_ms: now_ms(),
        long_bytes: case.long_bytes(),
    };
    let log = records::read(&lane.kafka, &case.done.ignore_topics, reading, epoch_ms);
    let mut seen = Seen {
        end: halted.unwrap_or(End::Published),
        records: log.records,
        partitions: log.partitions,
        sql_errors: run.sql_errors,
        queries,
        log: run.log,
    };
    if let Some(fields) = &case.done.compact {
        for record in &mut seen.records {
            record
                .as_object_mut()
                .unwrap()
                .retain(|field, _| fields.contains(field));
        }
    }
    seen
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// Only where one is expected; what is missing then shows in the records.
async fn wait_for_heartbeat(lane: &Lane, records: &[Value]) {
    let Some(topic) = records
        .iter()
        .filter_map(|record| record["topic"].as_str())
        .find(|topic| topic.starts_with("__debezium-heartbeat"))
    else {
        return;
    };
    let deadline = Instant::now() + HEARTBEATS;
    while Instant::now() < deadline && !records::topics(&lane.kafka).contains_key(topic) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

struct Run<'a> {
    lane: &'a Lane,
    base: &'a Base,
    done: &'a Done,
    /// Configuration that a step has changed.
    later: Map<String, Value>,
    sessions: HashMap<String, Client>,
    sql_errors: Vec<String>,
    /// None while it is stopped.
    relay: Option<Relay>,
    log: Vec<String>,
    /// What it halts on, and since when.
    halted: Option<(End, Instant)>,
}

impl Run<'_> {
    async fn session(&mut self, name: &str) -> &Client {
        if !self.sessions.contains_key(name) {
            let client = self.lane.client().await;
            self.sessions.insert(name.to_owned(), client);
        }
        &self.sessions[name]
    }

    async fn execute(&mut self, sql: &str) {
        let main = self.session("main").await;
        if let Err(error) = main.batch_execute(sql).await {
            panic!("{sql}: {:?}", error.as_db_error());
        }
    }

    async fn set_up(&mut self) {
        if self.done.base_table {
            self.execute(&self.base.setup).await;
        }
        for statement in self.done.setup.statements() {
            self.execute(statement).await;
        }
        for topic in &self.done.topics {
            let kafka = &self.lane.kafka;
            kafka.create_topic(&topic.name, topic.partitions, &[]).await;
        }
    }

    async fn take_steps(&mut self) {
        for step in &self.done.steps {
            match step {
                Step::Statement(sql) => self.execute(sql).await,
                Step::Transaction(statements) => {
                    self.execute("BEGIN").await;
                    for sql in statements {
                        self.execute(sql).await;
                    }
                    self.execute("COMMIT").await;
                }
                Step::Special(special) => self.take(special).await,
            }
        }
    }

    async fn take(&mut self, step: &Special) {
        match step {
            Special::Sql {
                sql,
                session,
                may_fail,
            } => {
                let session = self.session(session.as_deref().unwrap_or("main")).await;
                let result = session.batch_execute(sql).await;
                if let Err(error) = result {
                    assert!(*may_fail, "{sql}: {error}");
                    let message = error.as_db_error().unwrap().message().to_owned();
                    self.sql_errors.push(message);
                }
            }
            Special::Copy { copy, data } => {
                let sink = self.session("main").await.copy_in(copy.as_str()).await;
                let mut sink = Box::pin(sink.unwrap());
                let bytes = bytes::Bytes::from(data.clone().into_bytes());
                sink.send(bytes).await.unwrap();
                sink.close().await.unwrap();
            }
            Special::Sleep { sleep } => self.pass_time(*sleep).await,
            Special::WaitSentinel { .. } => drop(self.wait_for_end().await),
            Special::WaitStreaming { .. } => drop(self.wait_for_start().await),
            Special::WaitState { wait_state } => match wait_state.as_str() {
                "RUNNING" => drop(self.wait_for_start().await),
                "FAILED" => {
                    let end = self.wait_for_end().await;
                    assert!(end.is_some(), "it did not halt: {:#?}", self.log());
                }
                "PAUSED" => {}
                other => panic!("{other} is no state"),
            },
            Special::Rest { rest: (_, path) } => match path.rsplit('/').next().unwrap() {
                "stop" | "pause" => self.stop(),
                "resume" => self.start(),
                "restart?includeTasks=true" => {
                    self.stop();
                    self.start();
                }
                other => panic!("{other} is no request"),
            },
            Special::Config { config } => {
                self.later.extend(config.clone());
                self.stop();
                self.start();
            }
        }
    }

    /// Where time itself is not the point, what was waited for is that all is confirmed.
    async fn pass_time(&mut self, seconds: f64) {
        if self.done.record_age_from.is_some() {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        } else if self.relay.is_some() {
            drop(self.wait_for_end().await);
        }
    }

    fn stop(&mut self) {
        let relay = self.relay.take().expect("it runs");
        let halted = relay.status().is_some_and(|s| s["state"] == "blocked");
        let (status, log) = relay.stop_and_log();
        self.log.extend(log);
        assert!(
            halted || status.success(),
            "asked to stop, it ended with {status}: {:#?}",
            self.log
        );
    }

    fn start(&mut self) {
        let relay = self.lane.relay(self.base, self.done, &self.later);
        assert!(self.relay.replace(relay).is_none(), "it runs already");
    }

    fn log(&self) -> Vec<String> {
        let mut log = self.log.clone();
        log.extend(self.relay.as_ref().map(Relay::log).unwrap_or_default());
        log
    }

    /// Until it streams. Some when it will not.
    async fn wait_for_start(&mut self) -> Option<End> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(end) = self.halted() {
                return Some(end);
            }
            let status = self.relay.as_ref().expect("it runs").status();
            let streams = status.as_ref().is_some_and(|s| s["state"] == "streaming");
            // What is missing may be what a step makes.
            let waits = status.is_some_and(|s| !s["error"].is_null());
            if streams || waits || self.done.no_stream {
                return None;
            }
            assert!(Instant::now() < deadline, "no stream: {:#?}", self.log());
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Until everything committed by now is confirmed. Some when it will not be.
    async fn wait_for_end(&mut self) -> Option<End> {
        let target = self.lane.flushed().await;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(end) = self.halted() {
                // An ended process may have done all there was to do.
                return (end.halt() != Some("exit 0")).then_some(end);
            }
            let confirmed = self.lane.confirmed().await.is_some_and(|lsn| lsn >= target);
            if confirmed && !self.done.no_stream {
                return None;
            }
            if let Some(message) = self.waits_for(deadline) {
                // Nobody streams from a slot that somebody else holds.
                let how = "starting".to_owned();
                return (!self.done.hold_slot).then_some(End::Halted { how, message });
            }
            assert!(
                Instant::now() < deadline,
                "not confirmed to {target:x}: {:#?}",
                self.log()
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What keeps it from streaming, where that has lasted through several attempts.
    fn waits_for(&self, deadline: Instant) -> Option<String> {
        let status = self.relay.as_ref().expect("it runs").status()?;
        let message = self.problem(&status)?;
        let lasts = deadline.saturating_duration_since(Instant::now()) < PATIENCE - ATTEMPTS;
        let waits = lasts && status["state"] == "starting";
        waits.then_some(message)
    }

    /// Message and detail.
    fn problem(&self, status: &Value) -> Option<String> {
        let error = &status["error"];
        let mut text = error["message"].as_str()?.to_owned();
        if let Some(detail) = error["detail"].as_str() {
            text = format!("{text}: {detail}");
        }
        Some(self.lane.without_places(&text))
    }

    fn halted(&mut self) -> Option<End> {
        let relay = self.relay.as_mut().expect("it runs");
        if let Some(status) = relay.ended() {
            let how = match status.code() {
                Some(code) => format!("exit {code}"),
                None => format!("{status}"),
            };
            // What is said outside the log is meant for people, and is not JSON.
            let lines = relay.log();
            let said: Vec<_> = lines.iter().filter(|line| !line.starts_with('{')).collect();
            let said: Vec<_> = said.into_iter().map(String::as_str).collect();
            let message = self.lane.without_places(&said.join("\n"));
            return Some(End::Halted { how, message });
        }
        let status = relay.status()?;
        let state = status["state"].as_str()?;
        if state != "blocked" && state != "lost" {
            return None;
        }
        let how = state.to_owned();
        let message = self.problem(&status)?;
        let end = End::Halted { how, message };
        let since = match self.halted.take() {
            Some((known, since)) if known == end => since,
            _ => Instant::now(),
        };
        self.halted = Some((end.clone(), since));
        let row = status["error"]["message"]
            .as_str()?
            .contains("cannot be routed");
        (row || since.elapsed() >= SETTLED).then_some(end)
    }

    async fn ask(&mut self) -> Map<String, Value> {
        let mut answers = Map::new();
        for sql in &self.done.query {
            let rows = self.session("main").await.query(sql, &[]).await.unwrap();
            let rows: Vec<Value> = rows.iter().map(python_row).collect();
            answers.insert(sql.clone(), Value::Array(rows));
        }
        answers
    }

    async fn moment_ms(&mut self, sql: &str) -> f64 {
        let sql = format!("SELECT (({sql}))::float8");
        let row = self.session("main").await.query_one(&sql, &[]).await;
        row.unwrap().get(0)
    }

    /// One that has nothing outstanding stops cleanly. One that is blocked still publishes what
    /// stands before the row.
    fn finish(&mut self, halted: Option<End>) -> Option<End> {
        let mut relay = self.relay.take()?;
        if relay.ended().is_some() {
            self.log.extend(relay.log());
            return halted;
        }
        let (status, log) = relay.stop_and_log();
        self.log.extend(log);
        let clean = status.success() || halted.is_some();
        assert!(clean, "ended with {status}: {:#?}", self.log);
        halted
    }
}

impl End {
    pub(super) fn halt(&self) -> Option<&str> {
        match self {
            Self::Published => None,
            Self::Halted { how, .. } => Some(how),
        }
    }
}

/// Values as the recordings write them.
fn python_row(row: &tokio_postgres::Row) -> Value {
    let columns = row.columns().iter().enumerate();
    let values = columns.map(|(index, column)| match *column.type_() {
        Type::BOOL if row.get::<_, bool>(index) => json!("True"),
        Type::BOOL => json!("False"),
        _ => json!(row.get::<_, String>(index)),
    });
    Value::Array(values.collect())
}
