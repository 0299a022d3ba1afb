use std::sync::Arc;

use super::*;
use crate::lsn::Lsn;
use crate::pgoutput::{Column, ReplicaIdentity};
use crate::timestamp::Timestamp;

const UUID: u32 = 2950;
const TEXT: u32 = 25;
const INT8: u32 = 20;
const JSONB: u32 = 3802;

fn table() -> Arc<Relation> {
    let column = |(name, type_oid): (&str, u32)| Column {
        name: name.to_owned(),
        type_oid,
        type_modifier: -1,
        is_key: name == "id",
    };
    let columns = [
        ("id", UUID),
        ("aggregatetype", TEXT),
        ("aggregateid", TEXT),
        ("seq", INT8),
        ("type", TEXT),
        ("payload", JSONB),
    ];
    Arc::new(Relation {
        oid: 1,
        namespace: "public".to_owned(),
        name: "outbox".to_owned(),
        replica_identity: ReplicaIdentity::Default,
        columns: columns.into_iter().map(column).collect(),
    })
}

const ROW: [Option<&str>; 6] = [
    Some("e-1"),
    Some("order"),
    Some("ORD-221"),
    Some("3"),
    Some("OrderShipped"),
    Some(r#"{"a": 1}"#),
];

fn route_row(
    options: Options,
    operation: Operation,
    row: [Option<&str>; 6],
) -> Result<Routed, RouteError> {
    let datums = row
        .iter()
        .map(|text| text.map_or(Datum::Null, |t| Datum::Text(t.as_bytes())));
    let row = Tuple {
        datums: datums.collect(),
    };
    EventRouter::new(options).route(&Change {
        operation,
        relation: &table(),
        new: Some(&row),
        commit_time: Timestamp::from_unix_ms(1_700_000_000_123),
        commit_lsn: Lsn::new(1),
    })
}

fn record(options: Options, row: [Option<&str>; 6]) -> Record {
    match route_row(options, Operation::Insert, row) {
        Ok(Routed::Publish { record, .. }) => record,
        other => panic!("expected a record, found {other:?}"),
    }
}

fn article() -> Options {
    Options {
        headers: vec![HeaderPlacement {
            field: "seq".to_owned(),
            header: "seq".to_owned(),
        }],
        expand_json: true,
        key_converter: Converter::String,
        value_converter: Converter::Json,
        ..Options::default()
    }
}

fn header(name: &str, value: Option<&'static str>) -> Header {
    Header {
        name: name.into(),
        value: value.map(|text| Bytes::from_static(text.as_bytes())),
    }
}

#[test]
fn an_insert_of_the_article_becomes_its_record() {
    let expected = Record {
        topic: "outbox.event.order".into(),
        partition: None,
        key: Some(Bytes::from_static(b"ORD-221")),
        value: Some(Bytes::from_static(br#"{"a":1}"#)),
        headers: SmallVec::from_vec(vec![header("id", Some("e-1")), header("seq", Some("3"))]),
        timestamp_ms: 1_700_000_000_123,
    };
    assert_eq!(record(article(), ROW), expected);
    let read = route_row(article(), Operation::Read, ROW);
    assert_eq!(
        read,
        Ok(Routed::Publish {
            record: expected,
            note: None
        })
    );
}

#[test]
fn without_expansion_the_json_converter_makes_a_string_and_raw_leaves_the_text() {
    let json = record(
        Options {
            expand_json: false,
            ..article()
        },
        ROW,
    );
    assert_eq!(json.value.as_deref(), Some(br#""{\"a\": 1}""#.as_slice()));
    let raw = record(Options::default(), ROW);
    assert_eq!(raw.value.as_deref(), Some(br#"{"a": 1}"#.as_slice()));
}

#[test]
fn delete_and_truncate_are_dropped_without_a_record() {
    let dropped = |operation| route_row(article(), operation, ROW);
    assert_eq!(
        dropped(Operation::Delete),
        Ok(Routed::Drop(DropReason::Delete))
    );
    assert_eq!(
        dropped(Operation::Truncate),
        Ok(Routed::Drop(DropReason::Truncate))
    );
}

#[test]
fn an_update_is_dropped_and_counted_or_fatal() {
    let update = |on_update| {
        route_row(
            Options {
                on_update,
                ..article()
            },
            Operation::Update,
            ROW,
        )
    };
    assert_eq!(update(OnUpdate::Warn), Ok(Routed::Drop(DropReason::Update)));
    assert_eq!(
        update(OnUpdate::Error),
        Ok(Routed::Drop(DropReason::Update))
    );
    assert_eq!(update(OnUpdate::Fatal), Err(RouteError::Update));
}

#[test]
fn nulls_stay_nulls_but_for_the_route() {
    let mut row = ROW;
    (row[0], row[2], row[3]) = (None, None, None);
    let nulls = record(article(), row);
    assert_eq!(nulls.key, None);
    assert_eq!(
        nulls.headers.to_vec(),
        [header("id", None), header("seq", None)]
    );
    row[1] = None;
    let error = route_row(article(), Operation::Insert, row).unwrap_err();
    assert_eq!(
        error.to_string(),
        "column \"aggregatetype\" is null, so the row has no topic"
    );
}

#[test]
fn an_empty_payload_is_a_tombstone_only_where_asked_for() {
    for payload in [None, Some(""), Some(" \n")] {
        let mut row = ROW;
        row[5] = payload;
        let value = record(
            Options {
                tombstone_on_empty: true,
                ..article()
            },
            row,
        )
        .value;
        assert_eq!(value, None, "{payload:?}");
    }
    let mut row = ROW;
    row[5] = None;
    assert_eq!(
        record(article(), row).value.as_deref(),
        Some(b"null".as_slice())
    );
    assert_eq!(record(Options::default(), row).value, None);
}

#[test]
fn a_missing_column_names_the_option_and_the_nearest_column() {
    let options = Options {
        route_field: "aggregate_type".to_owned(),
        ..article()
    };
    let error = route_row(options, Operation::Insert, ROW).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the table has no column \"aggregate_type\", which route.by.field names"
    );
    assert_eq!(
        error.hint(),
        "Set route.by.field to an existing column, perhaps \"aggregatetype\"."
    );

    let missing = HeaderPlacement {
        field: "nope".to_owned(),
        header: "nope".to_owned(),
    };
    let options = Options {
        headers: vec![missing],
        ..article()
    };
    assert!(route_row(options.clone(), Operation::Insert, ROW).is_err());
    let lenient = record(
        Options {
            missing: MissingField::Ignore,
            ..options
        },
        ROW,
    );
    assert_eq!(lenient.headers.to_vec(), [header("id", Some("e-1"))]);
}
