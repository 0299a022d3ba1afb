//! A broker that has nothing yet: the relay makes what it needs, says so once, and is well meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Kafka, Relay, Scene, Version, wait_until};

const TOPICS: usize = 12;
const ROWS: u64 = 3000;

#[tokio::test(flavor = "multi_thread")]
async fn topics_that_the_relay_makes_are_told_once_and_block_nothing() {
    let (postgres, client) = Scene::source(Version::V18, &[]).await;
    let kafka = Kafka::start();
    let rows = format!(
        "INSERT INTO outbox SELECT gen_random_uuid(), 'kind' || n % {TOPICS}, 'k' || n, n, 'T', '{{}}'
           FROM generate_series(1, {ROWS}) n"
    );
    client.batch_execute(&rows).await.unwrap();
    let settings = ["topics.create=missing", "topics.partitions=6"];
    let relay = Relay::start(&postgres, &kafka, &settings);
    wait_until(Duration::from_secs(100), "all rows", async || {
        let status = relay.status();
        status.is_some_and(|status| status["records_published"] == ROWS)
    })
    .await;
    relay.wait_for_state("streaming").await;
    let (_, details) = relay.get("/details").unwrap();
    let details: Value = serde_json::from_str(&details).unwrap();
    let mut states: Vec<_> = details["happened"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| (change["state"].as_str().unwrap(), &change["error"]))
        .collect();
    states.reverse();
    let well = ["starting", "snapshotting", "streaming"].map(|state| (state, &Value::Null));
    assert_eq!(states, well);
    let failed = "outboxd_records_failed_total{reason=\"topic_missing\"}";
    assert_eq!(relay.metric(failed), Some(0.0));
    let (status, log) = relay.stop_and_log();
    assert!(status.success());
    let mut told = BTreeMap::<String, usize>::new();
    for line in log {
        let line: Value = serde_json::from_str(&line).unwrap();
        if line["message"] == "created the topic" {
            let topic = line["topic"].as_str().unwrap().to_owned();
            *told.entry(topic).or_default() += 1;
        }
    }
    let events = (0..TOPICS).map(|kind| format!("outbox.event.kind{kind}"));
    let once = events.chain(["outboxd.positions".to_owned()]);
    assert_eq!(told, once.map(|topic| (topic, 1)).collect());
}
