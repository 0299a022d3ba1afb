//! The SQL of `docs/consumers.md`, run against the arrivals that the page promises to stand.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use crate::support::{Postgres, Version};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs");

/// One file of the kit: its statements by name.
struct Kit(HashMap<String, String>);

impl Kit {
    /// A statement begins behind a comment that starts with its name and a colon, or is `setup`.
    async fn set_up(client: &Client, file: &str) -> Self {
        let text = fs::read_to_string(format!("{DOCS}/examples/consumer/{file}")).unwrap();
        let mut statements = HashMap::new();
        let mut name = None;
        for line in text.lines() {
            let started = line.strip_prefix("-- ").and_then(|comment| {
                let (word, _) = comment.split_once(':').unwrap_or((comment, ""));
                let is_name = word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
                is_name.then(|| word.to_owned())
            });
            if started.is_some() {
                name = started;
            } else if let Some(name) = &name {
                let statement: &mut String = statements.entry(name.clone()).or_default();
                statement.push_str(line);
                statement.push('\n');
            }
        }
        let setup = statements.remove("setup").unwrap();
        client.batch_execute(&setup).await.unwrap();
        Self(statements)
    }

    /// How many rows it changed.
    async fn execute(&self, client: &Client, name: &str, values: &[&(dyn ToSql + Sync)]) -> u64 {
        client.execute(&self.0[name], values).await.unwrap()
    }

    async fn answer(&self, client: &Client, values: &[&(dyn ToSql + Sync)]) -> String {
        let row = client.query_one(&self.0["apply"], values).await.unwrap();
        row.get(0)
    }
}

