//! What a start needs to know of the source, and what it may make: tables, publication, slot,
//! snapshot.

use std::fmt;
use std::sync::Arc;

use futures_util::TryStreamExt;
use smallvec::SmallVec;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::publication::{PublicationMode, PublicationOptions};
use super::slot::{CreateMode, SlotOptions};
use super::table::TableFilter;
use super::{PostgresError, ReplicationSession};
use crate::lsn::Lsn;
use crate::pgoutput::{Column, Datum, Relation, ReplicaIdentity, Tuple};
use crate::wire::{quote_identifier, quote_literal};

/// One outbox table as the catalog has it.
#[derive(Clone, Debug)]
pub struct Table {
    pub relation: Arc<Relation>,
}

impl Table {
    /// Schema and name, quoted for SQL.
    pub fn quoted(&self) -> String {
        quote_pair(&self.relation.namespace, &self.relation.name)
    }
}

fn quote_pair(schema: &str, name: &str) -> String {
    format!("{}.{}", quote_identifier(schema), quote_identifier(name))
}

/// The slot as `pg_replication_slots` has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    pub plugin: Option<String>,
    pub database: Option<String>,
    pub active_pid: Option<i32>,
    pub confirmed_flush_lsn: Option<Lsn>,
    pub restart_lsn: Option<Lsn>,
    pub wal_status: Option<String>,
    pub safe_wal_bytes: Option<i64>,
    /// WAL from `restart_lsn` to the server's position.
    pub retained_bytes: Option<i64>,
    /// WAL from `confirmed_flush_lsn` to the server's position.
    pub lag_bytes: Option<i64>,
}

/// Why a start cannot go on; primary, detail and hint in one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceProblem {
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

impl SourceProblem {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            detail: None,
            hint: Some(hint.into()),
        }
    }
}

impl fmt::Display for SourceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Either the server could not be asked, or what it answered does not fit.
#[derive(Debug)]
pub enum SourceError {
    Postgres(PostgresError),
    Problem(SourceProblem),
    /// Nothing can be streamed from this slot any more.
    Lost(SourceProblem),
}

impl From<PostgresError> for SourceError {
    fn from(error: PostgresError) -> Self {
        Self::Postgres(error)
    }
}

impl From<tokio_postgres::Error> for SourceError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error.into())
    }
}

/// The tables that the filter means, with their columns as pgoutput describes them: partitions
/// count as their root.
pub async fn find_tables(client: &Client, filter: &TableFilter) -> Result<Vec<Table>, SourceError> {
    let rows = client
        .query(
            "SELECT c.oid, n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition \
             AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_t%' \
             ORDER BY 2, 3",
            &[],
        )
        .await?;
    let mut tables = Vec::new();
    let mut others = Vec::new();
    for row in rows {
        let (oid, schema, name): (u32, String, String) = (row.get(0), row.get(1), row.get(2));
        if filter.matches(&schema, &name) {
            tables.push(describe(client, oid, schema, name).await?);
        } else {
            others.push(format!("{schema}.{name}"));
        }
    }
    if tables.is_empty() {
        let wanted = filter.to_string();
        let nearest = others
            .iter()
            .map(|other| (strsim::jaro_winkler(&wanted, other), other))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(similarity, _)| *similarity > 0.7);
        let hint = match nearest {
            Some((_, nearest)) => format!("Perhaps \"{nearest}\" is meant."),
            None => "Create the outbox table, or set outbox.table.".to_owned(),
        };
        let message = format!("there is no table {wanted} in this database");
        return Err(SourceError::Problem(SourceProblem::new(message, hint)));
    }
    Ok(tables)
}

async fn describe(
    client: &Client,
    oid: u32,
    namespace: String,
    name: String,
) -> Result<Table, SourceError> {
    let rows = client
        .query(
            "SELECT attname, atttypid, atttypmod FROM pg_attribute \
             WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
            &[&oid],
        )
        .await?;
    let columns = rows
        .iter()
        .map(|row| Column {
            name: row.get(0),
            type_oid: row.get(1),
            type_modifier: row.get(2),
            is_key: false,
        })
        .collect();
    let replica_identity = ReplicaIdentity::Default;
    Ok(Table {
        relation: Arc::new(Relation {
            oid,
            namespace,
            name,
            replica_identity,
            columns,
        }),
    })
}

