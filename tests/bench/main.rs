//! First figures: routing beside copying, the drain of waiting rows beside pg_recvlogical, and latency at a steady rate.
//! `scripts/bench` runs it; it prints a table and asserts nothing about time.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../support/live/mod.rs"]
mod support;

mod debezium;
mod journal;
mod routing;
mod takeover;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use support::{Consumer, Kafka, Postgres, Relay, Shop, Version};

const ROWS: u64 = 300_000;
const RATE: u64 = 1000;
const SECONDS: u64 = 15;
const TICKS_PER_SECOND: f64 = 100.0;

#[tokio::main]
async fn main() {
    let mut given = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"));
    match given.next().as_deref() {
        Some("takeover") => {
            let (mut way, mut runs) = (None, 20);
            for arg in given {
                match arg.parse() {
                    Ok(number) => runs = number,
                    Err(_) => way = Some(arg),
                }
            }
            return takeover::measure(way.as_deref(), runs).await;
        }
        Some("debezium") => return debezium::measure().await,
        Some("journal") => return journal::measure().await,
        Some(other) => panic!("takeover, debezium, journal or nothing, not {other}"),
        None => {}
    }
    println!("| measurement | value |\n|---|---|");
    routing::measure();
    drain().await;
    latency().await;
}

async fn drain() {
    let (postgres, kafka) = (Postgres::start(Version::V18, &[]), Kafka::start());
    let client = postgres.client().await;
    Shop::create_tables(&client).await;
    client
        .batch_execute(
            "CREATE PUBLICATION outbox FOR TABLE outbox WITH (publish = 'insert, update')",
        )
        .await
        .unwrap();
    for slot in ["outbox", "reader"] {
        client
            .query(
                "SELECT pg_create_logical_replication_slot($1, 'pgoutput')",
                &[&slot],
            )
            .await
            .unwrap();
    }
    insert_rows(&client, ROWS).await;
    let end: String = client
        .query_one("SELECT pg_current_wal_flush_lsn()::text", &[])
        .await
        .unwrap()
        .get(0);

    let began = Instant::now();
    let status = Command::new(pg_recvlogical())
        .args([
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
            "-d",
            "postgres",
            "-S",
            "reader",
            "--start",
            "-f",
            "/dev/null",
        ])
        .args(["-p", &postgres.port.to_string(), "--endpos", &end])
        .args(["-o", "proto_version=1", "-o", "publication_names=outbox"])
        .stderr(Stdio::null())
        .status()
        .unwrap();
    let reader_seconds = began.elapsed().as_secs_f64();
    assert!(status.success(), "pg_recvlogical: {status}");

    let drained = drain_with(&postgres, &kafka, "outbox", &[]).await;
    let rate = |seconds: f64| (ROWS as f64 / seconds).round();
    println!(
        "| pg_recvlogical to /dev/null, {ROWS} rows, 100 a transaction | {} rows/s |",
        rate(reader_seconds)
    );
    println!(
        "| outboxd to one Kafka broker, start to exit | {} rows/s |",
        rate(drained.seconds)
    );
    println!(
        "| ratio outboxd / pg_recvlogical | {:.2} |",
        reader_seconds / drained.seconds
    );
    println!(
        "| outboxd CPU seconds per million rows | {:.2} |",
        drained.cpu_seconds / ROWS as f64 * 1e6
    );
    println!(
        "| outboxd peak resident memory | {} MiB |",
        drained.peak_kib / 1024
    );
}

struct Drained {
    seconds: f64,
    cpu_seconds: f64,
    peak_kib: u64,
}

