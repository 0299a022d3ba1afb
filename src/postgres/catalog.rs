//! Types as the catalog describes them: what a type's oid stands for.

use std::collections::HashMap;

use tokio_postgres::{Client, Row};

use super::PostgresError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeDescription {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    pub kind: TypeKind,
}

/// `pg_type.typtype`, with arrays told apart from base types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeKind {
    Base,
    /// The element's own modifier is the array's.
    Array {
        element: u32,
    },
    /// The modifier is that of the base type, -1 where it has none.
    Domain {
        base: u32,
        modifier: i32,
    },
    Enum {
        labels: Vec<String>,
    },
    Composite,
    Range,
    Multirange,
    Pseudo,
}

/// The types of some columns, with every type that they rest on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Types {
    by_oid: HashMap<u32, TypeDescription>,
}

impl Types {
    /// Reads the given types, their base types and their elements. Unknown oids are left out.
    pub async fn read(client: &Client, oids: &[u32]) -> Result<Self, PostgresError> {
        let rows = client.query(READ, &[&oids]).await?;
        let by_oid = rows
            .iter()
            .map(|row| describe(row).map(|described| (described.oid, described)))
            .collect::<Result<_, _>>()?;
        Ok(Self { by_oid })
    }

    pub fn get(&self, oid: u32) -> Option<&TypeDescription> {
        self.by_oid.get(&oid)
    }

    pub fn iter(&self) -> impl Iterator<Item = &TypeDescription> {
        self.by_oid.values()
    }

    pub fn extend(&mut self, other: Self) {
        self.by_oid.extend(other.by_oid);
    }
}

/// An array type is the one that its element's `typarray` names: `name` and `point` have elements
/// too and are no arrays.
const READ: &str = "
    WITH RECURSIVE wanted AS (
        SELECT unnest($1::oid[]) AS oid
        UNION
        SELECT part.oid
          FROM wanted
          JOIN pg_type t ON t.oid = wanted.oid
         CROSS JOIN LATERAL unnest(ARRAY[t.typbasetype, t.typelem]) AS part(oid)
         WHERE part.oid <> 0
    )
    SELECT t.oid, n.nspname::text AS schema, t.typname::text AS name, t.typtype::text AS kind,
           t.typbasetype AS base, t.typtypmod AS modifier,
           (SELECT e.oid FROM pg_type e WHERE e.typarray = t.oid AND e.oid = t.typelem) AS element,
           ARRAY(SELECT l.enumlabel::text FROM pg_enum l
                  WHERE l.enumtypid = t.oid ORDER BY l.enumsortorder) AS labels
      FROM pg_type t
      JOIN pg_namespace n ON n.oid = t.typnamespace
     WHERE t.oid IN (SELECT oid FROM wanted)";

fn describe(row: &Row) -> Result<TypeDescription, PostgresError> {
    let element: Option<u32> = row.try_get("element")?;
    let kind = match (row.try_get::<_, &str>("kind")?, element) {
        (_, Some(element)) => TypeKind::Array { element },
        ("d", _) => TypeKind::Domain {
            base: row.try_get("base")?,
            modifier: row.try_get("modifier")?,
        },
        ("e", _) => TypeKind::Enum {
            labels: row.try_get("labels")?,
        },
        ("c", _) => TypeKind::Composite,
        ("r", _) => TypeKind::Range,
        ("m", _) => TypeKind::Multirange,
        ("p", _) => TypeKind::Pseudo,
        _ => TypeKind::Base,
    };
    Ok(TypeDescription {
        oid: row.try_get("oid")?,
        schema: row.try_get("schema")?,
        name: row.try_get("name")?,
        kind,
    })
}
