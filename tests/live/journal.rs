//! What the position journal notices at a start, and `--accept-gap`.

mod promotion;
mod topic;

use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::support::{
    Consumer, Kafka, Postgres, Relay, Scene, Shop, Shutdown, Version, wait_until,
};

async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap();
}

async fn insert(client: &Client, seq: i64) {
    let row = format!("gen_random_uuid(), 'order', 'k', {seq}, 'T', '{{}}'");
    run(client, &format!("INSERT INTO outbox VALUES ({row})")).await;
}

async fn slots(client: &Client) -> i64 {
    let count = "SELECT count(*) FROM pg_replication_slots";
    client.query_one(count, &[]).await.unwrap().get(0)
}

struct World {
    postgres: Postgres,
    kafka: Kafka,
    client: Client,
    consumer: Consumer,
    seq: i64,
}

impl World {
    async fn open() -> Self {
        let kafka = Scene::kafka().await;
        let (postgres, client) = Scene::source(Version::V18, &[]).await;
        Self {
            postgres,
            client,
            consumer: Consumer::new(&kafka, Scene::TOPIC),
            kafka,
            seq: 0,
        }
    }

    /// A stop that drops the slot, and dies at this edge.
    async fn dies_while_it_drops(&self, edge: &str) {
        let settings = ["snapshot.mode=no_data", "slot.drop_on_stop=true"];
        let (postgres, kafka) = (&self.postgres, &self.kafka);
        let relay = Relay::start_to_be_killed(postgres, kafka, &settings, edge, 1);
        relay.wait_for_state("streaming").await;
        relay.signal("TERM");
        relay.dies().await;
    }

    /// How long a start takes, and the memory of a relay that has nothing to do.
    async fn cost(&mut self, what: &str, settings: &[&str]) {
        let began = Instant::now();
        let relay = Relay::start(&self.postgres, &self.kafka, settings);
        relay.wait_for_state("streaming").await;
        let (took, resident_kib) = (began.elapsed(), relay.resident_kib());
        println!("{what}: streaming after {took:?}, {resident_kib} KiB resident");
        assert!(relay.stop().success());
    }

    /// An event goes through, and the relay stops with everything confirmed.
    async fn works(&mut self, relay: Relay) {
        relay.wait_for_state("streaming").await;
        self.seq += 1;
        insert(&self.client, self.seq).await;
        assert_eq!(self.consumer.take(1)[0].seq(), self.seq);
        let writes = "outboxd_journal_writes_total";
        wait_until(Duration::from_secs(60), writes, async || {
            relay.metric(writes).is_some_and(|count| count > 0.0)
        })
        .await;
        assert!(relay.stop().success());
    }

    /// The relay holds, says so, and touches nothing; accepted, it goes on.
    async fn is_noticed(&mut self, what: &str, state: &str, message: &str, detail: &str) {
        let before = slots(&self.client).await;
        let settings = ["snapshot.mode=no_data"];
        let relay = Relay::start(&self.postgres, &self.kafka, &settings);
        relay.wait_for_state(state).await;
        let error = relay.status().unwrap()["error"].clone();
        assert_eq!(error["message"], message, "{what}");
        let found = error["detail"].as_str().unwrap();
        assert!(found.contains(detail), "{what}: {found}");
        assert!(error["hint"].as_str().unwrap().contains("--accept-gap"));
        assert_eq!(relay.get("/readyz").unwrap().0, 503);
        assert_eq!(slots(&self.client).await, before, "{what}");
        relay.stop();

        let relay = Relay::start_accepting(&self.postgres, &self.kafka, &settings);
        relay.wait_for_state("streaming").await;
        assert!(relay.logged(&format!("accepted: {message}").replace('"', "\\\"")));
        self.works(relay).await;
    }

    async fn the_next_start_has_nothing_to_say(&mut self) {
        let settings = ["snapshot.mode=no_data"];
        let relay = Relay::start(&self.postgres, &self.kafka, &settings);
        self.works(relay).await;
    }
}

const DROP: &str = "SELECT pg_drop_replication_slot('outbox')";

