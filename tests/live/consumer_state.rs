//! The faults of the design, asserted on what a version-guarded consumer holds afterwards: its table is
//! the source's.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tokio_postgres::Client;

use crate::support::{
    Postgres, Reader, Relay, Scene, Shop, Shutdown, Version, free_port, wait_until,
};

const PATIENCE: Duration = Duration::from_secs(60);

async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap();
}

/// One change of an order and its event, without an end of the transaction.
fn change(key: &str, status: &str) -> String {
    format!(
        "INSERT INTO orders VALUES ('{key}', '{status}') ON CONFLICT (id)
             DO UPDATE SET status = excluded.status, version = orders.version + 1;
         INSERT INTO outbox SELECT gen_random_uuid(), 'order', id, version, 'T', jsonb_build_object('status', status)
           FROM orders WHERE id = '{key}';"
    )
}

/// A row's place in the log says nothing about when it committed: a relay that remembered the highest
/// place it has seen would pass over the first two transactions.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_written_early_and_committed_late_is_not_passed_over_by_a_restart() {
    let scene = Scene::open(Version::V18, &[]).await;
    let relay = Relay::start(&scene.postgres, &scene.kafka, &[]);
    relay.wait_for_state("streaming").await;
    let (first, second) = (scene.postgres.client().await, scene.postgres.client().await);
    run(&first, &format!("BEGIN; {}", change("a", "early"))).await;
    run(&second, &format!("BEGIN; {}", change("b", "early"))).await;
    run(&scene.client, &change("c", "late")).await;
    let mut reader = Reader::new(&scene.kafka);
    reader.read_until(1);
    let confirmed = relay.status().unwrap()["confirmed_lsn"].clone();
    wait_until(PATIENCE, "the last one is confirmed", async || {
        relay.status().unwrap()["confirmed_lsn"] != confirmed
            || relay.status().unwrap()["in_flight_records"] == 0
    })
    .await;
    relay.kill();

    run(&second, "COMMIT").await;
    let relay = Relay::start(&scene.postgres, &scene.kafka, &[]);
    reader.read_until(2);
    run(&first, "COMMIT").await;
    reader.read_until(3);
    assert!(relay.stop().success());
    reader.follower.assert_equals_source(&scene.client).await;
}

/// Rows that were kept come by a snapshot; then the relay starts from a position that it had long ago;
/// then keys move to new partitions in the middle of the stream.
#[tokio::test(flavor = "multi_thread")]
async fn snapshots_older_positions_and_new_partitions_leave_the_sources_table() {
    let scene = Scene::open(Version::V18, &[]).await;
    for round in ["created", "paid", "shipped"] {
        for key in 0..50 {
            run(&scene.client, &change(&format!("kept-{key}"), round)).await;
        }
    }
    let relay = Relay::start(&scene.postgres, &scene.kafka, &[]);
    relay.wait_for_state("streaming").await;
    let mut reader = Reader::new(&scene.kafka);
    reader.read_until(150);
    reader.follower.assert_equals_source(&scene.client).await;
    println!("snapshot of 150 rows: repeats {}", reader.tally.repeats());

    let older = "SELECT pg_copy_logical_replication_slot('outbox', 'older')";
    run(&scene.client, older).await;
    let shop = Shop::open(&scene.postgres, 1000, u64::MAX).await;
    reader.read_more(2000);
    assert!(relay.stop().success());
    let before = reader.tally.repeats();
    let settings = [
        "slot.name=older",
        "kafka.topic.metadata.refresh.interval.ms=200",
        // The journal would have it that this is not the slot that it knew, and it is not.
        "snapshot.mode=no_data",
    ];
    let relay = Relay::start(&scene.postgres, &scene.kafka, &settings);
    relay.wait_for_state("streaming").await;
    // New events of one partition may come before the repeats of another.
    reader.read_until_repeats(before + 2000);
    reader.read_more(500);
    println!(
        "an older position: repeats {}",
        reader.tally.repeats() - before
    );

    scene.kafka.add_partitions(Scene::TOPIC, 6).await;
    let mut wide = Reader::new(&scene.kafka);
    assert_eq!(wide.consumer.partitions(), 6);
    wide.read_until_partition(3);
    let expected = shop.finish().await;
    wide.read_until(usize::try_from(expected.values().sum::<i64>()).unwrap());
    assert!(relay.stop().success());
    wide.read_for(Duration::from_millis(700));
    println!(
        "3 partitions, then 6: events {}, refused as stale {}",
        wide.tally.distinct(),
        wide.follower.refused
    );
    wide.follower.assert_equals_source(&scene.client).await;
}

