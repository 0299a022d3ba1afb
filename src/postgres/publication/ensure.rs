//! Making the publication, before the slot and before anything is read.

use tokio_postgres::Client;

use super::state::missing;
use super::{Publication, PublicationMode, PublicationOptions};
use crate::postgres::table::OutboxTable;
use crate::postgres::{ObjectError, PostgresError, sqlstate};
use crate::wire::quote_identifier;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicationChange {
    Unchanged,
    Created,
    /// Set to exactly the outbox tables, as Debezium's `filtered` asks.
    Altered,
}

impl Publication {
    /// Makes or changes the publication as far as the mode allows, and checks that inserts into
    /// every outbox table reach it.
    pub async fn ensure(
        client: &Client,
        options: &PublicationOptions,
        tables: &[OutboxTable],
    ) -> Result<(Self, PublicationChange), ObjectError> {
        let (found, change) = match Self::read(client, &options.name).await? {
            None if options.mode == PublicationMode::MustExist => {
                return Err(missing(options, tables));
            }
            None => {
                run(client, options, create_sql(options, tables)).await?;
                (None, PublicationChange::Created)
            }
            Some(found)
                if options.mode == PublicationMode::Filtered && !found.lists_exactly(tables) =>
            {
                if found.all_tables {
                    let name = options.name.to_string();
                    return Err(ObjectError::PublicationForAllTables { name });
                }
                run(client, options, set_tables_sql(options, tables)).await?;
                (None, PublicationChange::Altered)
            }
            Some(found) => (Some(found), PublicationChange::Unchanged),
        };
        let publication = match found {
            Some(found) => found,
            None => Self::read(client, &options.name)
                .await?
                .ok_or_else(|| missing(options, tables))?,
        };
        publication.check(tables)?;
        Ok((publication, change))
    }
}

/// Another instance may have created it since it was looked for; then that one counts.
async fn run(
    client: &Client,
    options: &PublicationOptions,
    sql: String,
) -> Result<(), ObjectError> {
    match client
        .batch_execute(&sql)
        .await
        .map_err(PostgresError::from)
    {
        Ok(()) => Ok(()),
        Err(error) if error.sqlstate() == Some(sqlstate::DUPLICATE_OBJECT) => Ok(()),
        Err(source) if source.sqlstate().is_some() => Err(ObjectError::PublicationRefused {
            name: options.name.to_string(),
            sql,
            source,
        }),
        Err(error) => Err(error.into()),
    }
}

/// What the mode would create. Modes that create nothing get what the outbox needs.
pub fn create_sql(options: &PublicationOptions, tables: &[OutboxTable]) -> String {
    let mut sql = format!(
        "CREATE PUBLICATION {}",
        quote_identifier(options.name.as_str())
    );
    match options.mode {
        PublicationMode::AllTables => sql.push_str(" FOR ALL TABLES"),
        PublicationMode::NoTables => {}
        _ if tables.is_empty() => {}
        _ => sql.push_str(&format!(" FOR TABLE {}", table_list(tables))),
    }
    sql.push_str(&format!(" WITH (publish = '{}'", options.operations));
    if options.via_partition_root {
        sql.push_str(", publish_via_partition_root = true");
    }
    sql.push(')');
    sql
}

fn set_tables_sql(options: &PublicationOptions, tables: &[OutboxTable]) -> String {
    let name = quote_identifier(options.name.as_str());
    format!("ALTER PUBLICATION {name} SET TABLE {}", table_list(tables))
}

fn table_list(tables: &[OutboxTable]) -> String {
    let names: Vec<String> = tables.iter().map(OutboxTable::quoted_name).collect();
    names.join(", ")
}
