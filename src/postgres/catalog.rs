//! What the catalog says of types and columns and the stream does not.

use tokio_postgres::{Client, Row};

use super::PostgresError;
use crate::outbox::{CatalogColumn, CatalogType, TypeCatalog, TypeKind};

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
