//! What the server's catalog says of types and columns and the stream does not.

use std::collections::{HashMap, HashSet};

use super::oid;
use crate::pgoutput::Relation;

/// Types beside the built-in ones, and the columns of the outbox tables. What is not in it is
/// taken as nullable, without a default, and of a type that is its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeCatalog {
    types: HashMap<u32, CatalogType>,
    columns: HashMap<(u32, String), CatalogColumn>,
    /// Outbox tables and their parts. A table is in one of the two sets, by its newest description.
    ours: HashSet<u32>,
    /// Tables that a wide publication sends and nobody asked for.
    others: HashSet<u32>,
}

/// A row of `pg_type`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogType {
    pub name: String,
    pub kind: TypeKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// Known by its name (citext, hstore, ltree …), else without a rule.
    Base,
    /// Labels in their order.
    Enum { labels: Vec<String> },
    /// `typbasetype` and `typtypmod`.
    Domain { base: u32, type_modifier: i32 },
    /// `typelem` of a type whose `typcategory` is A.
    Array { element: u32 },
    /// Composite, range, multirange, pseudo.
    Other,
}

/// A row of `pg_attribute`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogColumn {
    pub not_null: bool,
    /// `pg_get_expr(adbin, adrelid)`, as `'new'::text` or `now()`.
    pub default: Option<String>,
}

impl TypeCatalog {
    pub fn add_type(&mut self, oid: u32, found: CatalogType) {
        self.types.insert(oid, found);
    }

    /// `relation` is the table's oid.
    pub fn add_column(&mut self, relation: u32, name: &str, column: CatalogColumn) {
        self.columns.insert((relation, name.to_owned()), column);
        self.add_table(relation);
    }

    /// Rows of this table are the outbox's, whether or not it has columns any more.
    pub fn add_table(&mut self, relation: u32) {
        self.others.remove(&relation);
        self.ours.insert(relation);
    }

    /// Rows of this table are none of the outbox.
    pub fn add_other_table(&mut self, relation: u32) {
        self.ours.remove(&relation);
        self.others.insert(relation);
    }

    /// A table that was none of the outbox can be a part of it by now, under the same number.
    pub fn forget_other_tables(&mut self) {
        self.others.clear();
    }

    pub fn is_other_table(&self, relation: u32) -> bool {
        !self.others.is_empty() && self.others.contains(&relation)
    }

    /// What `newer` describes counts from now on.
    pub fn extend(&mut self, newer: Self) {
        self.types.extend(newer.types);
        self.columns.extend(newer.columns);
        for table in newer.ours {
            self.add_table(table);
        }
        for table in newer.others {
            self.add_other_table(table);
        }
    }

    /// Every column of the table is known, and every type that is not built in.
    pub fn describes(&self, relation: &Relation) -> bool {
        if self.is_other_table(relation.oid) {
            return true;
        }
        self.ours.contains(&relation.oid)
            && relation.columns.iter().all(|column| {
                let is_built_in = column.type_oid < oid::FIRST_NORMAL;
                self.column(relation.oid, &column.name).is_some()
                    && (is_built_in || self.get_type(column.type_oid).is_some())
            })
    }

    pub(crate) fn get_type(&self, oid: u32) -> Option<&CatalogType> {
        self.types.get(&oid)
    }

    pub(crate) fn column(&self, relation: u32, name: &str) -> Option<&CatalogColumn> {
        self.columns.get(&(relation, name.to_owned()))
    }
}
