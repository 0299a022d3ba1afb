//! What the server says of a table before the first row of it.

use std::collections::HashMap;
use std::sync::Arc;

use super::DecodeError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    pub oid: u32,
    pub namespace: String,
    pub name: String,
    pub replica_identity: ReplicaIdentity,
    pub columns: Vec<Column>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub type_oid: u32,
    /// `atttypmod`; -1 where the type has none.
    pub type_modifier: i32,
    /// Part of the replica identity.
    pub is_key: bool,
}

impl Relation {
    /// The index of a column by its exact name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    pub fn qualified_name(&self) -> String {
        format!("{}.{}", self.namespace, self.name)
    }
}

/// `pg_class.relreplident`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaIdentity {
    Default,
    Nothing,
    Full,
    Index,
}

/// Tables by oid, as last described. A new description replaces the old one: the server sends it
/// again after a change of the table, before the next row.
#[derive(Debug, Default)]
pub struct RelationCache {
    relations: HashMap<u32, Arc<Relation>>,
}

impl RelationCache {
    pub fn insert(&mut self, relation: Relation) {
        self.relations.insert(relation.oid, Arc::new(relation));
    }

    pub fn get(&self, oid: u32) -> Result<&Arc<Relation>, DecodeError> {
        self.relations
            .get(&oid)
            .ok_or_else(|| DecodeError::unknown_relation(oid))
    }

    /// A new stream describes every table again.
    pub fn clear(&mut self) {
        self.relations.clear();
    }
}
