//! `outboxd setup`: the SQL for what the server lacks, for an administrator to read, or to run.

use postgres_protocol::password::scram_sha_256;

use crate::check::{preflight, wanted_columns};
use crate::cli::{SetupArgs, exit};
use crate::config::Config;
use crate::errand::{Errand, POSTGRES};
use crate::observe::{Problem, answer, escaped, say};
use crate::postgres::preflight::{SetupFacts, SetupKind, SetupStep, setup_steps};
use crate::postgres::{self, PostgresError};
use crate::relay::RelayError;
use crate::wire::quote_literal;

/// `config` is the relay's; `administrator` is how the server is looked at and changed.
pub async fn run(
    config: &Config,
    administrator: &postgres::Options,
    args: &SetupArgs,
    errand: &Errand,
) -> Result<u8, Problem> {
    let columns = wanted_columns(config);
    let wanted = preflight(config, &columns);
    let role = config.postgres.user.as_str();
    let steps = |facts| setup_steps(&wanted, role, &config.postgres.database, facts);
    let asked = errand.asks(POSTGRES, "a session");
    let connected = errand.attend(postgres::connect(administrator)).await?;
    let client = match connected {
        Ok(client) => client,
        Err(error) if args.apply => return Err(problem_of(&error, args)),
        Err(error) => {
            say(&format!("-- The server was not looked at: {error}"));
            if let Some(hint) = &problem_of(&error, args).hint {
                say(&format!("-- {hint}"));
            }
            say("-- This is for one on which nothing is prepared.");
            answer(&script(&steps(&SetupFacts::default())))?;
            return Ok(exit::DRAINED);
        }
    };
    asked.now("what it has");
    let facts = errand.attend(SetupFacts::read(&client, &wanted, role));
    let facts = facts
        .await?
        .map_err(|error| RelayError::from(error).problem())?;
    let steps = steps(&facts);
    if !args.apply {
        answer(&script(&steps))?;
        return Ok(exit::DRAINED);
    }
    asked.now("a change");
    let applied = errand.attend(apply(&client, config, &steps)).await;
    applied.unwrap_or_else(|stopped| {
        Err(stopped.with(
            "What is listed above is done and stays; the statement that was under way was cancelled.",
            "Run it again: it does what is still missing.",
        ))
    })
}

/// An administrator is named by an option, which the relay's settings for passwords are not for.
fn problem_of(error: &PostgresError, args: &SetupArgs) -> Problem {
    let hint = match (error.is_about_a_password(), &args.administrator) {
        (true, Some(_)) => Some(FOR_THE_ADMINISTRATOR.to_owned()),
        _ => error.hint(),
    };
    Problem {
        message: error.to_string(),
        detail: error.detail(),
        hint,
    }
}

const FOR_THE_ADMINISTRATOR: &str = "Write the password into the URL of --as (postgresql://NAME:PASSWORD@HOST/DATABASE), or into the file that PGPASSFILE names.";

fn script(steps: &[SetupStep]) -> String {
    let mut lines = Vec::new();
    for step in steps {
        lines.push(format!("-- {}", step.what));
        let mark = match step.kind {
            SetupKind::LeftToTheRelay => "-- ",
            _ => "",
        };
        lines.push(format!("{mark}{};", step.sql));
    }
    if to_do(steps).next().is_none() {
        lines.push("-- Nothing else is missing.".to_owned());
    }
    lines
        .iter()
        .map(|line| format!("{}\n", escaped(line)))
        .collect()
}

fn to_do(steps: &[SetupStep]) -> impl Iterator<Item = &SetupStep> {
    let steps = steps.iter();
    steps.filter(|step| step.kind != SetupKind::LeftToTheRelay)
}

async fn apply(
    client: &tokio_postgres::Client,
    config: &Config,
    steps: &[SetupStep],
) -> Result<u8, Problem> {
    let mut restart = false;
    for step in to_do(steps) {
        let sql = match (step.kind, &config.postgres.password) {
            // The verifier, so that the password is in no log of the server's.
            (SetupKind::Role, Some(password)) => {
                let verifier = scram_sha_256(password.expose().as_bytes());
                format!("{} PASSWORD {}", step.sql, quote_literal(&verifier))
            }
            _ => step.sql.clone(),
        };
        client.batch_execute(&sql).await.map_err(|error| Problem {
            message: format!(
                "not done: {}: {}",
                step.sql,
                postgres::chain(&PostgresError::from(error))
            ),
            detail: Some("What is listed above is done and stays.".to_owned()),
            hint: Some("Run it as a superuser, or as one who may: --as postgresql://…".to_owned()),
        })?;
        say(&format!("done: {}", step.sql));
        restart |= step.kind == SetupKind::Restart;
        if step.kind == SetupKind::Role && config.postgres.password.is_none() {
            say("The role has no password; the configuration has none.");
        }
    }
    if restart {
        say("Restart PostgreSQL: wal_level takes effect then.");
    }
    if to_do(steps).next().is_none() {
        say("Nothing was missing.");
    }
    Ok(exit::DRAINED)
}
