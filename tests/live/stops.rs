//! How the relay lets go: of a server that shuts down, and of a slot that is not to outlive it.

use std::time::{Duration, Instant};

use crate::support::{Consumer, Kafka, Postgres, Relay, Shop, Shutdown, Version};

const TOPIC: &str = "outbox.event.order";
const ROW_WITHOUT_TOPIC: &str =
    "INSERT INTO outbox VALUES (gen_random_uuid(), NULL, 'k', 2, 'T', '{}')";
const ROW: &str = "INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'k', 1, 'T', '{}')";

async fn tables(postgres: &Postgres) -> tokio_postgres::Client {
    let client = postgres.client().await;
    Shop::create_tables(&client).await;
    client
        .batch_execute("ALTER TABLE outbox ALTER aggregatetype DROP NOT NULL")
        .await
        .unwrap();
    client
}

async fn slots(client: &tokio_postgres::Client) -> i64 {
    let row = client
        .query_one("SELECT count(*) FROM pg_replication_slots", &[])
        .await;
    row.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_relay_lets_the_server_shut_down_and_finds_the_row_again() {
    let (mut postgres, kafka) = (Postgres::start(Version::V18, &[]), Kafka::start());
    kafka.create_topic(TOPIC, 1, &[]).await;
    let client = tables(&postgres).await;
    let relay = Relay::start(&postgres, &kafka, &["relay.health_interval=1s"]);
    relay.wait_for_state("streaming").await;
    client.batch_execute(ROW_WITHOUT_TOPIC).await.unwrap();
    relay.wait_for_state("blocked").await;

    let begun = Instant::now();
    postgres.stop(Shutdown::Fast);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(30), "the shutdown took {took:?}");
    relay.wait_for_state("starting").await;

    postgres.start_again();
    relay.wait_for_state("blocked").await;
    assert_eq!(relay.stop().code(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_dropped_at_a_clean_stop_only_where_nothing_is_left_in_it() {
    let (postgres, kafka) = (Postgres::start(Version::V18, &[]), Kafka::start());
    kafka.create_topic(TOPIC, 1, &[]).await;
    let client = tables(&postgres).await;
    let settings = ["slot.drop_on_stop=true", "snapshot.mode=no_data"];
    let relay = Relay::start(&postgres, &kafka, &settings);
    relay.wait_for_state("streaming").await;
    client.batch_execute(ROW).await.unwrap();
    assert_eq!(Consumer::new(&kafka, TOPIC).take(1)[0].seq(), 1);
    assert_eq!(slots(&client).await, 1);
    assert!(relay.logged("the slot is dropped at each clean stop"));
    assert!(relay.stop().success());
    assert_eq!(slots(&client).await, 0);

    let relay = Relay::start(&postgres, &kafka, &settings);
    relay.wait_for_state("streaming").await;
    client.batch_execute(ROW_WITHOUT_TOPIC).await.unwrap();
    relay.wait_for_state("blocked").await;
    assert_eq!(relay.stop().code(), Some(1));
    assert_eq!(slots(&client).await, 1, "the row is still in it");
}
