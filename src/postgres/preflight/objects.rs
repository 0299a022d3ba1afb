//! From facts of the tables and the publication to checks.

use super::{Check, CheckOutcome, ServerFacts, TableFacts, WantedColumn};
use crate::pgoutput::ReplicaIdentity;
use crate::postgres::publication::{self, Publication, PublicationMode, PublicationOptions};
use crate::postgres::snapshot::StartPlan;
use crate::postgres::table::{OutboxTable, TableFilter};
use crate::wire::quote_identifier;

/// What the role may do with one table.
pub(super) struct Rights<'a> {
    pub(super) facts: TableFacts,
    pub(super) role: &'a str,
}

pub(super) fn table(
    table: &OutboxTable,
    rights: &Rights<'_>,
    wanted: &[WantedColumn],
    plan: StartPlan,
) -> Vec<Check> {
    let name = table.qualified_name();
    let kind = match &table.partitions {
        Some(partitions) => format!("partitioned, {} partitions", partitions.len()),
        None => "an ordinary table".to_owned(),
    };
    let mut checks = vec![Check::ok("table", format!("\"{name}\": {kind}"))];
    checks.extend(wanted.iter().filter_map(|wanted| column(table, wanted)));
    checks.extend(identity(table));
    if reads_rows(plan) {
        checks.push(readable(table, rights));
        checks.extend(policies(table, rights));
    }
    checks
}

fn reads_rows(plan: StartPlan) -> bool {
    match plan {
        StartPlan::SnapshotNewSlot
        | StartPlan::ReplaceLostSlot
        | StartPlan::SnapshotBeside
        | StartPlan::SnapshotOnly => true,
        StartPlan::Stream | StartPlan::CreateSlot | StartPlan::Refuse => false,
    }
}

fn column(table: &OutboxTable, wanted: &WantedColumn) -> Option<Check> {
    let (found, remedy) = match table.column(&wanted.name) {
        Some(column) if !column.generated => return None,
        Some(_) => (
            "is generated: the stream does not have it",
            "Make it an ordinary column, or choose another.".to_owned(),
        ),
        None => ("does not exist", suggestion(table, wanted)),
    };
    Some(Check::new(
        "columns",
        match wanted.required {
            true => CheckOutcome::Error,
            false => CheckOutcome::Warning,
        },
        format!(
            "column \"{}\" of \"{}\" {found}",
            wanted.name,
            table.qualified_name()
        ),
        Some(remedy),
    ))
}

fn suggestion(table: &OutboxTable, wanted: &WantedColumn) -> String {
    match table.near_columns(&wanted.name).first() {
        Some(near) => format!("Did you mean \"{near}\"? Set {} to it.", wanted.option),
        None => {
            let all: Vec<&str> = table
                .streamed_columns()
                .map(|column| column.name.as_str())
                .collect();
            format!("Set {} to one of: {}.", wanted.option, all.join(", "))
        }
    }
}

/// PostgreSQL itself refuses an UPDATE where the publication sends updates and the table cannot say
/// which row it was.
fn identity(table: &OutboxTable) -> Option<Check> {
    let identified = table.columns.iter().any(|column| column.is_key);
    if identified || table.replica_identity == ReplicaIdentity::Full {
        return None;
    }
    Some(Check::warning(
        "replica identity",
        format!(
            "\"{}\" has none: PostgreSQL refuses an UPDATE or DELETE of it once a publication sends those",
            table.qualified_name()
        ),
        "Give it a primary key, or let the publication send inserts only.",
    ))
}

fn readable(table: &OutboxTable, rights: &Rights<'_>) -> Check {
    let name = table.qualified_name();
    if rights.facts.readable {
        return Check::ok("SELECT", format!("\"{name}\" can be read"));
    }
    Check::error(
        "SELECT",
        format!(
            "role \"{}\" cannot read \"{name}\", and a snapshot is wanted",
            rights.role
        ),
        "Grant it as the table's owner, or choose the snapshot mode no_data.",
    )
    .sql(format!(
        "GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON {table} TO {role};",
        schema = quote_identifier(&table.schema),
        table = table.quoted_name(),
        role = quote_identifier(rights.role),
    ))
}

fn policies(table: &OutboxTable, rights: &Rights<'_>) -> Option<Check> {
    rights.facts.row_security.then(|| {
        Check::error(
            "row security",
            format!("policies of \"{}\" hide rows from this role", table.qualified_name()),
            "Let the role pass them by, or choose the snapshot mode no_data. The stream is not subject to policies.",
        )
        .sql(format!("ALTER ROLE {} BYPASSRLS;", quote_identifier(rights.role)))
    })
}

pub(super) fn publication(
    publication: &Publication,
    options: &PublicationOptions,
    tables: &[OutboxTable],
) -> Vec<Check> {
    let name = &publication.name;
    if tables.is_empty() {
        let found =
            format!("\"{name}\" exists; without the table nobody can tell whether it is in it");
        return vec![Check::warning("publication", found, "See the table above.")];
    }
    let differs = options.mode == PublicationMode::Filtered && !publication.lists_exactly(tables);
    let verdict = if differs {
        Check::warning(
            "publication",
            format!("\"{name}\" has other tables than the filter takes"),
            "The mode filtered changes it at the start: it must be owned by the relay's role.",
        )
    } else {
        match publication.check(tables) {
            Ok(()) => Check::ok(
                "publication",
                format!("\"{name}\" sends the outbox's inserts"),
            ),
            Err(error) => Check::refused("publication", &error),
        }
    };
    let mut checks = vec![verdict];
    checks.extend(publication.notes(tables).into_iter().map(|note| {
        let found = format!("\"{name}\": {note}");
        let check = Check::new("publication", CheckOutcome::Warning, found, None);
        match note.remedy(name) {
            Some(sql) if sql.starts_with("ALTER") => check.sql(sql),
            remedy => Check { remedy, ..check },
        }
    }));
    checks
}

pub(super) fn missing_publication(
    options: &PublicationOptions,
    filter: &TableFilter,
    tables: &[OutboxTable],
    facts: &ServerFacts,
    owns_tables: bool,
) -> Check {
    let name = &options.name;
    let needs_tables = !matches!(
        options.mode,
        PublicationMode::AllTables | PublicationMode::NoTables
    );
    if needs_tables && tables.is_empty() {
        return Check::error(
            "publication",
            format!("\"{name}\" does not exist"),
            format!("First the table: the publication is made for \"{filter}\"."),
        );
    }
    let sql = publication::create_sql(options, tables);
    let refused = |found: String| {
        Check::error(
            "publication",
            found,
            "Make it as the table's owner or a superuser.",
        )
        .sql(format!("{sql};"))
    };
    let allowed = match options.mode {
        PublicationMode::MustExist => {
            return refused(format!("\"{name}\" does not exist and may not be created"));
        }
        PublicationMode::AllTables => facts.superuser,
        PublicationMode::NoTables => facts.superuser || facts.may_create,
        PublicationMode::CreateMissing | PublicationMode::Filtered => {
            facts.superuser || (facts.may_create && owns_tables)
        }
    };
    if allowed {
        return Check::ok("publication", format!("\"{name}\" will be created: {sql}"));
    }
    refused(format!(
        "\"{name}\" does not exist and role \"{}\" may not create it",
        facts.role
    ))
}
