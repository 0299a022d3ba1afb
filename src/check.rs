//! `outboxd check`: the effective settings with their origin, then every precondition on both
//! sides, changing nothing.

use std::io::Write;
use std::time::Duration;

use crate::cli::exit;
use crate::config::Config;
use crate::kafka;
use crate::observe::escaped;
use crate::postgres::preflight::{Check, CheckOutcome, ColumnPurpose, Preflight, WantedColumn};
use crate::postgres::{self, PostgresError};
use crate::router;

const KAFKA_PATIENCE: Duration = Duration::from_secs(5);

/// Lines for standard output and the worst of what was found.
struct Report {
    out: Box<dyn Write + Send>,
    worst: CheckOutcome,
}

impl Report {
    fn line(&mut self, text: &str) {
        // A closed pipe ends the reader's interest, not the check.
        drop(writeln!(self.out, "{}", escaped(text)));
    }

    fn add(&mut self, outcome: CheckOutcome, name: &str, found: &str, remedy: Option<&str>) {
        self.worst = self.worst.max(outcome);
        let word = match outcome {
            CheckOutcome::Ok => "ok",
            CheckOutcome::Warning => "warning",
            CheckOutcome::Error => "error",
        };
        self.line(&format!("{word:<8} {name}: {found}"));
        if let Some(remedy) = remedy {
            self.line(&format!("         HINT:  {remedy}"));
        }
    }
}

pub async fn run(config: Config) -> u8 {
    let mut report = Report {
        out: Box::new(std::io::stdout()),
        worst: CheckOutcome::Ok,
    };
    for (key, value, origin) in config.settings.shown() {
        report.line(&format!("{key} = {value}  ({origin})"));
    }
    for note in &config.notes {
        report.line(&format!("note     {note}"));
    }
    report.line("");
    check_kafka(&config, &mut report).await;
    match check_postgres(&config).await {
        Ok(checks) => {
            for Check {
                name,
                outcome,
                found,
                remedy,
            } in checks
            {
                report.add(outcome, name, &found, remedy.as_deref());
            }
        }
        Err(error) => {
            let found = error.to_string();
            report.add(
                CheckOutcome::Error,
                "PostgreSQL",
                &found,
                error.hint().as_deref(),
            );
        }
    }
    if report.worst == CheckOutcome::Error {
        exit::FAILED
    } else {
        exit::DRAINED
    }
}

async fn check_kafka(config: &Config, report: &mut Report) {
    let options = config.kafka.clone();
    let asked = tokio::task::spawn_blocking(move || kafka::reach(&options, KAFKA_PATIENCE)).await;
    match asked {
        Ok(Ok(brokers)) => {
            let found = format!("{brokers} broker(s) answer");
            report.add(CheckOutcome::Ok, "Kafka", &found, None);
        }
        Ok(Err(error)) => report.add(
            CheckOutcome::Error,
            "Kafka",
            &postgres::chain(&error),
            Some("Check kafka.bootstrap.servers and the security settings."),
        ),
        Err(error) => report.add(CheckOutcome::Error, "Kafka", &error.to_string(), None),
    }
}

async fn check_postgres(config: &Config) -> Result<Vec<Check>, PostgresError> {
    let client = postgres::connect(&config.postgres).await?;
    let columns = wanted_columns(&config.router);
    let preflight = Preflight {
        slot: &config.slot,
        publication: &config.publication,
        tables: &config.tables,
        snapshot: &config.snapshot,
        columns: &columns,
    };
    preflight.run(&client).await
}

fn wanted_columns(options: &router::Options) -> Vec<WantedColumn> {
    let wanted = |name: &str, option, purpose, required| WantedColumn {
        name: name.to_owned(),
        option,
        purpose,
        required,
    };
    let mut columns = vec![
        wanted(
            &options.id_field,
            "table.field.event.id",
            ColumnPurpose::Id,
            true,
        ),
        wanted(
            &options.key_field,
            "table.field.event.key",
            ColumnPurpose::Key,
            true,
        ),
        wanted(
            &options.payload_field,
            "table.field.event.payload",
            ColumnPurpose::Payload,
            true,
        ),
        wanted(
            &options.route_field,
            "route.by.field",
            ColumnPurpose::Route,
            true,
        ),
    ];
    if let Some(timestamp) = &options.timestamp_field {
        let option = "table.field.event.timestamp";
        columns.push(wanted(timestamp, option, ColumnPurpose::Timestamp, true));
    }
    let required = options.missing == router::MissingField::Error;
    columns.extend(options.placements.iter().map(|placement| {
        let option = "table.fields.additional.placement";
        wanted(&placement.field, option, ColumnPurpose::Other, required)
    }));
    columns
}
