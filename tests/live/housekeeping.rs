//! Retained rows go when their time is over, and none of which it is not certain that it was delivered.

use std::time::Duration;

use outboxd::postgres::housekeeping::{delete, expired};
use outboxd::postgres::table::{OutboxTable, TableFilter};

use crate::support::{Consumer, Event, Relay, Scene, Version, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);
const WEEK: Duration = Duration::from_secs(7 * 86_400);
const DELETED: &str = "outboxd_housekeeping_rows_deleted_total";
const FAILED: &str = "outboxd_housekeeping_failures_total";

async fn run(scene: &Scene, sql: &str) {
    scene.client.batch_execute(sql).await.unwrap();
}

/// Rows with the numbers, whose time is so many days ago.
async fn write(scene: &Scene, from: i64, to: i64, days: i64) {
    let sql = format!(
        "INSERT INTO outbox SELECT gen_random_uuid(), 'order', 'k', n, 'T', '{{}}', now() - interval '{days} days'
           FROM generate_series({from}, {to}) n"
    );
    run(scene, &sql).await;
}

async fn kept(scene: &Scene) -> Vec<i64> {
    let rows = scene
        .client
        .query("SELECT seq FROM outbox ORDER BY seq", &[]);
    rows.await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn wait_for(relay: &Relay, metric: &str, least: f64) {
    wait_until(PATIENCE, metric, async || {
        relay.metric(metric).is_some_and(|count| count >= least)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_go_when_their_time_is_over_and_only_what_is_confirmed() {
    let (scene, lines) = Scene::open_with_lines(Version::V18).await;
    run(&scene, "ALTER TABLE outbox ADD created_at timestamptz").await;
    rows_that_changed_stay(&scene).await;
    write(&scene, 1, 5, 8).await;
    write(&scene, 6, 8, 6).await;
    let mut settings = lines.settings().to_vec();
    settings.extend(
        [
            "housekeeping.retain=7d",
            "housekeeping.column=created_at",
            "housekeeping.batch_rows=2",
            "housekeeping.interval=100ms",
            "log.level=debug",
        ]
        .map(str::to_owned),
    );
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let relay = Relay::start(&scene.postgres, &scene.kafka, &settings);
    wait_for(&relay, DELETED, 5.0).await;
    assert_eq!(kept(&scene).await, [6, 7, 8]);

    // An old time is no proof: this row was never sent.
    lines.kafka.cut();
    write(&scene, 9, 9, 30).await;
    wait_until(PATIENCE, "a look while the broker is away", async || {
        let waits =
            |line: &&String| line.contains("\"rows\":1,") && line.contains("wait for their");
        // The fifth row was the only one of a look as well.
        relay.log().iter().filter(waits).count() >= 2
    })
    .await;
    assert_eq!(kept(&scene).await, [6, 7, 8, 9]);
    lines.kafka.heal();
    wait_for(&relay, DELETED, 6.0).await;
    assert_eq!(kept(&scene).await, [6, 7, 8]);

    // What stands in its way is told, tried again, and stops nothing.
    let mut other = scene.postgres.client().await;
    let lock = other.transaction().await.unwrap();
    write(&scene, 10, 10, 30).await;
    lock.batch_execute("LOCK TABLE outbox IN SHARE MODE")
        .await
        .unwrap();
    wait_for(&relay, FAILED, 1.0).await;
    assert_eq!(relay.status().unwrap()["state"], "streaming");
    assert!(relay.logged("housekeeping failed, and is tried again: "));
    drop(lock.rollback().await);
    wait_for(&relay, DELETED, 7.0).await;
    assert_eq!(kept(&scene).await, [6, 7, 8]);
    assert!(relay.stop().success());
    let events = Consumer::new(&scene.kafka, Scene::TOPIC).take(10);
    let numbers: Vec<i64> = events.iter().map(Event::seq).collect();
    assert_eq!(numbers, (1..=10).collect::<Vec<_>>());
}

/// Between the look and its end: one is put off, and another one lies where one was.
async fn rows_that_changed_stay(scene: &Scene) {
    run(
        scene,
        "CREATE TABLE parts (seq bigint, created_at timestamptz) PARTITION BY LIST (seq);
         CREATE TABLE part_1 PARTITION OF parts FOR VALUES IN (1);
         CREATE TABLE part_2 PARTITION OF parts FOR VALUES IN (2)",
    )
    .await;
    for table in ["parts", "part_2"] {
        run(
            scene,
            "INSERT INTO parts SELECT 1 + n % 2, now() - interval '8 days' FROM generate_series(1, 6) n",
        )
        .await;
        let filter = TableFilter::exact(&format!("public.{table}")).unwrap();
        let found = OutboxTable::resolve(&scene.client, &filter).await.unwrap();
        let rows = expired(&scene.client, &found[0], "created_at", WEEK, 100).await;
        let rows = rows.unwrap();
        assert_eq!(rows.len(), if table == "parts" { 6 } else { 3 });
        run(
            scene,
            "UPDATE parts SET created_at = now() WHERE ctid = '(0,1)' AND seq = 2;
             DELETE FROM parts WHERE ctid = '(0,2)'",
        )
        .await;
        run(scene, "VACUUM parts").await;
        run(
            scene,
            "INSERT INTO parts VALUES (1, '2000-01-01'), (2, '2000-01-01')",
        )
        .await;
        let deleted = delete(&scene.client, &found[0], &rows).await.unwrap();
        assert_eq!(deleted, if table == "parts" { 3 } else { 1 });
        run(scene, "TRUNCATE parts").await;
    }
    run(scene, "DROP TABLE parts").await;
}
