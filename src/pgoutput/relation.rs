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
    pub fn insert(&mut self, relation: Relation) -> &Arc<Relation> {
        let (oid, relation) = (relation.oid, Arc::new(relation));
        self.relations.entry(oid).insert_entry(relation).into_mut()
    }

    pub fn get(&self, oid: u32) -> Result<&Arc<Relation>, DecodeError> {
        self.relations
            .get(&oid)
            .ok_or(DecodeError::UnknownRelation { oid })
    }

    /// A new stream describes every table again.
    pub fn clear(&mut self) {
        self.relations.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(columns: &[&str]) -> Relation {
        let column = |name: &&str| Column {
            name: (*name).to_owned(),
            type_oid: 25,
            type_modifier: -1,
            is_key: false,
        };
        Relation {
            oid: 7,
            namespace: "shop".to_owned(),
            name: "orders".to_owned(),
            replica_identity: ReplicaIdentity::Default,
            columns: columns.iter().map(column).collect(),
        }
    }

    #[test]
    fn columns_are_found_by_their_exact_name() {
        let relation = orders(&["id", "Id", "note"]);
        assert_eq!(relation.column("Id"), Some(1));
        assert_eq!(relation.column("note"), Some(2));
        assert_eq!(relation.column("ID"), None);
        assert_eq!(relation.qualified_name(), "shop.orders");
    }

    #[test]
    fn a_relation_sent_again_replaces_the_earlier_one() {
        let mut cache = RelationCache::default();
        cache.insert(orders(&["id"]));
        let before = Arc::clone(cache.get(7).unwrap());
        cache.insert(orders(&["id", "note"]));
        assert_eq!(**cache.get(7).unwrap(), orders(&["id", "note"]));
        assert_eq!(*before, orders(&["id"]));
    }

    #[test]
    fn an_unknown_oid_is_an_error_that_names_it() {
        let mut cache = RelationCache::default();
        cache.insert(orders(&["id"]));
        assert_eq!(cache.get(8), Err(DecodeError::UnknownRelation { oid: 8 }));
        cache.clear();
        let error = cache.get(7).unwrap_err().to_string();
        assert_eq!(
            error,
            "pgoutput: expected a table described earlier in the stream, found relation 7"
        );
    }
}
