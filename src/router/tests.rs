use std::sync::Arc;

use super::*;
use crate::lsn::Lsn;
use crate::outbox::CatalogColumn;
use crate::pgoutput::{Column, Datum, ReplicaIdentity};
use crate::timestamp::Timestamp;

const UUID: u32 = 2950;
const TEXT: u32 = 25;
const INT8: u32 = 20;
const JSONB: u32 = 3802;

fn table() -> Arc<Relation> {
    outbox(
        1,
        &[
            ("id", UUID),
            ("aggregatetype", TEXT),
            ("aggregateid", TEXT),
            ("seq", INT8),
            ("type", TEXT),
            ("payload", JSONB),
        ],
    )
}

/// Columns by name and type.
pub(super) fn outbox(oid: u32, columns: &[(&str, u32)]) -> Arc<Relation> {
    let column = |(name, type_oid): &(&str, u32)| Column {
        name: (*name).to_owned(),
        type_oid: *type_oid,
        type_modifier: -1,
        is_key: *name == "id",
    };
    Arc::new(Relation {
        oid,
        namespace: "public".to_owned(),
        name: "outbox".to_owned(),
        replica_identity: ReplicaIdentity::Default,
        columns: columns.iter().map(column).collect(),
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
        placements: vec![Placement::header("seq", "seq")],
        expand_json: true,
        converters: Converters {
            key: Converter::String,
            value: Converter::JSON,
            header: Converter::Simple,
        },
        ..Options::debezium()
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

    let options = Options {
        placements: vec![Placement::header("nope", "nope")],
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

#[test]
fn an_envelope_has_the_payload_first_and_a_schema_of_its_own() {
    let options = |schemas| Options {
        placements: Placement::parse_list("type:envelope:eventType,seq:envelope").unwrap(),
        topic_prefix: "lab".to_owned(),
        converters: Converters {
            value: Converter::Json(JsonOptions {
                schemas,
                decimals: DecimalFormat::Base64,
            }),
            ..article().converters
        },
        ..article()
    };
    let plain = record(options(false), ROW).value.unwrap();
    assert_eq!(
        std::str::from_utf8(&plain).unwrap(),
        r#"{"payload":{"a":1},"eventType":"OrderShipped","seq":3}"#
    );
    let described = record(options(true), ROW).value.unwrap();
    assert_eq!(
        std::str::from_utf8(&described).unwrap(),
        concat!(
            r#"{"schema":{"type":"struct","fields":[{"type":"struct","fields":["#,
            r#"{"type":"int32","optional":true,"field":"a"}],"optional":true,"name":"payload","field":"payload"},"#,
            r#"{"type":"string","optional":true,"field":"eventType"},"#,
            r#"{"type":"int64","optional":true,"field":"seq"}],"optional":false,"#,
            r#""name":"lab.public.outbox.order.Value"},"#,
            r#""payload":{"payload":{"a":1},"eventType":"OrderShipped","seq":3}}"#,
        )
    );
    let java = Options {
        converters: Converters {
            value: Converter::String,
            ..article().converters
        },
        ..options(false)
    };
    let mut row = ROW;
    row[4] = None;
    assert_eq!(
        record(java, row).value.as_deref(),
        Some(b"Struct{payload=Struct{a=1},seq=3}".as_slice())
    );
}

#[test]
fn the_partition_is_a_columns_number() {
    let options = Options {
        placements: Placement::parse_list("seq:partition").unwrap(),
        ..article()
    };
    assert_eq!(record(options.clone(), ROW).partition, Some(3));
    let mut row = ROW;
    row[3] = None;
    assert_eq!(record(options.clone(), row).partition, None);
    row[3] = Some("-1");
    assert_eq!(
        route_row(options, Operation::Insert, row)
            .unwrap_err()
            .to_string(),
        "event \"e-1\" for topic \"outbox.event.order\": column \"seq\" asks for partition -1"
    );
}

#[test]
fn names_that_kafka_does_not_take_are_refused() {
    for routed in ["a b", "a/b", "Заказ", &"x".repeat(237)] {
        let mut row = ROW;
        row[1] = Some(routed);
        let error = route_row(article(), Operation::Insert, row).unwrap_err();
        assert!(matches!(error, RouteError::IllegalTopic { .. }), "{routed}");
    }
}

#[test]
fn a_row_for_a_topic_of_the_relay_is_told_whose_topic_that_is() {
    for (topics, said, hint) in [
        (
            (Some("outbox.event.order".into()), None),
            "topic \"outbox.event.order\" takes no events: dead letters are in it",
            "Lead the row to another topic, by its \"aggregatetype\" or with route.topic.regex, or set errors.dead_letter.topic to a topic to which no row leads.",
        ),
        (
            (None, Some("outbox.event.order".into())),
            "topic \"outbox.event.order\" takes no events: the relay's positions are in it",
            "Lead the row to another topic, by its \"aggregatetype\" or with route.topic.regex, or set position.topic to a topic to which no row leads.",
        ),
    ] {
        let (dead_letter_topic, journal_topic) = topics;
        let options = Options {
            dead_letter_topic,
            journal_topic,
            ..article()
        };
        let error = route_row(options, Operation::Insert, ROW).unwrap_err();
        assert_eq!(
            (error.to_string().as_str(), error.hint().as_str()),
            (said, hint)
        );
        assert_eq!(error.reason(), "own_topic");
    }
}

#[test]
fn a_null_in_a_column_with_a_default_is_the_default_but_for_the_route() {
    let mut catalog = TypeCatalog::default();
    for (column, default) in [
        ("aggregatetype", "'order'::text"),
        ("aggregateid", "'dk'::text"),
        ("seq", "5"),
        ("payload", "'{\"d\": 1}'::jsonb"),
    ] {
        let described = CatalogColumn {
            not_null: false,
            default: Some(default.to_owned()),
        };
        catalog.add_column(1, column, described);
    }
    let relation = table();
    let route = |options: Options, route: Option<&'static str>| {
        let row = [Some("e-1"), route, None, None, None, None];
        let datums = row.map(|text| text.map_or(Datum::Null, |t| Datum::Text(t.as_bytes())));
        let row = Tuple {
            datums: datums.into_iter().collect(),
        };
        let mut router = EventRouter::new(options);
        router.learn_types(catalog.clone());
        router.route(&Change {
            operation: Operation::Insert,
            relation: &relation,
            new: Some(&row),
            commit_time: Timestamp::from_unix_ms(0),
            commit_lsn: Lsn::new(1),
        })
    };
    let Ok(Routed::Publish { record, .. }) = route(article(), Some("order")) else {
        panic!("no record");
    };
    assert_eq!(record.key.as_deref(), Some(b"dk".as_slice()));
    assert_eq!(record.value.as_deref(), Some(b"{\"d\":1}".as_slice()));
    assert_eq!(record.headers[1], header("seq", Some("5")));
    assert!(matches!(
        route(article(), None),
        Err(RouteError::NullRoute { .. })
    ));

    let Ok(Routed::Publish { record, .. }) = route(Options::native(), Some("order")) else {
        panic!("no record");
    };
    assert_eq!((record.key, record.value), (None, None));
}

#[test]
fn timestamps_date_the_record_and_others_are_refused() {
    let dated = |type_oid, text: Option<&'static str>| {
        let mut relation = (*table()).clone();
        relation.columns[4].type_oid = type_oid;
        let relation = Arc::new(relation);
        let mut row = ROW;
        row[4] = text;
        let datums = row.map(|text| text.map_or(Datum::Null, |t| Datum::Text(t.as_bytes())));
        let row = Tuple {
            datums: datums.into_iter().collect(),
        };
        let options = Options {
            timestamp_field: Some("type".to_owned()),
            ..article()
        };
        let routed = EventRouter::new(options).route(&Change {
            operation: Operation::Insert,
            relation: &relation,
            new: Some(&row),
            commit_time: Timestamp::from_unix_ms(7),
            commit_lsn: Lsn::new(1),
        });
        match routed {
            Ok(Routed::Publish { record, .. }) => Ok(record.timestamp_ms),
            Ok(Routed::Drop(reason)) => panic!("dropped: {reason:?}"),
            Err(error) => Err(error.to_string()),
        }
    };
    const TIMESTAMP: u32 = 1114;
    const TIMESTAMPTZ: u32 = 1184;
    assert_eq!(
        dated(TIMESTAMP, Some("2020-01-02 03:04:05.678999")),
        Ok(1_577_934_245_678)
    );
    assert_eq!(dated(TIMESTAMPTZ, Some("1970-01-01 02:00:00+02")), Ok(0));
    assert_eq!(dated(TIMESTAMP, None), Ok(7));
    assert_eq!(dated(INT8, None), Ok(7));
    assert_eq!(
        dated(INT8, Some("1")),
        Err("column \"type\" is not a timestamp".to_owned())
    );
    assert_eq!(
        dated(TIMESTAMP, Some("1969-12-31 23:59:59")),
        Err("event \"e-1\": column \"type\" dates the record before 1970".to_owned())
    );
}

#[test]
fn a_converter_that_does_not_take_a_type_names_both() {
    let options = Options {
        converters: Converters {
            value: Converter::ByteArray,
            ..article().converters
        },
        expand_json: false,
        ..article()
    };
    let error = route_row(options, Operation::Insert, ROW).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ByteArrayConverter on column \"payload\": expected bytes, found string"
    );
}

#[test]
fn the_context_of_the_run_comes_before_all_other_headers() {
    let mut options = article();
    options.topic_prefix = "shop".to_owned();
    options.context = Some(RunContext {
        run_id: "r-1".to_owned(),
    });
    let context = |name: &str, text| header(&format!("__debezium.context.{name}"), Some(text));
    assert_eq!(
        record(options, ROW).headers.to_vec(),
        [
            context("connectorLogicalName", "shop"),
            context("taskId", "0"),
            context("connectorName", "postgresql"),
            context("runId", "r-1"),
            header("id", Some("e-1")),
            header("seq", Some("3")),
        ]
    );
}

#[test]
fn a_column_that_is_excluded_is_as_if_not_there() {
    let mut options = article();
    options.columns = ColumnFilter::excluding(r"public\.outbox\.seq").unwrap();
    let error = route_row(options.clone(), Operation::Insert, ROW).unwrap_err();
    assert!(matches!(error, RouteError::MissingColumn { column, .. } if column == "seq"));
    options.missing = MissingField::Ignore;
    assert_eq!(
        record(options, ROW).headers.to_vec(),
        [header("id", Some("e-1"))]
    );
}

#[test]
fn raw_takes_the_text_of_any_type_and_kafka_connects_do_not() {
    const PG_LSN: u32 = 3220;
    let route = |converters| {
        let mut relation = Arc::unwrap_or_clone(table());
        relation.columns[3].type_oid = PG_LSN;
        let datums = ROW.map(|text| text.map_or(Datum::Null, |t| Datum::Text(t.as_bytes())));
        let options = Options {
            converters,
            ..article()
        };
        EventRouter::new(options).route(&Change {
            operation: Operation::Insert,
            relation: &Arc::new(relation),
            new: Some(&Tuple {
                datums: datums.into_iter().collect(),
            }),
            commit_time: Timestamp::default(),
            commit_lsn: Lsn::new(1),
        })
    };
    match route(Converters::raw()) {
        Ok(Routed::Publish { record, .. }) => {
            assert_eq!(record.headers[1], header("seq", Some("3")));
        }
        other => panic!("expected a record, found {other:?}"),
    }
    assert_eq!(
        route(Converters::default()),
        Err(RouteError::UnsupportedType {
            column: "seq".to_owned(),
            option: "table.fields.additional.placement"
        })
    );
}
