//! What the catalog says of types and columns and the stream does not.

use std::sync::Arc;

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
    /// Whatever it is called: it was an outbox table before it was renamed, or the publication sends
    /// nothing else.
    pub is_ours: bool,
    /// An outbox table has the same columns.
    pub is_alike: bool,
}

impl StreamedTable {
    /// Its columns and types, or that it is none of the outbox's. A table that was dropped since may
    /// have been a part of the outbox: then it has its columns.
    pub async fn describe(&self, client: &Client) -> Result<TypeCatalog, PostgresError> {
        let relation = &self.relation;
        let is_named = self.filter.matches(&relation.namespace, &relation.name);
        if !is_named && !self.is_ours {
            let taken = is_taken(client, relation.oid, &self.filter).await?;
            if !taken.unwrap_or(self.is_alike) {
                let mut catalog = TypeCatalog::default();
                catalog.add_other_table(relation.oid);
                return Ok(catalog);
            }
        }
        let types: Vec<u32> = relation.columns.iter().map(|c| c.type_oid).collect();
        describe(client, &[relation.oid], &types).await
    }
}

/// Whether a streamed table is one of those that `filter` takes, or a part of one. `None` where the
/// catalog does not have it any more.
async fn is_taken(
    client: &Client,
    table: u32,
    filter: &TableFilter,
) -> Result<Option<bool>, PostgresError> {
    let rows = client.query(ANCESTORS, &[&table]).await?;
    let mut taken = (!rows.is_empty()).then_some(false);
    for row in rows {
        let (schema, name): (&str, &str) = (row.try_get("schema")?, row.try_get("name")?);
        if filter.matches(schema, name) {
            taken = Some(true);
        }
    }
    Ok(taken)
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