/// Everything that waits in the slot, from the start of a relay to its exit.
async fn drain_with(postgres: &Postgres, kafka: &Kafka, slot: &str, also: &[&str]) -> Drained {
    let began = Instant::now();
    let settings = [
        format!("postgres.url={}", postgres.url()),
        format!("slot.name={slot}"),
        "publication.name=outbox".to_owned(),
        "outbox.headers=seq".to_owned(),
        format!("kafka.bootstrap.servers={}", kafka.servers()),
    ];
    let settings = settings.iter().map(String::as_str);
    let settings = settings.chain(also.iter().copied());
    let args: Vec<String> = ["run", "--until=current"]
        .map(str::to_owned)
        .into_iter()
        .chain(settings.map(|setting| format!("--set={setting}")))
        .collect();
    let relay = Relay::start_with(&args, &[]);
    let pid = relay.pid();
    let (mut peak_kib, mut ticks) = (0, 0);
    while let Some((kib, cpu)) = usage(pid) {
        (peak_kib, ticks) = (kib.max(peak_kib), cpu.max(ticks));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let seconds = began.elapsed().as_secs_f64();
    let (status, log) = relay.wait();
    assert!(status.success(), "{log:#?}");
    Drained {
        seconds,
        cpu_seconds: ticks as f64 / TICKS_PER_SECOND,
        peak_kib,
    }
}

/// A hundred rows of 300 bytes a transaction.
async fn insert_rows(client: &Client, rows: u64) {
    for _ in 0..rows / 100 {
        client
            .batch_execute(
                "INSERT INTO outbox SELECT gen_random_uuid(), 'order', 'ORD-' || n, n, 'T',
                        jsonb_build_object('note', repeat('x', 280)) FROM generate_series(1, 100) n",
            )
            .await
            .unwrap();
    }
}

/// Peak memory in KiB and processor time in ticks of 10 ms; none once the process has ended.
fn usage(pid: u32) -> Option<(u64, u64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM"))?;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some((
        peak.split_whitespace().nth(1)?.parse().ok()?,
        ticks(11)? + ticks(12)?,
    ))
}

fn pg_recvlogical() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib/postgresql").unwrap();
    let mut found: Vec<PathBuf> = folders
        .filter_map(|folder| Some(folder.ok()?.path().join("bin/pg_recvlogical")))
        .filter(|path| path.exists())
        .collect();
    found.sort();
    found
        .pop()
        .expect("Debian's package postgresql has pg_recvlogical")
}

async fn latency() {
    let (postgres, kafka) = (Postgres::start(Version::V18, &[]), Kafka::start());
    let client = postgres.client().await;
    Shop::create_tables(&client).await;
    let relay = Relay::start(&postgres, &kafka, &[]);
    relay.wait_for_state("streaming").await;
    let waits_us = latencies_us(&client, &kafka, 0).await;
    println!(
        "| commit to consumer at {RATE}/s, p50 | {:.2} ms |",
        quantile_ms(&waits_us, 0.5)
    );
    println!(
        "| commit to consumer at {RATE}/s, p99 | {:.2} ms |",
        quantile_ms(&waits_us, 0.99)
    );
    println!(
        "| resident memory of the relay then | {} MiB |",
        relay.resident_kib() / 1024
    );
    assert!(relay.stop().success());
}

/// From the return of the commit to the consumer, in order of size. `round` tells the events of one call
/// from those of another.
async fn latencies_us(client: &Client, kafka: &Kafka, round: i64) -> Vec<u128> {
    let count = i64::try_from(RATE * SECONDS).unwrap();
    let seqs = round * count..(round + 1) * count;
    let insert = client
        .prepare("INSERT INTO outbox VALUES (gen_random_uuid(), 'ticket', 'k', $1, 'T', '{\"note\": \"x\"}')")
        .await
        .unwrap();
    // Makes the topic.
    client.execute(&insert, &[&-1_i64]).await.unwrap();
    let consumer = Consumer::new(kafka, "outbox.event.ticket");
    let expected = seqs.clone();
    let arrivals = std::thread::spawn(move || {
        let mut arrivals = HashMap::new();
        while arrivals.len() < usize::try_from(count).unwrap() {
            let event = consumer.next(Duration::from_secs(30)).expect("events come");
            if expected.contains(&event.seq()) {
                arrivals.insert(event.seq(), Instant::now());
            }
        }
        arrivals
    });
    let mut committed = HashMap::new();
    let mut tick = tokio::time::interval(Duration::from_secs_f64(1.0 / RATE as f64));
    for seq in seqs.clone() {
        tick.tick().await;
        client.execute(&insert, &[&seq]).await.unwrap();
        committed.insert(seq, Instant::now());
    }
    let arrivals = arrivals.join().unwrap();
    let steady = arrivals
        .iter()
        .filter(|(seq, _)| **seq >= seqs.start + 2000);
    let mut waits_us: Vec<u128> = steady
        .map(|(seq, at)| at.saturating_duration_since(committed[seq]).as_micros())
        .collect();
    waits_us.sort_unstable();
    waits_us
}

fn quantile_ms(sorted_us: &[u128], q: f64) -> f64 {
    sorted_us[((sorted_us.len() - 1) as f64 * q) as usize] as f64 / 1000.0
}
