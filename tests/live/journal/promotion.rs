//! A standby is promoted that never had the slot.

use super::{insert, run, slots};
use crate::support::{Consumer, Relay, Scene, Version, free_port};

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_without_the_slot_is_a_loss_and_without_the_journal_a_new_beginning() {
    let kafka = Scene::kafka().await;
    let (mut primary, client) = Scene::source(Version::V18, &[]).await;
    run(
        &client,
        "SELECT pg_create_physical_replication_slot('standby', true)",
    )
    .await;
    let port = free_port();
    let url = format!(
        "postgres.url=postgresql://postgres@127.0.0.1:{},127.0.0.1:{port}/postgres?target_session_attrs=read-write",
        primary.port
    );
    let settings = [url.as_str(), "snapshot.mode=no_data"];
    let standby = primary.start_standby(port);
    let client = primary.client().await;
    let relay = Relay::start(&primary, &kafka, &settings);
    relay.wait_for_state("streaming").await;
    insert(&client, 1).await;
    let consumer = Consumer::new(&kafka, Scene::TOPIC);
    assert_eq!(consumer.take(1)[0].seq(), 1);

    primary.kill();
    let second = standby.client().await;
    run(&second, "SELECT pg_promote()").await;
    relay.wait_for_state("lost").await;
    relay.kill();
    // The next process knows it too, by the journal alone.
    let relay = Relay::start(&standby, &kafka, &settings);
    relay.wait_for_state("lost").await;
    let error = relay.status().unwrap()["error"].clone();
    assert_eq!(
        error["message"],
        "replication slot \"outbox\" does not exist any more"
    );
    let detail = error["detail"].as_str().unwrap();
    assert!(detail.starts_with("It was there when 0/"), "{detail}");
    assert_eq!(slots(&second).await, 0);
    relay.kill();

    // Without it nobody knows that there was a slot: this is what docs/operating.md says of it.
    let blind = [url.as_str(), "snapshot.mode=no_data", "position.topic="];
    let relay = Relay::start(&standby, &kafka, &blind);
    relay.wait_for_state("streaming").await;
    insert(&second, 2).await;
    assert_eq!(consumer.take(1)[0].seq(), 2);
    assert!(relay.stop().success());
}
