//! What stands in the journal's topic, and what may not.

use std::time::{Duration, Instant};

use super::{DROP, World, insert, run, slots};
use crate::support::{Relay, Scene, Shutdown, Version};

const TOPIC: &str = "outboxd.positions";
const KEY: &str = "postgres/outbox";
/// Far below the pause between two writes, far above what a stop takes.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn entries_that_nobody_can_read_hold_and_nothing_waits_for_the_pause_between_two() {
    let mut world = World::open().await;
    let relay = Relay::start(&world.postgres, &world.kafka, &[]);
    world.works(relay).await;
    for (value, message) in [
        (
            "hunter2",
            "the position journal's entry cannot be used: it is not a position of a relay's (Syntax at column 1)",
        ),
        (
            "{\"version\":2}",
            "the position journal's entry cannot be used: it has the format 2, and this relay knows 1 alone",
        ),
    ] {
        world.kafka.write(TOPIC, KEY, Some(value));
        let place = "Topic \"outboxd.positions\", offset ";
        world.is_noticed(value, "blocked", message, place).await;
        world.the_next_start_has_nothing_to_say().await;
    }
    // Whoever takes the entry out knows why.
    run(&world.client, DROP).await;
    world.kafka.write(TOPIC, KEY, None);
    world.the_next_start_has_nothing_to_say().await;

    a_stop_waits_for_no_pause(&mut world).await;
    a_server_that_stops_waits_for_no_pause(&mut world).await;
    an_event_for_the_topic_is_refused(&world).await;
    a_snapshot_needs_two_slots(&world).await;
}

const SELDOM: [&str; 2] = ["relay.confirm_interval=2m", "snapshot.mode=no_data"];

async fn event_goes_through(world: &mut World) {
    world.seq += 1;
    insert(&world.client, world.seq).await;
    assert_eq!(world.consumer.take(1)[0].seq(), world.seq);
}

async fn a_stop_waits_for_no_pause(world: &mut World) {
    let relay = Relay::start(&world.postgres, &world.kafka, &SELDOM);
    relay.wait_for_state("streaming").await;
    event_goes_through(world).await;
    let began = Instant::now();
    assert!(relay.stop().success());
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

async fn a_server_that_stops_waits_for_no_pause(world: &mut World) {
    let relay = Relay::start(&world.postgres, &world.kafka, &SELDOM);
    relay.wait_for_state("streaming").await;
    event_goes_through(world).await;
    let began = Instant::now();
    world.postgres.stop(Shutdown::Fast);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    world.postgres.start_again();
    world.client = world.postgres.client().await;
    relay.wait_for_state("streaming").await;
    event_goes_through(world).await;
    assert!(relay.stop().success());
}

async fn an_event_for_the_topic_is_refused(world: &World) {
    let settings = ["position.topic=outbox.event.audit", "snapshot.mode=no_data"];
    let relay = Relay::start(&world.postgres, &world.kafka, &settings);
    relay.wait_for_state("streaming").await;
    let row = "INSERT INTO outbox VALUES (gen_random_uuid(), 'audit', 'k', 1, 'T', '{}')";
    run(&world.client, row).await;
    relay.wait_for_state("blocked").await;
    let error = relay.status().unwrap()["error"].clone();
    let why = "topic \"outbox.event.audit\" takes no events: the relay's positions are in it";
    assert_eq!(error["detail"], why);
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("or set position.topic to"), "{hint}");
    relay.kill();
}

async fn a_snapshot_needs_two_slots(world: &World) {
    let (postgres, client) = Scene::source(Version::V18, &[("max_replication_slots", "1")]).await;
    let key = "position.key=small";
    let relay = Relay::start(&postgres, &world.kafka, &[key]);
    relay.wait_for_state("blocked").await;
    let error = relay.status().unwrap()["error"].clone();
    assert_eq!(
        error["message"],
        "no room for replication slot \"outbox\": max_replication_slots is 1, and a snapshot needs two free ones"
    );
    assert_eq!(slots(&client).await, 0);
    relay.kill();
    let relay = Relay::start(&postgres, &world.kafka, &[key, "snapshot.mode=no_data"]);
    relay.wait_for_state("streaming").await;
    assert!(relay.stop().success());
}
