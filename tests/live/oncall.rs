//! For the person on call: the alerts that fire, the page that says why, and what has to be well
//! formed for both to get there.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::support::{
    Consumer, Page, Postgres, Prometheus, Relay, Scene, Shop, Version, open_page, wait_until,
};

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn run(program: &str, args: &[&str], folder: &Path) {
    let output = Command::new(program)
        .args(args)
        .current_dir(folder)
        .output();
    let output = output.unwrap_or_else(|_| panic!("{program}: run scripts/install-deps tests"));
    assert!(
        output.status.success(),
        "{program} {args:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn promtool_takes_rules_and_configuration_and_its_tests_of_the_rules_pass() {
    let folder = project("docker/prometheus");
    run(
        "promtool",
        &["check", "rules", "outboxd.rules.yml"],
        &folder,
    );
    run("promtool", &["check", "config", "prometheus.yml"], &folder);
    run(
        "promtool",
        &["test", "rules", "outboxd.rules.test.yml"],
        &folder,
    );
}

#[test]
fn systemd_takes_the_unit() {
    let unit = std::fs::read_to_string(project("docker/systemd/outboxd.service")).unwrap();
    let folder = TempDir::new().unwrap();
    let installed = unit.replace("/usr/local/bin/outboxd", env!("CARGO_BIN_EXE_outboxd"));
    assert_ne!(unit, installed);
    std::fs::write(folder.path().join("outboxd.service"), installed).unwrap();
    run(
        "systemd-analyze",
        &["verify", "./outboxd.service"],
        folder.path(),
    );
}

#[test]
fn compose_and_kustomize_take_what_they_are_given() {
    let folder = project("docker");
    // Debian's docker-compose is older than the key for the project's name.
    let compose = std::fs::read_to_string(folder.join("compose.yml")).unwrap();
    let lines = compose.lines().filter(|line| !line.starts_with("name:"));
    let older = TempDir::new().unwrap();
    let file = older.path().join("compose.yml");
    std::fs::write(&file, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let file = file.to_str().unwrap();
    let arguments = ["-f", file, "--project-directory", ".", "config", "-q"];
    run("docker-compose", &arguments, &folder);
    run("kubectl", &["kustomize", "kubernetes"], &folder);
}

/// What others write into tables and files, and a page must not take for markup.
const PLANTED: &str = "<b id=\"planted\">x</b>";
const PHONE: (u32, u32) = (360, 1350);
const DESK: (u32, u32) = (1000, 900);

struct Album {
    folder: PathBuf,
    _temporary: TempDir,
}

impl Album {
    /// `OUTBOXD_WRITE_GOLDEN` keeps the pictures in the documents.
    fn new() -> Self {
        let temporary = TempDir::new().unwrap();
        let kept = std::env::var_os("OUTBOXD_WRITE_GOLDEN").is_some();
        let folder = if kept {
            project("docs/images")
        } else {
            temporary.path().to_owned()
        };
        std::fs::create_dir_all(&folder).unwrap();
        Self {
            folder,
            _temporary: temporary,
        }
    }

    fn page(&self, relay: &Relay, name: &str, size: (u32, u32)) -> Page {
        let picture = self.folder.join(format!("page-{name}.png"));
        let page = open_page(&relay.url(), size, &picture);
        assert_eq!(page.complaints, Vec::<String>::new(), "{name}");
        let planted = "<td>&lt;b id=\"planted\"&gt;x&lt;/b&gt;</td>";
        assert!(page.inside("settings").contains(planted), "{name}");
        assert!(!page.dom.contains("<b id=\"planted\">"), "{name}");
        page
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_broker_sets_off_its_alert_and_the_page_shows_each_state() {
    let mut scene = Scene::open(Version::V18, &[("max_slot_wal_keep_size", "64MB")]).await;
    let planted = format!("heartbeat.name={PLANTED}");
    let settings = [
        "name=shop",
        planted.as_str(),
        "kafka.sasl.password=never-shown",
        "relay.health_interval=1s",
    ];
    let leader = Relay::start(&scene.postgres, &scene.kafka, &settings);
    leader.wait_for_state("streaming").await;
    let standby = Relay::start(&scene.postgres, &scene.kafka, &settings);
    standby.wait_for_state("standby").await;
    let prometheus = Prometheus::start(&leader.http_address());
    let album = Album::new();

    write_events(&scene, 40).await;
    Consumer::new(&scene.kafka, Scene::TOPIC).take(40);
    let page = album.page(&leader, "streaming", DESK);
    assert_eq!(page.inside("state"), "Streaming: events flow");
    assert_eq!(page.inside("role"), "This instance has the lead");
    assert!(page.inside("topics").contains("outbox.event.order"));
    assert!(
        page.inside("settings")
            .contains("<th>kafka.sasl.password</th><td>***</td>")
    );
    assert!(!page.dom.contains("never-shown"));
    let page = album.page(&standby, "standby", PHONE);
    assert!(
        page.inside("state")
            .starts_with("Standby: another instance relays")
    );
    assert_eq!(page.inside("role"), "This instance waits for the lead");
    assert!(page.inside("slot").contains("<dt>In use</dt><dd>yes</dd>"));
    assert!(standby.stop().success());

    scene.kafka.kill();
    write_events(&scene, 10).await;
    let fired = prometheus.wait_for_alert("OutboxdBlocked").await;
    assert_eq!(
        fired,
        json!({
            "alertname": "OutboxdBlocked", "instance": leader.http_address(), "job": "outboxd",
            "reason": "brokers", "severity": "critical",
        })
    );
    let page = album.page(&leader, "blocked", PHONE);
    assert!(
        page.inside("state")
            .starts_with("Blocked: events wait in the slot")
    );
    assert_eq!(page.inside("message"), "no Kafka broker can be reached");
    assert!(
        page.inside("hint")
            .starts_with("Check that the brokers run")
    );
    assert!(
        page.inside("happened")
            .contains("no Kafka broker can be reached")
    );
    assert!(
        page.inside("kafka")
            .contains("<dt>Acknowledged</dt><dd>40</dd>")
    );

    lose_the_slot(&scene).await;
    leader.wait_for_state("lost").await;
    prometheus.wait_for_alert("OutboxdSlotLost").await;
    wait_until(Duration::from_secs(30), "the server says why", async || {
        let status = leader.status().unwrap();
        status["slot_facts"]["invalidation_reason"] == "wal_removed"
    })
    .await;
    let page = album.page(&leader, "lost", PHONE);
    assert_eq!(page.inside("state"), "Slot lost: events can be missing");
    assert!(page.inside("slot").contains("lost: wal_removed"));
    assert!(page.inside("detail").contains("cannot be streamed"));
    assert!(page.inside("hint").contains("pg_drop_replication_slot"));
    assert_eq!(
        prometheus.firing("OutboxdAbsent"),
        Vec::<serde_json::Value>::new()
    );
}

async fn write_events(scene: &Scene, count: i64) {
    let statement = format!(
        "BEGIN; INSERT INTO outbox SELECT gen_random_uuid(), 'order', 'k', n, 'T', '{{}}' FROM generate_series(1, {count}) n;
         DELETE FROM outbox; COMMIT;"
    );
    scene.client.batch_execute(&statement).await.unwrap();
}

/// More WAL than the slot may keep, and the checkpoint that takes it away.
async fn lose_the_slot(scene: &Scene) {
    for _ in 0..8 {
        let fill = "SELECT pg_logical_emit_message(false, 'fill', repeat('x', 14000000)); SELECT pg_switch_wal();";
        scene.client.batch_execute(fill).await.unwrap();
    }
    let checkpoint = scene.client.batch_execute("CHECKPOINT");
    tokio::time::timeout(Duration::from_secs(60), checkpoint)
        .await
        .unwrap()
        .unwrap();
}

fn wait_for_word(systemd: &UnixDatagram, word: &str) {
    let mut heard = [0; 1000];
    loop {
        let length = systemd.recv(&mut heard).unwrap();
        let message = String::from_utf8_lossy(&heard[..length]);
        if message.lines().any(|line| line == word) {
            return;
        }
    }
}

/// On the oldest server too: a column that it lacks would leave the slot unwatched.
#[tokio::test(flavor = "multi_thread")]
async fn systemd_hears_of_start_and_end_and_the_server_tells_what_it_had_to_spill() {
    let settings = [("logical_decoding_work_mem", "64kB")];
    let postgres = Postgres::start(Version::V14, &settings);
    let client = postgres.client().await;
    Shop::create_tables(&client).await;
    let url = postgres.url();
    let arguments = format!(
        "run --sink stdout --set postgres.url={url} --set slot.name=outbox --set relay.health_interval=200ms"
    );
    let arguments: Vec<_> = arguments.split(' ').map(str::to_owned).collect();
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("notify");
    let systemd = UnixDatagram::bind(&socket).unwrap();
    systemd
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let environment = [("NOTIFY_SOCKET", socket.to_str().unwrap())];
    let relay = Relay::start_with(&arguments, &environment);
    relay.wait_for_state("streaming").await;
    wait_for_word(&systemd, "READY=1");
    let health = ["healthcheck", "--ready", "--listen", &relay.http_address()];
    run(env!("CARGO_BIN_EXE_outboxd"), &health, folder.path());
    let large = "INSERT INTO outbox SELECT gen_random_uuid(), 'order', 'k', n, 'T', '{}' FROM generate_series(1, 5000) n";
    client.batch_execute(large).await.unwrap();
    let seen = |name: &str| relay.metric(name).unwrap_or(0.0);
    wait_until(
        Duration::from_secs(60),
        "the spilled transaction",
        async || {
            // Counted when its end is decoded, after what was spilled.
            let decoded = seen("outboxd_slot_decoded_transactions_total");
            decoded >= 1.0 && seen("outboxd_slot_spilled_transactions_total") == 1.0
        },
    )
    .await;
    assert!(seen("outboxd_slot_spilled_bytes_total") > 64.0 * 1024.0);
    assert!(seen("outboxd_slot_decoded_bytes_total") > 64.0 * 1024.0);
    assert_eq!(seen("outboxd_role{role=\"leader\"}"), 1.0);
    assert_eq!(seen("outboxd_slot_failover_standbys"), 0.0);
    assert!(seen("process_resident_memory_bytes") > 1e6);
    assert!(relay.stop().success());
    wait_for_word(&systemd, "STOPPING=1");
}
