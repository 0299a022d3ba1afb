//! The configuration of the pattern's article, from its own connector and worker files.

use std::time::Duration;

use tokio_postgres::NoTls;

use crate::support::{Consumer, Kafka, Postgres, Relay, Version};

const TABLES: &str = "
CREATE TABLE orders (id text PRIMARY KEY, status text NOT NULL, version bigint NOT NULL DEFAULT 1);
CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text NOT NULL,
                     seq bigint NOT NULL, type text NOT NULL, payload jsonb NOT NULL);";

const CREATED: &str = "BEGIN;
INSERT INTO orders (id, status) VALUES ('ORD-221', 'created');
INSERT INTO outbox (id, aggregatetype, aggregateid, seq, type, payload)
VALUES ('00000000-0000-0000-0000-000000000001', 'order', 'ORD-221', 1, 'OrderCreated', '{\"status\": \"created\"}');
COMMIT;";

fn changed(id: u8, status: &str, event: &str, also: &str) -> String {
    format!(
        "BEGIN;
WITH bumped AS (
  UPDATE orders SET status = '{status}', version = version + 1 WHERE id = 'ORD-221' RETURNING id, status, version
)
INSERT INTO outbox (id, aggregatetype, aggregateid, seq, type, payload)
SELECT '00000000-0000-0000-0000-00000000000{id}', 'order', id, version, '{event}', jsonb_build_object('status', status)
  FROM bumped;
{also}
COMMIT;"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_articles_files_give_the_articles_records() {
    let (postgres, kafka) = (Postgres::start(Version::V18, &[]), Kafka::start());
    let admin = postgres.client().await;
    admin
        .batch_execute("CREATE ROLE outboxd LOGIN REPLICATION PASSWORD 'secret'")
        .await
        .unwrap();
    admin
        .batch_execute("CREATE DATABASE shop OWNER outboxd")
        .await
        .unwrap();
    let url = format!(
        "postgresql://outboxd:secret@127.0.0.1:{}/shop",
        postgres.port
    );
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(TABLES).await.unwrap();

    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/connectors");
    let args = [
        "run".to_owned(),
        "--connector".to_owned(),
        format!("{files}/01-article.json"),
        "--worker".to_owned(),
        format!("{files}/05-worker.properties"),
        format!("--set=postgres.port={}", postgres.port),
        format!("--set=kafka.bootstrap.servers={}", kafka.servers()),
    ];
    let relay = Relay::start_with(&args, &[]);
    relay.wait_for_state("streaming").await;
    client.batch_execute(CREATED).await.unwrap();
    client.batch_execute("BEGIN; INSERT INTO outbox SELECT gen_random_uuid(), 'order', 'ORD-221', 9, 'T', '{}'; ROLLBACK;").await.unwrap();
    client
        .batch_execute(&changed(2, "shipped", "OrderShipped", ""))
        .await
        .unwrap();
    client
        .batch_execute(&changed(
            3,
            "delivered",
            "OrderDelivered",
            "DELETE FROM outbox;",
        ))
        .await
        .unwrap();

    let consumer = Consumer::new(&kafka, "outbox.event.order");
    let events = consumer.take(3);
    let seen: Vec<_> = events
        .iter()
        .map(|event| {
            (
                event.key.as_deref().unwrap(),
                event.value.as_deref().unwrap(),
                event.headers.clone(),
            )
        })
        .collect();
    let headers = |id: &str, seq: &str| {
        vec![
            (
                "id".to_owned(),
                Some(format!("00000000-0000-0000-0000-00000000000{id}")),
            ),
            ("seq".to_owned(), Some(seq.to_owned())),
        ]
    };
    assert_eq!(
        seen,
        [
            ("ORD-221", r#"{"status":"created"}"#, headers("1", "1")),
            ("ORD-221", r#"{"status":"shipped"}"#, headers("2", "2")),
            ("ORD-221", r#"{"status":"delivered"}"#, headers("3", "3")),
        ]
    );
    assert_eq!(consumer.next(Duration::from_millis(700)), None);
    assert!(relay.stop().success());
}
