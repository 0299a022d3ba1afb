//! `outboxd check`: every precondition on both sides, what one row would become, what differs from
//! Debezium, and who set what. Changes nothing.

mod columns;
mod converters;
mod differences;
mod report;
mod sample;

use std::io::Write;
use std::time::Duration;

pub use columns::wanted as wanted_columns;
pub use differences::{DIFFERENCES, Difference};

use crate::cli::{CheckArgs, ReportFormat, exit};
use crate::config::{Config, ConfigError};
use crate::kafka::{self, Cluster, TopicCreation};
use crate::outbox::TypeCatalog;
use crate::postgres::preflight::{Check, CheckOutcome, Preflight};
use crate::postgres::table::OutboxTable;
use crate::postgres::{self, PostgresError};
use columns::UsedColumn;
use differences::Met;
use report::{Report, Section, Show};
use sample::Sample;

const KAFKA_PATIENCE: Duration = Duration::from_secs(5);

const CONFIGURATION: &str = "Configuration";

pub async fn run(config: Config, args: &CheckArgs) -> u8 {
    let report = examine(&config).await;
    print(&report, args);
    match report.outcome() {
        CheckOutcome::Error => exit::FAILED,
        CheckOutcome::Ok | CheckOutcome::Warning => exit::DRAINED,
    }
}

/// A configuration that cannot be, in the same form as what is wrong outside of it.
pub fn refusal(error: &ConfigError) -> String {
    let checks: Vec<_> = error
        .faults
        .iter()
        .map(|fault| {
            let found = match &fault.detail {
                Some(detail) => format!("{}. {detail}", fault.message),
                None => fault.message.clone(),
            };
            serde_json::json!({
                "section": CONFIGURATION,
                "name": fault.place,
                "outcome": CheckOutcome::Error.to_string(),
                "found": found,
                "remedy": fault.hint,
                "sql": null,
            })
        })
        .collect();
    serde_json::json!({"outcome": CheckOutcome::Error.to_string(), "checks": checks}).to_string()
}

fn print(report: &Report, args: &CheckArgs) {
    let show = Show {
        payload: args.show_payload,
        all: args.all,
    };
    let text = match args.format {
        ReportFormat::Text => report.text(show),
        ReportFormat::Json => format!("{}\n", report.json(show)),
    };
    // A closed pipe ends the reader's interest, not the check.
    drop(std::io::stdout().write_all(text.as_bytes()));
}

async fn examine(config: &Config) -> Report {
    let (cluster, seen) = tokio::join!(ask_kafka(config), Seen::of(config));
    let mut report = Report::new(config);
    let (seen, unreachable) = match seen {
        Ok(seen) => (seen, None),
        Err(error) => (Seen::default(), Some(failed(config, &error))),
    };
    let mut configuration = converters::checks(config, &seen.used);
    configuration.extend(columns::idle_patterns(config, &seen.tables));
    configuration.extend(seen.row);
    let met = Met {
        config,
        tables: unreachable.is_none().then_some(&seen.tables),
        used: &seen.used,
        has_publication: seen.has_publication,
    };
    report.differences = differences::met(&met);
    let kafka = kafka_checks(config, cluster, seen.sample.as_ref());
    report.sample = seen.sample;
    for (title, checks) in [
        (CONFIGURATION, configuration),
        (
            "PostgreSQL",
            [seen.checks, unreachable.into_iter().collect()].concat(),
        ),
        ("Kafka", kafka),
    ] {
        report.sections.push(Section { title, checks });
    }
    report.sections.push(Section {
        title: "Start",
        checks: vec![start(report.outcome(), seen.start)],
    });
    report
}

/// What a start would do is of no interest where it cannot.
fn start(outcome: CheckOutcome, foretold: Option<Check>) -> Check {
    match (outcome, foretold) {
        (CheckOutcome::Ok | CheckOutcome::Warning, Some(start)) => start,
        _ => Check {
            remedy: None,
            ..Check::error("start", "not before the errors above are mended", "")
        },
    }
}

fn failed(config: &Config, error: &PostgresError) -> Check {
    let named = ["host", "port", "database", "sslmode", "sslrootcert"];
    let said = error.hint();
    let hint = said.unwrap_or_else(|| "See the server's log for more.".to_owned());
    let hint = named.iter().fold(hint, |hint, part| {
        let key = format!("postgres.{part}");
        hint.replace(&key, &config.door.spell(&key))
    });
    Check::error("connection", error.to_string(), hint)
}

