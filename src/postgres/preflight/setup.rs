//! The SQL that makes what a configuration needs.

use super::{ColumnPurpose, Preflight, WantedColumn};
use crate::postgres::publication::create_sql as create_publication_sql;
use crate::postgres::slot::create_sql as create_slot_sql;
use crate::postgres::table::{OutboxTable, quoted};
use crate::wire::quote_identifier;

/// One statement and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupStep {
    pub what: String,
    pub sql: String,
}

/// For an administrator, in order: role and grants, table where there is none, publication, slot.
/// `tables` are those that exist; a slot comes last, since it cannot see an older publication's
/// absence.
pub fn setup_steps(
    wanted: &Preflight<'_>,
    role: &str,
    database: &str,
    tables: &[OutboxTable],
) -> Vec<SetupStep> {
    let role = quote_identifier(role);
    let mut steps = vec![
        step(
            "The relay's role; set its password with \\password",
            format!("CREATE ROLE {role} LOGIN REPLICATION"),
        ),
        step(
            "It connects",
            format!(
                "GRANT CONNECT ON DATABASE {} TO {role}",
                quote_identifier(database)
            ),
        ),
    ];
    let mut names: Vec<(String, String)> = tables
        .iter()
        .map(|table| (table.schema.clone(), table.name.clone()))
        .collect();
    if let (true, Some((schema, name))) = (names.is_empty(), wanted.tables.exact_name()) {
        steps.push(step(
            "The outbox",
            create_table_sql(schema, name, wanted.columns),
        ));
        names.push((schema.to_owned(), name.to_owned()));
    }
    for (schema, name) in &names {
        let schema_name = quote_identifier(schema);
        let table = quoted(schema, name);
        steps.push(step(
            "A snapshot reads the retained rows",
            format!("GRANT USAGE ON SCHEMA {schema_name} TO {role}"),
        ));
        steps.push(step(
            "A snapshot reads the retained rows",
            format!("GRANT SELECT ON TABLE {table} TO {role}"),
        ));
    }
    steps.push(step(
        "The publication, before the slot: a slot cannot see one that is younger than itself",
        publication_sql(wanted, tables, &names),
    ));
    steps.push(step(
        "The slot; from here on the server keeps the log for the relay (the relay makes it by itself too, with a snapshot)",
        create_slot_sql(wanted.slot),
    ));
    steps
}

fn publication_sql(
    wanted: &Preflight<'_>,
    tables: &[OutboxTable],
    names: &[(String, String)],
) -> String {
    if !tables.is_empty() {
        return create_publication_sql(wanted.publication, tables);
    }
    let list: Vec<String> = names
        .iter()
        .map(|(schema, name)| quoted(schema, name))
        .collect();
    let sql = create_publication_sql(wanted.publication, &[]);
    match (list.is_empty(), sql.split_once(" WITH ")) {
        (false, Some((head, tail))) => format!("{head} FOR TABLE {} WITH {tail}", list.join(", ")),
        _ => sql,
    }
}

fn step(what: &str, sql: String) -> SetupStep {
    SetupStep {
        what: what.to_owned(),
        sql,
    }
}

/// The columns that the configuration names, with the types that suit them.
fn create_table_sql(schema: &str, name: &str, columns: &[WantedColumn]) -> String {
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
