//! What Kafka refuses: the relay says what and why, and goes on by itself when it is mended. One
//! broker and one server for all of it; each scene has a slot, a topic and a relay of its own.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_postgres::Client;

use crate::support::{
    Consumer, Kafka, Operation, PASSWORD, Postgres, Relay, Resource, Shop, Tally, USER, Version,
    wait_until,
};

const PATIENCE: Duration = Duration::from_secs(60);

const QUIET: Duration = Duration::from_millis(500);

struct World {
    postgres: Postgres,
    kafka: Kafka,
    client: Client,
}

/// One aggregate type, whose events go to `outbox.event.TYPE` with the key `k`.
struct Scene<'a> {
    world: &'a World,
    kind: &'static str,
    topic: String,
    relay: Relay,
    written: i64,
}

impl<'a> Scene<'a> {
    async fn open(world: &'a World, kind: &'static str, settings: &[&str]) -> Self {
        let slot = format!("slot.name={}", kind.replace('.', "_"));
        let mut all = vec![
            slot.as_str(),
            "snapshot.mode=no_data",
            "kafka.topic_timeout=1s",
            "relay.backoff_max=1s",
        ];
        all.extend(settings);
        let relay = Relay::start(&world.postgres, &world.kafka, &all);
        relay.wait_for_state("streaming").await;
        Self::of(world, kind, relay)
    }

    fn of(world: &'a World, kind: &'static str, relay: Relay) -> Self {
        Self {
            world,
            kind,
            topic: format!("outbox.event.{kind}"),
            relay,
            written: 0,
        }
    }

    /// As the user of the guarded listener.
    async fn open_guarded(world: &'a World, kind: &'static str, mechanism: &str) -> Self {
        let settings = guarded(world, mechanism, PASSWORD);
        let settings: Vec<_> = settings.iter().map(String::as_str).collect();
        Self::open(world, kind, &settings).await
    }

    /// One transaction of events with payloads of these lengths.
    async fn write(&mut self, lengths: &[usize]) {
        let mut statements = String::from("BEGIN;");
        for length in lengths {
            self.written += 1;
            statements += &format!(
                "INSERT INTO outbox VALUES (gen_random_uuid(), '{}', 'k', {}, 'T', jsonb_build_object('x', repeat('y', {length})));",
                self.kind, self.written
            );
        }
        statements += "DELETE FROM outbox; COMMIT;";
        self.world.client.batch_execute(&statements).await.unwrap();
    }

    /// The error of the status page, once the relay is blocked.
    async fn blocked(&self) -> Value {
        self.relay.wait_for_state("blocked").await;
        let (code, body) = self.relay.get("/readyz").unwrap();
        assert_eq!((code, body.as_str()), (503, "blocked\n"));
        self.relay.status().unwrap()["error"].clone()
    }

    async fn healed(&self) {
        self.relay.wait_for_state("streaming").await;
        assert_eq!(self.relay.get("/readyz").unwrap().0, 200);
        assert_eq!(self.relay.status().unwrap()["error"], Value::Null);
    }

    /// Everything that was written is in the topic, in order. The number of repeats.
    fn close(self, what: &str) -> u64 {
        let (consumer, mut tally) = (
            Consumer::new(&self.world.kafka, &self.topic),
            Tally::default(),
        );
        let events = usize::try_from(self.written).unwrap();
        consumer.read_until(&mut tally, events, Duration::from_secs(60));
        assert!(self.relay.stop().success());
        consumer.read_rest(&mut tally, QUIET);
        tally.assert_complete_and_ordered(&HashMap::from([("k".to_owned(), self.written)]));
        println!(
            "{what}: {events} events, lost 0, repeats {}",
            tally.repeats()
        );
        tally.repeats()
    }
}

