//! From the filter to the tables.

use std::collections::HashMap;

use tokio_postgres::{Client, Row};

use super::{OutboxTable, Partition, TableColumn, TableFilter, nearest};
use crate::pgoutput::ReplicaIdentity;
use crate::postgres::{ObjectError, PostgresError};

impl OutboxTable {
    /// The tables that the filter takes, by name. Partitions of a table that it takes are part of
    /// that table. None is an error that offers what resembles it.
    pub async fn resolve(client: &Client, filter: &TableFilter) -> Result<Vec<Self>, ObjectError> {
        let rows = client.query(LIST, &[]).await.map_err(PostgresError::from)?;
        let entries = rows
            .iter()
            .map(Entry::from_row)
            .collect::<Result<Vec<_>, _>>()?;
        let chosen = choose(&entries, filter)?;
        let mut tables = Vec::with_capacity(chosen.len());
        for entry in chosen {
            let columns = read_columns(client, entry).await?;
            tables.push(entry.table(&entries, columns));
        }
        Ok(tables)
    }
}

/// One row of `pg_class`.
#[derive(Clone, Debug)]
struct Entry {
    oid: u32,
    schema: String,
    name: String,
    kind: Kind,
    permanent: bool,
    replica_identity: ReplicaIdentity,
    row_security: bool,
    estimated_rows: f32,
    /// The partitioned table that this one is a part of.
    parent: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ordinary,
    Partitioned,
    View,
    MaterializedView,
    Foreign,
}

const LIST: &str = "
    SELECT c.oid, n.nspname::text AS schema, c.relname::text AS name, c.relkind::text AS kind,
           c.relpersistence = 'p' AS permanent, c.relreplident::text AS identity,
           c.relrowsecurity AS row_security, c.reltuples AS estimated_rows, i.inhparent AS parent
      FROM pg_class c
      JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND c.relispartition
     WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
       AND n.nspname NOT IN ('pg_catalog', 'information_schema')
       AND n.nspname !~ '^pg_(toast|temp)'
     ORDER BY n.nspname, c.relname";

fn choose<'a>(entries: &'a [Entry], filter: &TableFilter) -> Result<Vec<&'a Entry>, ObjectError> {
    let matched: Vec<&Entry> = entries
        .iter()
        .filter(|entry| filter.matches(&entry.schema, &entry.name))
        .collect();
    let parents: HashMap<u32, u32> = entries
        .iter()
        .filter_map(|entry| Some((entry.oid, entry.parent?)))
        .collect();
    let covered = |entry: &Entry| {
        std::iter::successors(entry.parent, |oid| parents.get(oid).copied())
            .any(|ancestor| matched.iter().any(|other| other.oid == ancestor))
    };
    let (tables, others): (Vec<&Entry>, Vec<&Entry>) = matched
        .iter()
        .copied()
        .filter(|entry| !covered(entry))
        .partition(|entry| entry.why_not().is_none());
    match (tables.is_empty(), others.first()) {
        (false, _) => Ok(tables),
        (true, Some(other)) => Err(ObjectError::NotPublishable {
            table: other.qualified_name(),
            kind: other.why_not().unwrap_or("no table"),
        }),
        (true, None) => Err(ObjectError::NoTable {
            filter: filter.to_string(),
            near: near(entries, filter),
        }),
    }
}

/// Names like the filter's; where it is a list of patterns, like one that is nearly a name.
fn near(entries: &[Entry], filter: &TableFilter) -> Vec<String> {
    let names = || entries.iter().filter(|entry| entry.why_not().is_none());
    let mut offered: Vec<String> = Vec::new();
    for wanted in filter.wanted_names() {
        let (schema, name) = wanted.split_once('.').unwrap_or(("public", &wanted));
        // The same name in another schema is the likeliest mistake of all.
        let elsewhere = names()
            .filter(|entry| entry.name.eq_ignore_ascii_case(name) && entry.schema != schema)
            .map(Entry::qualified_name);
        let alike = nearest(&wanted, names().map(Entry::qualified_name));
        for candidate in elsewhere.chain(alike) {
            if !offered.contains(&candidate) {
                offered.push(candidate);
            }
        }
    }
    offered.truncate(5);
    offered
}

impl Entry {
    fn from_row(row: &Row) -> Result<Self, PostgresError> {
        Ok(Self {
            oid: row.try_get("oid")?,
            schema: row.try_get("schema")?,
            name: row.try_get("name")?,
            kind: match row.try_get::<_, &str>("kind")? {
                "p" => Kind::Partitioned,
                "v" => Kind::View,
                "m" => Kind::MaterializedView,
                "f" => Kind::Foreign,
                _ => Kind::Ordinary,
            },
            permanent: row.try_get("permanent")?,
            replica_identity: match row.try_get::<_, &str>("identity")? {
                "n" => ReplicaIdentity::Nothing,
                "f" => ReplicaIdentity::Full,
                "i" => ReplicaIdentity::Index,
                _ => ReplicaIdentity::Default,
            },
            row_security: row.try_get("row_security")?,
            estimated_rows: row.try_get("estimated_rows")?,
            parent: row.try_get("parent")?,
        })
    }

