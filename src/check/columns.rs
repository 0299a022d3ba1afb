//! The columns that the configuration names, against those of the tables.

use crate::config::{Config, Origin};
use crate::outbox::TypeCatalog;
use crate::postgres::preflight::{Check, CheckOutcome, ColumnPurpose, WantedColumn};
use crate::postgres::table::{OutboxTable, TableColumn};
use crate::router::{ColumnRole, ConnectType, RouteError};
use crate::wire::quote_identifier;

/// A column that is there and of a type that suits it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UsedColumn {
    pub(super) name: String,
    pub(super) role: ColumnRole,
    /// As SQL names it.
    pub(super) sql_type: String,
    pub(super) connect_type: ConnectType,
}

/// The key that names a column of this role.
const fn key(role: &ColumnRole) -> &'static str {
    match role {
        ColumnRole::Id => "outbox.id",
        ColumnRole::Key => "outbox.key",
        ColumnRole::Payload => "outbox.payload",
        ColumnRole::Route => "outbox.route_by",
        ColumnRole::Timestamp => "outbox.timestamp",
        ColumnRole::SchemaVersion => "outbox.schema_version",
        ColumnRole::Header(_) => "outbox.headers",
        ColumnRole::Envelope(_) => "outbox.envelope",
        ColumnRole::Partition => "outbox.partition",
    }
}

pub fn wanted(config: &Config) -> Vec<WantedColumn> {
    let columns = config.router.columns().into_iter();
    let wanted = |(name, _, role, required): (&str, _, ColumnRole, _)| WantedColumn {
        name: name.to_owned(),
        option: config.door.spell(key(&role)),
        purpose: purpose(&role),
        required,
    };
    columns.map(wanted).collect()
}

const fn purpose(role: &ColumnRole) -> ColumnPurpose {
    match role {
        ColumnRole::Id => ColumnPurpose::Id,
        ColumnRole::Key => ColumnPurpose::Key,
        ColumnRole::Payload => ColumnPurpose::Payload,
        ColumnRole::Route => ColumnPurpose::Route,
        ColumnRole::Timestamp => ColumnPurpose::Timestamp,
        ColumnRole::SchemaVersion | ColumnRole::Partition => ColumnPurpose::Number,
        ColumnRole::Header(_) | ColumnRole::Envelope(_) => ColumnPurpose::Other,
    }
}

/// Types and rights of way of the columns that are there; the missing ones are told already.
pub(super) fn check(
    config: &Config,
    table: &OutboxTable,
    catalog: &TypeCatalog,
) -> (Vec<Check>, Vec<UsedColumn>) {
    let (mut checks, mut used) = (Vec::new(), Vec::new());
    let mut complete = true;
    for inspected in config.router.inspect(&table.relation(), catalog) {
        let found = table
            .column(&inspected.name)
            .filter(|column| !column.generated);
        let Some(column) = found else {
            complete = false;
            continue;
        };
        let sql_type = &column.type_sql;
        match inspected.found {
            Ok(connect_type) => used.push(UsedColumn {
                name: inspected.name,
                role: inspected.role,
                sql_type: sql_type.clone(),
                connect_type,
            }),
            Err(error) => {
                complete = false;
                let check = unsuited(config, table, &error, &inspected.role, sql_type);
                checks.push(match inspected.required {
                    true => check,
                    // Then the router leaves it out.
                    false => Check {
                        outcome: CheckOutcome::Warning,
                        ..check
                    },
                });
            }
        }
    }
    if complete {
        checks.push(Check::ok("columns", listed(&used)));
    }
    checks.extend(null_route(&used, table));
    (checks, used)
}

fn unsuited(
    config: &Config,
    table: &OutboxTable,
    error: &RouteError,
    role: &ColumnRole,
    sql_type: &str,
) -> Check {
    let option = config.door.spell(key(role));
    let table = table.qualified_name();
    // The column is there: something leaves it out.
    if let RouteError::MissingColumn { column, .. } = error {
        let list = config.door.spell(column_list(config));
        return Check::error(
            "columns",
            format!(
                "column \"{column}\" of \"{table}\", which {option} names, is left out by {list}"
            ),
            format!("Let {list} take it."),
        );
    }
    Check::error(
        "columns",
        format!(
            "\"{table}\": {}; the column's type is {sql_type}, and {option} names it",
            config.door.reword(&error.to_string())
        ),
        config.door.reword(&error.hint()),
    )
}

/// `id uuid, aggregateid text`, each column once.
fn listed(used: &[UsedColumn]) -> String {
    let mut items: Vec<String> = Vec::new();
    for column in used {
        let item = format!("{} {}", column.name, column.sql_type);
        if !items.contains(&item) {
            items.push(item);
        }
    }
    items.join(", ")
}

fn null_route(used: &[UsedColumn], table: &OutboxTable) -> Option<Check> {
    let route = used
        .iter()
        .find(|column| column.role == ColumnRole::Route)?;
    let column = table.column(&route.name).filter(|column| column.nullable)?;
    let check = Check::warning(
        "columns",
        format!(
            "column \"{}\" of \"{}\" may be null: such a row has no topic and blocks the relay",
            column.name,
            table.qualified_name()
        ),
        "Forbid it.",
    );
    let (table, column) = (table.quoted_name(), quote_identifier(&column.name));
    Some(check.sql(format!(
        "ALTER TABLE {table} ALTER COLUMN {column} SET NOT NULL;"
    )))
}

/// Patterns of the column lists that take no column: most likely misspelt.
pub(super) fn idle_patterns(config: &Config, tables: &[OutboxTable]) -> Option<Check> {
    let patterns = config.router.columns.patterns()?;
    let of_table = |table: &OutboxTable| {
        let name = table.qualified_name();
        let full = |column: &TableColumn| format!("{name}.{}", column.name);
        table.columns.iter().map(full).collect::<Vec<_>>()
    };
    let names: Vec<String> = tables.iter().flat_map(of_table).collect();
    let idle = patterns.idle(&names);
    (!names.is_empty() && !idle.is_empty()).then(|| {
        Check::warning(
            "columns",
            format!(
                "\"{}\" names no column of the outbox",
                idle.join("\" and \"")
            ),
            format!(
                "Write schema.table.column in {}, as a regular expression.",
                config.door.spell(column_list(config))
            ),
        )
    })
}

/// One of the two is set.
fn column_list(config: &Config) -> &'static str {
    const INCLUDE: &str = "outbox.columns_include";
    match config.settings.origin(INCLUDE) {
        Origin::Default => "outbox.columns_exclude",
        _ => INCLUDE,
    }
}
