//! What a careful colleague would look at before the first start. Changes nothing.

mod checks;
mod facts;
mod objects;
mod setup;

use std::fmt;

use tokio_postgres::Client;

pub use facts::{OpenTransaction, ServerFacts, TableFacts};
pub use setup::{SetupStep, setup_steps};

use super::publication::{Publication, PublicationOptions};
use super::slot::{SlotDescription, SlotOptions, SlotVerdict};
use super::snapshot::{SnapshotOptions, StartPlan};
use super::table::{OutboxTable, TableFilter};
use super::{ObjectError, PostgresError};

/// What the relay will need, for `outboxd check` and for the start.
#[derive(Clone, Copy, Debug)]
pub struct Preflight<'a> {
    pub slot: &'a SlotOptions,
    pub publication: &'a PublicationOptions,
    pub tables: &'a TableFilter,
    pub snapshot: &'a SnapshotOptions,
    pub columns: &'a [WantedColumn],
}

/// A column that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedColumn {
    pub name: String,
    /// The option that names it, for messages.
    pub option: &'static str,
    pub purpose: ColumnPurpose,
    /// Without it no event can be routed; else it is left out where it is missing.
    pub required: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnPurpose {
    Id,
    Key,
    Route,
    Payload,
    Timestamp,
    /// A header, a field of the value, a partition number, a schema version.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at, in a word or two.
    pub name: &'static str,
    pub outcome: CheckOutcome,
    pub found: String,
    /// What to do, with the SQL where SQL does it.
    pub remedy: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckOutcome {
    Ok,
    /// The relay can run, and something will bite later.
    Warning,
    /// The relay cannot run, or would miss events.
    Error,
}

impl Preflight<'_> {
    /// All checks in order. An error of one does not keep the later ones from being made, as far as
    /// they can be made without it.
    pub async fn run(&self, client: &Client) -> Result<Vec<Check>, PostgresError> {
        let facts = ServerFacts::read(client).await?;
        let slot = SlotDescription::read(client, &self.slot.name).await?;
        let verdict = slot.as_ref().map_or(SlotVerdict::Missing, |slot| {
            slot.verdict(&facts.database, None)
        });
        let plan = StartPlan::decide(self.snapshot.mode, self.slot.create, &verdict);

        let mut checks = checks::server(&facts);
        checks.extend(checks::capacity(&facts, plan));
        checks.push(checks::role(&facts));
        checks.push(checks::kept_log(&facts));
        let tables = match OutboxTable::resolve(client, self.tables).await {
            Ok(tables) => tables,
            Err(ObjectError::Session(error)) => return Err(error),
            Err(error) => {
                checks.push(Check::refused("table", &error));
                Vec::new()
            }
        };
        let mut owned = true;
        for table in &tables {
            let facts = TableFacts::read(client, table).await?;
            owned &= facts.owned;
            checks.extend(objects::table(table, &facts, self.columns, plan));
        }
        match Publication::read(client, &self.publication.name).await? {
            Some(found) => checks.extend(objects::publication(&found, self.publication, &tables)),
            None => checks.push(objects::missing_publication(
                self.publication,
                &tables,
                &facts,
                owned,
            )),
        }
        checks.extend(self.slot_checks(slot.as_ref(), &verdict, plan, &facts, &tables));
        Ok(checks)
    }

    fn slot_checks(
        &self,
        slot: Option<&SlotDescription>,
        verdict: &SlotVerdict,
        plan: StartPlan,
        facts: &ServerFacts,
        tables: &[OutboxTable],
    ) -> Vec<Check> {
        let mut checks = vec![checks::slot(self.slot, slot, verdict, plan)];
        checks.extend(checks::failover(self.slot, slot, facts));
        checks.extend(checks::open_transaction(facts, plan));
        checks.push(checks::start(plan, slot, tables));
        checks
    }
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self::new(name, CheckOutcome::Ok, found, None)
    }

    fn warning(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(name, CheckOutcome::Warning, found, Some(remedy.into()))
    }

    fn error(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(name, CheckOutcome::Error, found, Some(remedy.into()))
    }

    fn new(
        name: &'static str,
        outcome: CheckOutcome,
        found: impl Into<String>,
        remedy: Option<String>,
    ) -> Self {
        Self {
            name,
            outcome,
            found: found.into(),
            remedy,
        }
    }

    fn refused(name: &'static str, error: &ObjectError) -> Self {
        let found = match error.detail() {
            Some(detail) => format!("{error}. {detail}"),
            None => error.to_string(),
        };
        Self::new(name, CheckOutcome::Error, found, error.hint())
    }
}

impl fmt::Display for CheckOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

#[cfg(test)]
mod tests;
