//! From facts of the tables and the publication to checks.

use super::{Check, CheckOutcome, ColumnPurpose, ServerFacts, TableFacts, WantedColumn};
use crate::pgoutput::ReplicaIdentity;
use crate::postgres::ObjectError;
use crate::postgres::publication::{
    self, Publication, PublicationMode, PublicationNote, PublicationOptions,
};
use crate::postgres::slot::SlotDescription;
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
    checks.push(identity(table, wanted));
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
fn identity(table: &OutboxTable, wanted: &[WantedColumn]) -> Check {
    let (check, name) = ("replica identity", table.qualified_name());
    let keys = table.columns.iter().filter(|column| column.is_key);
    let keys: Vec<&str> = keys.map(|column| column.name.as_str()).collect();
    match (table.replica_identity, keys.as_slice()) {
        (ReplicaIdentity::Full, _) => Check::warning(
            check,
            format!("\"{name}\" has FULL: each DELETE writes the whole row to the log once more"),
            "The relay needs inserts alone: the primary key is enough.",
        )
        .sql(format!(
            "ALTER TABLE {} REPLICA IDENTITY DEFAULT;",
            table.quoted_name()
        )),
        (_, []) => {
            let mut ids = wanted
                .iter()
                .filter(|wanted| wanted.purpose == ColumnPurpose::Id);
            let id = ids.next().map_or("id", |wanted| wanted.name.as_str());
            Check::warning(
                check,
                format!("\"{name}\" has none: PostgreSQL refuses an UPDATE or DELETE of it once a publication sends those"),
                "Give it a primary key, or let the publication send inserts only.",
            )
            .sql(format!(
                "ALTER TABLE {} ADD PRIMARY KEY ({});",
                table.quoted_name(),
                quote_identifier(id)
            ))
        }
        (_, keys) => Check::ok(check, format!("\"{name}\" has {}", keys.join(", "))),
    }
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
    .sql(grant(table, rights, "SELECT"))
}

fn grant(table: &OutboxTable, rights: &Rights<'_>, privileges: &str) -> String {
    format!(
        "GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT {privileges} ON {table} TO {role};",
        schema = quote_identifier(&table.schema),
        table = table.quoted_name(),
        role = quote_identifier(rights.role),
    )
}

pub(super) fn deletable(table: &OutboxTable, rights: &Rights<'_>) -> Check {
    let name = table.qualified_name();
    if rights.facts.deletable && rights.facts.row_security {
        return Check::warning(
            "DELETE",
            format!("policies of \"{name}\" can hide rows from this role, and housekeeping.retain asks for all whose time is over"),
            "Let the role pass them by, or see that they leave it every row to see and to delete: those that it does not see stay, and nothing says so.",
        )
        .sql(format!("ALTER ROLE {} BYPASSRLS;", quote_identifier(rights.role)));
    }
    if rights.facts.deletable {
        return Check::ok("DELETE", format!("rows of \"{name}\" can be deleted"));
    }
    Check::warning(
        "DELETE",
        format!(
            "role \"{}\" cannot delete rows of \"{name}\", and housekeeping.retain asks for it",
            rights.role
        ),
        "Grant it as the table's owner, or set housekeeping.retain to nothing: the relay runs without it.",
    )
    .sql(grant(table, rights, "SELECT, DELETE"))
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
    wanted: &[WantedColumn],
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
            "The mode filtered changes it at the start: it must be owned by the relay's role, and whoever else reads through it gets the outbox alone from then on.",
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
    let notes = publication.notes(tables).into_iter();
    checks.extend(notes.map(|note| noted(publication, &note, tables, wanted)));
    checks
}

/// What is allowed but odd, and an error where events would lack what they need.
fn noted(
    publication: &Publication,
    note: &PublicationNote,
    tables: &[OutboxTable],
    wanted: &[WantedColumn],
) -> Check {
    let name = &publication.name;
    let found = format!("\"{name}\": {note}");
    let check = Check::new("publication", CheckOutcome::Warning, found, None);
    if let PublicationNote::ColumnList { columns, .. } = note {
        let lacks = |wanted: &&WantedColumn| wanted.required && !columns.contains(&wanted.name);
        let lacking: Vec<&str> = wanted
            .iter()
            .filter(lacks)
            .map(|wanted| wanted.name.as_str())
            .collect();
        if !lacking.is_empty() {
            let found = format!("{}; it lacks {}", check.found, lacking.join(", "));
            let check = Check::error("publication", found, "Send all of them.");
            return Check {
                sql: whole_tables(publication, tables),
                ..check
            };
        }
    }
    match (note, note.remedy(name)) {
        (_, Some(sql)) if sql.starts_with("ALTER") => match publication.sends_only(tables) {
            true => check.sql(sql),
            false => Check {
                remedy: Some("It would change for the other tables too: see there.".to_owned()),
                ..check
            },
        },
        (PublicationNote::RowFilter { .. }, _) => Check {
            remedy: Some("Events of the other rows are never published. If that is not meant: send all of them.".to_owned()),
            sql: whole_tables(publication, tables),
            ..check
        },
        (PublicationNote::ColumnList { .. }, _) => Check {
            remedy: Some("A column that is added later is not sent either: send all of them.".to_owned()),
            sql: whole_tables(publication, tables),
            ..check
        },
        (PublicationNote::OtherTables(_), _) => Check {
            remedy: Some("Their rows are sent and dropped here. Leave it to whoever else reads through it, and give the outbox a publication of its own, made before the slot that reads it.".to_owned()),
            ..check
        },
        (PublicationNote::AllTables, remedy) => Check {
            remedy,
            sql: of_its_own(publication, tables),
            ..check
        },
        (_, remedy) => Check { remedy, ..check },
    }
}

/// A publication FOR ALL TABLES cannot be narrowed.
fn of_its_own(publication: &Publication, tables: &[OutboxTable]) -> Option<String> {
    let name = format!("{}_only", publication.name).parse().ok()?;
    let options = PublicationOptions::new(name);
    Some(format!("{};", publication::create_sql(&options, tables)))
}

/// The outbox alone, with all rows and columns. Nothing where that takes other tables from whoever
/// reads them.
fn whole_tables(publication: &Publication, tables: &[OutboxTable]) -> Option<String> {
    if !publication.sends_only(tables) {
        return None;
    }
    let names: Vec<String> = tables.iter().map(OutboxTable::quoted_name).collect();
    let publication = quote_identifier(publication.name.as_str());
    Some(format!(
        "ALTER PUBLICATION {publication} SET TABLE {};",
        names.join(", ")
    ))
}

pub(super) fn missing_publication(
    options: &PublicationOptions,
    filter: &TableFilter,
    tables: &[OutboxTable],
    facts: &ServerFacts,
    owns_tables: bool,
    slot: Option<&SlotDescription>,
) -> Check {
    let name = &options.name;
    if let Some(slot) = slot {
        // What the start says: the slot cannot read through one that is made now.
        return Check::refused(
            "publication",
            &ObjectError::PublicationGone {
                name: name.to_string(),
                slot: slot.name.clone(),
                create_sql: publication::create_sql(options, tables),
            },
        );
    }
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
