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
    pub publication: Publication,
    /// What has changed since the look before, and takes no row away for sure.
    pub remarks: Vec<Remark>,
    /// Of all partitioned tables.
    pub partitions: Vec<SeenPartition>,
}

/// A partition that has none of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPartition {
    pub partition: Partition,
    /// Another one once it, or what it is part of, was detached and attached again.
    pub link: String,
    /// Made and attached by one transaction, and so was what it is part of: a table that was filled
    /// before is not.
    pub is_born: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// What it publishes may have been less for a while.
    Altered { publication: String },
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
    leaves: Vec<SeenPartition>,
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
            publication: self.publication.clone(),
            before,
            after: position_seen(client).await?,
            remarks,
            partitions: now.into_iter().flat_map(|now| now.leaves).collect(),
        })
    }

    /// What has changed between two streams of one process.
    pub fn since(&self, earlier: &Self) -> Vec<Remark> {
        let same = |table: &&OutboxTable| earlier.tables.iter().any(|old| old.oid == table.oid);
        let tables = self.tables.iter().filter(same);
        let again = tables.filter_map(|table| earlier.listed_again(&self.publication, table));
        let altered = earlier.altered(&self.publication);
        altered.into_iter().chain(again).collect()
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
                let leaves = now.leaves.iter();
                table.partitions = Some(leaves.map(|leaf| leaf.partition.clone()).collect());
            }
        }
        let mut remarks: Vec<_> = self.altered(publication).into_iter().collect();
        for (table, now) in self.tables.iter().zip(now) {
            remarks.extend(self.listed_again(publication, table));
            remarks.extend(self.narrowed(publication, table));
            remarks.extend(renamed(publication, table, now)?);
        }
        Ok(remarks)
    }

    /// Its row was written anew: it can have been without inserts and have them again. While the
    /// publication itself was another one the server refuses rows and does not pass over them.
    fn altered(&self, publication: &Publication) -> Option<Remark> {
        let before = &self.publication;
        let altered =
            before.oid == publication.oid && before.row_version != publication.row_version;
        altered.then(|| Remark::Altered {
            publication: publication.name.to_string(),
        })
    }

    /// Published as before, and by none of the entries that it was published by.
    fn listed_again(&self, publication: &Publication, table: &OutboxTable) -> Option<Remark> {
        if self.publication.oid != publication.oid || !publication.covers(table) {
            return None;
        }
        let entries = |oid, schema| {
            let before = self.publication.entries(oid, schema);
            (before, publication.entries(oid, schema))
        };
        let is_again = |oid, schema| {
            let (before, after) = entries(oid, schema);
            !before.is_empty() && !before.iter().any(|entry| after.contains(entry))
        };
        let (own, _) = entries(table.oid, &table.schema);
        let again = if own.is_empty() {
            let mut leaves = table.partitions.iter().flatten();
            leaves.any(|leaf| is_again(leaf.oid, &leaf.schema))
        } else {
            is_again(table.oid, &table.schema)
        };
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

/// A system column's row in `pg_attribute` is as old as its table; the row in `pg_inherits` is as old as
/// the attachment.
const TABLES: &str = "
    SELECT n.nspname::text AS schema, c.relname::text AS name,
           (SELECT o.oid FROM pg_class o JOIN pg_namespace s ON s.oid = o.relnamespace
             WHERE s.nspname = w.schema AND o.relname = w.name AND o.relkind IN ('r', 'p')) AS named,
           leaf.oids, leaf.schemas, leaf.names, leaf.links, leaf.born
      FROM unnest($1::oid[], $2::text[], $3::text[]) WITH ORDINALITY AS w(oid, schema, name, place)
      LEFT JOIN pg_class c ON c.oid = w.oid
      LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
     CROSS JOIN LATERAL (
           SELECT coalesce(array_agg(l.oid ORDER BY l.oid), '{}') AS oids,
                  coalesce(array_agg(s.nspname::text ORDER BY l.oid), '{}') AS schemas,
                  coalesce(array_agg(l.relname::text ORDER BY l.oid), '{}') AS names,
                  coalesce(array_agg(up.link ORDER BY l.oid), '{}') AS links,
                  coalesce(array_agg(up.born ORDER BY l.oid), '{}') AS born
             FROM pg_partition_tree(c.oid) t
             JOIN pg_class l ON l.oid = t.relid
             JOIN pg_namespace s ON s.oid = l.relnamespace
            CROSS JOIN LATERAL (
                  SELECT coalesce(string_agg(i.xmin::text, ' ' ORDER BY i.inhrelid), '') AS link,
                         coalesce(bool_and(i.xmin = a.xmin), true) AS born
                    FROM pg_partition_ancestors(l.oid) u
                    JOIN pg_inherits i ON i.inhrelid = u.relid
                    JOIN pg_attribute a ON a.attrelid = u.relid AND a.attnum = -1) up
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
                let links: Vec<String> = row.try_get("links")?;
                let born: Vec<bool> = row.try_get("born")?;
                let leaves = oids.into_iter().zip(schemas).zip(names);
                let leaves = leaves.zip(links.into_iter().zip(born));
                let leaf = |(((oid, schema), name), (link, is_born))| SeenPartition {
                    partition: Partition { oid, schema, name },
                    link,
                    is_born,
                };
                leaves.map(leaf).collect()
            },
        })
    }
}

impl Remark {
    /// Rows may have passed by unseen.
    pub fn may_have_hidden_rows(&self) -> bool {
        matches!(self, Self::ListedAgain { .. } | Self::Altered { .. })
    }

    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::RowFilter {
                filter: Some(_), ..
            } => Some("Rows that the filter leaves out are never sent."),
            Self::Renamed { .. } => Some("Set outbox.table to the new name before the next start."),
            Self::Altered { .. }
            | Self::ListedAgain { .. }
            | Self::RowFilter { .. }
            | Self::ColumnList { .. } => None,
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Altered { publication } => write!(
                f,
                "publication \"{publication}\" was altered, and may have been without inserts for a while"
            ),
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
