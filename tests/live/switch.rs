//! From the real Debezium to outboxd on the same slot, and back, while events are written.

use std::path::PathBuf;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use crate::support::{Connect, Kafka, Reader, Relay, Scene, Shop, Version, Worker, wait_until};

/// How often each way, for a longer run.
const SWITCHES: &str = "OUTBOXD_SWITCHES";
/// How many events a shadow compares.
const SHADOWED: &str = "OUTBOXD_SHADOWED";
const RATE: u64 = 500;
/// Read between two switches.
const EVENTS: usize = 1_000;
/// Nobody publishes while a connector is stopped.
const QUIET: Duration = Duration::from_millis(700);

const FOUND: &str = "starting after what the connector has delivered";
/// By whoever knows that the connector alone has used the slot.
const ACCEPTED: &[&str] = &["--accept-gap"];
const PASSED: &str = "what Kafka Connect had delivered was passed over";

fn switches() -> u32 {
    let text = std::env::var(SWITCHES).unwrap_or_else(|_| "2".to_owned());
    text.parse().expect("a number of switches")
}

/// With the connector's own files.
fn arguments(command: &str, connect: &Connect, more: &[&str]) -> Vec<String> {
    let file = |path: PathBuf| path.display().to_string();
    let mut args = vec![
        command.to_owned(),
        "--connector".to_owned(),
        file(connect.connector_file()),
        "--worker".to_owned(),
        file(connect.worker_file()),
    ];
    args.extend(more.iter().map(|more| (*more).to_owned()));
    args
}

fn relay(connect: &Connect, more: &[&str]) -> Relay {
    Relay::start_with(&arguments("run", connect, more), &[])
}

/// The line of `outboxd check` on the connector's offset, and that on the position.
fn checked(connect: &Connect) -> [String; 2] {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_outboxd"));
    command.args(arguments("check", connect, &["--format", "json"]));
    let output = tokio::task::block_in_place(|| command.output().unwrap());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    ["connector offset", "position"].map(|name| {
        let check = checks.iter().find(|check| check["name"] == name);
        let check = check.unwrap_or_else(|| panic!("no {name}: {report:#}"));
        let text = |key: &str| check[key].as_str().unwrap_or_default();
        format!("{} {} | {}", text("outcome"), text("found"), text("remedy"))
    })
}

/// The transaction that a start is told to begin behind.
fn transaction(text: &str, before: &str) -> u32 {
    let (_, text) = text.split_once(before).unwrap_or_else(|| panic!("{text}"));
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap();
    text[..end].parse().unwrap()
}

/// The first time: a check foretells where the relay begins.
async fn takes_over_at_first(scene: &Scene, reader: &mut Reader, connect: &Connect, how: &str) {
    let [offset, position] = checked(connect);
    println!("{offset}");
    assert!(
        offset.starts_with("ok topic connect-offsets has connector "),
        "{offset}"
    );
    assert!(offset.contains(": a start begins after that, "), "{offset}");
    assert!(
        position.starts_with("ok the journal has no word"),
        "{position}"
    );
    let relay = takes_over(scene, reader, connect, &[], how).await;
    let foretold = transaction(&offset, " of transaction ");
    let began = relay.into_iter().find(|line| line.contains(FOUND)).unwrap();
    assert_eq!(
        transaction(&began, "\"transaction\":"),
        foretold,
        "{offset}"
    );
}

/// Once more: the connector has moved the slot, as an operator could have, and nothing tells which of
/// the two it was. Somebody has to say.
async fn is_held_until_it_is_accepted(connect: &Connect) {
    let [offset, position] = checked(connect);
    println!("{offset}\n{position}");
    assert!(
        offset.contains(": with --accept-gap a start begins after that, "),
        "{offset}"
    );
    let beyond = "replication slot \"outbox\" stands beyond what was confirmed to it";
    assert!(
        position.starts_with(&format!("error {beyond}. ")),
        "{position}"
    );
    let relay = relay(connect, &[]);
    relay.wait_for_state("blocked").await;
    let error = relay.status().unwrap()["error"].clone();
    assert_eq!(error["message"], beyond);
    for key in ["detail", "hint"] {
        assert!(
            position.contains(error[key].as_str().unwrap()),
            "{error:#} {position}"
        );
    }
    assert!(
        position.contains("so it may be the connector that moved the slot"),
        "{position}"
    );
    assert!(
        position.contains("outboxd run --accept-gap starts after"),
        "{position}"
    );
    relay.stop();
}

