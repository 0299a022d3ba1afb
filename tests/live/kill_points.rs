//! The process ends at each edge of a record's way, as `kill -9` would end it, and the next one goes on.

use std::time::Duration;

use crate::support::{Consumer, Relay, Scene, Shop, Tally, Version, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

/// Fifty orders with forty events each, which stay in the table.
const RETAINED: &str = "
INSERT INTO orders SELECT 'ORD-' || n, 'created', 0 FROM generate_series(1, 50) n;
DO $$ BEGIN FOR round IN 1..40 LOOP
  WITH changed AS (UPDATE orders SET version = version + 1 RETURNING id, version)
  INSERT INTO outbox SELECT gen_random_uuid(), 'order', id, version, 'OrderShipped', '{}' FROM changed;
END LOOP; END $$";

async fn die_at(scene: &Scene, edge: &str, nth: u32) {
    println!("{edge} {nth}");
    let relay = Relay::start_to_be_killed(&scene.postgres, &scene.kafka, &[], edge, nth);
    if ["drained", "confirmed"].contains(&edge) {
        relay.wait_for_state("streaming").await;
        relay.signal("TERM");
    }
    relay.dies().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_at_any_edge_loses_and_reorders_nothing() {
    let scene = Scene::open(Version::V18, &[]).await;
    scene.client.batch_execute(RETAINED).await.unwrap();
    let slots = "SELECT count(*) FROM pg_replication_slots";
    for (edge, nth) in [
        ("snapshotrow", 1),
        ("snapshotrow", 1500),
        ("snapshotdelivered", 1),
        ("snapshotslot", 1),
    ] {
        die_at(&scene, edge, nth).await;
        let expected = i64::from(edge == "snapshotslot");
        wait_until(PATIENCE, "temporary slots to go", async || {
            let row = scene.client.query_one(slots, &[]).await.unwrap();
            row.get::<_, i64>(0) == expected
        })
        .await;
    }

    let shop = Shop::open(&scene.postgres, 500, u64::MAX).await;
    for (edge, nth) in [
        ("received", 1),
        ("received", 8),
        ("received", 300),
        ("enqueued", 1),
        ("enqueued", 30),
        ("acknowledged", 1),
        ("acknowledged", 15),
        ("acknowledged", 301),
        ("journalled", 1),
        ("journalled", 7),
        ("status", 1),
        ("status", 2),
        ("status", 9),
        ("drained", 1),
        ("confirmed", 1),
    ] {
        die_at(&scene, edge, nth).await;
    }
    let relay = Relay::start(&scene.postgres, &scene.kafka, &[]);
    let (consumer, mut tally) = (Consumer::new(&scene.kafka, Scene::TOPIC), Tally::default());
    let expected = shop.finish().await;
    let events = usize::try_from(expected.values().sum::<i64>()).unwrap();
    consumer.read_until(&mut tally, events, PATIENCE);
    assert!(relay.stop().success());
    consumer.read_rest(&mut tally, Duration::from_millis(500));
    println!("19 deaths, {events} events: repeats {}", tally.repeats());
    tally.assert_complete_and_ordered(&expected);
}