#[tokio::test(flavor = "multi_thread")]
async fn what_became_of_the_slot_while_no_relay_ran_is_noticed_and_accepted_once() {
    let mut world = World::open().await;
    let relay = Relay::start(&world.postgres, &world.kafka, &[]);
    world.works(relay).await;
    let topic = "outboxd.positions";
    let policy = world.kafka.topic_config(topic, "cleanup.policy").await;
    assert_eq!(policy.as_deref(), Some("compact"));

    run(&world.client, DROP).await;
    let gone = "replication slot \"outbox\" does not exist any more";
    let range = "Rows committed between the two cannot be streamed.";
    world.is_noticed("dropped", "lost", gone, range).await;
    // What was accepted makes nobody blind for what comes right behind it, in the same process.
    run(&world.client, DROP).await;
    let settings = ["snapshot.mode=no_data", "relay.backoff_min=2s"];
    let relay = Relay::start_accepting(&world.postgres, &world.kafka, &settings);
    relay.wait_for_state("streaming").await;
    Scene::behind_the_relays_back(&world.client, DROP).await;
    relay.wait_for_state("lost").await;
    relay.kill();
    world.is_noticed("dropped again", "lost", gone, range).await;
    world.the_next_start_has_nothing_to_say().await;

    let beyond = "replication slot \"outbox\" stands beyond what was confirmed to it";
    let range = "Rows committed between the two are not streamed.";
    // Of an event that nobody has then.
    insert(&world.client, -1).await;
    let advance = "SELECT pg_replication_slot_advance('outbox', pg_current_wal_lsn())";
    run(&world.client, advance).await;
    world.is_noticed("advanced", "blocked", beyond, range).await;
    world.the_next_start_has_nothing_to_say().await;

    insert(&world.client, -2).await;
    let again = format!("{DROP}; SELECT pg_create_logical_replication_slot('outbox', 'pgoutput')");
    run(&world.client, &again).await;
    world
        .is_noticed("made anew", "blocked", beyond, range)
        .await;
    world.the_next_start_has_nothing_to_say().await;

    // A stop that drops the slot raises no alarm, wherever it is cut off.
    world.dies_while_it_drops("dropped").await;
    assert_eq!(slots(&world.client).await, 0);
    world.the_next_start_has_nothing_to_say().await;
    world.dies_while_it_drops("dropping").await;
    assert_eq!(slots(&world.client).await, 1);
    world.the_next_start_has_nothing_to_say().await;
    // A slot that is still there keeps its claim.
    world.dies_while_it_drops("dropping").await;
    insert(&world.client, -3).await;
    run(&world.client, advance).await;
    let what = "not dropped, and advanced";
    world.is_noticed(what, "blocked", beyond, range).await;

    world.postgres.stop(Shutdown::Fast);
    let second = Postgres::start_on(Version::V14, world.postgres.port, &[]);
    world.client = second.client().await;
    world.postgres = second;
    Shop::create_tables(&world.client).await;
    let other = "the server is another one than the one that was streamed from";
    let wrong = "It is the wrong server, or another cluster was put in the place";
    world
        .is_noticed("another cluster", "blocked", other, wrong)
        .await;
    world.the_next_start_has_nothing_to_say().await;

    world.cost("with the journal", &[]).await;
    // Without the journal nothing of it is known.
    run(&world.client, DROP).await;
    let off = ["snapshot.mode=no_data", "position.topic="];
    let relay = Relay::start(&world.postgres, &world.kafka, &off);
    relay.wait_for_state("streaming").await;
    assert!(relay.stop().success());
    world.cost("without the journal", &off).await;

    // Dropped as it was asked for: no alarm.
    let drops = ["snapshot.mode=no_data", "slot.drop_on_stop=true"];
    let relay = Relay::start_accepting(&world.postgres, &world.kafka, &drops);
    world.works(relay).await;
    assert_eq!(slots(&world.client).await, 0);
    let relay = Relay::start(&world.postgres, &world.kafka, &drops);
    world.works(relay).await;
    let none = world.consumer.next(Duration::from_millis(300));
    assert_eq!(none, None, "events of the gaps are in no stream");
}
