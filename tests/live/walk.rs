//! A newcomer's walk: the commands are those of the README, copied from the page; nothing but the
//! addresses is another one.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{Consumer, Kafka, Postgres, Version, free_port, signal, wait_until};

const TOPIC: &str = "outbox.event.order";
const DATABASE: &str = "shop";

/// The first block of this language behind the heading.
fn block(page: &str, language: &str) -> String {
    let (_, section) = page
        .split_once("\n## Run it on your own servers\n")
        .expect("the section");
    let (_, block) = section
        .split_once(&format!("\n```{language}\n"))
        .expect("a block");
    let (block, _) = block.split_once("\n```\n").expect("its end");
    block.to_owned()
}

/// What the shell of the newcomer is: variables that were exported, and outboxd in the path.
struct Shell {
    exported: Vec<(String, String)>,
    path: String,
    folder: tempfile::TempDir,
}

impl Shell {
    fn open() -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_outboxd"));
        let folder = program.parent().unwrap().display();
        Self {
            exported: Vec::new(),
            path: format!("{folder}:{}", std::env::var("PATH").unwrap()),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn start(&self, line: &str) -> Child {
        let mut command = Command::new("bash");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("OUTBOXD_") {
                command.env_remove(name);
            }
        }
        command
            .args(["-c", line])
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .envs(self.exported.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// To its end, which has to be a good one; what it printed.
    fn run(&self, line: &str) -> String {
        let output = self.start(line).wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(output.status.success(), "{line}: {said}");
        said
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_commands_of_the_readme_lead_from_nothing_to_a_running_relay() {
    let (postgres, kafka) = (Postgres::start(Version::V18, &[]), Kafka::start());
    let admin = postgres.client().await;
    admin
        .batch_execute(&format!("CREATE DATABASE {DATABASE}"))
        .await
        .unwrap();
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let commands = block(&page, "sh")
        .replace(
            "db.example.com:5432",
            &format!("127.0.0.1:{}", postgres.port),
        )
        .replace("kafka.example.com:9092", &kafka.servers());
    let lines: Vec<&str> = commands.lines().collect();
    let [postgres_url, brokers, setup, check, run] = lines[..] else {
        panic!("five commands: {lines:#?}");
    };

    let mut shell = Shell::open();
    for line in [postgres_url, brokers] {
        let assignment = line.strip_prefix("export ").unwrap();
        let (name, value) = assignment.split_once('=').unwrap();
        shell.exported.push((name.to_owned(), value.to_owned()));
    }
    let listen = format!("127.0.0.1:{}", free_port());
    shell
        .exported
        .push(("OUTBOXD_HTTP_LISTEN".to_owned(), listen));

    let said = shell.run(setup);
    assert!(
        said.contains("done: CREATE ROLE \"outboxd\" LOGIN REPLICATION"),
        "{said}"
    );
    assert!(
        said.contains("done: CREATE TABLE \"public\".\"outbox\""),
        "{said}"
    );
    assert!(!said.contains("secret"), "{said}");
    let said = shell.run(check);
    assert!(!said.contains("\n  error "), "{said}");
    assert!(
        said.contains("ok       replication session: a walsender answers"),
        "{said}"
    );
    let relay = shell.start(run);

    let client = postgres.client_of(DATABASE).await;
    wait_until(Duration::from_secs(60), "the relay streams", async || {
        is_well(&shell)
    })
    .await;
    let insert = block(&page, "sql");
    client.batch_execute(&insert).await.unwrap();
    let event = Consumer::new(&kafka, TOPIC).take(1).remove(0);
    assert_eq!(event.key.as_deref(), Some("ORD-1"));

    signal(relay.id(), "TERM");
    let ended = relay.wait_with_output().unwrap();
    let log = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{log}");
}

/// `outboxd status` ends with 0 while a relay streams.
fn is_well(shell: &Shell) -> bool {
    let output = shell.start("outboxd status").wait_with_output().unwrap();
    output.status.success()
}
