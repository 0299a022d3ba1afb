//! What the publication sends, and whether the outbox is in it.

use std::fmt;

use tokio_postgres::{Client, Row};

use super::{PublicationName, create_sql};
use crate::postgres::table::OutboxTable;
use crate::postgres::{ObjectError, PostgresError};
use crate::wire::quote_identifier;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    pub oid: u32,
    /// Another one after each change of what is published, also where that is as before again.
    pub row_version: String,
    pub name: PublicationName,
    pub owner: String,
    pub all_tables: bool,
    pub inserts: bool,
    pub updates: bool,
    pub deletes: bool,
    pub truncates: bool,
    pub via_partition_root: bool,
    /// Tables that were added by name, partitioned ones as their root.
    pub listed: Vec<u32>,
    /// The catalog's number of each of these entries: another one where a table was taken out and put
    /// in again.
    pub listings: Vec<u32>,
    /// Schemas that were added whole (PostgreSQL 15 and later).
    pub schemas: Vec<String>,
    /// The catalog's number of each of these entries, as `listings`.
    pub schema_listings: Vec<u32>,
    /// What is sent in the end; empty when all tables are.
    pub published: Vec<PublishedTable>,
}

/// An entry, by its number in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    Table(u32),
    Schema(u32),
}

/// A table under the name with which its rows arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedTable {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    /// PostgreSQL 15 and later, as the next one.
    pub row_filter: Option<String>,
    /// The columns, where only some are sent.
    pub columns: Option<Vec<String>>,
}

/// What is allowed but odd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicationNote {
    AllTables,
    OtherTables(Vec<String>),
    /// An UPDATE of an outbox row cannot be noticed.
    NoUpdates,
    /// The server sends what is dropped here.
    Deletes,
    RowFilter {
        table: String,
        filter: String,
    },
    ColumnList {
        table: String,
        columns: Vec<String>,
    },
    /// Rows of partitions arrive under the partitions' names.
    NotViaRoot {
        table: String,
    },
}

impl Publication {
    pub async fn read(
        client: &Client,
        name: &PublicationName,
    ) -> Result<Option<Self>, PostgresError> {
        let Some(row) = client.query_opt(DESCRIBE, &[&name.as_str()]).await? else {
            return Ok(None);
        };
        let version: i32 = row.try_get("server_version")?;
        let all_tables = row.try_get("puballtables")?;
        let (schemas, schema_listings) = match version >= SCHEMAS_SINCE {
            true => read_schemas(client, name).await?,
            false => (Vec::new(), Vec::new()),
        };
        Ok(Some(Self {
            oid: row.try_get("oid")?,
            row_version: row.try_get("row_version")?,
            name: name.clone(),
            owner: row.try_get("owner")?,
            all_tables,
            inserts: row.try_get("pubinsert")?,
            updates: row.try_get("pubupdate")?,
            deletes: row.try_get("pubdelete")?,
            truncates: row.try_get("pubtruncate")?,
            via_partition_root: row.try_get("pubviaroot")?,
            listed: row.try_get("listed")?,
            listings: row.try_get("listings")?,
            schemas,
            schema_listings,
            published: match all_tables {
                true => Vec::new(),
                false => PublishedTable::read(client, name).await?,
            },
        }))
    }

    /// The table is in it under its own number.
    pub fn covers_oid(&self, table: u32) -> bool {
        let mut published = self.published.iter();
        self.all_tables
            || self.listed.contains(&table)
            || published.any(|published| published.oid == table)
    }

    /// Inserts into the table reach the slot, whichever partition they fall into.
    pub fn covers(&self, table: &OutboxTable) -> bool {
        self.covers_oid(table.oid)
            || match &table.partitions {
                Some(partitions) => {
                    !partitions.is_empty()
                        && partitions.iter().all(|leaf| self.covers_oid(leaf.oid))
                }
                None => false,
            }
    }

