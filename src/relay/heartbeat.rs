//! Debezium's heartbeats: a record in a topic of their own, and a statement for the database. An
//! idle outbox confirms its position without either.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tokio_postgres::Client;

use super::{REPEAT_INTERVAL, View};
use crate::observe::{Repeated, State};
use crate::postgres::{self, PostgresError};
use crate::router::{Converters, Heartbeat, NoHeartbeat, Record};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub interval: Duration,
    /// None: nothing is published.
    pub heartbeat: Option<Heartbeat>,
    /// Run at each heartbeat.
    pub query: Option<String>,
}

/// When the next one is due.
pub(super) struct Beats {
    interval: Duration,
    heartbeat: Heartbeat,
    pub(super) due_at: Instant,
}

impl Beats {
    /// None where nothing is to be published, or the converters cannot write it.
    pub(super) fn new(options: Option<&Options>, converters: &Converters) -> Option<Self> {
        let options = options?;
        let heartbeat = options.heartbeat.clone()?;
        if let Err(NoHeartbeat { converter }) = heartbeat.record(converters, 0) {
            tracing::warn!("no heartbeats are published: {converter} does not write them");
            return None;
        }
        Some(Self {
            interval: options.interval,
            heartbeat,
            due_at: Instant::now() + options.interval,
        })
    }

    /// The record that is due.
    pub(super) fn take(&mut self, converters: &Converters) -> Option<Record> {
        self.due_at = Instant::now() + self.interval;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now_ms = i64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(i64::MAX);
        self.heartbeat.record(converters, now_ms).ok()
    }
}

/// Runs the statement until it is aborted. What fails is told, and tried again the next time.
pub(super) async fn run_query(options: Option<Options>, server: postgres::Options, view: View) {
    let Some(Options {
        interval,
        query: Some(query),
        ..
    }) = options
    else {
        return;
    };
    let mut client = None;
    let mut repeated = Repeated::new(REPEAT_INTERVAL);
    let mut tick = tokio::time::interval(interval);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        // One instance of several does it: the one that streams.
        if view.status.state() != State::Streaming {
            continue;
        }
        match run_once(&server, &query, &mut client).await {
            Ok(()) => drop(repeated.recovered()),
            Err(error) => {
                client = None;
                let message = error.to_string();
                if let Some(unsaid) = repeated.say(&message, std::time::Instant::now()) {
                    tracing::warn!(
                        repeated = unsaid,
                        "the heartbeat's statement failed: {}",
                        postgres::chain(&error)
                    );
                }
            }
        }
    }
}

async fn run_once(
    server: &postgres::Options,
    query: &str,
    client: &mut Option<Client>,
) -> Result<(), PostgresError> {
    let connected = match client.take() {
        Some(client) => client,
        None => postgres::connect(server).await?,
    };
    let patience = server.connect_timeout;
    let ran = tokio::time::timeout(patience, connected.batch_execute(query));
    let ran = ran.await;
    ran.map_err(|_| PostgresError::Silent { after: patience })?
        .map_err(PostgresError::without_words)?;
    *client = Some(connected);
    Ok(())
}
