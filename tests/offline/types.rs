//! What the catalog says of a table reaches the rows behind its description.

use std::sync::Arc;

use outboxd::ack::Limits;
use outboxd::outbox::{CatalogColumn, TypeCatalog};
use outboxd::pgoutput::Relation;
use outboxd::pipeline::Pipeline;
use outboxd::router::{EventRouter, Options};

use crate::support::pgoutput_builder::{Columns, Stream, Transaction, Value, outbox, txn};

fn pipeline() -> Pipeline {
    let limits = Limits {
        records: 100,
        bytes: 1 << 20,
    };
    Pipeline::new(EventRouter::new(Options::debezium()), limits)
}

/// Nullable columns; the payload has a default.
fn catalog(relation: &Relation, payload: &str) -> TypeCatalog {
    let mut catalog = TypeCatalog::default();
    for column in &relation.columns {
        let default = (column.name == "payload").then(|| format!("'{payload}'::text"));
        let column_of_catalog = CatalogColumn {
            not_null: false,
            default,
        };
        catalog.add_column(relation.oid, &column.name, column_of_catalog);
    }
    catalog
}

fn null_payload(relation: &Relation, end_lsn: u64) -> Transaction {
    let mut row: Vec<Value> = vec!["1".into(), "Order".into(), "7".into(), Value::Null];
    row.resize(relation.columns.len(), Value::Null);
    txn(1).insert_into(relation, row).commit(end_lsn)
}

/// Hands the transaction in, with `learned` for what is undescribed; the record's value.
fn value(
    pipeline: &mut Pipeline,
    stream: &mut Stream,
    transaction: &Transaction,
    learned: &TypeCatalog,
) -> (Vec<Arc<Relation>>, String) {
    let mut asked = Vec::new();
    for message in stream.send(transaction) {
        pipeline.handle_wal(message.lsn, &message.body).unwrap();
        if let Some(relation) = pipeline.undescribed().cloned() {
            asked.push(relation);
            pipeline.learn_types(learned.clone());
        }
    }
    let (_, record) = pipeline.take_outgoing().pop().unwrap();
    let value = record.value.clone().unwrap();
    (asked, String::from_utf8(value.to_vec()).unwrap())
}

#[test]
fn a_table_is_looked_up_when_it_is_new_and_whenever_it_is_described_again() {
    let (relation, mut pipeline, mut stream) = (outbox(), pipeline(), Stream::default());
    pipeline.start_stream(outboxd::lsn::Lsn::ZERO);
    let (first, changed) = (catalog(&relation, "first"), catalog(&relation, "second"));

    let transaction = null_payload(&relation, 0x200);
    let (asked, text) = value(&mut pipeline, &mut stream, &transaction, &first);
    assert_eq!(asked, [Arc::new(relation.clone())]);
    assert!(
        text.ends_with(r#""default":"first"},"payload":"first"}"#),
        "{text}"
    );

    let transaction = null_payload(&relation, 0x300);
    let (asked, _) = value(&mut pipeline, &mut stream, &transaction, &changed);
    assert_eq!(asked, []);

    let wider = relation.column("note", 25);
    let transaction = null_payload(&wider, 0x400);
    let (asked, text) = value(&mut pipeline, &mut stream, &transaction, &changed);
    assert_eq!(asked, [Arc::new(wider)]);
    assert!(
        text.ends_with(r#""default":"second"},"payload":"second"}"#),
        "{text}"
    );
}

/// The tables that are looked up for a first row, where the catalog told of `relation` beforehand.
fn asked_of_a_known_table(relation: &Relation) -> Vec<Arc<Relation>> {
    let mut pipeline = pipeline();
    pipeline.learn_types(catalog(relation, "known"));
    pipeline.start_stream(outboxd::lsn::Lsn::ZERO);
    let (asked, _) = value(
        &mut pipeline,
        &mut Stream::default(),
        &null_payload(relation, 0x200),
        &TypeCatalog::default(),
    );
    asked
}

#[test]
fn a_table_that_the_catalog_told_of_beforehand_needs_no_look() {
    assert_eq!(asked_of_a_known_table(&outbox()), []);
}

#[test]
fn a_type_that_is_not_built_in_has_to_be_known_too() {
    let relation = outbox().column("mood", 20_000);
    assert_eq!(asked_of_a_known_table(&relation), [Arc::new(relation)]);
}

/// Rows of `relation` that go out, where the catalog says `learned` of what is undescribed.
fn published(
    pipeline: &mut Pipeline,
    stream: &mut Stream,
    (relation, end_lsn): (&Relation, u64),
    learned: &TypeCatalog,
) -> usize {
    for message in stream.send(&null_payload(relation, end_lsn)) {
        pipeline.handle_wal(message.lsn, &message.body).unwrap();
        if pipeline.undescribed().is_some() {
            pipeline.learn_types(learned.clone());
        }
    }
    pipeline.take_outgoing().len()
}

#[test]
fn a_table_is_the_outboxs_or_none_of_it_by_its_newest_description() {
    let (ours, mut pipeline, mut stream) = (outbox(), pipeline(), Stream::default());
    let new = Relation {
        name: "outbox_new".into(),
        ..ours.clone()
    };
    let mut other = TypeCatalog::default();
    other.add_other_table(new.oid);
    let known = catalog(&ours, "x");
    pipeline.start_stream(outboxd::lsn::Lsn::ZERO);
    let mut sent = |at, learned| published(&mut pipeline, &mut stream, at, learned);
    assert_eq!(sent((&new, 0x200), &other), 0);
    // ALTER TABLE … RENAME: the same table under the outbox's name, and back.
    assert_eq!(sent((&ours, 0x300), &known), 1);
    assert_eq!(sent((&new, 0x400), &other), 0);
    assert_eq!(sent((&ours, 0x500), &known), 1);
}

#[test]
fn a_new_stream_asks_again_whose_a_table_is_that_was_none_of_the_outbox() {
    let (relation, mut pipeline) = (outbox(), pipeline());
    let mut other = TypeCatalog::default();
    other.add_other_table(relation.oid);
    pipeline.start_stream(outboxd::lsn::Lsn::ZERO);
    let mut stream = Stream::default();
    let at = (&relation, 0x200);
    assert_eq!(published(&mut pipeline, &mut stream, at, &other), 0);
    pipeline.end_stream();
    pipeline.start_stream(outboxd::lsn::Lsn::ZERO);
    let (mut stream, known) = (Stream::default(), catalog(&relation, "x"));
    let at = (&relation, 0x300);
    assert_eq!(published(&mut pipeline, &mut stream, at, &known), 1);
}

#[test]
fn a_table_that_is_gone_may_have_been_the_outboxs_whatever_columns_came_since() {
    let pipeline = pipeline();
    let relation = outbox();
    assert!(pipeline.could_route(&relation));
    assert!(pipeline.could_route(&relation.clone().column("added", 25)));
    let mut without_payload = relation;
    without_payload
        .columns
        .retain(|column| column.name != "payload");
    assert!(!pipeline.could_route(&without_payload));
}
