//! The same rows through Debezium and through outboxd: the same servers, one after the other, in one run.
//! Debezium's worker runs and its code is warm before its clock starts; outboxd's starts with its process.

use std::time::{Duration, Instant};

use crate::support::{Connect, Kafka, Postgres, Relay, Scene, Shop, Version, Worker};
use crate::{RATE, ROWS, TICKS_PER_SECOND, insert_rows, latencies_us, quantile_ms, usage};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

const PARTITIONS: i32 = 4;
/// Compiles Debezium's hot paths before anything is measured.
const WARM_UP_ROWS: u64 = 100_000;
const PATIENCE: Duration = Duration::from_secs(300);

/// A JVM as a worker in production has it, and the connector's settings for throughput and latency.
const JVM: [&str; 3] = ["-Xms256m", "-Xmx1g", "-XX:+UseSerialGC"];
const TUNED: [(&str, &str); 4] = [
    ("max.batch.size", "8192"),
    ("max.queue.size", "32768"),
    ("poll.interval.ms", "10"),
    ("producer.override.linger.ms", "0"),
];

struct Drained {
    seconds: f64,
    cpu_seconds: f64,
    peak_kib: u64,
}

impl Drained {
    fn print(&self, name: &str) {
        let rows = ROWS as f64;
        println!(
            "| {name}, {ROWS} rows | {:.0} rows/s |",
            rows / self.seconds
        );
        println!(
            "| {name}, processor seconds per million rows | {:.1} |",
            self.cpu_seconds / rows * 1e6
        );
        println!(
            "| {name}, most resident memory | {} MiB |",
            self.peak_kib / 1024
        );
    }
}

pub(crate) async fn measure() {
    println!("| measurement | value |\n|---|---|");
    let (postgres, kafka) = (Postgres::start(Version::V18, &[]), Kafka::start());
    let client = postgres.client().await;
    Shop::create_tables(&client).await;
    let publish = "CREATE PUBLICATION outbox FOR TABLE outbox WITH (publish = 'insert')";
    client.batch_execute(publish).await.unwrap();
    kafka.create_topic(Scene::TOPIC, PARTITIONS, &[]).await;
    let log = Log::of(&kafka);

    let mut connect = Connect::start_with(&kafka, Worker::Standalone, &JVM);
    connect.create_with(&postgres, &TUNED).await;
    insert_rows(&client, WARM_UP_ROWS).await;
    log.wait_for(WARM_UP_ROWS).await;
    let debezium_us = latencies_us(&client, &kafka, 1).await;
    connect.stop_connector(&postgres).await;

    let copy = "SELECT pg_copy_logical_replication_slot('outbox', 'relay')";
    client.batch_execute(copy).await.unwrap();
    insert_rows(&client, ROWS).await;

    let (stored, began) = (log.records(), Instant::now());
    let (_, ticks) = usage(connect.pid()).expect("the worker runs");
    connect.resume_connector(&postgres).await;
    let debezium = log
        .drained(stored + ROWS, connect.pid(), (began, ticks))
        .await;
    connect.stop_connector(&postgres).await;
    connect.stop();

    let settings = ["slot.name=relay", "snapshot.mode=no_data"];
    let stored = log.records();
    let began = Instant::now();
    let relay = Relay::start(&postgres, &kafka, &settings);
    let outboxd = log.drained(stored + ROWS, relay.pid(), (began, 0)).await;
    let outboxd_us = latencies_us(&client, &kafka, 2).await;
    assert!(relay.stop().success());

    debezium.print("Debezium 3.6.1, tuned and warm");
    outboxd.print("outboxd, start included");
    println!(
        "| outboxd / Debezium, rows/s | {:.1} |",
        debezium.seconds / outboxd.seconds
    );
    for (name, waits) in [("Debezium", debezium_us), ("outboxd", outboxd_us)] {
        let (median, tail) = (quantile_ms(&waits, 0.5), quantile_ms(&waits, 0.99));
        println!(
            "| {name}, commit to consumer at {RATE}/s, p50 and p99 | {median:.2} ms, {tail:.2} ms |"
        );
    }
}

/// What a topic holds, as its broker says.
struct Log(BaseConsumer);

impl Log {
    fn of(kafka: &Kafka) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", kafka.servers());
        Self(config.create().unwrap())
    }

    fn records(&self) -> u64 {
        let ends = (0..PARTITIONS).map(|partition| {
            let answer = self.0.fetch_watermarks(Scene::TOPIC, partition, PATIENCE);
            u64::try_from(answer.unwrap().1).unwrap()
        });
        ends.sum()
    }

    async fn wait_for(&self, records: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.records() < records {
            assert!(
                Instant::now() < deadline,
                "{} of {records} records",
                self.records()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What the process took since then, and its ticks of processor time until then.
    async fn drained(&self, records: u64, pid: u32, since: (Instant, u64)) -> Drained {
        self.wait_for(records).await;
        let seconds = since.0.elapsed().as_secs_f64();
        let (peak_kib, ticks) = usage(pid).expect("it runs");
        Drained {
            seconds,
            cpu_seconds: (ticks - since.1) as f64 / TICKS_PER_SECOND,
            peak_kib,
        }
    }
}
