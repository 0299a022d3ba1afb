//! A standby is promoted that never had the slot.

use super::{insert, run, slots};
use crate::slots::slot_command;
use crate::support::{Consumer, Kafka, Postgres, Relay, Scene, Version, free_port};

const DROP: [&str; 3] = ["drop", "--yes", "outbox"];

/// The standby has a slot of that name of its own: what becomes of it says nothing of the primary's.
async fn drops_the_standbys_own_slot(primary: &Postgres, standby: &Postgres, kafka: &Kafka) {
    let (first, second) = (primary.client().await, standby.client().await);
    let make = "SELECT pg_create_logical_replication_slot('outbox', 'pgoutput')";
    let beat = "SELECT pg_log_standby_snapshot()";
    // A standby makes a slot once it is told which transactions run.
    let mut made = std::pin::pin!(run(&second, make));
    loop {
        run(&first, beat).await;
        let patience = std::time::Duration::from_millis(200);
        if tokio::time::timeout(patience, made.as_mut()).await.is_ok() {
            break;
        }
    }
    assert_eq!(slots(&second).await, 1);
    let (status, said) = slot_command(standby, &kafka.servers(), &DROP);
    assert!(said.contains("This server is a standby: "), "{said}");
    assert!(!said.contains("in the journal"), "{said}");
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(slots(&second).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_without_the_slot_is_a_loss_and_without_the_journal_a_new_beginning() {
    let kafka = Scene::kafka().await;
    let (mut primary, _) = Scene::source(Version::V18, &[]).await;
    let port = free_port();
    let url = format!(
        "postgres.url=postgresql://postgres@127.0.0.1:{},127.0.0.1:{port}/postgres?target_session_attrs=read-write",
        primary.port
    );
    let settings = [url.as_str(), "snapshot.mode=no_data"];
    let standby = primary.start_standby(port).await;
    let client = primary.client().await;
    let relay = Relay::start(&primary, &kafka, &settings);
    relay.wait_for_state("streaming").await;
    insert(&client, 1).await;
    let consumer = Consumer::new(&kafka, Scene::TOPIC);
    assert_eq!(consumer.take(1)[0].seq(), 1);
    drops_the_standbys_own_slot(&primary, &standby, &kafka).await;

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

    // The relay's slot is here now. The stale one of the server that was left is not the journal's.
    let relay = Relay::start_accepting(&standby, &kafka, &settings);
    relay.wait_for_state("streaming").await;
    insert(&second, 3).await;
    assert_eq!(consumer.take(1)[0].seq(), 3);
    assert!(relay.stop().success());
    primary.start_again();
    let old = primary.client().await;
    let advance = ["advance", "--to", "current", "--yes", "outbox"];
    for args in [DROP.as_slice(), &advance] {
        let (status, said) = slot_command(&primary, &kafka.servers(), args);
        let other = "the server's history is another one than the one that was streamed from";
        assert!(said.contains(other), "{said}");
        assert_eq!((status, slots(&old).await), (Some(1), 2), "{said}");
    }
    let apart = [DROP.as_slice(), &["--set", "position.topic="]].concat();
    let (status, said) = slot_command(&primary, &kafka.servers(), &apart);
    assert_eq!((status, slots(&old).await), (Some(0), 1), "{said}");
    // So that it is noticed when the live one goes; the first host of the list is the wrong one now.
    run(&second, "SELECT pg_drop_replication_slot('outbox')").await;
    let relay = Relay::start(&standby, &kafka, &settings[1..]);
    relay.wait_for_state("lost").await;
    relay.kill();
}
