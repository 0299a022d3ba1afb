//! The hole between consecutive events at a consumer, when the leader goes in one way or another and the
//! second instance takes over. One event is written every few milliseconds.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_postgres::NoTls;

use crate::support::{
    Consumer, Direction, Kafka, Postgres, Relay, Scene, TcpProxy, Version, free_port, wait_until,
};

const EVERY: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(60);
const WAL_SENDER_TIMEOUT: &str = "postgres.wal_sender_timeout=3s";

/// Writes to the first server that takes it, and notes when each event is consumed for the first time.
struct Traffic {
    over: Arc<AtomicBool>,
    arrivals: Arc<Mutex<Vec<Instant>>>,
    writer: JoinHandle<()>,
}

impl Traffic {
    fn start(kafka: &Kafka, urls: Vec<String>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let consumer = Consumer::new(kafka, Scene::TOPIC);
        let (ended, sink) = (Arc::clone(&over), Arc::clone(&arrivals));
        std::thread::spawn(move || {
            let mut seen = HashSet::new();
            while !ended.load(Ordering::Relaxed) {
                if let Some(event) = consumer.next(Duration::from_millis(200))
                    && seen.insert(event.seq())
                {
                    sink.lock().unwrap().push(Instant::now());
                }
            }
        });
        let writer = tokio::spawn(write(urls, Arc::clone(&over)));
        Self {
            over,
            arrivals,
            writer,
        }
    }

    fn consumed(&self) -> usize {
        self.arrivals.lock().unwrap().len()
    }

    async fn consume(&self, events: usize) {
        let target = self.consumed() + events;
        wait_until(PATIENCE, "events are consumed", async || {
            self.consumed() >= target
        })
        .await;
    }

    /// The longest time without a new event since then.
    fn hole(&self, since: Instant) -> Duration {
        let arrivals = self.arrivals.lock().unwrap();
        let from = arrivals.partition_point(|at| *at < since).saturating_sub(1);
        let holes = arrivals[from..].windows(2).map(|pair| pair[1] - pair[0]);
        holes.max().unwrap_or_default()
    }

    async fn finish(self) {
        self.over.store(true, Ordering::Relaxed);
        self.writer.await.unwrap();
    }
}

async fn write(urls: Vec<String>, over: Arc<AtomicBool>) {
    let mut seq = 0_i64;
    while !over.load(Ordering::Relaxed) {
        for url in &urls {
            let Ok((client, connection)) = tokio_postgres::connect(url, NoTls).await else {
                continue;
            };
            tokio::spawn(connection);
            let insert =
                "INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'k', $1, 'T', '{}')";
            let Ok(insert) = client.prepare(insert).await else {
                continue;
            };
            while !over.load(Ordering::Relaxed) {
                seq += 1;
                if client.execute(&insert, &[&seq]).await.is_err() {
                    break;
                }
                tokio::time::sleep(EVERY).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

type Way = (&'static str, fn(&Relay, &TcpProxy));

const WAYS: [Way; 5] = [
    ("SIGTERM", |leader, _| leader.signal("TERM")),
    ("kill -9", |leader, _| leader.signal("KILL")),
    ("SIGSTOP, wal_sender_timeout 3 s", |leader, _| {
        leader.signal("STOP");
    }),
    ("line to PostgreSQL reset", |_, line| line.cut()),
    (
        "line to PostgreSQL silent, wal_sender_timeout 3 s",
        |_, line| {
            line.hold(Direction::Both);
        },
    ),
];

pub(crate) async fn measure(runs: usize) {
    println!("| leader goes by | runs | shortest | median | longest |\n|---|---|---|---|---|");
    for (name, end) in WAYS {
        row(name, between_instances(runs, end).await);
    }
    let mut holes = Vec::new();
    for _ in 0..runs {
        holes.push(failover().await);
    }
    row("PostgreSQL killed, standby promoted", holes);
}

fn row(name: &str, mut holes: Vec<Duration>) {
    holes.sort_unstable();
    let ms = |at: usize| format!("{} ms", holes[at].as_millis());
    println!(
        "| {name} | {} | {} | {} | {} |",
        holes.len(),
        ms(0),
        ms(holes.len() / 2),
        ms(holes.len() - 1)
    );
}

async fn between_instances(runs: usize, end: fn(&Relay, &TcpProxy)) -> Vec<Duration> {
    let scene = Scene::open(Version::V18, &[]).await;
    let start = || {
        let line = TcpProxy::start(scene.postgres.port);
        let url = format!(
            "postgres.url=postgresql://postgres@127.0.0.1:{}/postgres",
            line.port()
        );
        let settings = [url.as_str(), WAL_SENDER_TIMEOUT];
        (Relay::start(&scene.postgres, &scene.kafka, &settings), line)
    };
    let mut leader = start();
    leader.0.wait_for_state("streaming").await;
    let traffic = Traffic::start(&scene.kafka, vec![scene.postgres.url()]);
    let mut holes = Vec::new();
    for _ in 0..runs {
        let standby = start();
        standby.0.wait_for_state("standby").await;
        traffic.consume(100).await;
        let begun = Instant::now();
        end(&leader.0, &leader.1);
        standby.0.wait_for_state("streaming").await;
        traffic.consume(100).await;
        holes.push(traffic.hole(begun));
        std::mem::replace(&mut leader, standby).0.kill();
    }
    traffic.finish().await;
    holes
}

async fn failover() -> Duration {
    let kafka = Scene::kafka().await;
    let (mut primary, client) = Scene::source(Version::V18, &[]).await;
    let slot = "SELECT pg_create_physical_replication_slot('standby', true)";
    client.batch_execute(slot).await.unwrap();
    let standby_port = free_port();
    let url = format!(
        "postgres.url=postgresql://postgres@127.0.0.1:{},127.0.0.1:{standby_port}/postgres?target_session_attrs=read-write",
        primary.port
    );
    let settings = [url.as_str(), "slot.failover=true", WAL_SENDER_TIMEOUT];
    let relay = Relay::start(&primary, &kafka, &settings);
    relay.wait_for_state("streaming").await;
    let standby = primary.start_standby(standby_port);
    let traffic = Traffic::start(&kafka, vec![primary.url(), standby.url()]);
    traffic.consume(100).await;
    let second = standby.client().await;
    let copied = "SELECT count(*) > 0 FROM pg_replication_slots WHERE slot_name = 'outbox' AND synced AND NOT temporary";
    wait_until(PATIENCE, "the standby keeps a copy", async || {
        second.query_one(copied, &[]).await.unwrap().get(0)
    })
    .await;
    traffic.consume(100).await;
    let begun = Instant::now();
    primary.kill();
    let promote = "SELECT pg_promote()";
    second.batch_execute(promote).await.unwrap();
    relay.wait_for_state("streaming").await;
    traffic.consume(100).await;
    let hole = traffic.hole(begun);
    traffic.finish().await;
    drop::<Postgres>(standby);
    hole
}
