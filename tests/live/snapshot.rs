//! Rows that were there before the slot.

use std::collections::HashSet;
use std::time::Duration;

use crate::support::{Consumer, Event, Relay, Scene, Version, wait_until};

const ROWS: usize = 100_000;
const TOPIC: &str = Scene::TOPIC;

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_killed_begins_again_and_leaves_no_slot_over() {
    for version in [Version::V14, Version::V18] {
        let Scene {
            postgres,
            kafka,
            client,
        } = Scene::open(version, &[]).await;
        client
            .batch_execute(&format!(
                "INSERT INTO outbox SELECT gen_random_uuid(), 'order', 'k' || n % 100, n, 'T', '{{}}' FROM generate_series(1, {ROWS}) n"
            ))
            .await
            .unwrap();
        let consumer = Consumer::new(&kafka, TOPIC);
        let mut seen = HashSet::new();
        let mut read_until = |count: usize| {
            let mut records = 0;
            while records < count {
                let event = consumer
                    .next(Duration::from_secs(60))
                    .expect("records come");
                seen.insert(event.seq());
                records += 1;
            }
        };
        for (attempt, records) in [1_000, 40_000, 90_000].into_iter().enumerate() {
            let relay = Relay::start(&postgres, &kafka, &["relay.max_in_flight_records=5000"]);
            read_until(records);
            relay.kill();
            wait_until(
                Duration::from_secs(30),
                "no slot is left over",
                async || {
                    let row = client.query_one("SELECT count(*) FROM pg_replication_slots", &[]);
                    row.await.unwrap().get::<_, i64>(0) == 0
                },
            )
            .await;
            let late = ROWS + attempt + 1;
            client
                .batch_execute(&format!("INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'late', {late}, 'T', '{{}}')"))
                .await
                .unwrap();
        }
        let relay = Relay::start(&postgres, &kafka, &[]);
        relay.wait_for_state("snapshotting").await;
        let during = ROWS + 4;
        client
            .batch_execute(&format!("INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'late', {during}, 'T', '{{}}')"))
            .await
            .unwrap();
        relay.wait_for_state("streaming").await;
        let mut last: Option<Event> = None;
        while seen.len() < during {
            let event = consumer.next(Duration::from_secs(60));
            let event =
                event.unwrap_or_else(|| panic!("{} of {during} rows, last {last:?}", seen.len()));
            seen.insert(event.seq());
            last = Some(event);
        }
        let slots = client
            .query(
                "SELECT slot_name::text, temporary FROM pg_replication_slots",
                &[],
            )
            .await
            .unwrap();
        let slots: Vec<(String, bool)> = slots.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(slots, [("outbox".to_owned(), false)], "{version:?}");
        assert!(relay.stop().success());

        // An existing slot is not followed by a snapshot.
        let relay = Relay::start(&postgres, &kafka, &[]);
        relay.wait_for_state("streaming").await;
        assert!(!relay.logged("publishing the rows that are in the table"));
        assert!(relay.stop().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_select_that_fails_on_a_row_is_told_without_the_rows_values() {
    let Scene {
        postgres,
        kafka,
        client,
    } = Scene::open(Version::V18, &[]).await;
    client
        .batch_execute(
            "INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'k', 1, 'T', '\"hunter2\"')",
        )
        .await
        .unwrap();
    let select = "SELECT id, aggregatetype, aggregateid, seq, type, (payload #>> '{}')::int AS payload FROM outbox";
    let setting = format!("snapshot.select.\"public.outbox\"={select}");
    let relay = Relay::start(&postgres, &kafka, &[&setting]);
    relay.wait_for_state("blocked").await;
    let error = relay.status().unwrap()["error"].clone();
    assert_eq!(
        error["message"],
        "the rows of table \"public.outbox\" cannot be read: SQLSTATE 22P02, invalid text representation"
    );
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert!(!relay.logged("hunter2"), "{:#?}", relay.log());
}

/// Whoever waits has the lead as soon as this session ends: nothing may go out behind that.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_ends_with_the_session_that_has_the_lead() {
    let Scene {
        postgres,
        kafka,
        client,
    } = Scene::open(Version::V18, &[]).await;
    client
        .batch_execute(
            "INSERT INTO outbox SELECT gen_random_uuid(), 'order', 'k', n, 'T', '{}' FROM generate_series(1, 40000) n;
             ALTER ROLE postgres SET idle_in_transaction_session_timeout = '1s'",
        )
        .await
        .unwrap();
    let slow = ["relay.max_in_flight_records=5", "snapshot.fetch_bytes=8KiB"];
    let first = Relay::start(&postgres, &kafka, &slow);
    first.wait_for_state("snapshotting").await;
    let consumer = Consumer::new(&kafka, "outbox.event.order");
    // Longer than the role's timeout for idle transactions, which must not end it.
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        consumer.next(Duration::from_millis(100));
    }
    assert!(!first.logged("25P03"), "{:#?}", first.log());
    let second = Relay::start(&postgres, &kafka, &[]);
    second.wait_for_state("standby").await;
    client
        .batch_execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted")
        .await
        .unwrap();
    first.wait_for_state("standby").await;
    second.wait_for_state("streaming").await;
    let mut last = 0;
    while let Some(event) = consumer.next(Duration::from_secs(1)) {
        last = event.seq();
    }
    assert_eq!(last, 40_000, "the last word is the second relay's");
    assert!(first.stop().success());
    assert!(second.stop().success());
}
