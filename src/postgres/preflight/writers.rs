//! What changes outbox rows after they were inserted, and who holds a new slot up.

use std::time::Duration;

use tokio_postgres::Client;

use super::Check;
use crate::postgres::PostgresError;
use crate::postgres::table::OutboxTable;

/// An UPDATE of the outbox publishes nothing: whoever makes one expects something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Updater {
    Trigger {
        name: String,
        /// As SQL names them.
        table: String,
        function: String,
    },
    ForeignKey {
        name: String,
        other: String,
    },
    /// Whoever it was: the server has counted them.
    Rows {
        count: i64,
    },
}

/// A trigger's function is read as text: what it builds as a string and executes does not show.
const UPDATERS: &str = r#"
    WITH outbox AS (SELECT c.oid, c.relname FROM pg_class c WHERE c.oid = ANY ($1)),
         named AS (SELECT string_agg(DISTINCT regexp_replace(relname::text, '([^\w])', '\\\1', 'g'), '|') AS names
                     FROM outbox)
    SELECT 'trigger' AS kind, t.tgname::text AS name, quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS other,
           p.proname::text AS function, 0::bigint AS count
      FROM pg_trigger t
      JOIN pg_class c ON c.oid = t.tgrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_proc p ON p.oid = t.tgfoid, named
     WHERE NOT t.tgisinternal AND t.tgenabled <> 'D'
       AND p.prosrc ~* ('\mupdate\s+(only\s+)?("?[\w$]+"?\s*\.\s*)?"?(' || names || ')("|\M)')
    UNION ALL
    SELECT 'key', f.conname::text, f.confrelid::regclass::text, '', 0
      FROM pg_constraint f JOIN outbox ON outbox.oid = f.conrelid
     WHERE f.contype = 'f' AND (f.confupdtype IN ('c', 'n', 'd') OR f.confdeltype IN ('n', 'd'))
       AND f.conparentid = 0
    UNION ALL
    SELECT 'rows', '', '', '', coalesce(sum(n_tup_upd), 0)::bigint
      FROM pg_stat_user_tables WHERE relid = ANY ($1)
     ORDER BY 1 DESC, 2"#;

impl Updater {
    pub(super) async fn read(
        client: &Client,
        table: &OutboxTable,
    ) -> Result<Vec<Self>, PostgresError> {
        let leaves = table.partitions.iter().flatten().map(|leaf| leaf.oid);
        let oids: Vec<u32> = std::iter::once(table.oid).chain(leaves).collect();
        let mut found = Vec::new();
        for row in client.query(UPDATERS, &[&oids]).await? {
            let (name, other) = (row.try_get("name")?, row.try_get("other")?);
            found.push(match row.try_get::<_, &str>("kind")? {
                "trigger" => Self::Trigger {
                    name,
                    table: other,
                    function: row.try_get("function")?,
                },
                "key" => Self::ForeignKey { name, other },
                _ => match row.try_get("count")? {
                    0 => continue,
                    count => Self::Rows { count },
                },
            });
        }
        Ok(found)
    }

    fn check(&self, outbox: &OutboxTable) -> Check {
        let name = outbox.qualified_name();
        let publishes_nothing = "an UPDATE publishes nothing";
        match self {
            Self::Trigger {
                name: trigger,
                table,
                function,
            } => Check::warning(
                "updates",
                format!(
                    "trigger \"{trigger}\" of {table} (function {function}) updates \"{name}\": {publishes_nothing}"
                ),
                "See what it is for (it was found by its text): let it insert an event of its own, or write another table.",
            ),
            Self::ForeignKey { name: key, other } => Check::warning(
                "updates",
                format!(
                    "foreign key \"{key}\" updates \"{name}\" when a row of {other} changes: {publishes_nothing}"
                ),
                "An event is what was: let it refer to nothing that changes.",
            )
            .sql(format!(
                "ALTER TABLE {} DROP CONSTRAINT {};",
                outbox.quoted_name(),
                crate::wire::quote_identifier(key)
            )),
            Self::Rows { count } => Check::warning(
                "updates",
                format!(
                    "{count} rows of \"{name}\" were updated since the server began to count: {publishes_nothing}"
                ),
                "Find out who does it, and let it insert an event of its own.",
            ),
        }
    }
}

pub(super) fn updates(table: &OutboxTable, found: &[Updater]) -> Vec<Check> {
    if found.is_empty() {
        let found = format!("nobody was seen to update \"{}\"", table.qualified_name());
        return vec![Check::ok("updates", found)];
    }
    found.iter().map(|updater| updater.check(table)).collect()
}

