//! The source changes under the relay: other tables, other servers, cut streams, things that are gone.

use std::time::Duration;

use crate::support::{
    Consumer, Kafka, Postgres, Relay, Scene, Shop, Shutdown, Tally, Version, free_port, wait_until,
};

const TOPIC: &str = Scene::TOPIC;
const QUIET: Duration = Duration::from_millis(700);
const PATIENCE: Duration = Duration::from_secs(60);

async fn insert(client: &tokio_postgres::Client, table: &str, seq: i64) {
    client
        .batch_execute(&format!(
            "INSERT INTO {table} VALUES (gen_random_uuid(), 'order', 'k', {seq}, 'T', '{{}}')"
        ))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wide_publication_publishes_the_outbox_alone() {
    let (postgres, kafka) = (Postgres::start(Version::V18, &[]), Kafka::start());
    kafka.create_topic(TOPIC, 1, &[]).await;
    let client = postgres.client().await;
    client
        .batch_execute(
            "CREATE TABLE orders (id int PRIMARY KEY, status text);
             CREATE TABLE outbox (id uuid, aggregatetype text, aggregateid text, seq bigint, type text,
                                  payload jsonb) PARTITION BY RANGE (seq);
             CREATE TABLE early PARTITION OF outbox FOR VALUES FROM (0) TO (10);
             CREATE TABLE other_outbox (LIKE outbox);
             CREATE PUBLICATION outbox FOR ALL TABLES",
        )
        .await
        .unwrap();
    let relay = Relay::start(&postgres, &kafka, &["outbox.table=public.outbox"]);
    relay.wait_for_state("streaming").await;
    let consumer = Consumer::new(&kafka, TOPIC);
    client
        .batch_execute("INSERT INTO orders VALUES (1, 'new'); UPDATE orders SET status = 'old'")
        .await
        .unwrap();
    insert(&client, "other_outbox", 5).await;
    insert(&client, "outbox", 1).await;
    // A partition that was not there at the start arrives under a name that nobody configured.
    client
        .batch_execute("CREATE TABLE late PARTITION OF outbox FOR VALUES FROM (10) TO (20)")
        .await
        .unwrap();
    insert(&client, "outbox", 11).await;
    client.batch_execute("DROP TABLE late").await.unwrap();
    let events = consumer.take(2);
    assert_eq!([events[0].seq(), events[1].seq()], [1, 11]);
    assert_eq!(consumer.next(QUIET), None);
    dropped(&relay, 3.0).await;

    // What was none of the outbox becomes it: as a partition, then by its name.
    client
        .batch_execute("CREATE TABLE loose (LIKE outbox); CREATE TABLE outbox_new (LIKE outbox)")
        .await
        .unwrap();
    insert(&client, "loose", 20).await;
    insert(&client, "outbox_new", 30).await;
    dropped(&relay, 5.0).await;
    client
        .batch_execute("ALTER TABLE outbox ATTACH PARTITION loose FOR VALUES FROM (20) TO (30)")
        .await
        .unwrap();
    insert(&client, "outbox", 21).await;
    assert_eq!(consumer.take(1)[0].seq(), 21);
    client
        .batch_execute(
            "BEGIN; ALTER TABLE outbox RENAME TO outbox_old; ALTER TABLE outbox_new RENAME TO outbox; COMMIT",
        )
        .await
        .unwrap();
    insert(&client, "outbox", 31).await;
    assert_eq!(consumer.take(1)[0].seq(), 31);
    assert_eq!(consumer.next(QUIET), None);
    assert!(relay.stop().success());
}

/// Rows of tables that are none of the outbox, as counted.
async fn dropped(relay: &Relay, rows: f64) {
    wait_until(PATIENCE, "rows of other tables are counted", async || {
        relay.metric("outboxd_rows_dropped_total{reason=\"other_table\"}") == Some(rows)
    })
    .await;
}

/// A cut anywhere in a buffer: what was taken from it before has to leave all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_cut_again_and_again_loses_nothing_and_does_not_stall() {
    let Scene {
        postgres,
        kafka,
        client,
    } = Scene::open(Version::V18, &[]).await;
    for seq in 1..=3 {
        client
            .batch_execute(&format!(
                "INSERT INTO outbox VALUES (gen_random_uuid(), 'kept', 'retained', {seq}, 'T', '{{}}')"
            ))
            .await
            .unwrap();
    }
    let relay = Relay::start(&postgres, &kafka, &["snapshot.mode=always"]);
    relay.wait_for_state("streaming").await;
    let shop = Shop::open(&postgres, 3000, u64::MAX).await;
    let (consumer, mut tally) = (Consumer::new(&kafka, TOPIC), Tally::default());
    for cut in 1..=20 {
        let before = tally.distinct();
        consumer.read_until(&mut tally, before + 300, PATIENCE);
        client
            .batch_execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_replication WHERE state = 'streaming'",
            )
            .await
            .unwrap();
        assert!(!relay.logged("state\":\"blocked"), "cut {cut}");
    }
    let expected = shop.finish().await;
    let events = usize::try_from(expected.values().sum::<i64>()).unwrap();
    consumer.read_until(&mut tally, events, PATIENCE);
    assert!(relay.stop().success());
    consumer.read_rest(&mut tally, QUIET);
    println!(
        "20 cuts, {events} events: lost 0, repeats {}",
        tally.repeats()
    );
    tally.assert_complete_and_ordered(&expected);

    // `always` means each start, and a reconnect is none.
    let retained = Consumer::new(&kafka, "outbox.event.kept");
    let seqs: Vec<i64> = retained.take(3).iter().map(|event| event.seq()).collect();
    assert_eq!(seqs, [1, 2, 3]);
    assert_eq!(retained.next(QUIET), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_behind_the_address_is_streamed_from_its_own_slots_position() {
    let Scene {
        postgres: mut first,
        kafka,
        client,
    } = Scene::open(Version::V18, &[]).await;
    // So far ahead that the other server's positions lie behind all of this one's.
    client
        .batch_execute(
            "CREATE TABLE noise AS SELECT repeat('x', 1000) FROM generate_series(1, 50000)",
        )
        .await
        .unwrap();
    // Without the journal, that is: with it this is a gap to be accepted.
    let without_journal = ["snapshot.mode=no_data", "position.topic="];
    let relay = Relay::start(&first, &kafka, &without_journal);
    relay.wait_for_state("streaming").await;
    insert(&client, "outbox", 1).await;
    let consumer = Consumer::new(&kafka, TOPIC);
    assert_eq!(consumer.take(1)[0].seq(), 1);
    first.stop(Shutdown::Fast);

    let second = Postgres::start_on(Version::V18, first.port, &[]);
    let client = second.client().await;
    Shop::create_tables(&client).await;
    wait_until(
        PATIENCE,
        "the relay streams from the new server",
        async || {
            let count = client.query_one(
                "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'",
                &[],
            );
            count.await.unwrap().get::<_, i64>(0) == 1
        },
    )
    .await;
    for seq in 2..=6 {
        insert(&client, "outbox", seq).await;
    }
    let seqs: Vec<i64> = consumer.take(5).iter().map(|event| event.seq()).collect();
    assert_eq!(seqs, [2, 3, 4, 5, 6]);
    assert!(relay.logged("streaming from the slot's own position"));
    assert!(relay.stop().success());
}

/// The relay lives on, and knows a position that the server has already passed in another history.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_put_back_is_streamed_from_its_own_slots_position() {
    let Scene {
        mut postgres,
        kafka,
        client,
    } = Scene::open(Version::V18, &[]).await;
    let relay = Relay::start(&postgres, &kafka, &["relay.backoff_max=300ms"]);
    relay.wait_for_state("streaming").await;
    let consumer = Consumer::new(&kafka, TOPIC);
    insert(&client, "outbox", 1).await;
    assert_eq!(consumer.take(1)[0].seq(), 1);
    postgres.stop(Shutdown::Fast);
    postgres.keep_disk();
    postgres.start_again();
    let client = postgres.client().await;
    let write = "CREATE TABLE noise AS SELECT repeat('x', 1000) FROM generate_series(1, 3000)";
    client.batch_execute(write).await.unwrap();
    insert(&client, "outbox", 2).await;
    assert_eq!(consumer.take(1)[0].seq(), 2);
    let confirmed = "SELECT pg_current_wal_insert_lsn() - confirmed_flush_lsn < 10000
                       FROM pg_replication_slots";
    wait_until(PATIENCE, "it is confirmed", async || {
        client.query_one(confirmed, &[]).await.unwrap().get(0)
    })
    .await;

    relay.signal("STOP");
    postgres.stop(Shutdown::Immediate);
    postgres.put_back();
    postgres.start_again();
    let client = postgres.client().await;
    for seq in [3, 4] {
        insert(&client, "outbox", seq).await;
    }
    client.batch_execute(write).await.unwrap();
    client
        .batch_execute("INSERT INTO noise SELECT * FROM noise")
        .await
        .unwrap();
    relay.signal("CONT");
    let seqs: Vec<i64> = consumer.take(2).iter().map(|event| event.seq()).collect();
    assert_eq!(seqs, [3, 4]);
    assert!(relay.logged("what was confirmed last is not in the slot's stream"));
    assert!(relay.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_without_the_slot_is_no_loss_and_the_primary_is_waited_for() {
    let kafka = Scene::kafka().await;
    let (mut primary, _) = Scene::source(Version::V18, &[]).await;
    let standby = primary.start_standby(free_port()).await;
    let url = format!(
        "postgres.url=postgresql://postgres@127.0.0.1:{},127.0.0.1:{}/postgres",
        primary.port, standby.port
    );
    // Not even with this mode is a slot made there in the place of the primary's.
    let settings = [
        url.as_str(),
        "relay.backoff_max=300ms",
        "snapshot.mode=when_needed",
    ];
    let relay = Relay::start(&primary, &kafka, &settings);
    relay.wait_for_state("streaming").await;
    let consumer = Consumer::new(&kafka, TOPIC);
    insert(&primary.client().await, "outbox", 1).await;
    assert_eq!(consumer.take(1)[0].seq(), 1);
    primary.stop(Shutdown::Fast);
    relay.wait_for_state("blocked").await;
    let error = relay.status().unwrap()["error"].clone();
    let message = error["message"].as_str().unwrap();
    assert!(
        message.starts_with("the server is a standby, and replication slot \"outbox\""),
        "{message}"
    );
    primary.start_again();
    relay.wait_for_state("streaming").await;
    insert(&primary.client().await, "outbox", 2).await;
    assert_eq!(consumer.take(1)[0].seq(), 2);
    assert!(relay.stop().success());

    // What it lacks nobody can accept, and without a journal no slot is made on it either.
    for more in [["snapshot.mode=no_data"], ["position.topic="]] {
        let relay = Relay::start_accepting(&standby, &kafka, &more);
        relay.wait_for_state("blocked").await;
        let error = relay.status().unwrap()["error"].clone();
        assert_eq!(
            error["message"],
            "the server is a standby, and replication slot \"outbox\" does not exist on it"
        );
        relay.stop();
    }
    // The journal has the claim of the primary's slot still.
    let relay = Relay::start(&primary, &kafka, &[]);
    relay.wait_for_state("streaming").await;
    insert(&primary.client().await, "outbox", 3).await;
    assert_eq!(consumer.take(1)[0].seq(), 3);
    assert!(relay.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publication_that_is_gone_is_not_made_again_behind_the_slot() {
    let Scene {
        postgres,
        kafka,
        client,
    } = Scene::open(Version::V18, &[]).await;
    let relay = Relay::start(&postgres, &kafka, &[]);
    relay.wait_for_state("streaming").await;
    insert(&client, "outbox", 1).await;
    let consumer = Consumer::new(&kafka, TOPIC);
    assert_eq!(consumer.take(1)[0].seq(), 1);
    // A table that somebody adds to it under way is none of the outbox, like it as it may be.
    client
        .batch_execute(
            "CREATE TABLE customers (LIKE outbox); ALTER PUBLICATION outbox ADD TABLE customers",
        )
        .await
        .unwrap();
    insert(&client, "customers", 100).await;
    dropped(&relay, 1.0).await;
    assert!(relay.stop().success());

    client
        .batch_execute("DROP PUBLICATION outbox")
        .await
        .unwrap();
    let relay = Relay::start(&postgres, &kafka, &[]);
    relay.wait_for_state("blocked").await;
    let error = relay.status().unwrap()["error"].clone();
    assert_eq!(error["message"], "publication \"outbox\" does not exist");
    let hint = error["hint"].as_str().unwrap();
    assert!(
        hint.contains("CREATE PUBLICATION \"outbox\" FOR TABLE \"public\".\"outbox\""),
        "{hint}"
    );
    assert!(
        hint.contains("pg_drop_replication_slot('outbox')"),
        "{hint}"
    );
    let count = client
        .query_one("SELECT count(*) FROM pg_publication", &[])
        .await
        .unwrap();
    assert_eq!(count.get::<_, i64>(0), 0);

    // Nothing was written meanwhile, so making it again is enough, without a restart.
    client
        .batch_execute(
            "CREATE PUBLICATION outbox FOR TABLE outbox WITH (publish = 'insert, update')",
        )
        .await
        .unwrap();
    relay.wait_for_state("streaming").await;
    insert(&client, "outbox", 2).await;
    assert_eq!(consumer.take(1)[0].seq(), 2);
    assert!(relay.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_in_use_is_waited_for_with_growing_pauses_and_few_words() {
    let Scene {
        postgres,
        kafka,
        client,
    } = Scene::open(Version::V18, &[]).await;
    let first = Relay::start(&postgres, &kafka, &[]);
    first.wait_for_state("streaming").await;
    assert!(first.stop().success());

    let other = postgres.stream_elsewhere("outbox", "outbox");
    wait_until(PATIENCE, "the other reader has the slot", async || {
        let active = client.query_one(
            "SELECT active FROM pg_replication_slots WHERE slot_name = 'outbox'",
            &[],
        );
        active.await.unwrap().get::<_, bool>(0)
    })
    .await;
    let relay = Relay::start(&postgres, &kafka, &["relay.backoff_max=1s"]);
    wait_until(PATIENCE, "eight attempts", async || {
        let (_, metrics) = relay.get("/metrics").unwrap_or_default();
        let attempts = metrics
            .lines()
            .filter(|line| line.starts_with("outboxd_reconnects_total{"))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        attempts.sum::<f64>() >= 8.0
    })
    .await;
    let said = relay
        .log()
        .iter()
        .filter(|line| line.contains("is active for PID"))
        .count();
    assert_eq!(said, 1, "{:#?}", relay.log());
    assert!(!relay.logged("recovered"), "{:#?}", relay.log());
    drop(other);
    relay.wait_for_state("streaming").await;
    assert!(relay.stop().success());
}

/// The rows before it go out with each attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_at_which_the_server_fails_each_time_is_come_to_with_growing_pauses() {
    let Scene {
        postgres,
        kafka,
        client,
    } = Scene::open(Version::V18, &[]).await;
    client
        .batch_execute(
            "CREATE PUBLICATION outbox FOR TABLE outbox WHERE (10 / seq > 0) WITH (publish = 'insert')",
        )
        .await
        .unwrap();
    let relay = Relay::start(
        &postgres,
        &kafka,
        &["relay.backoff_min=200ms", "relay.backoff_max=5s"],
    );
    relay.wait_for_state("streaming").await;
    let row = "gen_random_uuid(), 'order', 'k'";
    client
        .batch_execute(&format!(
            "BEGIN; INSERT INTO outbox VALUES ({row}, 1, 'T', '{{}}');
             INSERT INTO outbox VALUES ({row}, 0, 'T', '{{}}'); COMMIT"
        ))
        .await
        .unwrap();
    let began = std::time::Instant::now();
    let consumer = Consumer::new(&kafka, TOPIC);
    let seqs: Vec<i64> = consumer.take(5).iter().map(|event| event.seq()).collect();
    assert_eq!(seqs, [1; 5]);
    // The shortest four pauses: each is at least half of 200 ms, 400 ms, 800 ms, 1.6 s.
    let shortest = Duration::from_millis(1500);
    assert!(began.elapsed() >= shortest, "{:?}", began.elapsed());
    let said = |text: &str| {
        relay
            .log()
            .iter()
            .filter(|line| line.contains(text))
            .count()
    };
    assert_eq!(
        (said("ERROR 22012"), said("recovered")),
        (1, 0),
        "{:#?}",
        relay.log()
    );
    relay.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn until_current_ends_under_load_that_never_ends() {
    let Scene {
        postgres, kafka, ..
    } = Scene::open(Version::V18, &[]).await;
    let first = Relay::start(&postgres, &kafka, &[]);
    first.wait_for_state("streaming").await;
    assert!(first.stop().success());
    let shop = Shop::open(&postgres, 3000, u64::MAX).await;
    let args = [
        "run".to_owned(),
        "--until=current".to_owned(),
        format!("--set=postgres.url={}", postgres.url()),
        "--set=slot.name=outbox".to_owned(),
        "--set=publication.name=outbox".to_owned(),
        format!("--set=kafka.bootstrap.servers={}", kafka.servers()),
    ];
    let (status, log) = Relay::start_with(&args, &[]).wait();
    assert!(status.success(), "{log:#?}");
    shop.finish().await;
}
