//! Rows that flow nowhere, and slots that are gone: what is told, and what heals it.

use std::time::Duration;

use tokio_postgres::Client;

use crate::support::{Consumer, Postgres, Relay, Scene, Shop, Version, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);
const OFTEN: [&str; 2] = ["relay.health_interval=200ms", "relay.backoff_max=300ms"];

async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap();
}

async fn insert(client: &Client, seq: i64) {
    let row = format!("gen_random_uuid(), 'order', 'k', {seq}, 'T', '{{}}'");
    run(client, &format!("INSERT INTO outbox VALUES ({row})")).await;
}

/// Message and detail of what stands in the way.
fn told(relay: &Relay) -> (String, String) {
    let error = relay.status().unwrap()["error"].clone();
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    (text("message"), text("detail"))
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_flow_nowhere_block_until_the_stream_has_them_again() {
    let kafka = Scene::kafka().await;
    let consumer = Consumer::new(&kafka, Scene::TOPIC);
    for version in [Version::V14, Version::V18] {
        let (postgres, client) = Scene::source(version, &[]).await;
        let key = format!("position.key={version:?}");
        let settings = [&OFTEN[..], &[key.as_str()]].concat();
        let relay = Relay::start(&postgres, &kafka, &settings);
        relay.wait_for_state("streaming").await;
        let cases = [
            (
                "ALTER PUBLICATION outbox DROP TABLE outbox",
                "table \"public.outbox\" is not in publication \"outbox\"",
                "",
                "ALTER PUBLICATION outbox ADD TABLE outbox",
            ),
            (
                "ALTER PUBLICATION outbox SET (publish = 'update')",
                "publication \"outbox\" does not publish inserts",
                "",
                "ALTER PUBLICATION outbox SET (publish = 'insert')",
            ),
            (
                "ALTER TABLE outbox RENAME TO outbox_old; CREATE TABLE outbox (LIKE outbox_old)",
                "table \"public.outbox\" is not in publication \"outbox\"",
                "The table that was streamed under this name is \"public.outbox_old\" now",
                "ALTER PUBLICATION outbox ADD TABLE outbox",
            ),
            (
                "DROP TABLE outbox; CREATE TABLE outbox (LIKE outbox_old)",
                "table \"public.outbox\" is not in publication \"outbox\"",
                "The table that was streamed under this name was dropped",
                "ALTER PUBLICATION outbox ADD TABLE outbox",
            ),
        ];
        let mut seq = 0;
        for (number, (change, message, detail, mend)) in (1..).zip(cases) {
            insert(&client, seq + 1).await;
            assert_eq!(consumer.take(1)[0].seq(), seq + 1, "{change}");
            run(&client, change).await;
            insert(&client, seq + 2).await;
            relay.wait_for_state("blocked").await;
            let (shown, why) = told(&relay);
            assert_eq!(shown, message, "{change}");
            assert!(why.starts_with(detail), "{why}");
            assert!(why.contains("may have passed by"), "{why}");
            run(&client, mend).await;
            relay.wait_for_state("streaming").await;
            insert(&client, seq + 3).await;
            let next = consumer.take(1)[0].seq();
            assert_eq!(next, seq + 3, "{change}: the row between is in no stream");
            let ranges = relay.metric("outboxd_unseen_ranges_total");
            assert_eq!(ranges, Some(f64::from(number)), "{change}");
            seq += 3;
        }
        assert!(relay.logged("rows committed between these positions may not have been published"));

        run(&client, "DROP TABLE outbox").await;
        relay.wait_for_state("blocked").await;
        assert_eq!(told(&relay).0, "no table matches \"public.outbox\"");
        run(
            &client,
            "BEGIN; CREATE TABLE outbox (LIKE outbox_old); ALTER PUBLICATION outbox ADD TABLE outbox; COMMIT",
        )
        .await;
        relay.wait_for_state("streaming").await;

        // Taken out and put in again between two looks.
        run(
            &client,
            "ALTER PUBLICATION outbox DROP TABLE outbox; ALTER PUBLICATION outbox ADD TABLE outbox",
        )
        .await;
        wait_until(PATIENCE, "it is noticed all the same", async || {
            relay.logged("was taken out of the publication and is in it again")
        })
        .await;

        run(&client, "DROP PUBLICATION outbox").await;
        relay.wait_for_state("blocked").await;
        assert_eq!(told(&relay).0, "publication \"outbox\" does not exist");
        run(&client, "CREATE PUBLICATION outbox FOR TABLE outbox").await;
        relay.wait_for_state("streaming").await;
        insert(&client, 100).await;
        assert_eq!(consumer.take(1)[0].seq(), 100);
        assert!(relay.stop().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_the_server_invalidates_is_lost_with_its_range() {
    let kafka = Scene::kafka().await;
    let consumer = Consumer::new(&kafka, Scene::TOPIC);
    for version in [Version::V14, Version::V18] {
        let limit = [("max_slot_wal_keep_size", "16MB")];
        let (postgres, client) = Scene::source(version, &limit).await;
        let key = format!("position.key={version:?}");
        let settings = [&OFTEN[..], &["topics.create=never", key.as_str()]].concat();
        let relay = Relay::start(&postgres, &kafka, &settings);
        relay.wait_for_state("streaming").await;
        insert(&client, 1).await;
        consumer.take(1);
        // Nothing is confirmed any more, and the log goes on.
        run(
            &client,
            "INSERT INTO outbox VALUES (gen_random_uuid(), 'nowhere', 'k', 2, 'T', '{}')",
        )
        .await;
        for _ in 0..4 {
            run(&client, "CREATE TABLE noise (); DROP TABLE noise").await;
            run(&client, "SELECT pg_switch_wal()").await;
        }
        let warned = "the slot is about to be lost";
        wait_until(PATIENCE, warned, async || relay.logged(warned)).await;
        run(&client, "CHECKPOINT").await;
        relay.wait_for_state("lost").await;
        let (message, detail) = told(&relay);
        assert_eq!(
            message,
            "replication slot \"outbox\" was invalidated by the server"
        );
        assert!(
            detail.starts_with("The reason is \"wal_removed\". Rows committed from 0/"),
            "{detail}"
        );
        assert_eq!(relay.get("/readyz").unwrap().0, 503);
        relay.stop();

        let again = Relay::start(&postgres, &kafka, &settings);
        again.wait_for_state("lost").await;
        assert_eq!(told(&again).0, message);
        again.stop();

        // One that is to end by itself does not wait for an operator.
        let (status, log) = Relay::start_until_current(&postgres, &kafka, &settings).wait();
        assert_eq!(status.code(), Some(1));
        let last = log.last().unwrap();
        assert!(
            last.contains("was invalidated by the server") && last.contains("\"exit_status\":1")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_is_gone_is_not_made_again_by_a_relay_that_knew_it() {
    let Scene {
        postgres,
        kafka,
        client,
    } = Scene::open(Version::V18, &[]).await;
    const DROP: &str = "SELECT pg_drop_replication_slot('outbox')";
    // The pause in which the slot is dropped.
    let slow = ["relay.backoff_min=2s"];
    let relay = Relay::start(&postgres, &kafka, &slow);
    relay.wait_for_state("streaming").await;
    insert(&client, 1).await;
    Consumer::new(&kafka, Scene::TOPIC).take(1);
    Scene::behind_the_relays_back(&client, DROP).await;
    relay.wait_for_state("lost").await;
    let (message, detail) = told(&relay);
    assert_eq!(
        message,
        "replication slot \"outbox\" does not exist any more"
    );
    assert!(detail.starts_with("It was there when 0/"), "{detail}");
    relay.kill();

    let relay = Relay::start_accepting(&postgres, &kafka, &[]);
    relay.wait_for_state("streaming").await;
    assert!(relay.stop().success());
    idle_slots_time_out(&postgres, &client).await;
    let relay = Relay::start(&postgres, &kafka, &[]);
    relay.wait_for_state("lost").await;
    let (_, detail) = told(&relay);
    assert!(
        detail.starts_with("The reason is \"idle_timeout\". Rows committed from 0/"),
        "{detail}"
    );
    relay.kill();
    run(&client, DROP).await;

    run(&client, "CREATE DATABASE shop").await;
    let shop = postgres.client_of("shop").await;
    Shop::create_tables(&shop).await;
    let settings = [slow[0], "postgres.database=shop"];
    let relay = Relay::start(&postgres, &kafka, &settings);
    relay.wait_for_state("streaming").await;
    drop(shop);
    Scene::behind_the_relays_back(&client, "DROP DATABASE shop WITH (FORCE)").await;
    relay.wait_for_state("blocked").await;
    let (shown, _) = told(&relay);
    assert!(
        shown.contains("database \"shop\" does not exist"),
        "{shown}"
    );
    run(&client, "CREATE DATABASE shop").await;
    Shop::create_tables(&postgres.client_of("shop").await).await;
    relay.wait_for_state("lost").await;
    assert_eq!(told(&relay).0, message);
}

/// PostgreSQL 18 counts it in seconds.
async fn idle_slots_time_out(postgres: &Postgres, client: &Client) {
    run(
        client,
        "ALTER SYSTEM SET idle_replication_slot_timeout = '1s'",
    )
    .await;
    run(client, "SELECT pg_reload_conf()").await;
    let other = postgres.client().await;
    wait_until(PATIENCE, "the idle slot is invalidated", async || {
        run(&other, "CHECKPOINT").await;
        let reason = "SELECT coalesce(invalidation_reason, '') FROM pg_replication_slots";
        other
            .query_one(reason, &[])
            .await
            .unwrap()
            .get::<_, String>(0)
            == "idle_timeout"
    })
    .await;
    run(client, "ALTER SYSTEM RESET idle_replication_slot_timeout").await;
    run(client, "SELECT pg_reload_conf()").await;
}
