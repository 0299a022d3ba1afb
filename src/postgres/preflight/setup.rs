//! The SQL that makes what a configuration needs and the server lacks.

use tokio_postgres::Client;

use super::{ColumnPurpose, Preflight, WantedColumn};
use crate::postgres::ObjectError;
use crate::postgres::publication::{Publication, create_sql as create_publication_sql};
use crate::postgres::slot::{SlotDescription, create_sql as create_slot_sql};
use crate::postgres::table::{OutboxTable, quoted};
use crate::wire::quote_identifier;

/// One statement and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupStep {
    pub what: String,
    pub sql: String,
    pub kind: SetupKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupKind {
    /// Has its effect at once.
    Statement,
    /// Makes the role, which has no password yet.
    Role,
    /// Has its effect after a restart of the server.
    Restart,
    /// The relay does it by itself, with a snapshot of the rows that are there.
    LeftToTheRelay,
}

/// What is there already. The default is a server on which nothing is.
#[derive(Clone, Debug, Default)]
pub struct SetupFacts {
    logical: bool,
    role: RoleFacts,
    tables: Vec<TableRights>,
    publication: Option<Publication>,
    slot: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct RoleFacts {
    exists: bool,
    replication: bool,
    connects: bool,
}

#[derive(Clone, Debug)]
struct TableRights {
    table: OutboxTable,
    usage: bool,
    select: bool,
    delete: bool,
}

const SERVER: &str = "
    SELECT current_setting('wal_level') = 'logical' AS logical,
           r.oid IS NOT NULL AS role_exists,
           coalesce(r.rolreplication OR r.rolsuper, false) AS replication,
           coalesce(has_database_privilege(r.oid, current_database(), 'CONNECT'), false) AS connects
      FROM (VALUES (1)) one LEFT JOIN pg_roles r ON r.rolname = $1";

const RIGHTS: &str = "
    SELECT coalesce(has_schema_privilege(r.oid, c.relnamespace, 'USAGE'), false) AS usage,
           coalesce(has_table_privilege(r.oid, c.oid, 'SELECT'), false) AS readable,
           coalesce(has_table_privilege(r.oid, c.oid, 'DELETE'), false) AS deletable
      FROM pg_class c LEFT JOIN pg_roles r ON r.rolname = $1
     WHERE c.oid = $2";

impl SetupFacts {
    pub async fn read(
        client: &Client,
        wanted: &Preflight<'_>,
        role: &str,
    ) -> Result<Self, ObjectError> {
        let row = client.query_one(SERVER, &[&role]).await?;
        let mut facts = Self {
            logical: row.try_get("logical")?,
            role: RoleFacts {
                exists: row.try_get("role_exists")?,
                replication: row.try_get("replication")?,
                connects: row.try_get("connects")?,
            },
            ..Self::default()
        };
        let tables = match OutboxTable::resolve(client, wanted.tables).await {
            Ok(tables) => tables,
            Err(ObjectError::NoTable { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        for table in tables {
            let row = client.query_one(RIGHTS, &[&role, &table.oid]).await?;
            facts.tables.push(TableRights {
                table,
                usage: row.try_get("usage")?,
                select: row.try_get("readable")?,
                delete: row.try_get("deletable")?,
            });
        }
        facts.publication = Publication::read(client, &wanted.publication.name).await?;
        let slot = SlotDescription::read(client, &wanted.slot.name).await?;
        facts.slot = slot.is_some();
        Ok(facts)
    }

    fn tables(&self) -> Vec<OutboxTable> {
        let tables = self.tables.iter();
        tables.map(|rights| rights.table.clone()).collect()
    }
}

/// For an administrator, in order: server, role and grants, table where there is none, publication,
/// slot. A slot comes last, since it cannot see a publication that is younger than itself.
pub fn setup_steps(
    wanted: &Preflight<'_>,
    role: &str,
    database: &str,
    facts: &SetupFacts,
) -> Vec<SetupStep> {
    let mut steps = Vec::new();
    if !facts.logical {
        steps.push(SetupStep {
            kind: SetupKind::Restart,
            ..step(
                "The log carries what logical decoding needs, after a restart of the server",
                "ALTER SYSTEM SET wal_level = 'logical'".to_owned(),
            )
        });
    }
    steps.extend(role_steps(role, database, facts.role));
    steps.extend(table_steps(wanted, &quote_identifier(role), facts));
    steps.extend(publication_steps(wanted, facts));
    if !facts.slot {
        steps.push(SetupStep {
            kind: SetupKind::LeftToTheRelay,
            ..step(
                "The relay makes its slot at its first start, and publishes the rows that are in the table then. A slot that is made by hand keeps the log from now on, and no row from before is published",
                create_slot_sql(wanted.slot),
            )
        });
    }
    steps
}

fn role_steps(role: &str, database: &str, facts: RoleFacts) -> Vec<SetupStep> {
    let role = quote_identifier(role);
    let mut steps = Vec::new();
    if !facts.exists {
        steps.push(SetupStep {
            kind: SetupKind::Role,
            ..step(
                "The relay's role; give it a password with \\password",
                format!("CREATE ROLE {role} LOGIN REPLICATION"),
            )
        });
    } else if !facts.replication {
        steps.push(step(
            "The relay's role reads the log (managed services: GRANT rds_replication, or what yours calls it, instead)",
            format!("ALTER ROLE {role} REPLICATION"),
        ));
    }
    if !facts.connects {
        let database = quote_identifier(database);
        steps.push(step(
            "It connects",
            format!("GRANT CONNECT ON DATABASE {database} TO {role}"),
        ));
    }
    steps
}

/// `role` is quoted.
fn table_steps(wanted: &Preflight<'_>, role: &str, facts: &SetupFacts) -> Vec<SetupStep> {
    let mut steps = Vec::new();
    let grant = |schema: &str, name: &str, usage: bool, select: bool| {
        let (schema_name, table) = (quote_identifier(schema), quoted(schema, name));
        let mut grants = Vec::new();
        if !usage {
            grants.push(format!("GRANT USAGE ON SCHEMA {schema_name} TO {role}"));
        }
        if !select {
            grants.push(format!("GRANT SELECT ON TABLE {table} TO {role}"));
        }
        let steps = grants
            .into_iter()
            .map(|sql| step("A snapshot reads the retained rows", sql));
        steps.collect::<Vec<_>>()
    };
    if let (true, Some((schema, name))) = (facts.tables.is_empty(), wanted.tables.exact_name()) {
        let table = create_table_sql(schema, name, wanted.columns);
        steps.push(step("The outbox", table));
        // Public may use it, unless somebody has taken that away.
        steps.extend(grant(schema, name, false, false));
        steps.extend(wanted.deletes.then(|| delete_step(schema, name, role)));
    }
    for rights in &facts.tables {
        let (schema, name) = (&rights.table.schema, &rights.table.name);
        steps.extend(grant(schema, name, rights.usage, rights.select));
        let lacks = wanted.deletes && !rights.delete;
        steps.extend(lacks.then(|| delete_step(schema, name, role)));
    }
    steps
}

fn delete_step(schema: &str, name: &str, role: &str) -> SetupStep {
    step(
        "Housekeeping deletes rows whose time is over",
        format!("GRANT DELETE ON TABLE {} TO {role}", quoted(schema, name)),
    )
}

fn publication_steps(wanted: &Preflight<'_>, facts: &SetupFacts) -> Vec<SetupStep> {
    let tables = facts.tables();
    let Some(found) = &facts.publication else {
        return vec![step(
            "The publication, before the slot: a slot cannot see one that is younger than itself",
            publication_sql(wanted, &tables),
        )];
    };
    let mut missing = Vec::new();
    if let Err(ObjectError::PublicationLacksInserts { sql, .. }) = found.check(&[]) {
        missing.push(sql);
    }
    let with_inserts = Publication {
        inserts: true,
        ..found.clone()
    };
    for table in tables.chunks(1) {
        if let Err(ObjectError::PublicationLacksTable { sql, .. }) = with_inserts.check(table) {
            missing.push(sql);
        }
    }
    // The table that an earlier step makes.
    if let (true, Some((schema, name))) = (tables.is_empty(), wanted.tables.exact_name())
        && !found.all_tables
        && !found.schemas.iter().any(|whole| whole == schema)
    {
        let publication = quote_identifier(found.name.as_str());
        let table = quoted(schema, name);
        missing.push(format!("ALTER PUBLICATION {publication} ADD TABLE {table}"));
    }
    let steps = missing.into_iter();
    steps
        .map(|sql| step("The publication sends the outbox's inserts", sql))
        .collect()
}

fn publication_sql(wanted: &Preflight<'_>, tables: &[OutboxTable]) -> String {
    let sql = create_publication_sql(wanted.publication, tables);
    let named = wanted.tables.exact_name().filter(|_| tables.is_empty());
    match (named, sql.split_once(" WITH ")) {
        (Some((schema, name)), Some((head, tail))) if !head.contains(" FOR ") => {
            format!("{head} FOR TABLE {} WITH {tail}", quoted(schema, name))
        }
        _ => sql,
    }
}

fn step(what: &str, sql: String) -> SetupStep {
    SetupStep {
        what: what.to_owned(),
        sql,
        kind: SetupKind::Statement,
    }
}

/// The columns that the configuration names, with the types that suit them, as people order them.
fn create_table_sql(schema: &str, name: &str, columns: &[WantedColumn]) -> String {
    let mut columns: Vec<&WantedColumn> = columns.iter().collect();
    columns.sort_by_key(|column| match column.purpose {
        ColumnPurpose::Id => 0,
        ColumnPurpose::Route => 1,
        ColumnPurpose::Key => 2,
        ColumnPurpose::Number | ColumnPurpose::Other => 3,
        ColumnPurpose::Timestamp => 4,
        ColumnPurpose::Payload => 5,
    });
    let mut seen: Vec<&str> = Vec::new();
    let mut lines = Vec::new();
    for column in columns {
        if seen.contains(&column.name.as_str()) {
            continue;
        }
        seen.push(&column.name);
        let kind = match column.purpose {
            ColumnPurpose::Id => "uuid PRIMARY KEY",
            ColumnPurpose::Key | ColumnPurpose::Route => "text NOT NULL",
            ColumnPurpose::Payload => "jsonb",
            ColumnPurpose::Timestamp => "timestamp(3) NOT NULL",
            ColumnPurpose::Number => "integer",
            ColumnPurpose::Other => "text",
        };
        lines.push(format!("{} {kind}", quote_identifier(&column.name)));
    }
    format!(
        "CREATE TABLE {} ({})",
        quoted(schema, name),
        lines.join(", ")
    )
}
