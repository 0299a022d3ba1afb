//! What the database shows, over an ordinary session and over a walsender's.

use std::time::Duration;

use super::Wanted;
use super::columns::{self, UsedColumn};
use super::sample::{self, Sample};
use crate::config::Config;
use crate::errand::{POSTGRES, Progress};
use crate::lsn::Lsn;
use crate::outbox::TypeCatalog;
use crate::postgres::preflight::{Check, CheckOutcome, Examined, Preflight, WantedColumn, Wishes};
use crate::postgres::table::OutboxTable;
use crate::postgres::{self, PostgresError, ReplicationSession};

/// Everything that is asked, beside the connection's own limit.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct Source {
    pub(super) checks: Vec<Check>,
    pub(super) start: Option<Check>,
    pub(super) has_publication: bool,
    pub(super) tables: Vec<OutboxTable>,
    pub(super) used: Vec<UsedColumn>,
    pub(super) sample: Option<Sample>,
    /// Why there is no sample of a table whose columns suit.
    pub(super) row: Option<Check>,
    /// For the position journal.
    pub(super) walsender: Option<Walsender>,
}

/// A session as the relay's, and what the slot was while it was opened.
pub(super) struct Walsender {
    pub(super) session: ReplicationSession,
    pub(super) system_id: String,
    pub(super) timeline: u32,
    pub(super) written: Lsn,
    pub(super) examined: Examined,
}

pub(super) async fn examine(
    config: &Config,
    wanted: &Wanted,
    progress: &Progress,
) -> Result<Source, Check> {
    let asking = progress.asks(POSTGRES, "a session");
    let client = postgres::connect(&config.postgres)
        .await
        .map_err(|error| failed(config, "connection", &error))?;
    asking.now("settings, outbox, publication and slot");
    let asked = tokio::time::timeout(PATIENCE, Source::of(config, wanted, &client)).await;
    if asked.is_err() {
        // What the server waits for it would wait for without us.
        config.postgres.sessions.cancel().await;
    }
    let silent = Err(PostgresError::Silent { after: PATIENCE });
    let (mut source, examined) = asked
        .unwrap_or(silent)
        .map_err(|error| failed(config, "questions", &error))?;
    asking.now("a walsender");
    if may_replicate(&source.checks) {
        match walsender(config, examined).await {
            Ok((check, walsender)) => {
                source.checks.push(check);
                source.walsender = Some(walsender);
            }
            Err(error) => source
                .checks
                .push(failed(config, "replication session", &error)),
        }
    }
    Ok(source)
}

/// What would be refused for a reason that is told already is not tried.
fn may_replicate(checks: &[Check]) -> bool {
    let told = ["role", "WAL senders", "wal_level"];
    let in_the_way =
        |check: &Check| told.contains(&check.name) && check.outcome == CheckOutcome::Error;
    !checks.iter().any(in_the_way)
}

/// What a server has to have for this configuration.
pub fn preflight<'a>(config: &'a Config, columns: &'a [WantedColumn]) -> Preflight<'a> {
    Preflight {
        slot: &config.slot,
        publication: &config.publication,
        tables: &config.tables,
        snapshot: &config.snapshot,
        columns,
        deletes: config.relay.housekeeping.is_some(),
    }
}

impl Source {
    async fn of(
        config: &Config,
        wanted: &Wanted,
        client: &tokio_postgres::Client,
    ) -> Result<(Self, Examined), PostgresError> {
        let columns = columns::wanted(config);
        let preflight = preflight(config, &columns);
        let wishes = Wishes {
            outage: wanted.outage,
            wal_sender_timeout: config.postgres.wal_sender_timeout,
            application_name: &config.postgres.application_name,
        };
        let examined = preflight.run(client, &wishes).await?;
        let mut source = Self {
            checks: [examined.server.clone(), examined.outbox.clone()].concat(),
            start: Some(examined.start.clone()),
            has_publication: examined.has_publication,
            tables: examined.tables.clone(),
            ..Self::default()
        };
        let oids: Vec<u32> = source.tables.iter().map(|table| table.oid).collect();
        let catalog = postgres::catalog::describe(client, &oids, &[]).await?;
        let suits = source.look_at_columns(config, &catalog);
        source.checks.extend(examined.stream.clone());
        if let (true, Some(table)) = (suits, source.tables.first()) {
            match sample::take(config, client, table, &catalog).await {
                Ok(sample) => source.sample = Some(sample),
                Err(check) => source.row = Some(check),
            }
        }
        Ok((source, examined))
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

/// Opens the session that the relay will live in: what `pg_hba.conf`, a pooler or a limit has against
/// it shows here and nowhere else.
async fn walsender(
    config: &Config,
    examined: Examined,
) -> Result<(Check, Walsender), PostgresError> {
    let ask = async {
        let mut session = postgres::connect_replication(&config.postgres).await?;
        let identity = session.identify_system().await?;
        let backend = session
            .query_value("SELECT pg_catalog.pg_backend_pid()")
            .await?;
        Ok::<_, PostgresError>((session, identity, backend))
    };
    let asked = tokio::time::timeout(PATIENCE, ask).await;
    let (session, identity, backend) =
        asked.unwrap_or(Err(PostgresError::Silent { after: PATIENCE }))?;
    let announced = session.backend_pid().to_string();
    let check = match backend {
        Some(backend) if backend != announced => Check::warning(
            "replication session",
            format!(
                "a pooler stands between: it announces process {announced}, and the server's is {backend}"
            ),
            "Name PostgreSQL's own address: a pooler's limits and restarts end the stream, and cancels go astray.",
        ),
        _ => Check::ok("replication session", "a walsender answers"),
    };
    let walsender = Walsender {
        session,
        system_id: identity.system_id,
        timeline: identity.timeline,
        written: identity.wal_lsn,
        examined,
    };
    Ok((check, walsender))
}

fn failed(config: &Config, name: &'static str, error: &PostgresError) -> Check {
    let named = ["host", "port", "database", "sslmode", "sslrootcert", "url"];
    let said = error.hint();
    let hint = said.unwrap_or_else(|| "See the server's log for more.".to_owned());
    let hint = named.iter().fold(hint, |hint, part| {
        let key = format!("postgres.{part}");
        hint.replace(&key, &config.door.spell(&key))
    });
    Check::error(name, error.to_string(), hint)
}
