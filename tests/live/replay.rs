//! `outboxd snapshot`: rows of the table once more, while a relay streams and a shop writes.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::support::{
    Consumer, Event, Follower, Postgres, Relay, Scene, Shop, Tally, Version, signal, wait_until,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Everything of the topic: what the stream sent, what runs sent again, and what a consumer holds.
#[derive(Default)]
struct Seen {
    live: Tally,
    follower: Follower,
    /// By the run: key and number.
    runs: BTreeMap<String, Vec<(String, i64)>>,
}

impl Seen {
    fn add(&mut self, event: &Event) {
        self.follower.apply(event);
        match event.header("outboxd.replay") {
            None => self.live.add(event),
            Some(run) => {
                let key = event.key.clone().unwrap();
                let run = self.runs.entry(run.to_owned()).or_default();
                run.push((key, event.seq()));
            }
        }
    }

    fn read_until(&mut self, consumer: &Consumer, mut done: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            assert!(Instant::now() < deadline, "{} runs", self.runs.len());
            if let Some(event) = consumer.next(Duration::from_millis(50)) {
                self.add(&event);
            }
        }
    }

    /// Different rows of a run, and that each key's came in the order of their numbers.
    fn rows_of(&self, run: &str) -> usize {
        let mut last = BTreeMap::new();
        for (key, seq) in &self.runs[run] {
            let before = last.insert(key, seq);
            assert!(before < Some(seq), "{key} of {run}: {before:?}, then {seq}");
        }
        self.runs[run].iter().collect::<BTreeSet<_>>().len()
    }

    fn sent_by(&self, run: &str) -> usize {
        self.runs.get(run).map_or(0, Vec::len)
    }
}

fn command(scene: &Scene, run: &str, args: &[&str]) -> Command {
    let settings = [
        format!("postgres.url={}", scene.postgres.url()),
        format!("kafka.bootstrap.servers={}", scene.kafka.servers()),
        "slot.name=outbox".to_owned(),
        "publication.name=outbox".to_owned(),
        "outbox.headers=seq".to_owned(),
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_outboxd"));
    command
        .args(["snapshot", "--run-id", run])
        .args(settings.iter().flat_map(|setting| ["--set", setting]))
        .args(args);
    command
}

fn run(scene: &Scene, run: &str, args: &[&str]) -> (ExitStatus, String) {
    let output = command(scene, run, args).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status, String::from_utf8(said).unwrap())
}

