use super::*;
use crate::pgoutput::ReplicaIdentity;
use crate::postgres::table::{OutboxTable, Partition};

fn table(oid: u32, name: &str) -> OutboxTable {
    OutboxTable {
        oid,
        schema: "Sales".into(),
        name: name.into(),
        replica_identity: ReplicaIdentity::Default,
        columns: Vec::new(),
        partitions: None,
        row_security: false,
        estimated_rows: None,
    }
}

fn partitioned(oid: u32, leaves: &[u32]) -> OutboxTable {
    let leaf = |oid: &u32| Partition {
        oid: *oid,
        schema: "Sales".into(),
        name: format!("p{oid}"),
    };
    OutboxTable {
        partitions: Some(leaves.iter().map(leaf).collect()),
        ..table(oid, "root")
    }
}

fn published(oid: u32, name: &str) -> PublishedTable {
    PublishedTable {
        oid,
        schema: "Sales".into(),
        name: name.into(),
        row_filter: None,
        columns: None,
    }
}

pub(crate) fn ours() -> Publication {
    Publication {
        oid: 7,
        row_version: "700".into(),
        name: "pub".parse().unwrap(),
        owner: "app".into(),
        all_tables: false,
        inserts: true,
        updates: true,
        deletes: false,
        truncates: false,
        via_partition_root: true,
        listed: vec![1],
        listings: vec![11],
        schemas: Vec::new(),
        schema_listings: Vec::new(),
        published: vec![published(1, "outbox")],
    }
}

#[test]
fn what_we_create_names_the_tables_and_sends_no_deletes() {
    let mut options = PublicationOptions::new("My \"pub\"".parse().unwrap());
    let tables = [table(1, "outbox"), table(2, "Other Box")];
    assert_eq!(
        create_sql(&options, &tables),
        "CREATE PUBLICATION \"My \"\"pub\"\"\" FOR TABLE \"Sales\".\"outbox\", \"Sales\".\"Other Box\" \
         WITH (publish = 'insert, update', publish_via_partition_root = true)"
    );
    options.mode = PublicationMode::AllTables;
    options.via_partition_root = false;
    options.operations.delete = true;
    assert_eq!(
        create_sql(&options, &tables),
        "CREATE PUBLICATION \"My \"\"pub\"\"\" FOR ALL TABLES WITH (publish = 'insert, update, delete')"
    );
    options.mode = PublicationMode::NoTables;
    assert_eq!(
        create_sql(&options, &tables),
        "CREATE PUBLICATION \"My \"\"pub\"\"\" WITH (publish = 'insert, update, delete')"
    );
}

#[test]
fn a_table_outside_the_publication_is_named_with_the_sql_that_adds_it() {
    assert!(ours().check(&[table(1, "outbox")]).is_ok());
    let error = ours()
        .check(&[table(1, "outbox"), table(2, "two")])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "table \"Sales.two\" is not in publication \"pub\""
    );
    assert_eq!(
        error.hint().unwrap(),
        "Run as its owner or a superuser: ALTER PUBLICATION \"pub\" ADD TABLE \"Sales\".\"two\";"
    );
    let everything = Publication {
        all_tables: true,
        ..ours()
    };
    assert!(everything.check(&[table(2, "two")]).is_ok());
}

#[test]
fn a_publication_without_inserts_sends_no_events() {
    let error = Publication {
        inserts: false,
        ..ours()
    }
    .check(&[table(1, "outbox")])
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "publication \"pub\" does not publish inserts"
    );
}

#[test]
fn a_partitioned_table_is_covered_by_its_root_or_by_all_its_leaves() {
    let by_leaves = |leaves: &[u32]| Publication {
        listed: Vec::new(),
        via_partition_root: false,
        published: leaves.iter().map(|oid| published(*oid, "leaf")).collect(),
        ..ours()
    };
    assert!(ours().covers(&partitioned(1, &[])));
    assert!(by_leaves(&[10, 11]).covers(&partitioned(1, &[10, 11])));
    assert!(!by_leaves(&[10]).covers(&partitioned(1, &[10, 11])));
    assert!(!by_leaves(&[]).covers(&partitioned(1, &[])));
}

#[test]
fn odd_publications_are_noted() {
    let outbox = [table(1, "outbox")];
    assert_eq!(ours().notes(&outbox), []);
    let odd = Publication {
        updates: false,
        deletes: true,
        published: vec![
            PublishedTable {
                row_filter: Some("(seq > 1)".into()),
                columns: Some(vec!["id".into()]),
                ..published(1, "outbox")
            },
            published(9, "orders"),
        ],
        ..ours()
    };
    assert_eq!(
        odd.notes(&outbox),
        [
            PublicationNote::OtherTables(vec!["Sales.orders".into()]),
            PublicationNote::NoUpdates,
            PublicationNote::Deletes,
            PublicationNote::RowFilter {
                table: "Sales.outbox".into(),
                filter: "(seq > 1)".into()
            },
            PublicationNote::ColumnList {
                table: "Sales.outbox".into(),
                columns: vec!["id".into()]
            },
        ]
    );
    let leaves = Publication {
        via_partition_root: false,
        ..ours()
    };
    assert_eq!(
        leaves.notes(&[partitioned(1, &[10])]),
        [PublicationNote::NotViaRoot {
            table: "Sales.root".into()
        }]
    );
}

#[test]
fn filtered_alters_only_when_the_set_differs() {
    assert!(ours().lists_exactly(&[table(1, "outbox")]));
    assert!(!ours().lists_exactly(&[table(1, "outbox"), table(2, "two")]));
    let by_schema = Publication {
        schemas: vec!["Sales".into()],
        ..ours()
    };
    assert!(!by_schema.lists_exactly(&[table(1, "outbox")]));
}