/// The relay is there after a connector that has stopped. What it logged.
async fn takes_over(
    scene: &Scene,
    reader: &mut Reader,
    connect: &Connect,
    more: &[&str],
    how: &str,
) -> Vec<String> {
    while reader.read(QUIET) {}
    let before = reader.tally.repeats();
    let relay = relay(connect, more);
    relay.wait_for_state("streaming").await;
    reader.read_more(EVENTS);
    assert!(relay.logged(FOUND), "{:#?}", relay.log());
    assert!(relay.logged(PASSED), "{:#?}", relay.log());
    let events = reader.tally.distinct();
    let repeats = reader.tally.repeats() - before;
    println!("{how}: {events} events, {repeats} repeats");
    assert_eq!(repeats, 0, "{:#?}", relay.log());
    slot_lets_go_of_old_wal(scene).await;
    let log = relay.log();
    assert!(relay.stop().success());
    log
}

#[tokio::test(flavor = "multi_thread")]
async fn debezium_hands_over_to_outboxd_and_back_without_a_loss_or_a_repeat() {
    let scene = Scene::open(Version::V18, &[]).await;
    let mut connect = Connect::start(&scene.kafka, Worker::Distributed);
    connect.create(&scene.postgres).await;
    let mut reader = Reader::new(&scene.kafka);
    let shop = Shop::open(&scene.postgres, RATE, u64::MAX).await;
    shadow(&scene, &connect, &mut reader).await;
    let rounds = switches();
    for round in 1..=rounds {
        reader.read_more(EVENTS);
        connect.stop_connector(&scene.postgres).await;
        let how = format!("round {round} of {rounds}, to outboxd");
        if round == 1 {
            takes_over_at_first(&scene, &mut reader, &connect, &how).await;
            refuses_its_old_offset(&scene, &connect).await;
        } else {
            takes_over(&scene, &mut reader, &connect, ACCEPTED, &how).await;
        }
        goes_back(&scene, &connect, round).await;
        reader.read_more(EVENTS);
        let (events, repeats) = (reader.tally.distinct(), reader.tally.repeats());
        println!("round {round} of {rounds}, and back: {events} events, {repeats} repeats");
        assert_eq!(repeats, 0, "after the way back");
    }
    connect.stop();

    // Without an offset the second connector begins at the slot, and repeats.
    let mut alone = Connect::start(&scene.kafka, Worker::Standalone);
    alone.create(&scene.postgres).await;
    reader.read_more(EVENTS);
    alone.stop();
    is_held_until_it_is_accepted(&alone).await;
    let how = "from a standalone worker";
    takes_over(&scene, &mut reader, &alone, ACCEPTED, how).await;

    misled(&scene, &connect, &mut reader).await;
    let expected = shop.finish().await;
    goes_on_elsewhere(&scene, &connect, &mut reader, expected.values().sum()).await;
    while reader.read(QUIET) {}
    reader.tally.assert_complete_and_ordered(&expected);
    reader.follower.assert_equals_source(&scene.client).await;
}

/// The server moves the slot's `restart_lsn` several times a minute; here at once.
async fn slot_lets_go_of_old_wal(scene: &Scene) {
    let sql = "SELECT restart_lsn > $1::text::pg_lsn FROM pg_replication_slots
                WHERE slot_name = 'outbox'";
    let now = "SELECT pg_current_wal_lsn()::text";
    let begun: String = scene.client.query_one(now, &[]).await.unwrap().get(0);
    wait_until(Duration::from_secs(60), "restart_lsn moves", async || {
        scene.client.batch_execute("CHECKPOINT").await.unwrap();
        let row = scene.client.query_one(sql, &[&begun]).await.unwrap();
        row.get(0)
    })
    .await;
}

/// As it was left: its offset lies before what the slot still has.
async fn refuses_its_old_offset(scene: &Scene, connect: &Connect) {
    let why = connect.fails_to_resume().await;
    assert!(why.contains("no longer available on the server"), "{why}");
    connect.stop_connector(&scene.postgres).await;
}

/// By turns the two ways that docs/migrating.md names.
async fn goes_back(scene: &Scene, connect: &Connect, round: u32) {
    if round % 2 == 1 {
        connect.configure(&scene.postgres, &[]).await;
        let sql = "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots
                    WHERE slot_name = 'outbox'";
        let row = scene.client.query_one(sql, &[]).await.unwrap();
        connect.set_offset(row.get(0));
    } else {
        let trust = [("offset.mismatch.strategy", "trust_slot")];
        connect.configure(&scene.postgres, &trust).await;
    }
    connect.resume_connector(&scene.postgres).await;
}

