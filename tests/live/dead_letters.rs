//! Events that cannot be published as they are go to the dead-letter topic, and what is behind them
//! arrives.

use std::collections::BTreeSet;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::support::{Consumer, Event, Kafka, Postgres, Relay, Version, wait_until};

const TOPIC: &str = "outbox.event.order";
const DEAD: &str = "dead";
const QUIET: Duration = Duration::from_millis(500);

struct World {
    postgres: Postgres,
    kafka: Kafka,
    client: tokio_postgres::Client,
}

impl World {
    async fn open() -> Self {
        let (postgres, kafka) = (Postgres::start(Version::V18, &[]), Kafka::start());
        let client = postgres.client().await;
        client
            .batch_execute(
                "CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, seq bigint,
                                      type text DEFAULT 'order', part int, at timestamptz, payload jsonb);",
            )
            .await
            .unwrap();
        let limit = [("max.message.bytes", "4000")];
        kafka.create_topic(TOPIC, 1, &limit).await;
        kafka.create_topic(DEAD, 1, &[]).await;
        Self {
            postgres,
            kafka,
            client,
        }
    }

    /// A relay that looks at everything that can be wrong with a row.
    async fn relay(&self) -> Relay {
        let relay = Relay::start(&self.postgres, &self.kafka, &SETTINGS);
        relay.wait_for_state("streaming").await;
        relay
    }

    /// A relay that gets one transaction of good and bad rows, numbered from `first`, and is killed at
    /// this edge.
    async fn killed(&self, first: usize, edge: &str, nth: u32) {
        let (postgres, kafka) = (&self.postgres, &self.kafka);
        let relay = Relay::start_to_be_killed(postgres, kafka, &SETTINGS, edge, nth);
        self.write(first, &MIXED).await;
        relay.dies().await;
    }

    /// One transaction of rows: aggregatetype, part, at and the payload's length, numbered from
    /// `first`.
    async fn write(&self, first: usize, rows: &[(&str, &str, &str, usize)]) {
        let mut statements = String::from("BEGIN;");
        for (seq, (kind, part, at, length)) in (first..).zip(rows) {
            let id = id(seq);
            statements += &format!(
                "INSERT INTO outbox VALUES ('{id}', {kind}, 'k', {seq}, DEFAULT, {part}, {at}, jsonb_build_object('x', repeat('y', {length})));"
            );
        }
        statements += "DELETE FROM outbox; COMMIT;";
        self.client.batch_execute(&statements).await.unwrap();
    }

    /// Nothing of the log is left to be sent.
    async fn wait_until_confirmed(&self) {
        let position =
            "SELECT confirmed_flush_lsn >= pg_current_wal_lsn() FROM pg_replication_slots";
        wait_until(Duration::from_secs(60), "all is confirmed", async || {
            let row = self.client.query_one(position, &[]).await.unwrap();
            row.get::<_, bool>(0)
        })
        .await;
    }

    /// With a configuration in which every row has a topic.
    fn redrive(&self, args: &[&str]) -> (ExitStatus, String) {
        let settings = [
            format!("postgres.url={}", self.postgres.url()),
            format!("kafka.bootstrap.servers={}", self.kafka.servers()),
            "kafka.topic_timeout=2s".to_owned(),
            "errors.on_blocked=dead-letter".to_owned(),
            "errors.dead_letter.topic=dead".to_owned(),
            "outbox.headers=seq".to_owned(),
            "outbox.route_by=type".to_owned(),
        ];
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        let output = Command::new(env!("CARGO_BIN_EXE_outboxd"))
            .arg("redrive")
            .args(settings)
            .args(args)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status, String::from_utf8(said).unwrap())
    }

    /// The whole topic, which has so many records.
    fn read(&self, topic: &str, count: usize) -> Vec<Event> {
        let consumer = Consumer::new(&self.kafka, topic);
        let events = consumer.take(count);
        assert_eq!(consumer.next(QUIET), None, "behind {events:#?}");
        events
    }
}

const SETTINGS: [&str; 5] = [
    "errors.on_blocked=dead-letter",
    "errors.dead_letter.topic=dead",
    "snapshot.mode=no_data",
    "outbox.partition=part",
    "outbox.timestamp=at",
];

/// The second cannot be routed, the fourth is refused by Kafka.
const MIXED: [(&str, &str, &str, usize); 5] = [
    ("'order'", "NULL", "NULL", 10),
    ("NULL", "NULL", "NULL", 10),
    ("'order'", "NULL", "NULL", 10),
    ("'order'", "7", "NULL", 10),
    ("'order'", "NULL", "NULL", 10),
];

fn id(seq: usize) -> String {
    format!("00000000-0000-0000-0000-{seq:012}")
}

