//! What arrives, in which order, and what never does.

use std::time::Duration;

use crate::support::{Consumer, Kafka, Postgres, Relay, Shop, Tally, Version, wait_until};

const QUIET: Duration = Duration::from_millis(700);

/// An insert into the outbox.
fn event(id: u128, key: &str, seq: i64) -> String {
    let id = format!("{id:032x}");
    format!("INSERT INTO outbox VALUES ('{id}', 'order', '{key}', {seq}, 'T', '{{\"n\": {seq}}}');")
}

#[tokio::test(flavor = "multi_thread")]
async fn committed_inserts_arrive_and_nothing_else() {
    for version in [Version::V14, Version::V18] {
        let (postgres, kafka) = (Postgres::start(version, &[]), Kafka::start());
        let client = postgres.client().await;
        Shop::create_tables(&client).await;
        let relay = Relay::start(&postgres, &kafka, &[]);
        relay.wait_for_state("streaming").await;

        client.batch_execute(&event(1, "a", 1)).await.unwrap();
        client
            .batch_execute(&format!("BEGIN; {} ROLLBACK;", event(2, "a", 2)))
            .await
            .unwrap();
        client
            .batch_execute("UPDATE outbox SET type = 'U'; DELETE FROM outbox; TRUNCATE outbox;")
            .await
            .unwrap();
        let both = format!("BEGIN; {} DELETE FROM outbox; COMMIT;", event(3, "a", 3));
        client.batch_execute(&both).await.unwrap();

        let consumer = Consumer::new(&kafka, "outbox.event.order");
        let events = consumer.take(2);
        assert_eq!(
            events.iter().map(|e| e.seq()).collect::<Vec<_>>(),
            [1, 3],
            "{version:?}"
        );
        assert_eq!(events[0].key.as_deref(), Some("a"));
        assert_eq!(events[0].value.as_deref(), Some("{\"n\": 1}"));
        assert_eq!(
            events[0].headers[0].1.as_deref(),
            Some("00000000-0000-0000-0000-000000000001")
        );
        assert_eq!(consumer.next(QUIET), None);
        wait_until(
            Duration::from_secs(10),
            "the update is counted",
            async || relay.metric("outboxd_rows_dropped_total{reason=\"update\"}") == Some(1.0),
        )
        .await;
        assert!(relay.logged("outbox rows were updated"));
        assert!(relay.stop().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_arrive_in_the_order_of_their_commits() {
    let (postgres, kafka) = (Postgres::start(Version::V18, &[]), Kafka::start());
    let (first, second) = (postgres.client().await, postgres.client().await);
    Shop::create_tables(&first).await;
    let relay = Relay::start(&postgres, &kafka, &[]);
    relay.wait_for_state("streaming").await;

    first
        .batch_execute(&format!("BEGIN; {}", event(1, "k", 1)))
        .await
        .unwrap();
    second
        .batch_execute(&format!("BEGIN; {}", event(2, "k", 2)))
        .await
        .unwrap();
    second.batch_execute("COMMIT").await.unwrap();
    first.batch_execute("COMMIT").await.unwrap();

    let events = Consumer::new(&kafka, "outbox.event.order").take(2);
    assert_eq!(
        events.iter().map(|event| event.seq()).collect::<Vec<_>>(),
        [2, 1]
    );
    assert!(relay.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_outbox_lets_the_slot_follow_the_servers_wal() {
    let (postgres, kafka) = (Postgres::start(Version::V18, &[]), Kafka::start());
    let client = postgres.client().await;
    Shop::create_tables(&client).await;
    let relay = Relay::start(&postgres, &kafka, &[]);
    relay.wait_for_state("streaming").await;
    client
        .batch_execute("CREATE TABLE noise (text text)")
        .await
        .unwrap();
    for _ in 0..10 {
        client
            .batch_execute("INSERT INTO noise SELECT repeat(md5(n::text), 30) FROM generate_series(1, 100000) n; TRUNCATE noise")
            .await
            .unwrap();
    }
    let lag = async || {
        let row = client
            .query_one(
                "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint, pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint FROM pg_replication_slots WHERE slot_name = 'outbox'",
                &[],
            )
            .await
            .unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    assert!(
        lag().await.0 > 1_000_000_000,
        "a gigabyte was written: {:?}",
        lag().await
    );
    wait_until(
        Duration::from_secs(60),
        "confirmed_flush_lsn follows",
        async || lag().await.1 < 16 << 20,
    )
    .await;
    println!(
        "idle outbox: WAL position {} bytes, confirmed lag {} bytes",
        lag().await.0,
        lag().await.1
    );
    assert!(relay.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_of_a_million_rows_stays_inside_the_bound() {
    let (postgres, kafka) = (Postgres::start(Version::V18, &[]), Kafka::start());
    let client = postgres.client().await;
    Shop::create_tables(&client).await;
    let relay = Relay::start(&postgres, &kafka, &[]);
    relay.wait_for_state("streaming").await;
    client.batch_execute(&event(1, "ORD-0", 1)).await.unwrap();
    let consumer = Consumer::new(&kafka, "outbox.event.order");
    consumer.take(1);
    let idle_kib = relay.resident_kib();

    const ROWS: usize = 1_000_000;
    client
        .batch_execute(&format!(
            "INSERT INTO outbox SELECT gen_random_uuid(), 'order', 'ORD-' || n % 100 + 1, n / 100 + 1, 'T',
                    jsonb_build_object('note', repeat('x', 280)) FROM generate_series(0, {ROWS} - 1) n"
        ))
        .await
        .unwrap();
    let mut tally = Tally::default();
    consumer.read_until(&mut tally, ROWS / 4, Duration::from_secs(120));
    let first_peak_kib = relay.peak_kib();
    // In the middle of the transaction: it is sent again from its start.
    relay.kill();
    let relay = Relay::start(&postgres, &kafka, &[]);
    relay.wait_for_state("streaming").await;
    consumer.read_until(&mut tally, ROWS, Duration::from_secs(240));
    let peak_kib = relay.peak_kib().max(first_peak_kib);
    println!(
        "one transaction of {ROWS} rows: idle {idle_kib} KiB, peak {peak_kib} KiB, repeats {}",
        tally.repeats()
    );
    assert!(
        peak_kib < idle_kib + (64 << 10),
        "idle {idle_kib} KiB, peak {peak_kib} KiB"
    );
    assert!(relay.stop().success());
    consumer.read_rest(&mut tally, QUIET);
    let expected = (1..=100).map(|n| (format!("ORD-{n}"), ROWS as i64 / 100));
    tally.assert_complete_and_ordered(&expected.collect());
}
