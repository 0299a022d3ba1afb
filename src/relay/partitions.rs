//! From which partitions housekeeping may delete: a table that is attached brings rows that no stream had.

use std::collections::{BTreeMap, BTreeSet};

use crate::postgres::table::OutboxTable;
use crate::postgres::watched::SeenPartition;

/// Those that were there when the first stream of the process began, for which a start answers, and those
/// that were made as partitions since.
#[derive(Clone, Debug, Default)]
pub(super) struct Partitions {
    /// By number, with the link; absent until a look has told it. `None` before the first stream.
    sound: Option<BTreeMap<u32, Option<String>>>,
    told: BTreeSet<u32>,
}

impl Partitions {
    pub(super) fn begin(&mut self, tables: &[OutboxTable]) {
        if self.sound.is_none() {
            let leaves = tables.iter().flat_map(|table| table.partitions.iter());
            let leaves = leaves.flatten().map(|leaf| (leaf.oid, None));
            self.sound = Some(leaves.collect());
        }
    }

    /// All that there are now. Names those that are left out from now on.
    pub(super) fn look(&mut self, seen: &[SeenPartition]) -> Vec<String> {
        let before = self.sound.take().unwrap_or_default();
        let mut sound = BTreeMap::new();
        let mut left_out = Vec::new();
        for SeenPartition {
            partition,
            link,
            is_born,
        } in seen
        {
            let is_sound = match before.get(&partition.oid) {
                Some(known) => known.as_ref().is_none_or(|known| known == link),
                None => *is_born,
            };
            if is_sound {
                sound.insert(partition.oid, Some(link.clone()));
            } else if self.told.insert(partition.oid) {
                left_out.push(format!("{}.{}", partition.schema, partition.name));
            }
        }
        self.sound = Some(sound);
        left_out
    }

    /// The table with these of its partitions alone.
    pub(super) fn of(&self, table: &OutboxTable) -> OutboxTable {
        let mut table = table.clone();
        if let Some(partitions) = &mut table.partitions {
            let sound = self.sound.as_ref();
            partitions.retain(|leaf| sound.is_some_and(|sound| sound.contains_key(&leaf.oid)));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgoutput::ReplicaIdentity;
    use crate::postgres::table::Partition;

    fn partition(oid: u32) -> Partition {
        Partition {
            oid,
            schema: "app".into(),
            name: format!("p{oid}"),
        }
    }

    fn seen(oid: u32, link: &str, is_born: bool) -> SeenPartition {
        SeenPartition {
            partition: partition(oid),
            link: link.to_owned(),
            is_born,
        }
    }

    fn table(leaves: &[u32]) -> OutboxTable {
        OutboxTable {
            oid: 1,
            schema: "app".into(),
            name: "outbox".into(),
            replica_identity: ReplicaIdentity::Default,
            columns: Vec::new(),
            partitions: Some(leaves.iter().copied().map(partition).collect()),
            row_security: false,
            estimated_rows: None,
        }
    }

    fn oids(partitions: &Partitions, all: &[u32]) -> Vec<u32> {
        let of = partitions.of(&table(all)).partitions.unwrap();
        of.iter().map(|leaf| leaf.oid).collect()
    }

    #[test]
    fn a_table_that_is_attached_while_the_process_runs_is_left_out_and_told_once() {
        let mut partitions = Partitions::default();
        let all = [2, 3, 4, 5];
        assert!(oids(&partitions, &all).is_empty());
        partitions.begin(&[table(&[2, 3])]);
        assert_eq!(oids(&partitions, &all), [2, 3]);
        let now = [
            seen(2, "700", false),
            seen(3, "701", true),
            seen(4, "702", true),
            seen(5, "703", false),
        ];
        assert_eq!(partitions.look(&now), ["app.p5"]);
        assert_eq!(partitions.look(&now), Vec::<String>::new());
        assert_eq!(oids(&partitions, &all), [2, 3, 4]);
        // Another stream of the process is no other start.
        partitions.begin(&[table(&all)]);
        assert_eq!(oids(&partitions, &all), [2, 3, 4]);
    }

    #[test]
    fn a_partition_that_comes_back_may_have_been_filled_meanwhile() {
        let mut partitions = Partitions::default();
        partitions.begin(&[table(&[2, 3])]);
        let whole = [seen(2, "700", true), seen(3, "701", true)];
        assert_eq!(partitions.look(&whole), Vec::<String>::new());
        let attached_again = [seen(2, "800", false), seen(3, "701", true)];
        assert_eq!(partitions.look(&attached_again), ["app.p2"]);
        assert_eq!(oids(&partitions, &[2, 3]), [3]);
        assert_eq!(partitions.look(&attached_again[..1]), Vec::<String>::new());
        let back = [seen(2, "800", false), seen(3, "802", false)];
        assert_eq!(partitions.look(&back), ["app.p3"]);
        assert!(oids(&partitions, &[2, 3]).is_empty());
    }
}
