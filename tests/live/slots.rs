//! `outboxd slot drop` and `outboxd slot advance`: nobody does it by mistake, and the next start does not
//! take it for a gap.

use std::process::{Command, Stdio};
use std::time::Duration;

use outboxd::postgres::{self, slot};

use crate::support::{Consumer, Event, Postgres, Relay, Scene, Version, free_port, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);
const NO_DATA: [&str; 1] = ["snapshot.mode=no_data"];

/// `outboxd slot …` and what it says.
pub(crate) fn slot_command(
    postgres: &Postgres,
    brokers: &str,
    args: &[&str],
) -> (Option<i32>, String) {
    let settings = [
        format!("postgres.url={}", postgres.url()),
        format!("kafka.bootstrap.servers={brokers}"),
        "slot.name=outbox".to_owned(),
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_outboxd"))
        .arg("slot")
        .args(args)
        .args(settings.iter().flat_map(|setting| ["--set", setting]))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code(), said)
}

struct World {
    scene: Scene,
    consumer: Consumer,
}

impl World {
    async fn insert(&self, seq: i64) {
        let row = format!("gen_random_uuid(), 'order', 'k', {seq}, 'T', '{{}}'");
        let sql = format!("INSERT INTO outbox VALUES ({row})");
        self.scene.client.batch_execute(&sql).await.unwrap();
    }

    /// A start that has nothing to say of the slot, and an event that arrives.
    async fn streams(&self, seq: i64) -> Relay {
        let relay = Relay::start(&self.scene.postgres, &self.scene.kafka, &NO_DATA);
        relay.wait_for_state("streaming").await;
        self.arrives(seq).await;
        relay
    }

    async fn arrives(&self, seq: i64) {
        self.insert(seq).await;
        let event = self.consumer.next(PATIENCE);
        assert_eq!(event.as_ref().map(Event::seq), Some(seq));
    }

    async fn slot(&self) -> Option<String> {
        let sql =
            "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = 'outbox'";
        let row = self.scene.client.query_opt(sql, &[]).await.unwrap();
        row.map(|row| row.get(0))
    }

    fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        slot_command(&self.scene.postgres, &self.scene.kafka.servers(), args)
    }

    /// While the relay uses the slot: refused, and not done later either, when it is free.
    async fn a_drop_that_failed_stays_undone(&self) {
        let options = self.scene.postgres.options("postgres");
        let mut session = postgres::connect_replication(&options).await.unwrap();
        let name = "outbox".parse().unwrap();
        let patience = Duration::from_millis(300);
        let refused = slot::drop_when_free(&mut session, &name, patience).await;
        let error = refused.unwrap_err();
        assert_eq!(error.sqlstate(), Some(postgres::sqlstate::OBJECT_IN_USE));
    }

    fn is_refused(&self, args: &[&str], expected: &str) {
        let (status, said) = self.run(args);
        assert!(said.contains(expected), "{args:?}: {said}");
        assert_eq!(status, Some(1), "{said}");
    }

    fn is_done(&self, args: &[&str], expected: &[&str]) {
        let (status, said) = self.run(args);
        for expected in expected {
            assert!(said.contains(expected), "{args:?}: {said}");
        }
        assert_eq!(status, Some(0), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_given_up_by_its_name_and_the_next_start_knows_of_it() {
    let scene = Scene::open(Version::V18, &[]).await;
    let consumer = Consumer::new(&scene.kafka, Scene::TOPIC);
    let world = World { scene, consumer };
    let relay = world.streams(1).await;
    for args in [
        ["drop", "--yes", "outbox"].as_slice(),
        &["advance", "--to", "current", "--yes", "outbox"],
    ] {
        let in_use = "replication slot \"outbox\" is in use by process ";
        world.is_refused(args, in_use);
    }
    world.a_drop_that_failed_stays_undone().await;
    assert!(relay.stop().success());

    // Committed while nobody streams, and given up.
    world.insert(2).await;
    let before = world.slot().await;
    assert!(before.is_some());
    let nobody = format!("127.0.0.1:{}", free_port());
    let drop = ["drop", "--yes", "outbox"];
    let (status, said) = slot_command(&world.scene.postgres, &nobody, &drop);
    let way_out = "With --set position.topic= the journal is left alone; the next start then needs --accept-gap.";
    assert!(said.contains(way_out), "{said}");
    assert_eq!(status, Some(1));
    let unanswered = "not confirmed: standard input is no terminal, and nothing was done\nHINT:  Confirm it on the command line: --yes outbox\n";
    world.is_refused(&["advance", "--to", "current"], unanswered);
    world.is_refused(&["drop"], unanswered);
    let other = "not confirmed: that is not the slot's name, and nothing was done";
    world.is_refused(&["drop", "--yes", "y"], other);
    let back = ["advance", "--to", "0/1", "--yes", "outbox"];
    world.is_refused(
        &back,
        "cannot be advanced to 0/1\nHINT:  Give a position behind ",
    );
    let (status, said) = world.run(&["advance", "--to", "here"]);
    assert_eq!(status, Some(64), "{said}");
    assert_eq!(world.slot().await, before);
    world.is_done(
        &["advance", "--to", "current", "--yes", "outbox"],
        &[
            "Advancing it to ",
            "before a relay with housekeeping.retain starts",
            "The server reads all of that WAL, which can take minutes.",
            "advanced: replication slot outbox from ",
            " skipped\nThe server has it on disk with its next checkpoint",
        ],
    );
    let relay = world.streams(3).await;
    assert!(relay.stop().success());

    world.insert(4).await;
    world.is_done(
        &["drop", "--yes", "outbox"],
        &[
            "  in the journal    ",
            "gives up every event",
            "dropped: replication slot outbox\n",
        ],
    );
    assert_eq!(world.slot().await, None);
    world.is_refused(
        &["drop", "--yes", "outbox"],
        "replication slot \"outbox\" does not exist",
    );
    let relay = world.streams(5).await;

    // Under a relay that runs, which makes another one.
    let created = || {
        let log = relay.log();
        let made = |line: &&String| line.contains("slot created without a snapshot");
        log.iter().filter(made).count()
    };
    let before = created();
    world.is_done(
        &["drop", "--yes", "outbox", "--terminate"],
        &["dropped: replication slot outbox\n"],
    );
    wait_until(PATIENCE, "a new slot", async || {
        created() > before && world.slot().await.is_some()
    })
    .await;
    relay.wait_for_state("streaming").await;
    world.arrives(6).await;
    assert!(relay.stop().success());
}
