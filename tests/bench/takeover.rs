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

/// How it is called on the command line and in the table, and what ends the leader.
type Way = (&'static str, &'static str, fn(&Relay, &TcpProxy));

const WAYS: [Way; 5] = [
    ("stop", "SIGTERM", |leader, _| leader.signal("TERM")),
    ("kill", "kill -9", |leader, _| leader.signal("KILL")),
    ("freeze", "SIGSTOP, wal_sender_timeout 3 s", |leader, _| {
        leader.signal("STOP");
    }),
    ("reset", "line to PostgreSQL reset", |_, line| line.cut()),
    (
        "silence",
        "line to PostgreSQL silent, wal_sender_timeout 3 s",
        |_, line| {
            line.hold(Direction::Both);
        },
    ),
];

const FAILOVER: &str = "failover";

/// All ways, or the one that is named.
pub(crate) async fn measure(way: Option<&str>, runs: usize) {
    let known: Vec<_> = WAYS.iter().map(|way| way.0).chain([FAILOVER]).collect();
    let is_meant = |name: &str| way.is_none_or(|way| way == name);
    assert!(
        known.iter().copied().any(is_meant),
        "one of: {}",
        known.join(", ")
    );
    println!("| leader goes by | runs | shortest | median | longest |\n|---|---|---|---|---|");
    for (name, title, end) in WAYS {
        if is_meant(name) {
            row(title, between_instances(runs, end, &[]).await);
        }
    }
    if is_meant(FAILOVER) {
        row("PostgreSQL killed, standby promoted", failovers(runs).await);
    }
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

/// With settings beside the usual ones.
pub(crate) async fn after_kills(runs: usize, also: &[&str]) -> Vec<Duration> {
    between_instances(runs, |leader, _| leader.signal("KILL"), also).await
}

async fn between_instances(
    runs: usize,
    end: fn(&Relay, &TcpProxy),
    also: &[&str],
) -> Vec<Duration> {
    let scene = Scene::open(Version::V18, &[]).await;
    let start = || {
        let line = TcpProxy::start(scene.postgres.port);
        let url = format!(
            "postgres.url=postgresql://postgres@127.0.0.1:{}/postgres",
            line.port()
        );
        let settings = [&[url.as_str(), WAL_SENDER_TIMEOUT], also].concat();
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

/// One relay all the time. The promoted server gets a standby of its own where the killed one was.
async fn failovers(runs: usize) -> Vec<Duration> {
    let kafka = Scene::kafka().await;
    let (mut primary, _) = Scene::source(Version::V18, &[]).await;
    let mut free = free_port();
    let url = format!(
        "postgres.url=postgresql://postgres@127.0.0.1:{},127.0.0.1:{free}/postgres?target_session_attrs=read-write",
        primary.port
    );
    let settings = [
        url.as_str(),
        "slot.failover=true",
        WAL_SENDER_TIMEOUT,
        "relay.backoff_max=500ms",
    ];
    let relay = Relay::start(&primary, &kafka, &settings);
    relay.wait_for_state("streaming").await;
    let urls =
        [primary.port, free].map(|port| format!("postgresql://postgres@127.0.0.1:{port}/postgres"));
    let traffic = Traffic::start(&kafka, urls.to_vec());
    let mut holes = Vec::new();
    for _ in 0..runs {
        let standby = with_copied_slot(&mut primary, free).await;
        traffic.consume(100).await;
        let second = standby.client().await;
        let begun = Instant::now();
        primary.kill();
        second.batch_execute("SELECT pg_promote()").await.unwrap();
        traffic.consume(100).await;
        holes.push(traffic.hole(begun));
        free = std::mem::replace(&mut primary, standby).port;
    }
    traffic.finish().await;
    holes
}

/// A standby that could take over now.
async fn with_copied_slot(primary: &mut Postgres, port: u16) -> Postgres {
    let standby = primary.start_standby(port).await;
    let (first, second) = (primary.client().await, standby.client().await);
    let copied = "SELECT count(*) > 0 FROM pg_replication_slots WHERE slot_name = 'outbox' AND synced AND NOT temporary";
    wait_until(PATIENCE, "the standby keeps a copy", async || {
        // From there on the slot may stand, which the server notes by itself only now and then.
        let note = "SELECT pg_log_standby_snapshot()";
        first.batch_execute(note).await.unwrap();
        second.query_one(copied, &[]).await.unwrap().get(0)
    })
    .await;
    standby
}
