//! Retained rows go when their time is over, and none of which it is not certain that it was delivered.

use std::time::Duration;

use outboxd::postgres::housekeeping::{Versions, delete, expired};
use outboxd::postgres::publication::{Publication, PublicationOptions};
use outboxd::postgres::table::{OutboxTable, TableFilter};
use outboxd::postgres::watched::Watched;

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
    what_may_have_hidden_rows_shows_in_the_catalog(&scene).await;
    rows_that_the_server_keeps_are_told_from_rows_that_changed(&scene).await;
    write(&scene, 1, 5, 8).await;
    write(&scene, 6, 8, 6).await;
    let mut settings = lines.settings().to_vec();
    settings.extend(
        [
            "housekeeping.retain=7d",
            "housekeeping.column=created_at",
            "housekeeping.batch_rows=2",
            "housekeeping.interval=100ms",
            "relay.status_interval=50ms",
            "log.level=debug",
        ]
        .map(str::to_owned),
    );
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    who_only_looks_deletes_nothing(&scene, &settings).await;
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

    what_the_server_says_of_the_rows_is_not_told(&scene, &relay).await;
    a_delete_that_deletes_nothing_is_no_success(&scene, &relay).await;

    // What stands in its way is told, tried again, and stops nothing.
    let mut other = scene.postgres.client().await;
    let lock = other.transaction().await.unwrap();
    write(&scene, 10, 10, 30).await;
    lock.batch_execute("LOCK TABLE outbox IN SHARE MODE")
        .await
        .unwrap();
    let failed = relay.metric(FAILED).unwrap();
    wait_for(&relay, FAILED, failed + 1.0).await;
    assert_eq!(relay.status().unwrap()["state"], "streaming");
    let failed = "housekeeping failed, and is tried again: ";
    wait_until(PATIENCE, "word of the lock", async || {
        let told = |line: &String| line.contains(failed) && line.contains("SQLSTATE 55P03");
        relay.log().iter().any(told)
    })
    .await;
    drop(lock.rollback().await);
    wait_for(&relay, DELETED, 9.0).await;
    assert_eq!(kept(&scene).await, [6, 7, 8]);
    what_was_perhaps_not_published_stays(&scene, relay, &settings).await;
    what_an_accepted_gap_left_out_stays(&scene, &settings).await;
    let events = Consumer::new(&scene.kafka, Scene::TOPIC).take(20);
    let mut numbers: Vec<i64> = events.iter().map(Event::seq).collect();
    let mut of_the_table = numbers.split_off(14);
    let expected = (1..=9).chain([20, 21, 10, 11, 32]).collect::<Vec<_>>();
    assert_eq!(numbers, expected, "nothing of the gap is in the stream");
    of_the_table.sort_unstable();
    assert_eq!(of_the_table, [6, 7, 8, 30, 31, 32]);
    what_an_attempt_that_failed_was_let_past_stays(&scene, &settings).await;
}

/// So many status updates later something would have been deleted.
async fn wait_for_updates(relay: &Relay) {
    let updates = "outboxd_status_updates_total";
    let seen = relay.metric(updates).unwrap_or_default();
    wait_for(relay, updates, seen + 20.0).await;
}

