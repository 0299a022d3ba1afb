//! What the catalog says of types and columns and the stream does not.

use std::sync::Arc;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::PostgresError;
use super::table::TableFilter;
use crate::outbox::{CatalogColumn, CatalogType, TypeCatalog, TypeKind};
use crate::pgoutput::Relation;

/// The columns of the given tables as they are now, and their types with every type that these rest
/// on; `types` are further ones. What is not there any more is left out.
pub async fn describe(
    client: &Client,
    tables: &[u32],
    types: &[u32],
) -> Result<TypeCatalog, PostgresError> {
    let mut catalog = TypeCatalog::default();
    let mut types = types.to_vec();
    for table in tables {
        catalog.add_table(*table);
    }
    for row in client.query(COLUMNS, &[&tables]).await? {
        types.push(row.try_get("type")?);
        let column = CatalogColumn {
            not_null: row.try_get("not_null")?,
            default: row.try_get("default_expression")?,
        };
        catalog.add_column(row.try_get("table")?, row.try_get("name")?, column);
    }
    for row in client.query(TYPES, &[&types]).await? {
        let name = row.try_get("name")?;
        let kind = kind(&row)?;
        catalog.add_type(row.try_get("oid")?, CatalogType { name, kind });
    }
    Ok(catalog)
}

/// A table that the stream has described.
#[derive(Clone, Debug)]
pub struct StreamedTable {
    pub relation: Arc<Relation>,
    /// The outbox tables.
    pub filter: TableFilter,
    /// Through which it was sent.
    pub publication: String,
    /// Whatever it is called: it was an outbox table, or a part of one, when the stream began.
    pub is_ours: bool,
    /// The publication sent nothing else when the stream began.
    pub only_ours: bool,
    /// Its rows could be events, by its columns.
    pub is_alike: bool,
}

/// What the catalog has of a streamed table that has no outbox table's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// It is called as one by now, or is a part of one.
    Outbox,
    /// The publication sends it for what it is.
    Published,
    /// The publication does not send it any more: it was taken out, or was a part of what is sent.
    Unpublished,
    Gone,
}

impl StreamedTable {
    /// Its columns and types, or that it is none of the outbox's.
    pub async fn describe(&self, client: &Client) -> Result<TypeCatalog, PostgresError> {
        let relation = &self.relation;
        let is_named = self.filter.matches(&relation.namespace, &relation.name);
        if !is_named && !self.is_ours {
            let found = self.find(client).await?;
            if !self.takes(found) {
                let mut catalog = TypeCatalog::default();
                catalog.add_other_table(relation.oid);
                return Ok(catalog);
            }
        }
        let types: Vec<u32> = relation.columns.iter().map(|c| c.type_oid).collect();
        describe(client, &[relation.oid], &types).await
    }

    /// A table that is not there any more, or not for itself, may have been a partition of the outbox
    /// when the row was written: nothing in the stream tells, and no event is passed over for that.
    const fn takes(&self, found: Found) -> bool {
        match found {
            Found::Outbox => true,
            Found::Published => false,
            Found::Unpublished | Found::Gone => self.only_ours || self.is_alike,
        }
    }

    async fn find(&self, client: &Client) -> Result<Found, PostgresError> {
        let rows = client.query(ANCESTORS, &[&self.relation.oid]).await?;
        if rows.is_empty() {
            return Ok(Found::Gone);
        }
        for row in rows {
            let (schema, name): (&str, &str) = (row.try_get("schema")?, row.try_get("name")?);
            if self.filter.matches(schema, name) {
                return Ok(Found::Outbox);
            }
        }
        let parameters: [&(dyn ToSql + Sync); 2] = [&self.relation.oid, &self.publication];
        let row = client.query_one(IS_PUBLISHED, &parameters).await?;
        Ok(match row.try_get("published")? {
            true => Found::Published,
            false => Found::Unpublished,
        })
    }
}