/// Frozen while records wait in it, thawed when another one has long gone on: what it still sends is old,
/// and the guard refuses it.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_leader_that_thaws_after_the_takeover_misleads_no_guarded_consumer() {
    let scene = Scene::open(Version::V18, &[]).await;
    let settings = ["postgres.wal_sender_timeout=2s"];
    let leader = Relay::start(&scene.postgres, &scene.kafka, &settings);
    leader.wait_for_state("streaming").await;
    let standby = Relay::start(&scene.postgres, &scene.kafka, &settings);
    standby.wait_for_state("standby").await;
    let shop = Shop::open(&scene.postgres, 2000, u64::MAX).await;
    let mut reader = Reader::new(&scene.kafka);
    reader.read_until(1000);
    leader.signal("STOP");
    standby.wait_for_state("streaming").await;
    reader.read_more(1000);
    let before = reader.tally.repeats();
    leader.signal("CONT");
    leader.wait_for_state("standby").await;
    reader.read_more(1000);
    let expected = shop.finish().await;
    reader.read_until(usize::try_from(expected.values().sum::<i64>()).unwrap());
    assert!(standby.stop().success());
    leader.wait_for_state("streaming").await;
    assert!(leader.stop().success());
    reader.read_for(Duration::from_millis(700));
    println!(
        "leader frozen and thawed: repeats after the thaw {}",
        reader.tally.repeats() - before
    );
    reader.follower.assert_equals_source(&scene.client).await;
}

/// A file system of a size of its own.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Self {
        let folder = TempDir::with_prefix("outboxd-disk-").unwrap();
        let mounted = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={size},mode=755"),
                "tmpfs",
            ])
            .arg(folder.path())
            .status();
        assert!(mounted.unwrap().success(), "this test mounts, as root");
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn filler(&self) -> std::path::PathBuf {
        self.path().join("filler")
    }

    fn fill(&self) {
        let written = Command::new("dd")
            .args(["if=/dev/zero", "bs=1M", "status=none"])
            .arg(format!("of={}", self.filler().display()))
            .stderr(std::process::Stdio::null())
            .status();
        assert!(!written.unwrap().success(), "it ends when the disk is full");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.path()).status());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_of_the_server_delays_events_and_loses_none() {
    let disk = SmallDisk::mount("200m");
    let kafka = Scene::kafka().await;
    let small = [("max_wal_size", "64MB"), ("min_wal_size", "32MB")];
    let mut postgres = Postgres::start_in(disk.path(), Version::V18, free_port(), &small);
    let client = postgres.client().await;
    Shop::create_tables(&client).await;
    let relay = Relay::start(&postgres, &kafka, &["relay.backoff_max=500ms"]);
    relay.wait_for_state("streaming").await;
    let shop = Shop::open(&postgres, 2000, u64::MAX).await;
    let mut reader = Reader::new(&kafka);
    reader.read_until(1000);
    disk.fill();
    // A segment of the log that cannot be made is a PANIC, and recovery finds the disk full again.
    tokio::time::timeout(PATIENCE, shop.cut())
        .await
        .expect("the server runs out of disk");
    wait_until(
        PATIENCE,
        "the relay says that the server is gone",
        async || {
            relay
                .status()
                .is_some_and(|status| status["state"] == "starting" && !status["error"].is_null())
        },
    )
    .await;
    std::fs::remove_file(disk.filler()).unwrap();
    postgres.stop(Shutdown::Immediate);
    postgres.start_again();
    let client = postgres.client().await;
    relay.wait_for_state("streaming").await;
    let shop = Shop::open(&postgres, 500, u64::MAX).await;
    reader.read_more(500);
    println!("server out of disk: repeats {}", reader.tally.repeats());
    reader.close(&client, shop, vec![relay]).await;
}

