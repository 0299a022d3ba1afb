//! Whether publication and tables are still what the stream began with. When they are not, rows are
//! inserted that no stream has: the server reads each row by the catalog as it was at that row.

use std::fmt;

use tokio_postgres::{Client, Row};

use super::position::position_seen;
use super::publication::{Publication, PublicationOptions, PublishedTable, create_sql};
use super::table::{OutboxTable, Partition};
use super::{EarlierTable, ObjectError, PostgresError};
use crate::lsn::Lsn;
use crate::wire::quote_identifier;

/// What the stream began with, as far as it may change.
#[derive(Clone, Debug)]
pub struct Watched {
    pub slot: String,
    pub options: PublicationOptions,
    pub tables: Vec<OutboxTable>,
    pub publication: Publication,
}

/// Everything is published; the positions lie around the look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    pub before: Lsn,
    pub after: Lsn,
    /// What has changed since the look before, and takes no row away for sure.
    pub remarks: Vec<Remark>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// A table was taken out of the publication and is in it again.
    ListedAgain { table: String },
    RowFilter {
        table: String,
        filter: Option<String>,
    },
    ColumnList {
        table: String,
        columns: Option<Vec<String>>,
    },
    /// Its rows still come; a start would not find it.
    Renamed { table: String, to: String },
}

/// What the catalog has for one of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TableNow {
    /// The table itself; absent when it was dropped.
    schema_and_name: Option<(String, String)>,
    /// Which table has its name.
    named: Option<u32>,
    /// Partitions that have none of their own.
    leaves: Vec<Partition>,
}

impl Watched {
    /// An error of the kind [`ObjectError::hides_rows`], or the session's own.
    pub async fn look(&mut self, client: &Client) -> Result<Look, ObjectError> {
        let before = position_seen(client).await?;
        let publication = Publication::read(client, &self.options.name).await?;
        let publication = publication.ok_or_else(|| ObjectError::PublicationGone {
            name: self.options.name.to_string(),
            slot: self.slot.clone(),
            create_sql: create_sql(&self.options, &self.tables),
        })?;
        let now = TableNow::read(client, &self.tables).await?;
        let remarks = self.compare(&publication, &now)?;
        self.publication = publication;
        Ok(Look {
            before,
            after: position_seen(client).await?,
            remarks,
        })
    }

    /// What has changed between two streams of one process.
    pub fn since(&self, earlier: &Self) -> Vec<Remark> {
        let same = |table: &&OutboxTable| earlier.tables.iter().any(|old| old.oid == table.oid);
        let tables = self.tables.iter().filter(same);
        let remarks = tables.map(|table| earlier.listed_again(&self.publication, table));
        remarks.flatten().collect()
    }

    fn compare(
        &mut self,
        publication: &Publication,
        now: &[TableNow],
    ) -> Result<Vec<Remark>, ObjectError> {
        if !publication.inserts {
            publication.check(&[])?;
        }
        for (table, now) in self.tables.iter_mut().zip(now) {
            if table.partitions.is_some() && now.schema_and_name.is_some() {
                table.partitions = Some(now.leaves.clone());
            }
        }
        let mut remarks = Vec::new();
        for (table, now) in self.tables.iter().zip(now) {
            remarks.extend(self.listed_again(publication, table));
            remarks.extend(self.narrowed(publication, table));
            remarks.extend(renamed(publication, table, now)?);
        }
        Ok(remarks)
    }

    /// While the publication itself was another one the server refuses rows and does not pass over
    /// them.
    fn listed_again(&self, publication: &Publication, table: &OutboxTable) -> Option<Remark> {
        let (before, after) = (
            self.publication.listing(table.oid)?,
            publication.listing(table.oid)?,
        );
        let again = before != after && self.publication.oid == publication.oid;
        again.then(|| Remark::ListedAgain {
            table: table.qualified_name(),
        })
    }

    fn narrowed(&self, publication: &Publication, table: &OutboxTable) -> Vec<Remark> {
        let of = |publication: &Publication| -> Option<PublishedTable> {
            let mut published = publication.published.iter();
            published.find(|each| each.oid == table.oid).cloned()
        };
        let (Some(before), Some(after)) = (of(&self.publication), of(publication)) else {
            return Vec::new();
        };
        let table = table.qualified_name();
        let mut remarks = Vec::new();
        if before.row_filter != after.row_filter {
            let filter = after.row_filter;
            let table = table.clone();
            remarks.push(Remark::RowFilter { table, filter });
        }
        if before.columns != after.columns {
            let columns = after.columns;
            remarks.push(Remark::ColumnList { table, columns });
        }
        remarks
    }
}