/// All of `query`'s rows, as text.
async fn rows(client: &Client, query: &str) -> Vec<String> {
    let query = format!("SELECT row::text FROM ({query}) row ORDER BY 1");
    let rows = client.query(&query, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_consumers_sql_stands_every_arrival_that_is_promised() {
    let postgres = Postgres::start(Version::V14, &[]);
    let client = postgres.client().await;
    newest_version_wins_and_a_marker_stays(&client).await;
    a_new_life_of_an_id_is_not_dropped(&client).await;
    what_lies_behind_a_gap_waits_for_it(&client).await;
    an_effect_happens_once_and_marks_go_by_time(&client).await;
    a_lower_log_position_can_be_the_later_event(&postgres).await;
    the_producers_statement_writes_the_version_that_it_made(&client).await;
}

/// The SQL on the page, block by block.
fn blocks(page: &str) -> Vec<&str> {
    let blocks = page.split("```sql\n").skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap())
        .collect()
}

fn page() -> String {
    fs::read_to_string(format!("{DOCS}/consumers.md")).unwrap()
}

async fn newest_version_wins_and_a_marker_stays(client: &Client) {
    let kit = Kit::set_up(client, "version-guard.sql").await;
    let (created, shipped, gone) = (Some("created"), Some("shipped"), None::<&str>);
    // The order in which it arrives, and whether it changes a row.
    let arrivals = [
        ("A", created, false, 1_i64, 1),
        ("A", shipped, false, 2, 1),
        ("A", shipped, false, 2, 0),
        ("A", created, false, 1, 0),
        // A newer one overtook; a delete, and what comes late behind it.
        ("B", shipped, false, 2, 1),
        ("B", created, false, 1, 0),
        ("C", gone, true, 3, 1),
        ("C", shipped, false, 2, 0),
    ];
    for (order, status, deleted, seq, changes) in arrivals {
        let values: [&(dyn ToSql + Sync); 4] = [&order, &status, &deleted, &seq];
        let changed = kit.execute(client, "apply", &values).await;
        assert_eq!(changed, changes, "{order} {seq}");
    }
    let live = "SELECT * FROM live_shipments";
    assert_eq!(rows(client, live).await, ["(A,shipped)", "(B,shipped)"]);
    let markers = "SELECT order_id FROM shipments WHERE deleted";
    assert_eq!(rows(client, markers).await, ["(C)"]);
    assert_eq!(kit.execute(client, "forget", &[&"1 hour"]).await, 0);
    assert_eq!(kit.execute(client, "forget", &[&"0 seconds"]).await, 1);
}

async fn a_new_life_of_an_id_is_not_dropped(client: &Client) {
    let kit = Kit::set_up(client, "epoch.sql").await;
    let arrivals = [
        (Some(10_i64), false, 1_i64, 1_i64, 1),
        (None, true, 1, 2, 1),
        (Some(5), false, 2, 1, 1),
        // Late, from the first life.
        (Some(10), false, 1, 1, 0),
        (None, true, 1, 2, 0),
        (Some(7), false, 2, 2, 1),
    ];
    for (balance, deleted, epoch, seq, changes) in arrivals {
        let values: [&(dyn ToSql + Sync); 5] = [&"A", &balance, &deleted, &epoch, &seq];
        let changed = kit.execute(client, "apply", &values).await;
        assert_eq!(changed, changes, "epoch {epoch}, version {seq}");
    }
    let account = "SELECT balance, deleted, epoch, last_seq FROM accounts";
    assert_eq!(rows(client, account).await, ["(7,f,2,2)"]);
}

async fn what_lies_behind_a_gap_waits_for_it(client: &Client) {
    let kit = Kit::set_up(client, "gap-parking.sql").await;
    let arrivals = [
        ("A", 1_i64, 10_i64, "applied"),
        ("A", 3, 30, "parked"),
        ("A", 4, 40, "parked"),
        ("A", 3, 30, "parked"),
        ("A", 1, 10, "repeated"),
        ("B", 2, 20, "parked"),
        ("A", 2, 20, "applied"),
        ("A", 4, 40, "repeated"),
    ];
    for (sku, seq, quantity, answer) in arrivals {
        let said = kit.answer(client, &[&sku, &seq, &quantity]).await;
        assert_eq!(said, answer, "{sku} {seq}");
    }
    let stock = "SELECT * FROM stock";
    assert_eq!(rows(client, stock).await, ["(A,40,4)", "(B,0,0)"]);
    let alert = client
        .query(&kit.0["alert"], &[&"0 seconds"])
        .await
        .unwrap();
    let missing: Vec<(String, i64)> = alert.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(missing, [("B".to_owned(), 1)]);
    assert_eq!(
        client
            .query(&kit.0["alert"], &[&"1 hour"])
            .await
            .unwrap()
            .len(),
        0
    );
    kit.execute(client, "give_up", &[&"A"]).await;
    kit.execute(client, "give_up", &[&"B"]).await;
    assert_eq!(rows(client, stock).await, ["(A,40,4)", "(B,20,2)"]);
    assert_eq!(rows(client, "SELECT * FROM parked").await, [""; 0]);
}

async fn an_effect_happens_once_and_marks_go_by_time(client: &Client) {
    let kit = Kit::set_up(client, "seen-ids.sql").await;
    let (id, other) = (
        "6b86b273-ff34-4ce1-9d6b-804eff5a3f57",
        "d4735e3a-265e-46ee-a03f-59718b9b5d03",
    );
    for (id, changes) in [(id, 1), (id, 0), (other, 1), (id, 0)] {
        let values: [&(dyn ToSql + Sync); 3] = [&id, &"a@example.org", &"shipped"];
        assert_eq!(kit.execute(client, "apply", &values).await, changes);
    }
    assert_eq!(
        rows(client, "SELECT body FROM emails").await,
        ["(shipped)"; 2]
    );
    assert_eq!(kit.execute(client, "prune", &[&"1 hour"]).await, 0);
    assert_eq!(kit.execute(client, "prune", &[&"0 seconds"]).await, 2);
}

/// Why the version and not the position: B inserts first and commits last.
async fn a_lower_log_position_can_be_the_later_event(postgres: &Postgres) {
    let (a, b) = (postgres.client().await, postgres.client().await);
    a.batch_execute(
        "CREATE TABLE orders (id text PRIMARY KEY, version bigint NOT NULL);
         CREATE TABLE outbox (who text, seq bigint);
         INSERT INTO orders VALUES ('ORD-221', 1);",
    )
    .await
    .unwrap();
    let slot = "SELECT pg_create_logical_replication_slot('order_of_commits', 'test_decoding')";
    a.execute(slot, &[]).await.unwrap();
    let change = "WITH changed AS (UPDATE orders SET version = version + 1 RETURNING version)
                  UPDATE outbox SET seq = version FROM changed WHERE who = ";
    b.batch_execute("BEGIN; INSERT INTO outbox VALUES ('B')")
        .await
        .unwrap();
    a.batch_execute(&format!(
        "BEGIN; INSERT INTO outbox VALUES ('A'); {change} 'A'; COMMIT"
    ))
    .await
    .unwrap();
    b.batch_execute(&format!("{change} 'B'; COMMIT"))
        .await
        .unwrap();
    let inserts = "SELECT lsn, substring(data FROM 'who.*''(.)''') AS who
                     FROM pg_logical_slot_peek_changes('order_of_commits', NULL, NULL)
                    WHERE data LIKE '%outbox: INSERT%'";
    let decoded = a.query(inserts, &[]).await.unwrap();
    let decoded: Vec<String> = decoded.iter().map(|row| row.get("who")).collect();
    assert_eq!(decoded, ["A", "B"], "in the order of the commits");
    let by_position = format!("SELECT who FROM ({inserts}) i ORDER BY lsn");
    let by_position = a.query(&by_position, &[]).await.unwrap();
    let by_position: Vec<String> = by_position.iter().map(|row| row.get("who")).collect();
    assert_eq!(by_position, ["B", "A"], "in the order of the inserts");
    let versions = "SELECT who, seq FROM outbox";
    assert_eq!(rows(&a, versions).await, ["(A,2)", "(B,3)"]);
    a.execute("SELECT pg_drop_replication_slot('order_of_commits')", &[])
        .await
        .unwrap();
}

async fn the_producers_statement_writes_the_version_that_it_made(client: &Client) {
    client
        .batch_execute(
            "CREATE SCHEMA producer; SET search_path = producer;
             CREATE TABLE orders (id text PRIMARY KEY, status text, version bigint NOT NULL DEFAULT 1);
             CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, seq bigint, type text, payload jsonb);
             INSERT INTO orders VALUES ('ORD-221', 'created')",
        )
        .await
        .unwrap();
    client.batch_execute(blocks(&page())[0]).await.unwrap();
    let written = "SELECT aggregateid, seq, type, payload FROM outbox";
    let expected = r#"(ORD-221,2,OrderShipped,"{""status"": ""shipped""}")"#;
    assert_eq!(rows(client, written).await, [expected]);
}

#[test]
fn every_statement_on_the_page_stands_in_a_file_that_is_run() {
    let folder = Path::new(DOCS).join("examples/consumer");
    let files: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    let page = page();
    // The first one is the producer's.
    let consumers = &blocks(&page)[1..];
    assert_eq!(consumers.len(), 8);
    for block in consumers {
        assert!(files.iter().any(|file| file.contains(block)), "{block}");
    }
}
