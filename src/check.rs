//! `outboxd check`: the effective settings with their origin, then every precondition on both
//! sides, changing nothing.

use std::io::Write;
use std::time::Duration;

use crate::cli::exit;
use crate::config::Config;
use crate::kafka;
use crate::postgres::{self, SourceError};

const KAFKA_PATIENCE: Duration = Duration::from_secs(5);

/// Lines for standard output and the worst of what was found.
struct Report {
    out: Box<dyn Write + Send>,
    failed: bool,
}

impl Report {
    fn line(&mut self, text: &str) {
        // A closed pipe ends the reader's interest, not the check.
        drop(writeln!(self.out, "{text}"));
    }

    fn ok(&mut self, name: &str, found: &str) {
        self.line(&format!("ok       {name}: {found}"));
    }

    fn warning(&mut self, name: &str, found: &str, hint: &str) {
        self.line(&format!("warning  {name}: {found}\n         HINT:  {hint}"));
    }

    fn error(&mut self, name: &str, found: &str, hint: Option<&str>) {
        self.failed = true;
        self.line(&format!("error    {name}: {found}"));
        if let Some(hint) = hint {
            self.line(&format!("         HINT:  {hint}"));
        }
    }
}

pub async fn run(config: Config) -> u8 {
    let mut report = Report {
        out: Box::new(std::io::stdout()),
        failed: false,
    };
    for (key, value, origin) in config.settings.shown() {
        report.line(&format!("{key} = {value}  ({origin})"));
    }
    for note in &config.notes {
        report.line(&format!("note     {note}"));
    }
    report.line("");
    check_kafka(&config, &mut report).await;
    if let Err(error) = check_postgres(&config, &mut report).await {
        let (message, hint) = match error {
            SourceError::Postgres(error) => (error.to_string(), error.hint()),
            SourceError::Problem(problem) | SourceError::Lost(problem) => {
                (problem.message, problem.hint)
            }
        };
        report.error("PostgreSQL", &message, hint.as_deref());
    }
    if report.failed {
        exit::FAILED
    } else {
        exit::DRAINED
    }
}

async fn check_kafka(config: &Config, report: &mut Report) {
    let options = config.kafka.clone();
    let asked = tokio::task::spawn_blocking(move || kafka::reach(&options, KAFKA_PATIENCE)).await;
    match asked {
        Ok(Ok(brokers)) => report.ok("Kafka", &format!("{brokers} broker(s) answer")),
        Ok(Err(error)) => report.error(
            "Kafka",
            &postgres::chain(&error),
            Some("Check kafka.bootstrap.servers and the security settings."),
        ),
        Err(error) => report.error("Kafka", &error.to_string(), None),
    }
}

async fn check_postgres(config: &Config, report: &mut Report) -> Result<(), SourceError> {
    let client = postgres::connect(&config.postgres).await?;
    let setting = async |name: &'static str| -> Result<String, SourceError> {
        let row = client
            .query_one("SELECT current_setting($1)", &[&name])
            .await?;
        Ok(row.get(0))
    };
    report.ok("server version", &setting("server_version").await?);
    match setting("wal_level").await?.as_str() {
        "logical" => report.ok("wal_level", "logical"),
        found => report.error(
            "wal_level",
            &format!("{found}, expected logical"),
            Some("ALTER SYSTEM SET wal_level = 'logical'; then restart the server."),
        ),
    }
    match setting("max_slot_wal_keep_size").await?.as_str() {
        "-1" => report.warning(
            "max_slot_wal_keep_size",
            "no limit: while the relay is down the slot keeps WAL until the disk is full",
            "ALTER SYSTEM SET max_slot_wal_keep_size = '20GB'; a slot that needs more is lost, so size it for the outage you want to survive.",
        ),
        found => report.ok("max_slot_wal_keep_size", found),
    }
    check_role(&client, report).await?;
    let tables = postgres::find_tables(&client, &config.tables).await?;
    for table in &tables {
        report.ok("table", &table.relation.qualified_name());
        check_columns(config, table, report);
    }
    check_publication(&client, config, report).await?;
    let name = config.slot.name.as_str();
    match postgres::find_slot(&client, name).await? {
        None => match postgres::may_create(&config.slot) {
            Ok(()) => report.ok(
                "slot",
                &format!("\"{name}\" does not exist and would be created"),
            ),
            Err(error) => return Err(error),
        },
        Some(slot) => {
            let lsn = slot.check(name, &config.postgres.database)?;
            let retained_bytes = slot.retained_bytes.unwrap_or(0);
            report.ok(
                "slot",
                &format!("\"{name}\" stands at {lsn} and holds {retained_bytes} bytes of WAL"),
            );
            if let Some(pid) = slot.active_pid {
                report.warning(
                    "slot",
                    &format!("\"{name}\" is in use by process {pid}"),
                    "A relay started now waits until it is free.",
                );
            }
        }
    }
    Ok(())
}

async fn check_role(
    client: &tokio_postgres::Client,
    report: &mut Report,
) -> Result<(), SourceError> {
    let row = client
        .query_one(
            "SELECT current_user::text, rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user",
            &[],
        )
        .await?;
    let (role, may): (String, bool) = (row.get(0), row.get(1));
    if may {
        report.ok("role", &format!("\"{role}\" may replicate"));
    } else {
        let sql = format!(
            "ALTER ROLE {} REPLICATION;",
            crate::wire::quote_identifier(&role)
        );
        report.error("role", &format!("\"{role}\" may not replicate"), Some(&sql));
    }
    Ok(())
}

fn check_columns(config: &Config, table: &postgres::Table, report: &mut Report) {
    match crate::router::check_columns(&table.relation, &config.router) {
        Ok(()) => report.ok("columns", "every configured column exists"),
        Err(error) => report.error("columns", &error.to_string(), Some(&error.hint())),
    }
}

async fn check_publication(
    client: &tokio_postgres::Client,
    config: &Config,
    report: &mut Report,
) -> Result<(), SourceError> {
    let name = config.publication.name.as_str();
    let row = client
        .query_opt(
            "SELECT pubinsert, pubdelete FROM pg_publication WHERE pubname = $1",
            &[&name],
        )
        .await?;
    match row {
        None => report.ok("publication", &format!("\"{name}\" does not exist and would be created")),
        Some(row) if !row.get::<_, bool>(0) => report.error(
            "publication",
            &format!("\"{name}\" does not publish inserts"),
            Some(&format!(
                "ALTER PUBLICATION {} SET (publish = 'insert, update');",
                crate::wire::quote_identifier(name)
            )),
        ),
        Some(row) if row.get::<_, bool>(1) => report.warning(
            "publication",
            &format!("\"{name}\" publishes deletes, which the relay drops"),
            &format!(
                "ALTER PUBLICATION {} SET (publish = 'insert, update'); the server then has half the work for rows that are inserted and deleted.",
                crate::wire::quote_identifier(name)
            ),
        ),
        Some(_) => report.ok("publication", &format!("\"{name}\" publishes inserts")),
    }
    Ok(())
}
