//! Kills, stops and outages. What counts is what a consumer has afterwards.

use std::time::Duration;

use crate::support::{
    Consumer, Postgres, Relay, Scene, Shop, Shutdown, Tally, Version, wait_until,
};

const TOPIC: &str = Scene::TOPIC;
const QUIET: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn twenty_kills_under_load_lose_nothing_and_repeat_less_than_was_in_flight() {
    const IN_FLIGHT: u64 = 2000;
    const EVENTS: u64 = 60_000;
    let mut scene = Scene::open(Version::V18, &[]).await;
    let bound = format!("relay.max_in_flight_records={IN_FLIGHT}");
    let settings = [bound.as_str()];
    let mut relay = Relay::start(&scene.postgres, &scene.kafka, &settings);
    relay.wait_for_state("streaming").await;
    let shop = Shop::open(&scene.postgres, 2000, EVENTS).await;
    let (consumer, mut tally) = (Consumer::new(&scene.kafka, TOPIC), Tally::default());
    let mut repeats_after_kill = Vec::new();
    for kill in 1..=20 {
        consumer.read_until(&mut tally, kill * 2500, Duration::from_secs(60));
        let before = tally.repeats();
        relay.kill();
        relay = Relay::start(&scene.postgres, &scene.kafka, &settings);
        relay.wait_for_state("streaming").await;
        consumer.read_until(&mut tally, kill * 2500 + 200, Duration::from_secs(60));
        repeats_after_kill.push(tally.repeats() - before);
    }
    let expected = shop.wait().await;
    consumer.read_until(&mut tally, EVENTS as usize, Duration::from_secs(60));
    assert!(relay.stop().success());
    consumer.read_rest(&mut tally, QUIET);
    println!("20 kills, {EVENTS} events: lost 0, repeats by kill {repeats_after_kill:?}");
    tally.assert_complete_and_ordered(&expected);
    let most = repeats_after_kill.iter().max().copied().unwrap_or_default();
    assert!(most <= IN_FLIGHT, "{most} repeats after one kill");
    scene.postgres.stop(Shutdown::Fast);
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_clean_stops_under_load_repeat_nothing() {
    let scene = Scene::open(Version::V18, &[]).await;
    let mut relay = Relay::start(&scene.postgres, &scene.kafka, &[]);
    relay.wait_for_state("streaming").await;
    let shop = Shop::open(&scene.postgres, 1000, u64::MAX).await;
    let (consumer, mut tally) = (Consumer::new(&scene.kafka, TOPIC), Tally::default());
    for stop in 1..=20 {
        consumer.read_until(&mut tally, stop * 500, Duration::from_secs(60));
        assert!(relay.stop().success(), "stop {stop} drains");
        relay = Relay::start(&scene.postgres, &scene.kafka, &[]);
        relay.wait_for_state("streaming").await;
    }
    let expected = shop.finish().await;
    let events = expected.values().sum::<i64>();
    consumer.read_until(
        &mut tally,
        usize::try_from(events).unwrap(),
        Duration::from_secs(60),
    );
    assert!(relay.stop().success());
    consumer.read_rest(&mut tally, QUIET);
    println!(
        "20 clean stops, {events} events: repeats {}",
        tally.repeats()
    );
    tally.assert_complete_and_ordered(&expected);
    assert_eq!(tally.repeats(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_broker_costs_neither_the_connection_nor_the_bound() {
    let mut scene = Scene::open(Version::V18, &[("wal_sender_timeout", "5s")]).await;
    let settings = [
        "postgres.wal_sender_timeout=5s",
        "relay.max_in_flight_bytes=4MiB",
    ];
    let relay = Relay::start(&scene.postgres, &scene.kafka, &settings);
    relay.wait_for_state("streaming").await;
    let shop = Shop::open(&scene.postgres, 2000, u64::MAX).await;
    let (consumer, mut tally) = (Consumer::new(&scene.kafka, TOPIC), Tally::default());
    consumer.read_until(&mut tally, 2000, Duration::from_secs(60));
    let pid = walsender(&scene.client).await;
    let idle_kib = relay.resident_kib();

    scene.kafka.stop();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let status = relay.status().unwrap();
    assert_eq!(status["state"], "blocked");
    assert_eq!(status["error"]["message"], "no Kafka broker can be reached");
    assert_eq!(
        walsender(&scene.client).await,
        pid,
        "the replication connection was never lost"
    );
    scene.kafka.start_again();
    let expected = shop.finish().await;
    let events = usize::try_from(expected.values().sum::<i64>()).unwrap();
    consumer.read_until(&mut tally, events, Duration::from_secs(120));
    relay.wait_for_state("streaming").await;
    assert_eq!(walsender(&scene.client).await, pid);
    let peak_kib = relay.peak_kib();
    println!(
        "broker away for 60 s: {events} events, idle {idle_kib} KiB, peak {peak_kib} KiB, repeats {}",
        tally.repeats()
    );
    assert!(
        peak_kib < idle_kib + (32 << 10),
        "idle {idle_kib} KiB, peak {peak_kib} KiB"
    );
    assert!(relay.stop().success());
    consumer.read_rest(&mut tally, QUIET);
    tally.assert_complete_and_ordered(&expected);
}

async fn walsender(client: &tokio_postgres::Client) -> i32 {
    client
        .query_one(
            "SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'outbox'",
            &[],
        )
        .await
        .unwrap()
        .get::<_, Option<i32>>(0)
        .expect("the slot is in use")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_or_is_killed_is_found_again() {
    for version in [Version::V14, Version::V18] {
        let mut scene = Scene::open(version, &[]).await;
        let relay = Relay::start(&scene.postgres, &scene.kafka, &[]);
        relay.wait_for_state("streaming").await;
        let (consumer, mut tally) = (Consumer::new(&scene.kafka, TOPIC), Tally::default());
        let ways: [fn(&mut Postgres); 3] = [
            |server| server.stop(Shutdown::Fast),
            |server| server.stop(Shutdown::Immediate),
            Postgres::kill,
        ];
        let mut before = 0;
        for down in ways {
            let shop = Shop::open(&scene.postgres, 1000, u64::MAX).await;
            consumer.read_until(&mut tally, before + 500, Duration::from_secs(60));
            down(&mut scene.postgres);
            shop.cut().await;
            scene.postgres.start_again();
            let committed = Shop::committed(&scene.postgres.client().await).await;
            before = usize::try_from(committed.values().sum::<i64>()).unwrap();
            consumer.read_until(&mut tally, before, Duration::from_secs(60));
        }
        wait_until(Duration::from_secs(30), "streaming again", async || {
            relay
                .status()
                .is_some_and(|status| status["state"] == "streaming")
        })
        .await;
        let expected = Shop::committed(&scene.postgres.client().await).await;
        assert!(relay.logged("what was confirmed before the server was restarted was passed over"));
        assert!(relay.stop().success());
        consumer.read_rest(&mut tally, QUIET);
        println!(
            "{version:?} restarted fast, immediate, killed: repeats {}",
            tally.repeats()
        );
        tally.assert_complete_and_ordered(&expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_instance_waits_and_takes_over() {
    for version in [Version::V14, Version::V18] {
        let scene = Scene::open(version, &[]).await;
        let settings = ["postgres.wal_sender_timeout=3s"];
        let leader = Relay::start(&scene.postgres, &scene.kafka, &settings);
        leader.wait_for_state("streaming").await;
        let standby = Relay::start(&scene.postgres, &scene.kafka, &settings);
        standby.wait_for_state("standby").await;
        assert_eq!(standby.get("/readyz").unwrap().0, 503);
        assert_eq!(leader.get("/readyz").unwrap().0, 200);
        let shop = Shop::open(&scene.postgres, 1000, u64::MAX).await;
        let (consumer, mut tally) = (Consumer::new(&scene.kafka, TOPIC), Tally::default());
        consumer.read_until(&mut tally, 500, Duration::from_secs(60));

        leader.kill();
        standby.wait_for_state("streaming").await;
        consumer.read_until(&mut tally, 1500, Duration::from_secs(60));

        let third = Relay::start(&scene.postgres, &scene.kafka, &settings);
        third.wait_for_state("standby").await;
        standby.signal("STOP");
        third.wait_for_state("streaming").await;
        consumer.read_until(&mut tally, 2500, Duration::from_secs(60));
        let expected = shop.finish().await;
        let events = usize::try_from(expected.values().sum::<i64>()).unwrap();
        consumer.read_until(&mut tally, events, Duration::from_secs(60));
        assert!(third.stop().success());
        // Ended while it is frozen: one that thaws sends what its producer still held, and nothing
        // but Kafka transactions would fence it (docs/guarantees.md).
        standby.kill();
        consumer.read_rest(&mut tally, QUIET);
        println!(
            "{version:?}: leader killed, then frozen: repeats {}",
            tally.repeats()
        );
        tally.assert_complete_and_ordered(&expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_is_stopped_leaves_nothing_behind() {
    let scene = Scene::open(Version::V18, &[]).await;
    let leader = Relay::start(&scene.postgres, &scene.kafka, &[]);
    leader.wait_for_state("streaming").await;
    let standby = Relay::start(&scene.postgres, &scene.kafka, &[]);
    standby.wait_for_state("standby").await;
    assert!(standby.stop().success());
    wait_until(
        Duration::from_secs(10),
        "no backend waits for the lock",
        async || {
            let row = scene.client.query_one(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted",
                &[],
            );
            row.await.unwrap().get::<_, i64>(0) == 0
        },
    )
    .await;
    assert!(leader.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_without_a_topic_blocks_and_nothing_behind_it_is_confirmed() {
    let scene = Scene::open(Version::V18, &[]).await;
    scene
        .client
        .batch_execute("ALTER TABLE outbox ALTER aggregatetype DROP NOT NULL")
        .await
        .unwrap();
    let relay = Relay::start(&scene.postgres, &scene.kafka, &[]);
    relay.wait_for_state("streaming").await;
    let insert = |kind: &str, seq: i64| {
        format!("INSERT INTO outbox VALUES (gen_random_uuid(), {kind}, 'k', {seq}, 'T', '{{}}')")
    };
    for (kind, seq) in [("'order'", 1), ("NULL", 2), ("'order'", 3)] {
        scene
            .client
            .batch_execute(&insert(kind, seq))
            .await
            .unwrap();
    }
    relay.wait_for_state("blocked").await;
    let (code, body) = relay.get("/readyz").unwrap();
    assert_eq!((code, body.as_str()), (503, "blocked\n"));
    let error = relay.status().unwrap()["error"].clone();
    let detail = error["detail"].as_str().unwrap();
    assert_eq!(
        detail,
        "column \"aggregatetype\" is null, so the row has no topic"
    );
    assert!(
        error["message"].as_str().unwrap().contains("public.outbox"),
        "{error}"
    );
    let consumer = Consumer::new(&scene.kafka, TOPIC);
    assert_eq!(consumer.take(1)[0].seq(), 1);
    assert_eq!(
        consumer.next(QUIET),
        None,
        "what is behind the row is not published"
    );
    let pid = walsender(&scene.client).await;
    wait_until(Duration::from_secs(10), "the lag grows", async || {
        relay
            .metric("outboxd_lag_seconds")
            .is_some_and(|lag| lag > 1.0)
    })
    .await;
    assert_eq!(relay.stop().code(), Some(1), "the row is still to come");

    // The row is still the next one: nothing was skipped.
    let relay = Relay::start(&scene.postgres, &scene.kafka, &["errors.on_blocked=exit"]);
    let (status, log) = relay.wait();
    assert_eq!(status.code(), Some(1), "{log:#?}");
    assert!(pid > 0);
}
