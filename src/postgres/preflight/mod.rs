//! What a careful colleague would look at before the first start. Changes nothing.

mod checks;
mod facts;
mod objects;
mod service;
mod settings;
mod setup;
mod writers;

use std::fmt;
use std::time::Duration;

use tokio_postgres::Client;

pub use facts::{ServerFacts, TableFacts};
pub use service::Service;
pub use settings::{HeldLog, ServerSettings, WalWritten};
pub use setup::{SetupFacts, SetupKind, SetupStep, setup_steps};
pub use writers::{OpenTransaction, Updater};

use super::publication::{Publication, PublicationOptions};
use super::slot::{Leader, SlotDescription, SlotOptions, SlotStatistics, SlotVerdict};
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
    /// The relay deletes rows whose time is over.
    pub deletes: bool,
}

/// What the operator counts on, and how the relay's sessions are.
#[derive(Clone, Copy, Debug)]
pub struct Wishes<'a> {
    /// The longest outage of relay or Kafka after which the slot is still to be there.
    pub outage: Duration,
    pub wal_sender_timeout: Duration,
    pub application_name: &'a str,
}

/// A column that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedColumn {
    pub name: String,
    /// The option that names it, for messages.
    pub option: String,
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
    /// The number of a partition, a schema's version.
    Number,
    /// A header, a field of the value.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at, in a word or two.
    pub name: &'static str,
    pub outcome: CheckOutcome,
    pub found: String,
    /// What to do.
    pub remedy: Option<String>,
    /// The statement that does it, where there is one.
    pub sql: Option<String>,
    /// The command line, likewise.
    pub command: Option<String>,
}

/// All checks, by what they are about, and the tables that were found.
#[derive(Clone, Debug)]
pub struct Examined {
    /// The server, its room for a slot, and the role.
    pub server: Vec<Check>,
    /// The tables with their columns.
    pub outbox: Vec<Check>,
    /// The publication and the slot.
    pub stream: Vec<Check>,
    /// What the relay will do first, as far as these checks go.
    pub start: Check,
    pub has_publication: bool,
    pub tables: Vec<OutboxTable>,
    pub slot: Option<SlotDescription>,
    pub verdict: SlotVerdict,
    pub plan: StartPlan,
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
    pub async fn run(
        &self,
        client: &Client,
        wishes: &Wishes<'_>,
    ) -> Result<Examined, PostgresError> {
        let facts = ServerFacts::read(client).await?;
        let settings = ServerSettings::read(client).await?;
        let statistics = SlotStatistics::read(client, &self.slot.name).await?;
        let slot = SlotDescription::read(client, &self.slot.name).await?;
        let leader = Leader::read(client, &self.slot.name).await?;
        let verdict = match (&slot, &leader) {
            (None, _) => SlotVerdict::Missing,
            (Some(slot), leader) => {
                // What the leader holds is there for the next one.
                let own = leader.as_ref().map(|leader| leader.pid);
                slot.verdict(&facts.database, own)
            }
        };
        let plan = StartPlan::decide(self.snapshot.mode, self.slot.create, &verdict);

        let mut server = checks::server(&facts);
        server.extend(checks::capacity(&facts, plan));
        server.push(checks::role(&facts));
        server.extend(settings::checks(&settings, &facts, &statistics, wishes));
        let (outbox, tables, owned) = self.outbox(client, &facts, plan).await?;
        let publication = Publication::read(client, &self.publication.name).await?;
        let has_publication = publication.is_some();
        let mut stream = match publication {
            Some(found) => objects::publication(&found, self.publication, &tables, self.columns),
            None => vec![objects::missing_publication(
                self.publication,
                self.tables,
                &tables,
                &facts,
                owned,
                slot.as_ref(),
            )],
        };
        let seen = SeenSlot {
            slot: slot.as_ref(),
            verdict: &verdict,
            leader: leader.as_ref(),
        };
        stream.push(checks::slot(self.slot, &seen, plan));
        stream.extend(checks::failover(self.slot, slot.as_ref(), &facts));
        if leader.is_none() && checks::makes_slot(plan) {
            let open = OpenTransaction::read(client).await?;
            stream.extend(open.iter().filter_map(OpenTransaction::check));
        }
        Ok(Examined {
            server,
            outbox,
            stream,
            start: checks::start(plan, &seen, &tables),
            has_publication,
            tables,
            slot,
            verdict,
            plan,
        })
    }

    /// The checks of the tables, the tables, and whether the role owns all of them.
    async fn outbox(
        &self,
        client: &Client,
        server: &ServerFacts,
        plan: StartPlan,
    ) -> Result<(Vec<Check>, Vec<OutboxTable>, bool), PostgresError> {
        let tables = match OutboxTable::resolve(client, self.tables).await {
            Ok(tables) => tables,
            Err(ObjectError::Session(error)) => return Err(error),
            Err(error) => return Ok((vec![Check::refused("table", &error)], Vec::new(), false)),
        };
        let (mut checks, mut owned) = (Vec::new(), true);
        for table in &tables {
            let facts = TableFacts::read(client, table).await?;
            owned &= facts.owned;
            let rights = objects::Rights {
                facts,
                role: &server.role,
            };
            checks.extend(objects::table(table, &rights, self.columns, plan));
            checks.extend(writers::updates(
                table,
                &Updater::read(client, table).await?,
            ));
            checks.extend(self.deletes.then(|| objects::deletable(table, &rights)));
        }
        Ok((checks, tables, owned))
    }
}

/// The slot, what can be made of it, and who relays from it.
#[derive(Clone, Copy, Debug)]
struct SeenSlot<'a> {
    slot: Option<&'a SlotDescription>,
    verdict: &'a SlotVerdict,
    leader: Option<&'a Leader>,
}

impl Check {
    pub fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self::new(name, CheckOutcome::Ok, found, None)
    }

    pub fn warning(
        name: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(name, CheckOutcome::Warning, found, Some(remedy.into()))
    }

    pub fn error(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
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
            sql: None,
            command: None,
        }
    }

    pub fn sql(self, sql: impl Into<String>) -> Self {
        Self {
            sql: Some(sql.into()),
            ..self
        }
    }

    pub fn command(self, command: impl Into<String>) -> Self {
        Self {
            command: Some(command.into()),
            ..self
        }
    }

    pub fn refused(name: &'static str, error: &ObjectError) -> Self {
        let found = match error.detail() {
            Some(detail) => format!("{error}. {detail}"),
            None => error.to_string(),
        };
        let check = Self::new(name, CheckOutcome::Error, found, None);
        match (error.hint(), error.sql()) {
            (Some(hint), Some(sql)) => {
                let words = hint.strip_suffix(&format!(": {sql};"));
                let remedy = words.map_or_else(|| hint.clone(), |words| format!("{words}."));
                Self {
                    remedy: Some(remedy),
                    ..check.sql(format!("{sql};"))
                }
            }
            (remedy, _) => Self { remedy, ..check },
        }
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