/// Beside the connector: equal, and one difference that a consumer would see is found.
async fn shadow(scene: &Scene, connect: &Connect, reader: &mut Reader) {
    let events = std::env::var(SHADOWED).unwrap_or_else(|_| "1000".to_owned());
    let run = |more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_outboxd"));
        command.args(arguments("shadow", connect, &["--events", &events]));
        let output = command.args(more).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        println!("{text}{}", String::from_utf8_lossy(&output.stderr));
        (output.status.code(), text)
    };
    let (code, text) = tokio::task::block_in_place(|| run(&[]));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(" equal, 0 different; 0 repeats"), "{text}");
    for kind in [
        "not in the topics: ",
        "in the topics alone: ",
        "none of ours",
    ] {
        assert!(!text.contains(kind), "{text}");
    }
    // What was written before its slot began, and after its end.
    let (_, outside) = text.rsplit_once("of the connector's, ").unwrap();
    let (outside, _) = outside.split_once(" outside of the time").unwrap();
    assert!(outside.parse::<u64>().unwrap() < 60 * RATE, "{text}");
    no_shadow_is_left(scene).await;
    let (code, text) = tokio::task::block_in_place(|| run(&["--set", "outbox.headers=seq:number"]));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("other headers: "), "{text}");
    assert!(
        text.contains("ours are id, number; theirs id, seq"),
        "{text}"
    );
    no_shadow_is_left(scene).await;
    while reader.read(QUIET / 100) {}
}

async fn no_shadow_is_left(scene: &Scene) {
    let sql = "SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE '%shadow'";
    let left: i64 = scene.client.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(left, 0, "the shadow's slot");
}

/// A relay that knows nothing of the slot.
const UNKNOWN: &[&str] = &["--set", "position.key=misled"];

/// An offset that would pass over everything, of a transaction that was never there, skips nothing.
async fn misled(scene: &Scene, connect: &Connect, reader: &mut Reader) {
    while reader.read(QUIET) {}
    let before = reader.tally.repeats();
    let sql = "SELECT (pg_current_wal_lsn() - '0/0')::bigint";
    let lsn: i64 = scene.client.query_one(sql, &[]).await.unwrap().get(0);
    store_offset(&scene.kafka, "INSERT", (lsn, 7, 1));
    let relay = relay(connect, UNKNOWN);
    reader.read_more(EVENTS);
    let said = "the connector's offset is not in the slot's stream";
    assert!(relay.logged(said), "{:#?}", relay.log());
    assert_eq!(reader.tally.repeats(), before);
    assert!(relay.stop().success());
}

/// The connector streams other tables on a slot of its own: its offset is of the last transaction
/// that this slot has, and nobody has published what lies before it.
async fn goes_on_elsewhere(scene: &Scene, connect: &Connect, reader: &mut Reader, events: i64) {
    while reader.read(QUIET) {}
    assert!(reader.tally.distinct() < usize::try_from(events).unwrap());
    let free = "SELECT NOT active FROM pg_replication_slots WHERE slot_name = 'outbox'";
    wait_until(Duration::from_secs(10), "the slot is free", async || {
        scene.client.query_one(free, &[]).await.unwrap().get(0)
    })
    .await;
    let sql = "SELECT xid::text::bigint, data FROM pg_logical_slot_peek_binary_changes(
                   'outbox', NULL, NULL, 'proto_version', '1', 'publication_names', 'outbox')";
    let rows = scene.client.query(sql, &[]).await.unwrap();
    let messages = rows
        .iter()
        .map(|row| (row.get(0), row.get::<_, Vec<u8>>(1)));
    let mut commits = messages.filter(|(_, message)| message[0] == b'C');
    let (xid, commit): (i64, _) = commits.next_back().unwrap();
    let number = |at: usize| i64::from_be_bytes(commit[at..at + 8].try_into().unwrap());
    let (end, since_2000_us) = (number(10), number(18));
    let unix_us = since_2000_us + 946_684_800_000_000;
    store_offset(&scene.kafka, "COMMIT", (end, xid, unix_us));
    let before = reader.tally.repeats();
    let relay = relay(connect, UNKNOWN);
    reader.read_until(usize::try_from(events).unwrap());
    assert!(relay.logged("has streamed from the slot before"));
    assert_eq!(reader.tally.repeats(), before);
    assert!(relay.stop().success());
}

/// As the worker stores it: of the transaction that `xid` and `unix_us` name.
fn store_offset(kafka: &Kafka, kind: &str, (lsn, xid, unix_us): (i64, i64, i64)) {
    let offset = format!(
        "{{\"lsn_proc\":{lsn},\"messageType\":\"{kind}\",\"lsn_commit\":{lsn},\"lsn\":{lsn},\"txId\":{xid},\"ts_usec\":{unix_us}}}"
    );
    let key = format!("[\"{}\",{{\"server\":\"shop\"}}]", Connect::CONNECTOR);
    write(kafka, "connect-offsets", &key, &offset);
}

/// Into the partition of the key, as the worker does.
fn write(kafka: &Kafka, topic: &str, key: &str, value: &str) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", kafka.servers())
        .set("partitioner", "murmur2_random")
        .create()
        .unwrap();
    let record = BaseRecord::to(topic).key(key).payload(value);
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(Duration::from_secs(30)).unwrap();
}