/// What a new slot waits for: it begins when all transactions have ended that were open at its creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenTransaction {
    Session {
        pid: i32,
        /// Absent where the server does not tell it to this role; then it is `open_for` at least.
        application: Option<String>,
        open_for: Duration,
    },
    /// Of a two-phase commit: without a process, and it may stay for ever.
    Prepared { gid: String, open_for: Duration },
}

/// How old one may be before it is worth a word.
const LONG: Duration = Duration::from_secs(10);
/// The age of other roles' transactions is for `pg_read_all_stats`. What is still there after so long is
/// no short one.
const SECOND_LOOK: Duration = Duration::from_secs(2);

const WRITING: &str = "
    SELECT l.pid, l.virtualtransaction AS id, a.application_name AS application,
           extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS age_s
      FROM pg_locks l
      LEFT JOIN pg_stat_activity a ON a.pid = l.pid
     WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
       AND l.pid IS NOT NULL AND l.pid <> pg_backend_pid()
     ORDER BY a.xact_start NULLS LAST, l.pid";

const PREPARED: &str = "
    SELECT gid, extract(epoch FROM clock_timestamp() - prepared)::float8 AS age_s
      FROM pg_prepared_xacts ORDER BY prepared LIMIT 1";

struct Writing {
    pid: i32,
    id: String,
    application: Option<String>,
    age: Option<Duration>,
}

impl OpenTransaction {
    /// Takes up to [`SECOND_LOOK`].
    pub(super) async fn read(client: &Client) -> Result<Vec<Self>, PostgresError> {
        let first = writing(client).await?;
        let mut found: Vec<Self> = first.iter().filter_map(Writing::told).collect();
        if first.iter().any(|writing| writing.age.is_none()) {
            tokio::time::sleep(SECOND_LOOK).await;
            let second = writing(client).await?;
            let is_still_open = |before: &&Writing| {
                let same = |now: &Writing| (now.pid, &now.id) == (before.pid, &before.id);
                before.age.is_none() && second.iter().any(same)
            };
            found.extend(
                first
                    .iter()
                    .filter(is_still_open)
                    .map(|writing| Self::Session {
                        pid: writing.pid,
                        application: None,
                        open_for: SECOND_LOOK,
                    }),
            );
        }
        if let Some(row) = client.query_opt(PREPARED, &[]).await? {
            let (gid, open_for) = (row.try_get("gid")?, age(row.try_get("age_s")?));
            found.push(Self::Prepared { gid, open_for });
        }
        Ok(found)
    }

    pub(super) fn check(&self) -> Option<Check> {
        let waits = "a new slot waits for its end";
        let name = "open transactions";
        let (pid, found) = match self {
            Self::Session {
                pid,
                application: Some(application),
                open_for,
            } if *open_for >= LONG => (
                pid,
                format!(
                    "process {pid}, application \"{}\", has been writing for {} s: {waits}",
                    application.escape_debug(),
                    open_for.as_secs()
                ),
            ),
            Self::Session {
                pid,
                application: None,
                open_for,
            } => (
                pid,
                format!(
                    "process {pid} has been writing for more than {} s (who it is takes pg_read_all_stats to see): {waits}",
                    open_for.as_secs()
                ),
            ),
            // How it ends is its coordinator's decision, which is made already.
            Self::Prepared { gid, open_for } if *open_for >= LONG => {
                let found = format!(
                    "the prepared transaction \"{}\" has been there for {} s: {waits}",
                    gid.escape_debug(),
                    open_for.as_secs()
                );
                let remedy = "Let its coordinator end it. Where that one is gone for good: end it in its database as was decided, with COMMIT PREPARED or ROLLBACK PREPARED.";
                return Some(Check::warning(name, found, remedy));
            }
            Self::Session { .. } | Self::Prepared { .. } => return None,
        };
        let sql = format!("SELECT pg_terminate_backend({pid});");
        Some(Check::warning(name, found, "Let it end, or end it.").sql(sql))
    }
}

async fn writing(client: &Client) -> Result<Vec<Writing>, PostgresError> {
    let rows = client.query(WRITING, &[]).await?;
    let read = |row: &tokio_postgres::Row| {
        Ok(Writing {
            pid: row.try_get("pid")?,
            id: row.try_get("id")?,
            application: row.try_get("application")?,
            age: row.try_get::<_, Option<f64>>("age_s")?.map(age),
        })
    };
    rows.iter().map(read).collect()
}

impl Writing {
    fn told(&self) -> Option<OpenTransaction> {
        let open_for = self.age.filter(|age| *age >= LONG)?;
        Some(OpenTransaction::Session {
            pid: self.pid,
            application: Some(self.application.clone().unwrap_or_default()),
            open_for,
        })
    }
}

fn age(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
