//! The outbox tables as the catalog describes them.

mod catalog;
mod filter;

use std::sync::Arc;

pub use filter::{TableFilter, TableFilterError, TableLists};

use crate::pgoutput::{Column, Relation, ReplicaIdentity};
use crate::wire::quote_identifier;

/// One table that the filter takes. Of a partitioned table the root, without its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxTable {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    pub replica_identity: ReplicaIdentity,
    /// In the table's order, dropped ones left out.
    pub columns: Vec<TableColumn>,
    /// Absent for an ordinary table. Where rows are: the partitions that have none of their own.
    pub partitions: Option<Vec<Partition>>,
    /// Policies decide which rows a role sees.
    pub row_security: bool,
    /// The planner's estimate; absent before the first VACUUM or ANALYZE.
    pub estimated_rows: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    pub oid: u32,
    pub schema: String,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumn {
    pub name: String,
    pub type_oid: u32,
    /// `atttypmod`; -1 where the type has none.
    pub type_modifier: i32,
    /// The type as SQL names it, `character varying(255)`.
    pub type_sql: String,
    pub nullable: bool,
    /// Part of the replica identity.
    pub is_key: bool,
    /// The output plugin leaves generated columns out.
    pub generated: bool,
}

impl OutboxTable {
    pub fn qualified_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    pub fn quoted_name(&self) -> String {
        quoted(&self.schema, &self.name)
    }

    pub fn column(&self, name: &str) -> Option<&TableColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The columns that the stream has too.
    pub fn streamed_columns(&self) -> impl Iterator<Item = &TableColumn> {
        self.columns.iter().filter(|column| !column.generated)
    }

    /// As the output plugin would describe the table.
    pub fn relation(&self) -> Arc<Relation> {
        Arc::new(Relation {
            oid: self.oid,
            namespace: self.schema.clone(),
            name: self.name.clone(),
            replica_identity: self.replica_identity,
            columns: self
                .streamed_columns()
                .map(|column| Column {
                    name: column.name.clone(),
                    type_oid: column.type_oid,
                    type_modifier: column.type_modifier,
                    is_key: column.is_key,
                })
                .collect(),
        })
    }

    /// The table itself, or a partition of it that may arrive under its own name.
    pub fn holds(&self, oid: u32) -> bool {
        self.oid == oid
            || self
                .partitions
                .iter()
                .flatten()
                .any(|partition| partition.oid == oid)
    }

    /// The catalog's names that `wanted` may have meant, best first.
    pub fn near_columns(&self, wanted: &str) -> Vec<String> {
        nearest(
            wanted,
            self.columns.iter().map(|column| column.name.clone()),
        )
    }
}

pub(super) fn quoted(schema: &str, name: &str) -> String {
    format!("{}.{}", quote_identifier(schema), quote_identifier(name))
}

/// How alike two names must be to be offered, by Jaro and Winkler's measure.
const ALIKE: f64 = 0.8;
const MAX_OFFERED: usize = 3;

fn nearest(wanted: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let lower = wanted.to_lowercase();
    let mut alike: Vec<(f64, String)> = names
        .map(|name| (strsim::jaro_winkler(&lower, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    alike
        .into_iter()
        .take(MAX_OFFERED)
        .map(|(_, name)| name)
        .collect()
}