/// Makes sure that the publication is there and sends the inserts of every table. Comes before the
/// slot: a slot cannot read changes that are older than its publication.
pub async fn ensure_publication(
    client: &Client,
    options: &PublicationOptions,
    tables: &[Table],
) -> Result<(), SourceError> {
    let name = options.name.as_str();
    let found = client
        .query_opt(
            "SELECT pubinsert FROM pg_publication WHERE pubname = $1",
            &[&name],
        )
        .await?;
    let Some(found) = found else {
        return create_publication(client, options, tables).await;
    };
    if !found.get::<_, bool>(0) {
        let hint = format!(
            "ALTER PUBLICATION {} SET (publish = 'insert, update');",
            quote_identifier(name)
        );
        let message = format!("publication \"{name}\" does not publish inserts");
        return Err(SourceError::Problem(SourceProblem::new(message, hint)));
    }
    let mut missing = Vec::new();
    for table in tables {
        let published = client
            .query_one(
                "SELECT EXISTS (SELECT FROM pg_publication_tables WHERE pubname = $1 AND \
                 (schemaname, tablename) IN (SELECT $2::text, $3::text UNION \
                 SELECT n.nspname, c.relname FROM pg_partition_tree($4::oid::regclass) t \
                 JOIN pg_class c ON c.oid = t.relid JOIN pg_namespace n ON n.oid = c.relnamespace))",
                &[&name, &table.relation.namespace, &table.relation.name, &table.relation.oid],
            )
            .await?;
        if !published.get::<_, bool>(0) {
            missing.push(table.quoted());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(", ");
    let sql = format!(
        "ALTER PUBLICATION {} ADD TABLE {list}",
        quote_identifier(name)
    );
    if options.mode == PublicationMode::Filtered {
        client.batch_execute(&sql).await?;
        return Ok(());
    }
    let message = format!("publication \"{name}\" does not contain table {list}");
    Err(SourceError::Problem(SourceProblem::new(
        message,
        format!("{sql};"),
    )))
}

async fn create_publication(
    client: &Client,
    options: &PublicationOptions,
    tables: &[Table],
) -> Result<(), SourceError> {
    let name = options.name.as_str();
    let list: Vec<_> = tables.iter().map(Table::quoted).collect();
    let scope = match options.mode {
        PublicationMode::AllTables => "FOR ALL TABLES ".to_owned(),
        PublicationMode::NoTables => String::new(),
        _ => format!("FOR TABLE {} ", list.join(", ")),
    };
    let sql = format!(
        "CREATE PUBLICATION {} {scope}WITH (publish = '{}', publish_via_partition_root = {})",
        quote_identifier(name),
        options.operations,
        options.via_partition_root,
    );
    if options.mode == PublicationMode::MustExist {
        let message = format!("publication \"{name}\" does not exist");
        return Err(SourceError::Problem(SourceProblem::new(
            message,
            format!("{sql};"),
        )));
    }
    client.batch_execute(&sql).await?;
    tracing::info!(publication = name, "publication created");
    Ok(())
}

/// The slot; `None` where there is none of this name.
pub async fn find_slot(client: &Client, name: &str) -> Result<Option<Slot>, PostgresError> {
    let row = client
        .query_opt(
            "SELECT plugin::text, database::text, active_pid, confirmed_flush_lsn::text, restart_lsn::text, \
             wal_status, safe_wal_size, \
             pg_wal_lsn_diff(here, restart_lsn)::bigint, pg_wal_lsn_diff(here, confirmed_flush_lsn)::bigint \
             FROM pg_replication_slots, (SELECT CASE WHEN pg_is_in_recovery() \
             THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END AS here) AS now \
             WHERE slot_name = $1",
            &[&name],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let lsn = |index: usize| {
        row.get::<_, Option<&str>>(index)
            .and_then(|text| text.parse().ok())
    };
    Ok(Some(Slot {
        plugin: row.get(0),
        database: row.get(1),
        active_pid: row.get(2),
        confirmed_flush_lsn: lsn(3),
        restart_lsn: lsn(4),
        wal_status: row.get(5),
        safe_wal_bytes: row.get(6),
        retained_bytes: row.get(7),
        lag_bytes: row.get(8),
    }))
}

/// Everything committed so far lies before this. The insert position counts, because with
/// `synchronous_commit=off` the flushed one trails the last commits.
pub async fn current_position(options: &super::Options) -> Result<Lsn, PostgresError> {
    let client = super::connect(options).await?;
    let row = client
        .query_one("SELECT pg_current_wal_insert_lsn()::text", &[])
        .await?;
    let here: Lsn = row.get::<_, &str>(0).parse().unwrap_or_default();
    Ok(page_start(here))
}

/// At the start of a page the insert position stands behind the page's header, where nothing has
/// been written that a stream could reach.
fn page_start(lsn: Lsn) -> Lsn {
    const PAGE_BYTES: u64 = 8192;
    const LONG_HEADER_BYTES: u64 = 40;
    let offset = lsn.as_u64() % PAGE_BYTES;
    if offset <= LONG_HEADER_BYTES {
        Lsn::new(lsn.as_u64() - offset)
    } else {
        lsn
    }
}

impl Slot {
    /// Refuses a slot that is not ours to stream from.
    pub fn check(&self, name: &str, database: &str) -> Result<Lsn, SourceError> {
        let problem =
            |message: String, hint: &str| SourceError::Problem(SourceProblem::new(message, hint));
        if self.database.as_deref() != Some(database) {
            let found = self.database.as_deref().unwrap_or("none (a physical slot)");
            let message = format!(
                "replication slot \"{name}\" belongs to database \"{found}\", expected \"{database}\""
            );
            return Err(problem(
                message,
                "Set slot.name to a slot of this database, or to a new name.",
            ));
        }
        if self.plugin.as_deref() != Some("pgoutput") {
            let found = self.plugin.as_deref().unwrap_or("none");
            let message = format!(
                "replication slot \"{name}\" has the plugin \"{found}\", expected \"pgoutput\""
            );
            return Err(problem(
                message,
                "Set slot.name to another name; a slot cannot change its plugin.",
            ));
        }
        match (self.wal_status.as_deref(), self.confirmed_flush_lsn) {
            (Some("lost"), confirmed) | (_, confirmed @ None) => {
                let from =
                    confirmed.map_or("an unknown position".to_owned(), |lsn| lsn.to_string());
                Err(SourceError::Lost(SourceProblem {
                    message: format!("replication slot \"{name}\" was invalidated by the server"),
                    detail: Some(format!(
                        "Its WAL is gone: rows committed after {from} cannot be streamed any more."
                    )),
                    hint: Some(format!(
                        "See docs/operating.md, \"Slot lost\". To begin anew: SELECT pg_drop_replication_slot({}); the next start makes a new slot.",
                        quote_literal(name)
                    )),
                }))
            }
            (_, Some(confirmed)) => Ok(confirmed),
        }
    }
}

/// A permanent slot without a snapshot; only what is committed later will be streamed.
pub async fn create_slot(client: &Client, options: &SlotOptions) -> Result<Lsn, SourceError> {
    may_create(options)?;
    let row = client
        .query_one(
            "SELECT lsn::text FROM pg_create_logical_replication_slot($1, 'pgoutput')",
            &[&options.name.as_str()],
        )
        .await?;
    Ok(row.get::<_, &str>(0).parse().unwrap_or_default())
}

/// An error where `slot.create` is `never`.
pub fn may_create(options: &SlotOptions) -> Result<(), SourceError> {
    if options.create == CreateMode::Missing {
        return Ok(());
    }
    let name = options.name.as_str();
    Err(SourceError::Problem(SourceProblem::new(
        format!("replication slot \"{name}\" does not exist, and slot.create is \"never\""),
        format!(
            "SELECT pg_create_logical_replication_slot({}, 'pgoutput');",
            quote_literal(name)
        ),
    )))
}

/// The retained rows under the snapshot of a temporary slot. The slot lives and dies with the
/// replication session: a crash leaves nothing behind, and the next start begins again.
#[derive(Debug)]
pub struct Snapshot {
    client: Client,
    temporary: String,
    consistent_point: Lsn,
    tables: Vec<Table>,
}

impl Snapshot {
    /// `client` is a session of its own: it holds the snapshot's transaction.
    pub async fn begin(
        session: &mut ReplicationSession,
        client: Client,
        options: &SlotOptions,
        tables: Vec<Table>,
    ) -> Result<Self, SourceError> {
        may_create(options)?;
        let temporary = options.name.for_snapshot().as_str().to_owned();
        let slot = session.create_temporary_slot(&temporary).await?;
        client
            .batch_execute(&format!(
                "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; \
                 BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT {}",
                quote_literal(&slot.snapshot_name)
            ))
            .await?;
        Ok(Self {
            client,
            temporary,
            consistent_point: slot.consistent_point,
            tables,
        })
    }

    pub fn consistent_point(&self) -> Lsn {
        self.consistent_point
    }

    /// Exactly as many rows as will be published.
    pub async fn count_rows(&self) -> Result<i64, PostgresError> {
        let mut count = 0;
        for table in &self.tables {
            let row = self
                .client
                .query_one(&format!("SELECT count(*) FROM {}", table.quoted()), &[])
                .await?;
            count += row.get::<_, i64>(0);
        }
        Ok(count)
    }

    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The rows of one table as they arrive; text as the stream would have it.
    pub async fn rows(&self, table: &Table) -> Result<SnapshotRows, PostgresError> {
        let columns: Vec<_> = table
            .relation
            .columns
            .iter()
            .map(|column| quote_identifier(&column.name))
            .collect();
        let select = format!("SELECT {} FROM {}", columns.join(", "), table.quoted());
        let stream = self.client.simple_query_raw(&select).await?;
        Ok(SnapshotRows {
            stream: Box::pin(stream),
        })
    }

    /// Everything is in Kafka: the permanent slot takes the temporary one's position.
    pub async fn finish(
        self,
        session: &mut ReplicationSession,
        options: &SlotOptions,
    ) -> Result<Lsn, PostgresError> {
        self.client.batch_execute("COMMIT").await?;
        let copy = format!(
            "SELECT lsn::text FROM pg_copy_logical_replication_slot({}, {}, false)",
            quote_literal(&self.temporary),
            quote_literal(options.name.as_str())
        );
        session.query(&copy).await?;
        session
            .query(&format!(
                "SELECT pg_drop_replication_slot({})",
                quote_literal(&self.temporary)
            ))
            .await?;
        Ok(self.consistent_point)
    }
}

/// See [`Snapshot::rows`].
pub struct SnapshotRows {
    stream: std::pin::Pin<Box<tokio_postgres::SimpleQueryStream>>,
}

impl SnapshotRows {
    /// Hands the next row to `take`; `None` after the last one. Memory is one row.
    pub async fn next<T>(
        &mut self,
        take: impl FnOnce(&Tuple<'_>) -> T,
    ) -> Result<Option<T>, PostgresError> {
        while let Some(message) = self.stream.try_next().await? {
            if let SimpleQueryMessage::Row(row) = message {
                let datums: SmallVec<[Datum<'_>; 16]> = (0..row.len())
                    .map(|index| {
                        row.get(index)
                            .map_or(Datum::Null, |text| Datum::Text(text.as_bytes()))
                    })
                    .collect();
                return Ok(Some(take(&Tuple { datums })));
            }
        }
        Ok(None)
    }
}