fn said<'a>(event: &'a Event, name: &str) -> &'a str {
    event
        .header(&format!("outboxd.dead_letter.{name}"))
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_published_goes_to_the_dead_letters_and_what_is_behind_it_arrives() {
    let world = World::open().await;
    let relay = world.relay().await;
    world
        .write(
            1,
            &[
                ("'order'", "NULL", "NULL", 10),
                ("NULL", "NULL", "NULL", 10),
                ("'no topic'", "NULL", "NULL", 10),
                ("'order'", "-1", "NULL", 10),
                ("'order'", "NULL", "'1969-07-20 20:17Z'", 10),
                ("'order'", "7", "NULL", 10),
                ("'order'", "NULL", "NULL", 9000),
                ("'order'", "NULL", "NULL", 10),
            ],
        )
        .await;
    world.wait_until_confirmed().await;

    let arrived = world.read(TOPIC, 2);
    let numbers: Vec<_> = arrived.iter().map(Event::seq).collect();
    assert_eq!(numbers, [1, 8]);
    let letters = world.read(DEAD, 6);
    let told: Vec<_> = letters
        .iter()
        .map(|letter| {
            let number = said(letter, "row_number");
            (
                number,
                said(letter, "kind"),
                said(letter, "reason"),
                said(letter, "topic"),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("2", "row", "null_route", ""),
            ("3", "row", "illegal_topic", "outbox.event.no topic"),
            ("4", "row", "partition", TOPIC),
            ("5", "row", "timestamp_before_1970", TOPIC),
            ("6", "record", "invalid_partition", TOPIC),
            ("7", "record", "record_too_large", TOPIC),
        ]
    );
    for (letter, seq) in letters.iter().zip(2..) {
        assert_eq!(letter.key.as_deref(), Some("k"));
        assert_eq!(said(letter, "event_id"), id(seq));
        assert_eq!(said(letter, "table"), "public.outbox");
        assert!(letter.value.as_deref().unwrap().starts_with("{\"x\": \"yy"));
    }
    let status = relay.status().unwrap();
    assert_eq!(
        (&status["state"], &status["error"]),
        (&"streaming".into(), &().into())
    );
    assert_eq!(status["records_dead_lettered"], 6);
    let too_large = "outboxd_records_dead_lettered_total{reason=\"record_too_large\"}";
    assert_eq!(relay.metric(too_large), Some(1.0));
    assert!(relay.logged("an event goes to the dead-letter topic: "));
    assert!(relay.stop().success());

    // A dry run asks the brokers: the limit is not raised yet, and partition 7 is not there.
    let (status, said) = world.redrive(&["--dry-run"]);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("published        4 (dry run)"), "{said}");
    assert!(said.contains("still failing    2\n"), "{said}");
    assert!(said.contains(
        "0/5 event 00000000-0000-0000-0000-000000000007 (record_too_large): still failing: "
    ));
    let (status, said) = world.redrive(&["--dry-run", "--event-id", "nobody's\u{1b}[2J"]);
    assert_eq!(status.code(), Some(1), "{said}");
    let nobody = "no dead letter of event nobody's\\u{1b}[2J in topic \"dead\"";
    assert!(said.contains(nobody), "{said}");

    // The configuration is mended and the limit raised.
    let limit = "max.message.bytes";
    world.kafka.set_topic_config(TOPIC, limit, "100000").await;
    let (status, said) = world.redrive(&[]);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(
        said.contains("has 1 partitions and no partition 7"),
        "{said}"
    );
    assert!(said.contains("published        5\n"), "{said}");
    let redriven = world.read(TOPIC, 7);
    let numbers: Vec<_> = redriven.iter().map(Event::seq).collect();
    assert_eq!(numbers, [1, 8, 2, 3, 4, 5, 7]);
    for event in &redriven[2..] {
        let id = usize::try_from(event.seq()).map(id).unwrap();
        assert_eq!(
            (event.key.as_deref(), event.header("id")),
            (Some("k"), Some(&*id))
        );
        assert_eq!(
            event.headers.len(),
            2,
            "nothing is left of the dead letter: {event:?}"
        );
    }
    // The position stands before what still fails: nothing before it comes again. What fails again
    // takes no place of what is behind it.
    let (_, said) = world.redrive(&["--limit", "1"]);
    assert!(said.contains(&format!("event {}", id(6))), "{said}");
    assert!(said.contains("still failing    1\n"), "{said}");
    assert!(said.contains("published        1\n"), "{said}");

    whoever_is_killed_loses_neither_events_nor_letters(&world).await;
}

async fn whoever_is_killed_loses_neither_events_nor_letters(world: &World) {
    let (topic, dead) = (
        Consumer::new(&world.kafka, TOPIC),
        Consumer::new(&world.kafka, DEAD),
    );
    let edges = [
        ("received", 5),
        ("enqueued", 1),
        ("acknowledged", 1),
        ("acknowledged", 4),
        ("acknowledged", 6),
        ("journalled", 2),
    ];
    let first = 1000;
    for ((edge, nth), number) in edges.into_iter().zip(0..) {
        world.killed(first + number * MIXED.len(), edge, nth).await;
    }
    let relay = world.relay().await;
    world.wait_until_confirmed().await;
    assert!(relay.stop().success());
    let all = |consumer: Consumer| -> Vec<i64> {
        let events = std::iter::from_fn(|| consumer.next(QUIET));
        let seqs = events.map(|event| match event.header("seq") {
            Some(_) => event.seq(),
            // A row's letter has it among its columns.
            None => i64::try_from(number_of(said(&event, "event_id"))).unwrap(),
        });
        seqs.filter(|seq| *seq >= 1000).collect()
    };
    let (events, letters) = (all(topic), all(dead));
    let count = edges.len() * MIXED.len();
    println!(
        "{count} events, {} killed relays: {} records and {} letters",
        edges.len(),
        events.len(),
        letters.len()
    );
    let distinct = |seqs: &[i64]| seqs.iter().copied().collect::<BTreeSet<_>>();
    let is_bad = |seq: &i64| matches!((seq - 1000) % 5, 1 | 3);
    let written = 1000..1000 + i64::try_from(count).unwrap();
    let (bad, good): (BTreeSet<_>, BTreeSet<_>) = written.partition(is_bad);
    assert_eq!(distinct(&events), good);
    assert_eq!(distinct(&letters), bad);
    for seqs in [events, letters] {
        let last = |seq: &i64| seqs.iter().rposition(|other| other == seq);
        let places: Vec<_> = distinct(&seqs).iter().map(last).collect();
        assert!(places.is_sorted(), "last copies out of order: {seqs:?}");
    }
}

fn number_of(id: &str) -> usize {
    id.rsplit('-').next().unwrap().parse().unwrap()
}