/// The table and what it inherits from; partitions inherit too.
const ANCESTORS: &str = "
    WITH RECURSIVE up AS (
        SELECT $1::oid AS oid
        UNION
        SELECT i.inhparent FROM up JOIN pg_inherits i ON i.inhrelid = up.oid
    )
    SELECT n.nspname::text AS schema, c.relname::text AS name
      FROM up JOIN pg_class c ON c.oid = up.oid JOIN pg_namespace n ON n.oid = c.relnamespace";

/// Of a partition: under its own name. What is sent through its root is not.
const IS_PUBLISHED: &str = "
    SELECT EXISTS (
        SELECT FROM pg_publication_tables p
          JOIN pg_namespace n ON n.nspname = p.schemaname
          JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
         WHERE p.pubname = $2::text AND c.oid = $1::oid) AS published";

const COLUMNS: &str = "
    SELECT a.attrelid AS table, a.attname::text AS name, a.atttypid AS type,
           a.attnotnull OR (t.typtype = 'd' AND t.typnotnull) AS not_null,
           CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid)
            END AS default_expression
      FROM pg_attribute a
      JOIN pg_type t ON t.oid = a.atttypid
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = ANY ($1) AND a.attnum > 0 AND NOT a.attisdropped";

/// An array type is the one that its element's `typarray` names: `name` and `point` have elements
/// too and are no arrays.
const TYPES: &str = "
    WITH RECURSIVE wanted AS (
        SELECT unnest($1::oid[]) AS oid
        UNION
        SELECT part.oid
          FROM wanted
          JOIN pg_type t ON t.oid = wanted.oid
         CROSS JOIN LATERAL unnest(ARRAY[t.typbasetype, t.typelem]) AS part(oid)
         WHERE part.oid <> 0
    )
    SELECT t.oid, t.typname::text AS name, t.typtype::text AS kind,
           t.typbasetype AS base, t.typtypmod AS modifier,
           (SELECT e.oid FROM pg_type e WHERE e.typarray = t.oid AND e.oid = t.typelem) AS element,
           ARRAY(SELECT l.enumlabel::text FROM pg_enum l
                  WHERE l.enumtypid = t.oid ORDER BY l.enumsortorder) AS labels
      FROM pg_type t
     WHERE t.oid IN (SELECT oid FROM wanted)";

fn kind(row: &Row) -> Result<TypeKind, PostgresError> {
    let element: Option<u32> = row.try_get("element")?;
    Ok(match (row.try_get::<_, &str>("kind")?, element) {
        (_, Some(element)) => TypeKind::Array { element },
        ("d", _) => TypeKind::Domain {
            base: row.try_get("base")?,
            type_modifier: row.try_get("modifier")?,
        },
        ("e", _) => TypeKind::Enum {
            labels: row.try_get("labels")?,
        },
        ("b", _) => TypeKind::Base,
        // Composites, ranges, multiranges, pseudo-types.
        _ => TypeKind::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgoutput::ReplicaIdentity;

    #[test]
    fn the_catalog_says_whose_a_table_is_and_the_rest_only_where_it_does_not_know() {
        let taken = |only_ours, is_alike| {
            let relation = Relation {
                oid: 7,
                namespace: "public".into(),
                name: "outbox_2026_10".into(),
                replica_identity: ReplicaIdentity::Default,
                columns: Vec::new(),
            };
            let table = StreamedTable {
                relation: Arc::new(relation),
                filter: TableFilter::exact("public.outbox").unwrap(),
                publication: "outbox".into(),
                is_ours: false,
                only_ours,
                is_alike,
            };
            [
                Found::Outbox,
                Found::Published,
                Found::Unpublished,
                Found::Gone,
            ]
            .map(|found| table.takes(found))
        };
        assert_eq!(taken(false, false), [true, false, false, false]);
        // A table that was added to the publication since, whatever it sent before.
        assert_eq!(taken(true, true), [true, false, true, true]);
        // A partition that was dropped or detached since.
        assert_eq!(taken(false, true), [true, false, true, true]);
        assert_eq!(taken(true, false), [true, false, true, true]);
    }
}