/// What the database shows.
#[derive(Default)]
struct Seen {
    checks: Vec<Check>,
    start: Option<Check>,
    has_publication: bool,
    tables: Vec<OutboxTable>,
    used: Vec<UsedColumn>,
    sample: Option<Sample>,
    /// Why there is no sample of a table whose columns suit.
    row: Option<Check>,
}

impl Seen {
    async fn of(config: &Config) -> Result<Self, PostgresError> {
        let client = postgres::connect(&config.postgres).await?;
        let wanted = columns::wanted(config);
        let preflight = Preflight {
            slot: &config.slot,
            publication: &config.publication,
            tables: &config.tables,
            snapshot: &config.snapshot,
            columns: &wanted,
        };
        let examined = preflight.run(&client).await?;
        let mut seen = Self {
            checks: [examined.server, examined.outbox].concat(),
            start: Some(examined.start),
            has_publication: examined.has_publication,
            tables: examined.tables,
            ..Self::default()
        };
        let oids: Vec<u32> = seen.tables.iter().map(|table| table.oid).collect();
        let catalog = postgres::catalog::describe(&client, &oids, &[]).await?;
        let suits = seen.look_at_columns(config, &catalog);
        seen.checks.extend(examined.stream);
        if let (true, Some(table)) = (suits, seen.tables.first()) {
            match sample::take(config, &client, table, &catalog).await {
                Ok(sample) => seen.sample = Some(sample),
                Err(check) => seen.row = Some(check),
            }
        }
        Ok(seen)
    }

    /// Whether a row can be routed, as far as columns go.
    fn look_at_columns(&mut self, config: &Config, catalog: &TypeCatalog) -> bool {
        for table in &self.tables {
            let (checks, used) = columns::check(config, table, catalog);
            self.checks.extend(checks);
            for column in used {
                if !self.used.contains(&column) {
                    self.used.push(column);
                }
            }
        }
        self.checks
            .iter()
            .all(|check| check.name != "columns" || check.outcome != CheckOutcome::Error)
    }
}

async fn ask_kafka(config: &Config) -> Result<Cluster, Check> {
    let options = config.kafka.clone();
    let asked = tokio::task::spawn_blocking(move || kafka::reach(&options, KAFKA_PATIENCE)).await;
    let servers = config.door.spell("kafka.bootstrap.servers");
    let hint = format!("Check {servers} and the security settings.");
    match asked {
        Ok(Ok(cluster)) => Ok(cluster),
        Ok(Err(error)) => Err(Check::error("brokers", postgres::chain(&error), hint)),
        Err(error) => Err(Check::error("brokers", error.to_string(), hint)),
    }
}

fn kafka_checks(
    config: &Config,
    cluster: Result<Cluster, Check>,
    sample: Option<&Sample>,
) -> Vec<Check> {
    let cluster = match cluster {
        Ok(cluster) => cluster,
        Err(check) => return vec![check],
    };
    let brokers = match cluster.brokers {
        1 => "1 broker answers".to_owned(),
        brokers => format!("{brokers} brokers answer"),
    };
    let mut checks = vec![Check::ok("brokers", brokers)];
    if let Some(topic) = sample.and_then(Sample::real_topic) {
        checks.push(topic_check(
            config,
            topic,
            cluster.topics.get(&**topic).copied(),
        ));
    }
    checks
}

fn topic_check(config: &Config, topic: &str, partitions: Option<usize>) -> Check {
    let create = config.door.spell("topics.create");
    match (partitions, &config.kafka.topic_creation) {
        (Some(1), _) => Check::ok("topic", format!("\"{topic}\" has 1 partition")),
        (Some(partitions), _) => {
            Check::ok("topic", format!("\"{topic}\" has {partitions} partitions"))
        }
        (None, TopicCreation::Relay(_)) => Check::ok(
            "topic",
            format!("\"{topic}\" is not there or not visible: the relay makes it"),
        ),
        (None, TopicCreation::Brokers) => Check::warning(
            "topic",
            format!(
                "\"{topic}\" is not there or not visible: the relay waits for it, unless the brokers make topics by themselves"
            ),
            format!("Make it, or let the relay do so: {create}=missing."),
        ),
        (None, TopicCreation::Nobody) => Check::warning(
            "topic",
            format!("\"{topic}\" is not there or not visible: the relay waits for it"),
            "Make it.",
        ),
    }
}

#[cfg(test)]
mod tests;
