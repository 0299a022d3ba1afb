//! One PostgreSQL, one broker, two relays, and a line to each server.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant, SystemTime};

use tokio_postgres::Client;

use crate::faults::Side;
use crate::support::{Kafka, Postgres, Relay, TcpProxy, Version};

pub(crate) const TOPIC: &str = "outbox.event.order";

pub(crate) struct World {
    pub(crate) postgres: Postgres,
    pub(crate) kafka: Kafka,
    postgres_line: TcpProxy,
    kafka_line: TcpProxy,
    relays: [Option<Relay>; 2],
    frozen: Option<usize>,
    pub(crate) thaws: Vec<RangeInclusive<i64>>,
    pub(crate) starts: u64,
    /// Stops that were asked for and did not end with status 0.
    pub(crate) undrained: u64,
    /// Relays that ended by themselves, with their last words.
    pub(crate) deaths: Vec<String>,
}

/// How long a relay that was thawed may take to send what it still had.
const THAW: Duration = Duration::from_secs(10);

impl World {
    pub(crate) async fn open() -> Self {
        let postgres = Postgres::start(Version::V18, &[("wal_sender_timeout", "10s")]);
        let (kafka, kafka_line) = Kafka::start_behind_proxy();
        // The broker's time tells what was sent after a thaw.
        let append_time = ("message.timestamp.type", "LogAppendTime");
        kafka.create_topic(TOPIC, 3, &[append_time]).await;
        let postgres_line = TcpProxy::start(postgres.port);
        Self {
            postgres,
            kafka,
            postgres_line,
            kafka_line,
            relays: [None, None],
            frozen: None,
            thaws: Vec::new(),
            starts: 0,
            undrained: 0,
            deaths: Vec::new(),
        }
    }

    pub(crate) fn line(&self, side: Side) -> &TcpProxy {
        match side {
            Side::Postgres => &self.postgres_line,
            Side::Kafka => &self.kafka_line,
        }
    }

    pub(crate) fn start_relays(&mut self) {
        let own = [
            format!(
                "postgres.url=postgresql://postgres@127.0.0.1:{}/postgres",
                self.postgres_line.port()
            ),
            format!(
                "kafka.bootstrap.servers=127.0.0.1:{}",
                self.kafka_line.port()
            ),
            "postgres.wal_sender_timeout=3s".to_owned(),
            "relay.max_in_flight_records=2000".to_owned(),
            "relay.backoff_max=1s".to_owned(),
            "relay.shutdown_timeout=10s".to_owned(),
        ];
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        for place in self.relays.iter_mut().filter(|place| place.is_none()) {
            *place = Some(Relay::start(&self.postgres, &self.kafka, &own));
            self.starts += 1;
        }
    }

    /// The one that streams, or else any that runs.
    fn leader(&self) -> usize {
        let streams = |place: &Option<Relay>| {
            let status = place.as_ref().and_then(Relay::status);
            status.is_some_and(|status| status["state"] == "streaming")
        };
        self.relays
            .iter()
            .position(streams)
            .or_else(|| self.relays.iter().position(Option::is_some))
            .unwrap_or(0)
    }

    pub(crate) fn kill_leader(&mut self) {
        if let Some(relay) = self.relays[self.leader()].take() {
            relay.kill();
        }
    }

    pub(crate) fn kill_all(&mut self) {
        self.relays
            .iter_mut()
            .filter_map(Option::take)
            .for_each(Relay::kill);
    }

    pub(crate) fn stop_leader(&mut self) {
        let leader = self.leader();
        self.stop(leader);
    }

    pub(crate) fn stop_all(&mut self) {
        for place in 0..self.relays.len() {
            self.stop(place);
        }
    }

    fn stop(&mut self, place: usize) {
        if let Some(relay) = self.relays[place].take()
            && !relay.stop().success()
        {
            self.undrained += 1;
        }
    }

    pub(crate) fn freeze_leader(&mut self) {
        let leader = self.leader();
        if let Some(relay) = &self.relays[leader] {
            relay.signal("STOP");
            self.frozen = Some(leader);
        }
    }

    pub(crate) async fn thaw(&mut self) {
        let frozen = self.frozen.take().and_then(|at| self.relays[at].as_ref());
        if let Some(relay) = frozen {
            let from = now_ms();
            relay.signal("CONT");
            tokio::time::sleep(THAW).await;
            self.thaws.push(from..=now_ms());
        }
    }

    pub(crate) async fn terminate_walsenders(&self) {
        let client = self.postgres.client().await;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_replication";
        client.batch_execute(end).await.unwrap();
    }

    /// Relays that have ended without being asked to.
    pub(crate) fn look_for_deaths(&mut self) {
        for place in &mut self.relays {
            if let Some(relay) = place
                && let Some(status) = relay.ended()
            {
                let log = relay.log();
                let last = log[log.len().saturating_sub(3)..].join(" | ");
                self.deaths.push(format!("{status}: {last}"));
                *place = None;
            }
        }
    }

    /// How long it takes until what is committed now is confirmed, or what the relays say when it
    /// takes too long.
    pub(crate) async fn catch_up(&mut self, patience: Duration) -> Result<Duration, String> {
        let client = self.postgres.client().await;
        let target: String = ask(&client, "SELECT pg_current_wal_lsn()::text").await;
        let reached = format!(
            "SELECT coalesce(bool_or(confirmed_flush_lsn >= '{target}'), false) FROM pg_replication_slots WHERE slot_name = 'outbox'"
        );
        let began = Instant::now();
        while !ask::<bool>(&client, &reached).await {
            self.look_for_deaths();
            self.start_relays();
            if began.elapsed() > patience {
                let said = self.relays.iter().flatten().map(|relay| {
                    let log = relay.log();
                    let last = log[log.len().saturating_sub(5)..].join("\n  ");
                    format!("{:?}\n  {last}", relay.get("/status"))
                });
                return Err(said.collect::<Vec<_>>().join("\n"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(began.elapsed())
    }

    /// Everything that each key committed.
    pub(crate) async fn committed(&self) -> HashMap<String, i64> {
        let client = self.postgres.client().await;
        let rows = client.query("SELECT id, version FROM orders WHERE version > 0", &[]);
        let rows = rows.await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// The most memory that a relay that still runs has had.
    pub(crate) fn peak_kib(&self) -> u64 {
        let relays = self.relays.iter().flatten();
        relays.map(Relay::peak_kib).max().unwrap_or_default()
    }
}

async fn ask<T: for<'a> tokio_postgres::types::FromSql<'a>>(client: &Client, query: &str) -> T {
    client.query_one(query, &[]).await.unwrap().get(0)
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from(since.unwrap().as_millis()).unwrap()
}
