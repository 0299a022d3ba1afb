//! `outboxd check`: every precondition on both sides, what one row would become, what differs from
//! Debezium, and who set what. Changes nothing.

mod brokers;
mod columns;
mod converters;
mod differences;
mod handover;
mod position;
mod report;
mod sample;
mod source;
mod topics;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub use columns::wanted as wanted_columns;
pub use differences::{DIFFERENCES, Difference};
pub use source::preflight;

use crate::cli::{CheckArgs, ReportFormat, exit};
use crate::config::{Config, ConfigError};
use crate::errand::{Errand, KAFKA, Progress};
use crate::observe::{Problem, answer};
use crate::postgres::preflight::{Check, CheckOutcome};
use brokers::Target;
use differences::Met;
use report::{Report, Section, Show};
use source::Source;

const CONFIGURATION: &str = "Configuration";

/// What the operator counts on, beside the configuration.
struct Wanted {
    outage: Duration,
    /// Topics of events, beside that of the first row.
    topics: Vec<Arc<str>>,
}

pub async fn run(config: &Config, args: &CheckArgs, errand: &Errand) -> Result<u8, Problem> {
    let wanted = Wanted {
        outage: args.outage,
        topics: args
            .topic
            .iter()
            .map(|topic| topic.as_str().into())
            .collect(),
    };
    let report = errand.attend(examine(config, &wanted, errand.progress()));
    let report = report.await?;
    answer(&text(&report, args))?;
    Ok(match report.outcome() {
        CheckOutcome::Error => exit::FAILED,
        CheckOutcome::Ok | CheckOutcome::Warning => exit::DRAINED,
    })
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
                "command": null,
            })
        })
        .collect();
    serde_json::json!({"outcome": CheckOutcome::Error.to_string(), "checks": checks}).to_string()
}

fn text(report: &Report, args: &CheckArgs) -> String {
    let show = Show {
        payload: args.show_payload,
        all: args.all,
    };
    match args.format {
        ReportFormat::Text => report.text(show),
        ReportFormat::Json => format!("{}\n", report.json(show)),
    }
}

async fn examine(config: &Config, wanted: &Wanted, progress: &Progress) -> Report {
    let reaching = blocking(config, progress, brokers::reach);
    let (reached, seen) = tokio::join!(reaching, source::examine(config, wanted, progress));
    let mut report = Report::new(config);
    let (mut seen, unreachable) = match seen {
        Ok(seen) => (seen, None),
        Err(check) => (Source::default(), Some(check)),
    };
    let reached = reached.unwrap_or_else(Err);
    let topics = events(config, wanted, &seen);
    let target = blocking(config, progress, move |config, progress| {
        brokers::examine(config, reached, &topics, progress)
    });
    let mut target = target.await.unwrap_or_else(|check| Target {
        checks: vec![check],
        ..Target::default()
    });
    let known = target.read(config, progress).await;
    let position = match (&known, &mut seen.walsender) {
        (Some(entry), Some(walsender)) => {
            let _asked = progress.asks(KAFKA, "the connector's offset");
            position::check(config, walsender, entry.as_ref()).await
        }
        (None, Some(_)) => handover::without_journal(config).into_iter().collect(),
        (_, None) => Vec::new(),
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
    report.sample = seen.sample;
    for (title, checks) in [
        (CONFIGURATION, configuration),
        (
            "PostgreSQL",
            [seen.checks, unreachable.into_iter().collect()].concat(),
        ),
        ("Kafka", [target.checks, position].concat()),
    ] {
        report.sections.push(Section { title, checks });
    }
    report.sections.push(Section {
        title: "Start",
        checks: vec![start(report.outcome(), seen.start)],
    });
    report
}

/// On a thread that may wait.
async fn blocking<T: Send + 'static>(
    config: &Config,
    progress: &Progress,
    work: impl FnOnce(&Config, &Progress) -> T + Send + 'static,
) -> Result<T, Check> {
    let (config, progress) = (config.clone(), progress.clone());
    let done = tokio::task::spawn_blocking(move || work(&config, &progress)).await;
    done.map_err(|error| Check::error("brokers", error.to_string(), "Report this."))
}

/// The topics of which it is known that events go there.
fn events(config: &Config, wanted: &Wanted, seen: &Source) -> Vec<Arc<str>> {
    let of_the_row = seen
        .sample
        .as_ref()
        .and_then(|sample| sample.real_topic(config));
    let topics = wanted.topics.iter().cloned().chain(of_the_row);
    let topics: BTreeSet<Arc<str>> = topics.collect();
    topics.into_iter().collect()
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

#[cfg(test)]
mod tests;