    fn why_not(&self) -> Option<&'static str> {
        match self.kind {
            Kind::View => Some("a view"),
            Kind::MaterializedView => Some("a materialized view"),
            Kind::Foreign => Some("a foreign table"),
            Kind::Ordinary if !self.permanent => Some("an unlogged table"),
            Kind::Ordinary | Kind::Partitioned => None,
        }
    }

    fn qualified_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    fn table(&self, entries: &[Self], columns: Vec<TableColumn>) -> OutboxTable {
        let partitioned = self.kind == Kind::Partitioned;
        OutboxTable {
            oid: self.oid,
            schema: self.schema.clone(),
            name: self.name.clone(),
            replica_identity: self.replica_identity,
            columns,
            partitions: partitioned.then(|| leaves(entries, self.oid)),
            row_security: self.row_security,
            // -1 stands for "never counted"; a root has no count of its own before ANALYZE.
            estimated_rows: (self.estimated_rows >= 0.0).then_some(self.estimated_rows as u64),
        }
    }
}

fn leaves(entries: &[Entry], root: u32) -> Vec<Partition> {
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        for entry in entries.iter().filter(|entry| entry.parent == Some(parent)) {
            if entry.kind == Kind::Partitioned {
                open.push(entry.oid);
            } else {
                found.push(Partition {
                    oid: entry.oid,
                    schema: entry.schema.clone(),
                    name: entry.name.clone(),
                });
            }
        }
    }
    found.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
    found
}

/// The replica identity's columns: all under FULL, those of the primary key by default.
const COLUMNS: &str = "
    SELECT a.attname::text AS name, a.atttypid AS type_oid, a.atttypmod AS type_modifier,
           format_type(a.atttypid, a.atttypmod) AS type_sql, NOT a.attnotnull AS nullable,
           a.attgenerated <> '' AS generated,
           c.relreplident = 'f' OR EXISTS (
               SELECT FROM pg_index i
                WHERE i.indrelid = c.oid AND a.attnum = ANY (i.indkey)
                  AND CASE c.relreplident WHEN 'd' THEN i.indisprimary
                                          WHEN 'i' THEN i.indisreplident
                                          ELSE false END) AS is_key
      FROM pg_attribute a
      JOIN pg_class c ON c.oid = a.attrelid
     WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
     ORDER BY a.attnum";

async fn read_columns(client: &Client, entry: &Entry) -> Result<Vec<TableColumn>, PostgresError> {
    let rows = client.query(COLUMNS, &[&entry.oid]).await?;
    rows.iter().map(column).collect()
}

fn column(row: &Row) -> Result<TableColumn, PostgresError> {
    Ok(TableColumn {
        name: row.try_get("name")?,
        type_oid: row.try_get("type_oid")?,
        type_modifier: row.try_get("type_modifier")?,
        type_sql: row.try_get("type_sql")?,
        nullable: row.try_get("nullable")?,
        is_key: row.try_get("is_key")?,
        generated: row.try_get("generated")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(oid: u32, name: &str, kind: Kind, parent: Option<u32>) -> Entry {
        let (schema, name) = name.split_once('.').unwrap();
        Entry {
            oid,
            schema: schema.into(),
            name: name.into(),
            kind,
            permanent: true,
            replica_identity: ReplicaIdentity::Default,
            row_security: false,
            estimated_rows: -1.0,
            parent,
        }
    }

    fn catalog() -> Vec<Entry> {
        vec![
            entry(1, "public.outbox", Kind::Partitioned, None),
            entry(2, "public.outbox_old", Kind::Partitioned, Some(1)),
            entry(3, "public.outbox_old_a", Kind::Ordinary, Some(2)),
            entry(4, "public.outbox_new", Kind::Ordinary, Some(1)),
            entry(5, "sales.OutboxEvent", Kind::Ordinary, None),
            entry(6, "public.outbox_view", Kind::View, None),
        ]
    }

    fn lists(include: &str) -> TableFilter {
        TableFilter::lists(&super::super::TableLists {
            table_include: Some(include.into()),
            ..Default::default()
        })
        .unwrap()
    }

    fn chosen(filter: &TableFilter) -> Result<Vec<u32>, String> {
        choose(&catalog(), filter)
            .map(|found| found.iter().map(|entry| entry.oid).collect())
            .map_err(|error| format!("{error} ({})", error.detail().unwrap_or_default()))
    }

    #[test]
    fn partitions_count_as_their_root() {
        assert_eq!(chosen(&lists("public.outbox.*")), Ok(vec![1]));
        assert_eq!(chosen(&lists("public.outbox_new")), Ok(vec![4]));
        let names: Vec<_> = leaves(&catalog(), 1)
            .into_iter()
            .map(|leaf| leaf.name)
            .collect();
        assert_eq!(names, ["outbox_new", "outbox_old_a"]);
    }

    #[test]
    fn a_filter_without_a_table_offers_what_is_alike() {
        let exact = |name| TableFilter::exact(name).unwrap();
        assert_eq!(
            chosen(&exact("sales.outboxevent")),
            Err(
                "no table matches \"sales.outboxevent\" (The database has sales.OutboxEvent.)"
                    .into()
            )
        );
        assert!(
            chosen(&lists("public.outboxx,nothing"))
                .unwrap_err()
                .contains("public.outbox")
        );
        assert!(
            chosen(&exact("app.outbox"))
                .unwrap_err()
                .contains("public.outbox")
        );
        assert_eq!(
            chosen(&exact("zzz.qqq")),
            Err("no table matches \"zzz.qqq\" ()".into())
        );
    }

    #[test]
    fn a_view_is_no_outbox() {
        assert_eq!(
            chosen(&lists("public.outbox_view")),
            Err("\"public.outbox_view\" is a view: its rows cannot be published ()".into())
        );
    }
}