fn begin(scene: &Scene, run: &str, args: &[&str]) -> Child {
    let mut command = command(scene, run, args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

async fn count(scene: &Scene, condition: &str) -> usize {
    let sql = format!("SELECT count(*) FROM outbox WHERE {condition}");
    let row = scene.client.query_one(&sql, &[]).await.unwrap();
    usize::try_from(row.get::<_, i64>(0)).unwrap()
}

async fn holder(postgres: &Postgres) -> i32 {
    let client = postgres.client().await;
    let sql = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'outbox'";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// Nothing is published, and nothing is changed by SQL that goes for it.
async fn ask(scene: &Scene) {
    let (status, said) = run(
        scene,
        "asked",
        &["--dry-run", "--where", "seq BETWEEN 1 AND 10"],
    );
    assert!(status.success(), "{said}");
    let kept = count(scene, "seq BETWEEN 1 AND 10").await;
    let expected = format!("would publish    {kept} (dry run)\n  outbox.event.order: {kept}\n");
    assert!(said.contains(&expected), "{said}");

    for (condition, expected) in [
        (
            "sec > 5",
            "ERROR 42703: column \"sec\" does not exist\nDETAIL:  At character 1: \"sec > 5\".",
        ),
        ("seq >", "DETAIL:  At its end, behind \"seq >\"."),
        (
            "seq > 'many'",
            "invalid input syntax for type bigint: \"many\"\nDETAIL:  At character 7: \"'many'\".",
        ),
        // The planner computes it; its words could be of rows by then.
        ("nextval('numbers') > 0", "SQLSTATE 25006"),
        (
            "seq = 'x'::no_such_type",
            "ERROR 42704: type \"no_such_type\" does not exist",
        ),
        // Whatever code a function takes: its text has a row's values.
        ("leak(payload::text)", "ERROR 57014: query canceled"),
    ] {
        let (status, said) = run(scene, "refused", &["--where", condition]);
        assert_eq!(status.code(), Some(1), "{condition}: {said}");
        assert!(said.contains(expected), "{said}");
        assert!(
            !said.contains("quoted:") && !said.contains("drop the slot"),
            "{said}"
        );
    }
    let (status, said) = run(scene, "refused", &["--order-by", "seq,, id"]);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(
        said.contains("the server does not take --order-by: "),
        "{said}"
    );
    assert!(said.contains("At character 5: \", id\"."), "{said}");
}

/// What the server waits for it does not go on waiting for, and brokers that are away take none of the time.
async fn wait_in_vain(scene: &Scene) {
    let mut holder = scene.postgres.client().await;
    let lock = holder.transaction().await.unwrap();
    let held = "LOCK TABLE held IN ACCESS EXCLUSIVE MODE";
    lock.batch_execute(held).await.unwrap();
    let waiting = "SELECT count(*) FROM pg_stat_activity
                    WHERE application_name = 'outboxd' AND wait_event_type = 'Lock'";
    let waits = async |wanted: i64| {
        wait_until(PATIENCE, "a session waits, or none", async || {
            let row = scene.client.query_one(waiting, &[]).await.unwrap();
            row.get::<_, i64>(0) == wanted
        })
        .await;
    };
    let child = begin(scene, "held", &["--set", "outbox.table=public.held"]);
    waits(1).await;
    let asked = Instant::now();
    signal(child.id(), "TERM");
    let output = child.wait_with_output().unwrap();
    let took = asked.elapsed();
    waits(0).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(took < Duration::from_secs(5), "{took:?}: {said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
    let expected =
        "outboxd: stopped by a signal before the work was done\nDETAIL:  No row was read.\n";
    assert!(said.contains(expected), "{said}");
    lock.rollback().await.unwrap();

    let generated = [
        "--set",
        "outbox.table=public.held",
        "--set",
        "outbox.headers=total",
    ];
    let (status, said) = run(scene, "none", &generated);
    assert_eq!(status.code(), Some(1), "{said}");
    let expected = "outboxd: column \"total\" of \"public.held\" has no values that can be published\nDETAIL:  The column is generated, ";
    assert!(said.contains(expected), "{said}");

    let url = format!("postgres.url={}", scene.postgres.url());
    let began = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_outboxd"))
        .args(["shadow", "--for", "2s", "--set", &url, "--set"])
        .args([
            "kafka.bootstrap.servers=127.0.0.1:1",
            "--set",
            "slot.name=outbox",
        ])
        .output()
        .unwrap();
    let (took, said) = (began.elapsed(), String::from_utf8(output.stderr).unwrap());
    assert!(took < Duration::from_secs(5), "{took:?}: {said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("still asking Kafka for where the topics end (1 s)"),
        "{said}"
    );
    assert!(said.contains("cannot be read: no answer for "), "{said}");
}

/// One that is killed, one that is asked to stop, and one that comes to its end.
fn cut_off(scene: &Scene, consumer: &Consumer, seen: &mut Seen) {
    let slowly = [
        "--order-by",
        "seq",
        "--where",
        "seq BETWEEN 1 AND 20",
        "--rate",
        "150",
    ];
    let mut killed = begin(scene, "killed", &slowly);
    seen.read_until(consumer, |seen| seen.sent_by("killed") >= 50);
    killed.kill().unwrap();
    killed.wait().unwrap();

    let stopped = begin(scene, "stopped", &slowly);
    seen.read_until(consumer, |seen| seen.sent_by("stopped") >= 50);
    signal(stopped.id(), "TERM");
    let output = stopped.wait_with_output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("outboxd: stopped before the last row\n"),
        "{said}"
    );
    assert!(
        said.contains(" are in Kafka, the last one the event "),
        "{said}"
    );

    let (status, said) = run(scene, "again", &slowly[..4]);
    assert!(status.success(), "{said}");
    assert!(
        said.contains("rows of public.outbox, ordered by seq\n"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_sent_again_under_load_and_the_stream_and_the_consumer_do_not_mind() {
    let scene = Scene::open(Version::V18, &[]).await;
    let before = "CREATE SEQUENCE numbers;
                  CREATE FUNCTION leak(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
                      RAISE EXCEPTION 'quoted: %', $1 USING ERRCODE = '57014', HINT = 'quoted: ' || $1;
                  END $$;
                  CREATE TABLE held (LIKE outbox, total bigint GENERATED ALWAYS AS (1) STORED);
                  INSERT INTO outbox VALUES (gen_random_uuid(), 'no topic', 'k', 0, 'T', '{}')";
    scene.client.batch_execute(before).await.unwrap();
    let relay = Relay::start(&scene.postgres, &scene.kafka, &["snapshot.mode=no_data"]);
    relay.wait_for_state("streaming").await;
    let leader = holder(&scene.postgres).await;
    let shop = Shop::open_keeping(&scene.postgres, 500).await;
    wait_until(PATIENCE, "rows to send again", async || {
        count(&scene, "seq > 20").await > 200
    })
    .await;
    let consumer = Consumer::new(&scene.kafka, Scene::TOPIC);
    let mut seen = Seen::default();
    ask(&scene).await;
    wait_in_vain(&scene).await;
    cut_off(&scene, &consumer, &mut seen);

    // All of them, and the first one cannot be sent.
    let (status, said) = run(&scene, "whole", &[]);
    assert_eq!(status.code(), Some(1), "{said}");
    let first = "outboxd: row 1 of this run, of table \"public.outbox\", cannot be routed: ";
    assert!(
        said.contains(first) && said.contains("or every such row with --skip-unroutable"),
        "{said}"
    );
    let (status, said) = run(&scene, "whole", &["--skip-unroutable", "--limit", "101"]);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("published        100\n"), "{said}");
    assert!(said.contains("left out         1\n"), "{said}");
    let (status, said) = run(&scene, "unmarked", &["--where", "seq = 1", "--header", ""]);
    assert!(status.success(), "{said}");

    let expected = shop.finish().await;
    let (keys, total) = (expected.len(), expected.values().sum::<i64>());
    let repeats = u64::try_from(keys).unwrap();
    let all = |seen: &Seen| {
        i64::try_from(seen.live.distinct()) == Ok(total) && seen.live.repeats() == repeats
    };
    seen.read_until(&consumer, all);
    assert_eq!(seen.rows_of("again"), 20 * keys);
    assert_eq!((seen.rows_of("whole"), seen.sent_by("whole")), (100, 100));
    for run in ["killed", "stopped"] {
        assert!((50..20 * keys).contains(&seen.rows_of(run)), "{run}");
    }
    assert_eq!(seen.runs.len(), 4, "nothing came of what was refused");
    seen.follower.assert_equals_source(&scene.client).await;
    assert_eq!(
        holder(&scene.postgres).await,
        leader,
        "the stream was left alone"
    );
    assert!(relay.stop().success());
    assert_eq!(consumer.next(Duration::from_millis(500)), None);
}
