//! A standby is promoted under load. The relay follows it, and a consumer has what the new primary has.

use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::support::{Postgres, Reader, Relay, Scene, Shop, Version, free_port, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

async fn holds(client: &Client, question: &str) -> bool {
    client.query_one(question, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_goes_on_where_the_primary_ended() {
    let kafka = Scene::kafka().await;
    let (mut primary, _) = Scene::source(Version::V18, &[]).await;
    let standby_port = free_port();
    let url = format!(
        "postgres.url=postgresql://postgres@127.0.0.1:{},127.0.0.1:{standby_port}/postgres?target_session_attrs=read-write",
        primary.port
    );
    let settings = [
        url.as_str(),
        "slot.failover=true",
        "postgres.wal_sender_timeout=3s",
        "relay.backoff_max=500ms",
    ];
    let relay = Relay::start(&primary, &kafka, &settings);
    relay.wait_for_state("streaming").await;
    // The slot is there already: a standby that finds none looks again half a minute later only.
    let standby = primary.start_standby(standby_port).await;
    let client = primary.client().await;
    // Nothing goes out to the relay before the standby has it.
    client
        .batch_execute("ALTER SYSTEM SET synchronized_standby_slots = 'standby'")
        .await
        .unwrap();
    client
        .batch_execute("SELECT pg_reload_conf()")
        .await
        .unwrap();
    let shop = Shop::open(&primary, 500, u64::MAX).await;
    let mut reader = Reader::new(&kafka);
    reader.read_until(500);
    let second = standby.client().await;
    let copied = "SELECT count(*) > 0 FROM pg_replication_slots
                   WHERE slot_name = 'outbox' AND synced AND NOT temporary AND invalidation_reason IS NULL";
    wait_until(
        PATIENCE,
        "the standby keeps a copy of the slot",
        async || holds(&second, copied).await,
    )
    .await;
    reader.read_more(500);

    primary.kill();
    shop.cut().await;
    let began = Instant::now();
    assert!(holds(&second, "SELECT pg_promote()").await);
    relay.wait_for_state("streaming").await;
    let shop = Shop::open(&standby, 500, u64::MAX).await;
    reader.read_more(500);
    println!(
        "promoted and 500 events later: {:?}, repeats {}",
        began.elapsed(),
        reader.tally.repeats()
    );
    assert!(relay.logged("streaming from the slot's own position"));
    reader.close(&second, shop, vec![relay]).await;
    drop::<Postgres>(primary);
}