/// The table by its number and by its name: one of them may be another table by now.
fn renamed(
    publication: &Publication,
    table: &OutboxTable,
    now: &TableNow,
) -> Result<Option<Remark>, ObjectError> {
    match (now.named, &now.schema_and_name) {
        (Some(oid), _) if oid == table.oid => publication
            .check(std::slice::from_ref(table))
            .map(|()| None),
        (Some(oid), current) => {
            if publication.covers_oid(oid) {
                return Ok(None);
            }
            let add = format!(
                "ALTER PUBLICATION {} ADD TABLE {}",
                quote_identifier(publication.name.as_str()),
                table.quoted_name()
            );
            Err(ObjectError::PublicationLacksTable {
                name: publication.name.to_string(),
                table: table.qualified_name(),
                sql: add,
                earlier: Some(match current {
                    Some((schema, name)) => EarlierTable::RenamedTo(format!("{schema}.{name}")),
                    None => EarlierTable::Dropped,
                }),
            })
        }
        (None, Some((schema, name))) => {
            let to = OutboxTable {
                schema: schema.clone(),
                name: name.clone(),
                ..table.clone()
            };
            publication.check(std::slice::from_ref(&to))?;
            Ok(Some(Remark::Renamed {
                table: table.qualified_name(),
                to: to.qualified_name(),
            }))
        }
        (None, None) => Err(ObjectError::NoTable {
            filter: table.qualified_name(),
            near: Vec::new(),
        }),
    }
}

const TABLES: &str = "
    SELECT n.nspname::text AS schema, c.relname::text AS name,
           (SELECT o.oid FROM pg_class o JOIN pg_namespace s ON s.oid = o.relnamespace
             WHERE s.nspname = w.schema AND o.relname = w.name AND o.relkind IN ('r', 'p')) AS named,
           leaf.oids, leaf.schemas, leaf.names
      FROM unnest($1::oid[], $2::text[], $3::text[]) WITH ORDINALITY AS w(oid, schema, name, place)
      LEFT JOIN pg_class c ON c.oid = w.oid
      LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
     CROSS JOIN LATERAL (
           SELECT coalesce(array_agg(l.oid ORDER BY l.oid), '{}') AS oids,
                  coalesce(array_agg(s.nspname::text ORDER BY l.oid), '{}') AS schemas,
                  coalesce(array_agg(l.relname::text ORDER BY l.oid), '{}') AS names
             FROM pg_partition_tree(c.oid) t
             JOIN pg_class l ON l.oid = t.relid
             JOIN pg_namespace s ON s.oid = l.relnamespace
            WHERE c.relkind = 'p' AND t.isleaf) leaf
     ORDER BY w.place";

impl TableNow {
    async fn read(client: &Client, tables: &[OutboxTable]) -> Result<Vec<Self>, PostgresError> {
        let oids: Vec<u32> = tables.iter().map(|table| table.oid).collect();
        let schemas: Vec<&str> = tables.iter().map(|table| table.schema.as_str()).collect();
        let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        let rows = client.query(TABLES, &[&oids, &schemas, &names]).await?;
        rows.iter().map(Self::from_row).collect()
    }

    fn from_row(row: &Row) -> Result<Self, PostgresError> {
        let (schema, name): (Option<String>, Option<String>) =
            (row.try_get("schema")?, row.try_get("name")?);
        Ok(Self {
            schema_and_name: schema.zip(name),
            named: row.try_get("named")?,
            leaves: {
                let oids: Vec<u32> = row.try_get("oids")?;
                let schemas: Vec<String> = row.try_get("schemas")?;
                let names: Vec<String> = row.try_get("names")?;
                let leaves = oids.into_iter().zip(schemas).zip(names);
                let leaf = |((oid, schema), name)| Partition { oid, schema, name };
                leaves.map(leaf).collect()
            },
        })
    }
}

impl Remark {
    /// Rows may have passed by unseen.
    pub fn may_have_hidden_rows(&self) -> bool {
        matches!(self, Self::ListedAgain { .. })
    }

    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::RowFilter {
                filter: Some(_), ..
            } => Some("Rows that the filter leaves out are never sent."),
            Self::Renamed { .. } => Some("Set outbox.table to the new name before the next start."),
            Self::ListedAgain { .. } | Self::RowFilter { .. } | Self::ColumnList { .. } => None,
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ListedAgain { table } => write!(
                f,
                "table \"{table}\" was taken out of the publication and is in it again"
            ),
            Self::RowFilter {
                table,
                filter: Some(filter),
            } => write!(
                f,
                "the publication sends only some rows of \"{table}\" now: {filter}"
            ),
            Self::RowFilter {
                table,
                filter: None,
            } => write!(f, "the publication sends all rows of \"{table}\" now"),
            Self::ColumnList {
                table,
                columns: Some(columns),
            } => write!(
                f,
                "the publication sends only some columns of \"{table}\" now: {}",
                columns.join(", ")
            ),
            Self::ColumnList {
                table,
                columns: None,
            } => write!(f, "the publication sends all columns of \"{table}\" now"),
            Self::Renamed { table, to } => {
                write!(
                    f,
                    "table \"{table}\" is called \"{to}\" now; its rows still come"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
