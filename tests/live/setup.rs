//! `outboxd setup`: what it prints is what an administrator needs, and what it runs is enough.

use std::process::Command;

use crate::support::{Postgres, Version};

struct Setup<'a> {
    postgres: &'a Postgres,
    url: String,
}

impl Setup<'_> {
    fn run(&self, flags: &[&str]) -> (bool, Vec<String>) {
        let settings = [
            format!("postgres.url={}", self.url),
            "outbox.table=app.outbox".to_owned(),
            "outbox.headers=seq".to_owned(),
            "slot.name=outbox".to_owned(),
            "publication.name=outbox".to_owned(),
        ];
        let output = Command::new(env!("CARGO_BIN_EXE_outboxd"))
            .arg("setup")
            .args(settings.map(|setting| format!("--set={setting}")))
            .args(flags)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        let lines = said.lines().map(str::to_owned).collect();
        (output.status.success(), lines)
    }

    fn as_administrator(&self) -> String {
        format!("--as={}", self.postgres.url())
    }
}

fn statements(lines: &[String]) -> Vec<&str> {
    let lines = lines.iter().map(String::as_str);
    lines.filter(|line| !line.starts_with("--")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn setup_prints_what_is_missing_and_applies_it() {
    let postgres = Postgres::start(Version::V18, &[]);
    let admin = postgres.client().await;
    admin.batch_execute("CREATE SCHEMA app").await.unwrap();
    let url = format!(
        "postgresql://relay:pass%20word@127.0.0.1:{}/postgres",
        postgres.port
    );
    let setup = Setup {
        postgres: &postgres,
        url,
    };
    let administrator = setup.as_administrator();

    // The role that would look is not there: it is for a server on which nothing is.
    let (ok, bare) = setup.run(&[]);
    assert!(ok);
    assert!(
        bare[0].starts_with("-- The server was not looked at: "),
        "{bare:#?}"
    );
    let role_to_publication = [
        "CREATE ROLE \"relay\" LOGIN REPLICATION;",
        "GRANT CONNECT ON DATABASE \"postgres\" TO \"relay\";",
        "CREATE TABLE \"app\".\"outbox\" (\"id\" uuid PRIMARY KEY, \"aggregatetype\" text NOT NULL, \"aggregateid\" text NOT NULL, \"seq\" text, \"payload\" jsonb);",
        "GRANT USAGE ON SCHEMA \"app\" TO \"relay\";",
        "GRANT SELECT ON TABLE \"app\".\"outbox\" TO \"relay\";",
        "CREATE PUBLICATION \"outbox\" FOR TABLE \"app\".\"outbox\" WITH (publish = 'insert, update', publish_via_partition_root = true);",
    ];
    let server = "ALTER SYSTEM SET wal_level = 'logical';";
    let expected: Vec<&str> = [server].into_iter().chain(role_to_publication).collect();
    assert_eq!(statements(&bare), expected);

    let (ok, looked) = setup.run(&[&administrator]);
    assert!(ok);
    assert_eq!(statements(&looked), role_to_publication);
    let slot = "-- SELECT lsn::text FROM pg_create_logical_replication_slot('outbox', 'pgoutput');";
    assert_eq!(looked.last().unwrap(), slot);

    let (ok, done) = setup.run(&[&administrator, "--apply"]);
    assert!(ok, "{done:#?}");
    let told: Vec<String> = role_to_publication
        .iter()
        .map(|sql| format!("done: {}", sql.trim_end_matches(';')))
        .collect();
    assert_eq!(done, told);
    let (ok, again) = setup.run(&[&administrator, "--apply"]);
    assert!(ok);
    assert_eq!(again, ["Nothing was missing."]);
    let (_, printed) = setup.run(&[]);
    assert_eq!(statements(&printed), [""; 0]);
    assert_eq!(printed.last().unwrap(), "-- Nothing else is missing.");

    let stored = "SELECT rolpassword FROM pg_authid WHERE rolname = 'relay'";
    let stored: String = admin.query_one(stored, &[]).await.unwrap().get(0);
    assert!(stored.starts_with("SCRAM-SHA-256$4096:"), "a verifier");
    let slots = admin.query("SELECT FROM pg_replication_slots", &[]).await;
    assert_eq!(slots.unwrap().len(), 0, "the relay makes it");
}

#[tokio::test(flavor = "multi_thread")]
async fn setup_mends_what_is_half_there_and_says_what_it_may_not() {
    let postgres = Postgres::start(Version::V14, &[]);
    let admin = postgres.client().await;
    admin
        .batch_execute(
            "CREATE SCHEMA app;
             CREATE TABLE app.outbox (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, seq bigint, payload jsonb);
             CREATE TABLE app.other (id int);
             CREATE ROLE relay LOGIN; GRANT USAGE ON SCHEMA app TO relay;
             CREATE PUBLICATION outbox FOR TABLE app.other;",
        )
        .await
        .unwrap();
    let url = format!("postgresql://relay@127.0.0.1:{}/postgres", postgres.port);
    let setup = Setup {
        postgres: &postgres,
        url,
    };
    let missing = [
        "ALTER ROLE \"relay\" REPLICATION;",
        "GRANT SELECT ON TABLE \"app\".\"outbox\" TO \"relay\";",
        "ALTER PUBLICATION \"outbox\" ADD TABLE \"app\".\"outbox\";",
    ];
    let (ok, lines) = setup.run(&[]);
    assert!(ok);
    assert_eq!(statements(&lines), missing);
    let (ok, refused) = setup.run(&["--apply"]);
    assert!(!ok);
    assert!(
        refused[0].starts_with("outboxd: not done: ALTER ROLE \"relay\" REPLICATION: "),
        "{refused:#?}"
    );
    let (ok, done) = setup.run(&[&setup.as_administrator(), "--apply"]);
    assert!(ok);
    assert_eq!(done.len(), missing.len());

    // The publication is there, and the table is not: one run is enough.
    admin
        .batch_execute("DROP TABLE app.outbox; ALTER PUBLICATION outbox SET (publish = 'update')")
        .await
        .unwrap();
    let (ok, done) = setup.run(&[&setup.as_administrator(), "--apply"]);
    assert!(ok, "{done:#?}");
    let last = [
        "done: ALTER PUBLICATION \"outbox\" SET (publish = 'insert, update')",
        "done: ALTER PUBLICATION \"outbox\" ADD TABLE \"app\".\"outbox\"",
    ];
    assert_eq!(done[done.len() - 2..], last, "{done:#?}");
    let (ok, again) = setup.run(&[&setup.as_administrator(), "--apply"]);
    assert!(ok);
    assert_eq!(again, ["Nothing was missing."]);
}