    /// The first reason for which events would be missing.
    pub fn check(&self, tables: &[OutboxTable]) -> Result<(), ObjectError> {
        let quoted = quote_identifier(self.name.as_str());
        if !self.inserts {
            return Err(ObjectError::PublicationLacksInserts {
                name: self.name.to_string(),
                sql: format!("ALTER PUBLICATION {quoted} SET (publish = 'insert, update')"),
            });
        }
        match tables.iter().find(|table| !self.covers(table)) {
            Some(table) => Err(ObjectError::PublicationLacksTable {
                name: self.name.to_string(),
                table: table.qualified_name(),
                sql: format!(
                    "ALTER PUBLICATION {quoted} ADD TABLE {}",
                    table.quoted_name()
                ),
                earlier: None,
            }),
            None => Ok(()),
        }
    }

    /// The entries by which a table is in it: its own, and that of its schema.
    pub fn entries(&self, table: u32, schema: &str) -> Vec<Listing> {
        let own = self.listed.iter().zip(&self.listings);
        let own = own.filter(|(listed, _)| **listed == table);
        let whole = self.schemas.iter().zip(&self.schema_listings);
        let whole = whole.filter(|(listed, _)| *listed == schema);
        let own = own.map(|(_, entry)| Listing::Table(*entry));
        own.chain(whole.map(|(_, entry)| Listing::Schema(*entry)))
            .collect()
    }

    /// Rows of other tables cannot come.
    pub fn sends_only(&self, tables: &[OutboxTable]) -> bool {
        let is_ours = |oid: u32| tables.iter().any(|table| table.holds(oid));
        !self.all_tables
            && self.schemas.is_empty()
            && self
                .published
                .iter()
                .all(|published| is_ours(published.oid))
    }

    /// Exactly the tables are listed, and nothing else is sent.
    pub fn lists_exactly(&self, tables: &[OutboxTable]) -> bool {
        let mut listed = self.listed.clone();
        let mut wanted: Vec<u32> = tables.iter().map(|table| table.oid).collect();
        listed.sort_unstable();
        wanted.sort_unstable();
        listed == wanted && self.schemas.is_empty() && !self.all_tables
    }

    pub fn notes(&self, tables: &[OutboxTable]) -> Vec<PublicationNote> {
        let mut notes = Vec::new();
        let of_outbox =
            |published: &PublishedTable| tables.iter().any(|table| table.holds(published.oid));
        if self.all_tables {
            notes.push(PublicationNote::AllTables);
        }
        let others: Vec<String> = self
            .published
            .iter()
            .filter(|published| !of_outbox(published))
            .map(PublishedTable::qualified_name)
            .collect();
        if !others.is_empty() {
            notes.push(PublicationNote::OtherTables(others));
        }
        if !self.updates {
            notes.push(PublicationNote::NoUpdates);
        }
        if self.deletes {
            notes.push(PublicationNote::Deletes);
        }
        for published in self
            .published
            .iter()
            .filter(|published| of_outbox(published))
        {
            let table = published.qualified_name();
            if let Some(filter) = published.row_filter.clone() {
                notes.push(PublicationNote::RowFilter {
                    table: table.clone(),
                    filter,
                });
            }
            if let Some(columns) = published.columns.clone() {
                notes.push(PublicationNote::ColumnList { table, columns });
            }
        }
        if !self.via_partition_root {
            let roots = tables.iter().filter(|table| table.partitions.is_some());
            notes.extend(roots.map(|table| PublicationNote::NotViaRoot {
                table: table.qualified_name(),
            }));
        }
        notes
    }
}

/// `FOR TABLES IN SCHEMA`, row filters and column lists came with PostgreSQL 15.
const SCHEMAS_SINCE: i32 = 150_000;

const DESCRIBE: &str = "
    SELECT p.oid, p.xmin::text AS row_version, pg_get_userbyid(p.pubowner)::text AS owner, p.puballtables, p.pubinsert, p.pubupdate,
           p.pubdelete, p.pubtruncate, p.pubviaroot,
           ARRAY(SELECT r.prrelid FROM pg_publication_rel r WHERE r.prpubid = p.oid
                  ORDER BY r.oid) AS listed,
           ARRAY(SELECT r.oid FROM pg_publication_rel r WHERE r.prpubid = p.oid
                  ORDER BY r.oid) AS listings,
           current_setting('server_version_num')::int4 AS server_version
      FROM pg_publication p
     WHERE p.pubname = $1";