/// The two positions of a range as a message tells it.
fn range(detail: &str) -> (String, String) {
    let (_, rest) = detail.split_once("Rows committed from ").unwrap();
    let (from, rest) = rest.split_once(" to ").unwrap();
    (from.to_owned(), rest.split(' ').next().unwrap().to_owned())
}

async fn position(client: &Client) -> String {
    let position = "SELECT pg_current_wal_insert_lsn()::text";
    client.query_one(position, &[]).await.unwrap().get(0)
}

async fn ordered(client: &Client, positions: [&str; 4]) -> bool {
    let list = positions.map(|at| format!("'{at}'::pg_lsn"));
    let question = format!(
        "SELECT {} <= {} AND {} <= {}",
        list[0], list[1], list[2], list[3]
    );
    client.query_one(&question, &[]).await.unwrap().get(0)
}

/// The log is the events' only copy, and the server has thrown it away.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_slot_takes_with_it_is_told_by_its_range_and_nothing_else_is_missing() {
    let limit = [("max_slot_wal_keep_size", "16MB")];
    let scene = Scene::open(Version::V18, &limit).await;
    let client = &scene.client;
    let commit = async |key: &str, status: &str| {
        let change = change(key, status);
        run(
            client,
            &format!("BEGIN; {change} DELETE FROM outbox; COMMIT"),
        )
        .await;
    };
    let relay = Relay::start(&scene.postgres, &scene.kafka, &[]);
    relay.wait_for_state("streaming").await;
    for key in ["a", "b", "c"] {
        commit(key, "one").await;
    }
    let mut reader = Reader::new(&scene.kafka);
    reader.read_until(3);
    assert!(relay.stop().success());
    let before = position(client).await;
    commit("a", "two").await;
    commit("b", "two").await;
    let after = position(client).await;
    for _ in 0..4 {
        run(client, "CREATE TABLE noise (); DROP TABLE noise").await;
        run(client, "SELECT pg_switch_wal()").await;
    }
    run(client, "CHECKPOINT").await;

    let relay = Relay::start(&scene.postgres, &scene.kafka, &[]);
    relay.wait_for_state("lost").await;
    let error = relay.status().unwrap()["error"].clone();
    let (from, to) = range(error["detail"].as_str().unwrap());
    assert!(
        ordered(client, [&from, &before, &after, &to]).await,
        "{from} to {to} has what lies between {before} and {after}"
    );
    relay.kill();
    // As the hint says: dropped, accepted, and told once more by the log.
    run(client, "SELECT pg_drop_replication_slot('outbox')").await;
    let relay = Relay::start_accepting(&scene.postgres, &scene.kafka, &[]);
    relay.wait_for_state("streaming").await;
    assert!(relay.logged("accepted: replication slot"));
    assert_eq!(relay.metric("outboxd_unseen_ranges_total"), Some(1.0));
    commit("b", "three").await;
    commit("c", "two").await;
    reader.read_until(5);
    assert!(relay.stop().success());
    while reader.read(Duration::from_millis(500)) {}
    let held = |key: &str| reader.follower.rows()[key].clone();
    let status = |text: &str| text.to_owned();
    // "a" misses what was lost until it changes again; "b" has changed again, and has everything.
    assert_eq!(held("a"), (1, status("one")));
    assert_eq!(held("b"), (3, status("three")));
    assert_eq!(held("c"), (2, status("two")));
    assert_eq!(reader.tally.repeats(), 0);
}
