//! From facts of the tables and the publication to checks.

use super::{Check, CheckOutcome, ServerFacts, TableFacts, WantedColumn};
use crate::pgoutput::ReplicaIdentity;
use crate::postgres::publication::{self, Publication, PublicationMode, PublicationOptions};
use crate::postgres::snapshot::StartPlan;
use crate::postgres::table::OutboxTable;
use crate::wire::quote_identifier;

pub(super) fn table(
    table: &OutboxTable,
    facts: &TableFacts,
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
    if checks.len() == 1 && !wanted.is_empty() {
        let names: Vec<&str> = wanted.iter().map(|wanted| wanted.name.as_str()).collect();
        checks.push(Check::ok("columns", names.join(", ")));
    }
    checks.extend(identity(table));
    if reads_rows(plan) {
        checks.push(readable(table, facts));
        checks.extend(policies(table, facts));
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
        Some(near) => format!(
            "Set {} to \"{near}\", if that is the column.",
            wanted.option
        ),
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

fn readable(table: &OutboxTable, facts: &TableFacts) -> Check {
    let name = table.qualified_name();
    if facts.readable {
        return Check::ok("SELECT", format!("\"{name}\" can be read"));
    }
    Check::error(
        "SELECT",
        format!("\"{name}\" cannot be read, and a snapshot is wanted"),
        format!(
            "GRANT USAGE ON SCHEMA {schema} TO CURRENT_USER; GRANT SELECT ON {table} TO CURRENT_USER; (as its owner, with the relay's role), or snapshot mode no_data.",
            schema = quote_identifier(&table.schema),
            table = table.quoted_name(),
        ),
    )
}

fn policies(table: &OutboxTable, facts: &TableFacts) -> Option<Check> {
    facts.row_security.then(|| {
        Check::error(
            "row security",
            format!("policies of \"{}\" hide rows from this role", table.qualified_name()),
            "ALTER ROLE … BYPASSRLS for the relay's role, or snapshot mode no_data. The stream is not subject to policies.",
        )
    })
}

pub(super) fn publication(
    publication: &Publication,
    options: &PublicationOptions,
    tables: &[OutboxTable],
) -> Vec<Check> {
    let name = &publication.name;
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
        Check::new(
            "publication",
            CheckOutcome::Warning,
            format!("\"{name}\": {note}"),
            note.remedy(name),
        )
    }));
    checks
}

pub(super) fn missing_publication(
    options: &PublicationOptions,
    tables: &[OutboxTable],
    facts: &ServerFacts,
    owns_tables: bool,
) -> Check {
    let name = &options.name;
    let sql = publication::create_sql(options, tables);
    let run = format!("Run as the table's owner or a superuser: {sql};");
    let allowed = match options.mode {
        PublicationMode::MustExist => {
            return Check::error(
                "publication",
                format!("\"{name}\" does not exist and may not be created"),
                run,
            );
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
    Check::error(
        "publication",
        format!(
            "\"{name}\" does not exist and role \"{}\" may not create it",
            facts.role
        ),
        run,
    )
}