/// Kafka has nothing of what is printed.
async fn who_only_looks_deletes_nothing(scene: &Scene, settings: &[&str]) {
    let settings = [settings, &["slot.name=look"]].concat();
    let mut args = Relay::args(&scene.postgres, &scene.kafka, &settings);
    args.extend(["--sink", "stdout"].map(str::to_owned));
    let relay = Relay::start_with(&args, &[]);
    relay.wait_for_state("streaming").await;
    wait_for_updates(&relay).await;
    assert_eq!(kept(scene).await, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(relay.logged("this run does not publish to Kafka"));
    assert!(relay.stop().success());
    let drop = "SELECT pg_drop_replication_slot('look')";
    run(scene, drop).await;
}

/// A trigger's words quote values, and this one speaks at the commit.
async fn what_the_server_says_of_the_rows_is_not_told(scene: &Scene, relay: &Relay) {
    run(
        scene,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             RAISE EXCEPTION 'not hunter2' USING ERRCODE = 'query_canceled', DETAIL = 'hunter2';
         END $$;
         CREATE CONSTRAINT TRIGGER refuse AFTER DELETE ON outbox DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION refuse()",
    )
    .await;
    write(scene, 20, 20, 30).await;
    let told = "rows of table \\\"public.outbox\\\" whose time is over cannot be deleted: SQLSTATE 57014, query canceled";
    wait_until(PATIENCE, "word of the trigger", async || relay.logged(told)).await;
    assert!(!relay.logged("hunter2"), "{:#?}", relay.log());
    run(scene, "DROP TRIGGER refuse ON outbox").await;
    wait_for(relay, DELETED, 7.0).await;
}

/// The server answers "DELETE 0" and no error.
async fn a_delete_that_deletes_nothing_is_no_success(scene: &Scene, relay: &Relay) {
    run(
        scene,
        "CREATE FUNCTION veto() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER veto BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION veto()",
    )
    .await;
    let failed = relay.metric(FAILED).unwrap();
    write(scene, 21, 21, 30).await;
    wait_for(relay, FAILED, failed + 2.0).await;
    let completed = "outboxd_housekeeping_completed_timestamp_seconds";
    let last = relay.metric(completed).unwrap();
    let status = relay.status().unwrap();
    assert_eq!(status["state"], "streaming");
    let message =
        "rows of table \"public.outbox\" whose time is over are still there after their DELETE";
    assert_eq!(status["housekeeping"]["error"]["message"], message);
    assert_eq!(
        status["housekeeping"]["error"]["detail"],
        "1 of 1. The server reported no error."
    );
    assert_eq!(relay.metric("outboxd_housekeeping_rows_kept"), Some(1.0));
    assert_eq!(relay.metric("outboxd_housekeeping_wanted"), Some(1.0));
    assert!(relay.logged("are still there after their DELETE"));
    assert_eq!(kept(scene).await, [6, 7, 8, 21]);
    run(scene, "DROP TRIGGER veto ON outbox").await;
    wait_for(relay, DELETED, 8.0).await;
    wait_until(PATIENCE, "an end", async || {
        relay.metric(completed).is_some_and(|time| time > last)
    })
    .await;
    assert_eq!(
        relay.status().unwrap()["housekeeping"]["error"],
        serde_json::Value::Null
    );
    assert_eq!(relay.metric("outboxd_housekeeping_rows_kept"), Some(0.0));
}

/// The stream goes on, and a start ends the rest.
async fn what_was_perhaps_not_published_stays(scene: &Scene, relay: Relay, settings: &[&str]) {
    run(
        scene,
        "ALTER PUBLICATION outbox DROP TABLE outbox; ALTER PUBLICATION outbox ADD TABLE outbox",
    )
    .await;
    wait_until(PATIENCE, "the unseen range", async || {
        relay.logged("housekeeping rests: ")
    })
    .await;
    write(scene, 11, 11, 30).await;
    wait_for_updates(&relay).await;
    assert_eq!(kept(scene).await, [6, 7, 8, 11]);
    let status = relay.status().unwrap();
    assert_eq!(status["state"], "streaming");
    assert_eq!(status["housekeeping"]["rests"], true);
    assert!(relay.stop().success());
    let relay = Relay::start(&scene.postgres, &scene.kafka, settings);
    wait_for(&relay, DELETED, 1.0).await;
    assert_eq!(kept(scene).await, [6, 7, 8]);
    assert!(relay.stop().success());
}

/// The gap is accepted, and the next attempt finds none any more: the journal has the slot's end.
async fn what_an_attempt_that_failed_was_let_past_stays(scene: &Scene, settings: &[&str]) {
    run(scene, "SELECT pg_drop_replication_slot('outbox')").await;
    run(
        scene,
        "SELECT pg_create_physical_replication_slot('s' || n) FROM generate_series(1, current_setting('max_replication_slots')::int) n",
    )
    .await;
    write(scene, 12, 12, 30).await;
    let settings = [settings, &["snapshot.mode=no_data"]].concat();
    let relay = Relay::start_accepting(&scene.postgres, &scene.kafka, &settings);
    wait_until(PATIENCE, "an attempt without room for a slot", async || {
        relay.logged("accepted: ") && relay.logged("53400")
    })
    .await;
    run(
        scene,
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_type = 'physical'",
    )
    .await;
    relay.wait_for_state("streaming").await;
    wait_for_updates(&relay).await;
    assert!(relay.logged("housekeeping rests: "));
    assert_eq!(kept(scene).await, [6, 7, 8, 12]);
    assert!(relay.stop().success());
}

/// Ways of a table to make less of a DELETE than it says: two of four rows stay.
async fn rows_that_the_server_keeps_are_told_from_rows_that_changed(scene: &Scene) {
    let marks = "CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF OLD.seq > 2 THEN RETURN OLD; END IF;
             UPDATE held SET gone = true WHERE seq = OLD.seq;
             RETURN NULL;
         END $$;
         CREATE TRIGGER mark BEFORE DELETE ON held FOR EACH ROW EXECUTE FUNCTION mark()";
    let puts_off = "CREATE RULE off AS ON DELETE TO held WHERE OLD.seq <= 2
             DO INSTEAD UPDATE held SET created_at = now() WHERE seq = OLD.seq";
    let ways = [
        (
            "CREATE RULE held AS ON DELETE TO held WHERE OLD.seq <= 2 DO INSTEAD NOTHING",
            2,
        ),
        (
            "ALTER TABLE held ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
             CREATE POLICY seen ON held FOR SELECT USING (true);
             CREATE POLICY gone ON held FOR DELETE USING (seq > 2);
             GRANT SELECT, DELETE ON held TO keeper; SET ROLE keeper",
            2,
        ),
        (marks, 2),
        // Not due any more.
        (puts_off, 0),
    ];
    run(scene, "CREATE ROLE keeper").await;
    for (way, kept) in ways {
        run(
            scene,
            "CREATE TABLE held (seq bigint, created_at timestamptz, gone bool);
             INSERT INTO held SELECT n, '2000-01-01' FROM generate_series(1, 4) n",
        )
        .await;
        run(scene, way).await;
        let filter = TableFilter::exact("public.held").unwrap();
        let found = OutboxTable::resolve(&scene.client, &filter).await.unwrap();
        let none = Versions::default();
        let rows = expired(&scene.client, &found[0], "created_at", WEEK, 100, &none).await;
        let rows = rows.unwrap().versions;
        assert_eq!(rows.len(), 4, "{way}");
        let deletion = delete(&scene.client, &found[0], "created_at", WEEK, &rows).await;
        let deletion = deletion.unwrap();
        assert_eq!((deletion.deleted, deletion.kept.len()), (2, kept), "{way}");
        let but = &deletion.kept;
        let others = expired(&scene.client, &found[0], "created_at", WEEK, 100, but).await;
        assert!(others.unwrap().versions.is_empty(), "{way}");
        run(
            scene,
            "RESET ROLE; DROP TABLE held; DROP FUNCTION IF EXISTS mark",
        )
        .await;
    }
    run(scene, "DROP ROLE keeper").await;
}

/// Also under the next start, which nobody may have asked for: until a snapshot has published it.
async fn what_an_accepted_gap_left_out_stays(scene: &Scene, settings: &[&str]) {
    write(scene, 30, 31, 30).await;
    let advance = "SELECT pg_replication_slot_advance('outbox', pg_current_wal_lsn())";
    run(scene, advance).await;
    let relay = Relay::start_accepting(&scene.postgres, &scene.kafka, settings);
    relay.wait_for_state("streaming").await;
    write(scene, 32, 32, 30).await;
    wait_for_updates(&relay).await;
    let is_kept = async |relay: Relay| {
        assert!(relay.logged("housekeeping rests: "), "{:#?}", relay.log());
        assert_eq!(kept(scene).await, [6, 7, 8, 30, 31, 32]);
        assert!(relay.stop().success());
    };
    is_kept(relay).await;
    let relay = Relay::start(&scene.postgres, &scene.kafka, settings);
    relay.wait_for_state("streaming").await;
    wait_for_updates(&relay).await;
    is_kept(relay).await;
    let settings = [settings, &["snapshot.mode=always"]].concat();
    let relay = Relay::start(&scene.postgres, &scene.kafka, &settings);
    wait_for(&relay, DELETED, 3.0).await;
    assert_eq!(kept(scene).await, [6, 7, 8]);
    assert!(!relay.logged("housekeeping rests: "));
    assert!(relay.stop().success());
}

async fn look(watched: &mut Watched, scene: &Scene) -> (Vec<String>, Vec<(String, bool)>) {
    let look = watched.look(&scene.client).await.unwrap();
    let partitions = look.partitions.into_iter();
    let partitions = partitions.map(|seen| (seen.partition.name, seen.is_born));
    let remarks = look.remarks.iter().map(ToString::to_string);
    (remarks.collect(), partitions.collect())
}

/// Also where everything is as before again at the next look.
async fn what_may_have_hidden_rows_shows_in_the_catalog(scene: &Scene) {
    for step in [
        "CREATE TABLE grown (seq bigint) PARTITION BY LIST (seq)",
        "CREATE TABLE grown_1 PARTITION OF grown FOR VALUES IN (1)",
        "CREATE TABLE grown_2 (seq bigint)",
        "ALTER TABLE grown ATTACH PARTITION grown_2 FOR VALUES IN (2)",
        "BEGIN; CREATE TABLE grown_3 (LIKE grown);
         ALTER TABLE grown ATTACH PARTITION grown_3 FOR VALUES IN (3); COMMIT",
        "CREATE PUBLICATION grown FOR TABLES IN SCHEMA public",
    ] {
        run(scene, step).await;
    }
    let options = PublicationOptions::new("grown".parse().unwrap());
    let publication = Publication::read(&scene.client, &options.name)
        .await
        .unwrap();
    let filter = TableFilter::exact("public.grown").unwrap();
    let mut watched = Watched {
        slot: "grown".to_owned(),
        options,
        tables: OutboxTable::resolve(&scene.client, &filter).await.unwrap(),
        publication: publication.unwrap(),
    };
    let born = |each: [bool; 3]| {
        let names = ["grown_1", "grown_2", "grown_3"].map(str::to_owned);
        names.into_iter().zip(each).collect::<Vec<_>>()
    };
    let quiet = (Vec::new(), born([true, false, true]));
    assert_eq!(look(&mut watched, scene).await, quiet);
    for step in [
        "ALTER TABLE grown DETACH PARTITION grown_1",
        "ALTER TABLE grown ATTACH PARTITION grown_1 FOR VALUES IN (1)",
        "ALTER PUBLICATION grown SET (publish = 'update')",
        "ALTER PUBLICATION grown SET (publish = 'insert, update')",
        "ALTER PUBLICATION grown DROP TABLES IN SCHEMA public",
        "ALTER PUBLICATION grown ADD TABLES IN SCHEMA public",
    ] {
        run(scene, step).await;
    }
    let told = [
        "publication \"grown\" was altered, and may have been without inserts for a while",
        "table \"public.grown\" was taken out of the publication and is in it again",
    ];
    let told = told.map(str::to_owned).to_vec();
    let (told, now) = (told, born([false, false, true]));
    assert_eq!(look(&mut watched, scene).await, (told, now.clone()));
    assert_eq!(look(&mut watched, scene).await, (Vec::new(), now));
    run(scene, "DROP PUBLICATION grown; DROP TABLE grown").await;
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
        let none = Versions::default();
        let rows = expired(&scene.client, &found[0], "created_at", WEEK, 100, &none).await;
        let rows = rows.unwrap().versions;
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
        let deletion = delete(&scene.client, &found[0], "created_at", WEEK, &rows).await;
        let deleted = if table == "parts" { 3 } else { 1 };
        // What others have changed or deleted was not kept from going.
        let deletion = deletion.unwrap();
        assert_eq!((deletion.deleted, deletion.kept.len()), (deleted, 0));
        run(scene, "TRUNCATE parts").await;
    }
    run(scene, "DROP TABLE parts").await;
}