/// Through `to_jsonb` the columns that PostgreSQL 14 lacks read as null. From 15 on the view gives
/// every column's name where there is no list; the list itself is in `pg_publication_rel`.
const PUBLISHED: &str = "
    SELECT c.oid, t.schemaname::text AS schema, t.tablename::text AS name,
           to_jsonb(t)->>'rowfilter' AS row_filter,
           (SELECT array_agg(a.attname::text ORDER BY a.attnum)
              FROM pg_publication_rel r
              JOIN pg_publication p ON p.oid = r.prpubid
              JOIN pg_attribute a ON a.attrelid = r.prrelid
             WHERE p.pubname = t.pubname AND r.prrelid = c.oid
               AND to_jsonb(r)->'prattrs' @> to_jsonb(a.attnum)) AS columns
      FROM pg_publication_tables t
      JOIN pg_namespace n ON n.nspname = t.schemaname
      JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
     WHERE t.pubname = $1
     ORDER BY t.schemaname, t.tablename";

async fn read_schemas(
    client: &Client,
    name: &PublicationName,
) -> Result<(Vec<String>, Vec<u32>), PostgresError> {
    let rows = client
        .query(
            "SELECT n.nspname::text, s.oid
               FROM pg_publication_namespace s
               JOIN pg_publication p ON p.oid = s.pnpubid
               JOIN pg_namespace n ON n.oid = s.pnnspid
              WHERE p.pubname = $1 ORDER BY 1",
            &[&name.as_str()],
        )
        .await?;
    rows.iter()
        .map(|row| Ok::<(String, u32), PostgresError>((row.try_get(0)?, row.try_get(1)?)))
        .collect()
}

impl PublishedTable {
    async fn read(client: &Client, name: &PublicationName) -> Result<Vec<Self>, PostgresError> {
        let rows = client.query(PUBLISHED, &[&name.as_str()]).await?;
        rows.iter().map(Self::from_row).collect()
    }

    fn from_row(row: &Row) -> Result<Self, PostgresError> {
        Ok(Self {
            oid: row.try_get("oid")?,
            schema: row.try_get("schema")?,
            name: row.try_get("name")?,
            row_filter: row.try_get("row_filter")?,
            columns: row.try_get("columns")?,
        })
    }

    fn qualified_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }
}

impl PublicationNote {
    /// What changes it, where something should be changed.
    pub fn remedy(&self, name: &PublicationName) -> Option<String> {
        let quoted = quote_identifier(name.as_str());
        match self {
            Self::AllTables => Some(format!(
                "Make one for the outbox alone under another name; {quoted} sends every table's rows."
            )),
            Self::Deletes => Some(format!(
                "ALTER PUBLICATION {quoted} SET (publish = 'insert, update');"
            )),
            Self::NoUpdates => Some(format!(
                "ALTER PUBLICATION {quoted} SET (publish = 'insert, update');"
            )),
            Self::NotViaRoot { .. } => Some(format!(
                "ALTER PUBLICATION {quoted} SET (publish_via_partition_root = true);"
            )),
            Self::OtherTables(_) | Self::RowFilter { .. } | Self::ColumnList { .. } => None,
        }
    }
}

impl fmt::Display for PublicationNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllTables => f.write_str("it is FOR ALL TABLES"),
            Self::OtherTables(tables) => {
                write!(f, "it has other tables too: {}", tables.join(", "))
            }
            Self::NoUpdates => {
                f.write_str("it leaves updates out: an UPDATE of the outbox is not noticed")
            }
            Self::Deletes => f.write_str("it sends deletes too, which are dropped here"),
            Self::RowFilter { table, filter } => {
                write!(f, "it sends only some rows of \"{table}\": {filter}")
            }
            Self::ColumnList { table, columns } => {
                write!(
                    f,
                    "it sends only some columns of \"{table}\": {}",
                    columns.join(", ")
                )
            }
            Self::NotViaRoot { table } => write!(
                f,
                "rows of \"{table}\" arrive under the names of its partitions"
            ),
        }
    }
}

/// For an error: what would create it.
pub(super) fn missing(options: &super::PublicationOptions, tables: &[OutboxTable]) -> ObjectError {
    ObjectError::PublicationMissing {
        name: options.name.to_string(),
        create_sql: create_sql(options, tables),
    }
}