fn guarded(world: &World, mechanism: &str, password: &str) -> Vec<String> {
    vec![
        format!("kafka.bootstrap.servers={}", world.kafka.guarded_servers()),
        "kafka.security.protocol=SASL_PLAINTEXT".to_owned(),
        format!("kafka.sasl.mechanism={mechanism}"),
        format!("kafka.sasl.username={USER}"),
        format!("kafka.sasl.password={password}"),
        "position.topic=".to_owned(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_kafka_refuses_blocks_and_is_delivered_once_it_is_mended() {
    let (postgres, kafka) = (Postgres::start(Version::V18, &[]), Kafka::start_guarded());
    let client = postgres.client().await;
    Shop::create_tables(&client).await;
    let world = World {
        postgres,
        kafka,
        client,
    };
    missing_topic(&world).await;
    a_lead_that_ends_while_its_window_waits(&world).await;
    topics_made_by_the_relay(&world).await;
    names_that_kafka_takes_for_the_same(&world).await;
    record_too_large(&world).await;
    batch_refused_under_way(&world).await;
    topic_authorization(&world).await;
    journal_authorization(&world).await;
    cluster_authorization(&world).await;
    wrong_password(&world).await;
}

async fn missing_topic(world: &World) {
    let mut scene = Scene::open(world, "missing", &[]).await;
    scene.write(&[10, 10, 10]).await;
    assert_eq!(
        scene.blocked().await,
        json!({
            "message": "topic \"outbox.event.missing\" does not exist, or a partition of it has no leader",
            "detail": null,
            "hint": "Create the topic: kafka-topics.sh --create --topic outbox.event.missing --partitions N --replication-factor R. Or set topics.create to \"missing\", and the relay creates it. It is tried again by itself.",
        })
    );
    scene.write(&[10, 10]).await;
    world.kafka.create_topic(&scene.topic, 1, &[]).await;
    scene.healed().await;
    assert_eq!(scene.close("topic missing, then created"), 0);
}

/// It was the second lead of that relay, whose stream has to wait for what the first one left. Another
/// instance sends that now, and newer events behind it.
async fn a_lead_that_ends_while_its_window_waits(world: &World) {
    let mut scene = Scene::open(world, "lead", &[]).await;
    scene.write(&[10]).await;
    scene.blocked().await;
    let end =
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted";
    world.client.batch_execute(end).await.unwrap();
    let again = "SELECT count(*) FROM pg_locks, pg_replication_slots
         WHERE locktype = 'advisory' AND granted AND slot_name = 'lead' AND NOT active";
    wait_until(PATIENCE, "the lead without a stream", async || {
        let leads = world.client.query_one(again, &[]).await.unwrap();
        leads.get::<_, i64>(0) == 1
    })
    .await;
    let settings = [
        "slot.name=lead",
        "snapshot.mode=no_data",
        "kafka.topic_timeout=1s",
    ];
    let second = Relay::start_accepting(&world.postgres, &world.kafka, &settings);
    second.wait_for_state("standby").await;
    // What it is let past has to be what somebody has looked at.
    assert!(second.logged("--accept-gap does not count any more"));
    world.client.batch_execute(end).await.unwrap();
    wait_until(PATIENCE, "word of the other's lead", async || {
        scene.relay.logged("the lead is or was another instance's")
    })
    .await;
    scene.relay.wait_for_state("standby").await;
    let first = std::mem::replace(&mut scene.relay, second);
    scene.write(&[10]).await;
    world.kafka.create_topic(&scene.topic, 1, &[]).await;
    scene.healed().await;
    assert!(first.stop().success(), "nothing is left to it");
    assert_eq!(scene.close("lead lost while the window waited"), 0);
}

async fn topics_made_by_the_relay(world: &World) {
    let settings = [
        "topics.create=missing",
        "topics.groups=made",
        "topics.group.made.include=.*\\.made",
        "topics.group.made.partitions=2",
        "topics.group.made.config.retention.ms=12345678",
    ];
    let mut scene = Scene::open(world, "made", &settings).await;
    scene.write(&[10, 10, 10]).await;
    let topic = scene.topic.clone();
    assert_eq!(scene.close("topic made by the relay"), 0);
    let retention = world.kafka.topic_config(&topic, "retention.ms").await;
    assert_eq!(retention.as_deref(), Some("12345678"));
    assert_eq!(Consumer::new(&world.kafka, &topic).partitions(), 2);
}

async fn names_that_kafka_takes_for_the_same(world: &World) {
    let other = "outbox.event.look_alike";
    world.kafka.create_topic(other, 1, &[]).await;
    for settings in [
        &["topics.create=missing"][..],
        &["relay.shutdown_timeout=1s"],
    ] {
        let mut scene = Scene::open(world, "look.alike", settings).await;
        scene.write(&[10, 10]).await;
        let error = scene.blocked().await;
        assert_eq!(
            error["message"],
            "topic \"outbox.event.look.alike\" does not exist and cannot be created beside topic \"outbox.event.look_alike\": Kafka takes '.' and '_' for the same there"
        );
        if settings != ["topics.create=missing"] {
            assert!(!scene.relay.stop().success(), "nothing is delivered");
            continue;
        }
        world.kafka.delete_topic(other).await;
        scene.healed().await;
        assert_eq!(scene.close("name that differs in . and _ only"), 0);
        world.kafka.delete_topic("outbox.event.look.alike").await;
        world.kafka.create_topic(other, 1, &[]).await;
    }
}

async fn record_too_large(world: &World) {
    let topic = "outbox.event.large";
    let limit = [("max.message.bytes", "2000")];
    world.kafka.create_topic(topic, 1, &limit).await;
    let mut scene = Scene::open(world, "large", &[]).await;
    // Together they are larger than the topic takes in one batch.
    scene.write(&[500; 20]).await;
    scene.write(&[500, 500, 5000, 500, 500]).await;
    let mut error = scene.blocked().await;
    let detail = error["detail"].take();
    assert!(
        detail
            .as_str()
            .unwrap()
            .starts_with("The event has the id ")
    );
    assert_eq!(
        error,
        json!({
            "message": "record of 5053 bytes is too large for topic \"outbox.event.large\", whose limit is 2000",
            "detail": null,
            "hint": "Raise max.message.bytes of topic outbox.event.large above the record's size. It is tried again by itself.",
        })
    );
    scene.write(&[500, 500]).await;
    world
        .kafka
        .set_topic_config(topic, "max.message.bytes", "1000000")
        .await;
    scene.healed().await;
    assert_eq!(scene.close("record too large, then the limit raised"), 0);
}

/// The limit falls under a running relay, which then has several batches under way when one in the
/// middle is refused: what is behind it is delivered all the same.
async fn batch_refused_under_way(world: &World) {
    let topic = "outbox.event.under_way";
    world.kafka.create_topic(topic, 1, &[]).await;
    let mut scene = Scene::open(world, "under_way", &["kafka.batch.size=2000"]).await;
    scene.write(&[300; 10]).await;
    Consumer::new(&world.kafka, topic).take(10);
    world
        .kafka
        .set_topic_config(topic, "max.message.bytes", "3000")
        .await;
    let mut lengths = [300; 300];
    lengths[100] = 9000;
    scene.write(&lengths).await;
    let error = scene.blocked().await;
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("outbox.event.under_way"), "{error}");
    scene.write(&[300; 10]).await;
    world
        .kafka
        .set_topic_config(topic, "max.message.bytes", "1000000")
        .await;
    scene.healed().await;
    let repeats = scene.close("batch refused with others behind it, then the limit raised");
    assert!(
        (1..=210).contains(&repeats),
        "what was behind it came twice: {repeats}"
    );
}

async fn topic_authorization(world: &World) {
    let topic = "outbox.event.secret";
    let secret = Resource::Topic(topic);
    world.kafka.create_topic(topic, 1, &[]).await;
    let mut scene = Scene::open_guarded(world, "secret", "SCRAM-SHA-256").await;
    scene.write(&[10, 10, 10]).await;
    let expected = json!({
        "message": "not authorized to write to topic \"outbox.event.secret\"",
        "detail": null,
        "hint": "Grant Write and Describe on topic outbox.event.secret to the relay's principal, and Create where the brokers are to make it. It is tried again by itself.",
    });
    assert_eq!(scene.blocked().await, expected);
    world.kafka.allow(Operation::Write, secret);
    scene.healed().await;

    // Taken back under way.
    world.kafka.forbid(secret);
    world.kafka.allow(Operation::Describe, secret);
    scene.write(&[10, 10, 10]).await;
    assert_eq!(scene.blocked().await, expected);
    world.kafka.allow(Operation::Write, secret);
    scene.healed().await;
    let repeats = scene.close("topic authorization missing, granted, taken back, granted");
    assert_eq!(repeats, 0);
    world.kafka.forbid(secret);
}

/// The journal's topic alone: events are sent all the same, and none is confirmed.
async fn journal_authorization(world: &World) {
    let (topic, events) = (Resource::Topic("positions"), "outbox.event.journal");
    world.kafka.create_topic(events, 1, &[]).await;
    world.kafka.allow(Operation::Write, Resource::Topic(events));
    let mut settings = guarded(world, "PLAIN", PASSWORD);
    let more = [
        "slot.name=journal",
        "snapshot.mode=no_data",
        "position.topic=positions",
        "kafka.topic_timeout=1s",
        "relay.backoff_max=300ms",
    ];
    settings.extend(more.map(str::to_owned));
    let settings: Vec<_> = settings.iter().map(String::as_str).collect();
    let relay = Relay::start(&world.postgres, &world.kafka, &settings);
    let mut scene = Scene::of(world, "journal", relay);
    let message = async |scene: &Scene<'_>| scene.blocked().await["message"].clone();
    let unread = "the position journal cannot be read: not authorized to read topic \"positions\"";
    assert_eq!(message(&scene).await, unread);
    for operation in [Operation::Read, Operation::Write] {
        world.kafka.allow(operation, topic);
    }
    let unwritten = "the position cannot be written to the journal: ";
    wait_until(PATIENCE, "it cannot be created", async || {
        let shown = message(&scene).await;
        let refused = format!("{unwritten}topic \"positions\" could not be created");
        shown
            .as_str()
            .is_some_and(|shown| shown.starts_with(&refused))
    })
    .await;
    world.kafka.allow(Operation::Create, topic);
    scene.healed().await;

    world.kafka.forbid(topic);
    world.kafka.allow(Operation::Describe, topic);
    scene.write(&[10, 10, 10]).await;
    let refused = format!("{unwritten}not authorized to write to topic \"positions\"");
    assert_eq!(message(&scene).await, refused);
    assert_eq!(Consumer::new(&world.kafka, events).take(3).len(), 3);
    let behind = "SELECT confirmed_flush_lsn < $1::text::pg_lsn FROM pg_replication_slots WHERE slot_name = 'journal'";
    wait_until(PATIENCE, "published and not confirmed", async || {
        let status = scene.relay.status().unwrap();
        let published = status["published_lsn"].as_str().unwrap();
        let row = world.client.query_one(behind, &[&published]).await.unwrap();
        row.get(0)
    })
    .await;
    world.kafka.allow(Operation::Write, topic);
    scene.healed().await;
    assert_eq!(scene.close("journal's rights missing and taken back"), 0);
    world.kafka.forbid(topic);
    world.kafka.forbid(Resource::Topic(events));
}

async fn cluster_authorization(world: &World) {
    let topic = "outbox.event.cluster";
    world.kafka.create_topic(topic, 1, &[]).await;
    world
        .kafka
        .allow(Operation::Describe, Resource::Topic(topic));
    let mut scene = Scene::open_guarded(world, "cluster", "PLAIN").await;
    scene.write(&[10, 10, 10]).await;
    let error = scene.blocked().await;
    assert_eq!(error["message"], "not authorized to write to the cluster");
    world.kafka.allow(Operation::Write, Resource::Topic(topic));
    scene.healed().await;
    assert_eq!(
        scene.close("cluster authorization missing, then granted"),
        0
    );
    world.kafka.forbid(Resource::Topic(topic));
}

async fn wrong_password(world: &World) {
    world
        .kafka
        .create_topic("outbox.event.password", 1, &[])
        .await;
    let mut settings = guarded(world, "SCRAM-SHA-256", "wrong");
    settings.push("relay.shutdown_timeout=1s".to_owned());
    let settings: Vec<_> = settings.iter().map(String::as_str).collect();
    let mut scene = Scene::open(world, "password", &settings).await;
    scene.write(&[10]).await;
    let error = scene.blocked().await;
    assert_eq!(error["message"], "no Kafka broker can be reached");
    let detail = error["detail"].as_str().unwrap();
    assert!(detail.contains("SASL authentication error"), "{detail}");
    println!("wrong password: {detail}");
    assert!(!scene.relay.stop().success(), "nothing is delivered");
}
