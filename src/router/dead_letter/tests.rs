use super::*;
use crate::pgoutput::{Datum, Tuple};
use crate::router::tests::outbox;
use crate::router::{ColumnFilter, Options, Placement, PlacementTarget, Routed};

const COLUMNS: [(&str, u32); 5] = [
    ("id", 2950),
    ("aggregatetype", 25),
    ("aggregateid", 25),
    ("seq", 20),
    ("payload", 17),
];
type Row<'a> = [Option<&'a [u8]>; 5];

const ROW: Row<'static> = [
    Some(b"e-1"),
    Some(b"order"),
    Some(b"ORD-221"),
    Some(b"3"),
    Some(b"\\x00ff"),
];

fn origin() -> Origin {
    Origin {
        relation: outbox(7, &COLUMNS),
        commit_lsn: Lsn::new(0x1_0000_00FF),
        commit_time: Timestamp::from_unix_us(1_700_000_000_123_456),
        row: 2,
    }
}

fn options() -> Options {
    Options {
        dead_letter_topic: Some("dead".into()),
        ..Options::native()
    }
}

fn with_change<T>(row: Row<'_>, take: impl FnOnce(&Change<'_, '_>) -> T) -> T {
    let datums = row.map(|text| text.map_or(Datum::Null, Datum::Text));
    let row = Tuple {
        datums: datums.into_iter().collect(),
    };
    let Origin {
        relation,
        commit_lsn,
        commit_time,
        ..
    } = origin();
    take(&Change {
        operation: Operation::Insert,
        relation: &relation,
        new: Some(&row),
        commit_time,
        commit_lsn,
    })
}

/// The dead letter of a row, and why.
fn dead_letter(options: Options, row: Row<'_>) -> (Record, RouteError) {
    with_change(row, |change| {
        let mut router = EventRouter::new(options);
        let error = router.route(change).unwrap_err();
        let letter = router.dead_letter(change, &origin(), &Reason::from(&error));
        (letter.unwrap(), error)
    })
}

fn routed_again(letter: Record, options: Options) -> Result<Record, RouteError> {
    let letter = Letter::read(letter.key, letter.value, letter.headers.to_vec()).unwrap();
    let Content::Row(row) = letter.content else {
        panic!("expected a row, found {:?}", letter.content);
    };
    row.with_change(|change| match EventRouter::new(options).route(change)? {
        Routed::Publish { record, .. } => Ok(record),
        Routed::Drop(reason) => panic!("dropped: {reason:?}"),
    })
}

fn texts(record: &Record) -> Vec<(String, String)> {
    let text = |header: &Header| {
        let value = header.value.as_deref().unwrap();
        let value = String::from_utf8(value.to_vec()).unwrap();
        (header.name.to_string(), value)
    };
    record.headers.iter().map(text).collect()
}

#[test]
fn a_dead_letter_of_a_row_has_key_payload_and_everything_that_names_the_row() {
    let nowhere = [ROW[0], None, ROW[2], ROW[3], ROW[4]];
    let (letter, _) = dead_letter(options(), nowhere);
    assert_eq!(&*letter.topic, "dead");
    assert_eq!(letter.key.as_deref(), Some(&b"ORD-221"[..]));
    assert_eq!(letter.value.as_deref(), Some(&b"\x00\xff"[..]));
    assert_eq!(letter.timestamp_ms, 1_700_000_000_123);
    let mut headers = texts(&letter);
    let (name, row) = headers.pop().unwrap();
    let header = |name: &str, value: &str| (format!("{PREFIX}{name}"), value.to_owned());
    assert_eq!(
        headers,
        [
            header("kind", "row"),
            header("reason", "null_route"),
            header(
                "message",
                "column \"aggregatetype\" is null, so the row has no topic"
            ),
            header("table", "public.outbox"),
            header("lsn", "1/FF"),
            header("row_number", "2"),
            header("commit_time", "2023-11-14T22:13:20.123456Z"),
            header("event_id", "e-1"),
        ]
    );
    assert_eq!(name, "outboxd.dead_letter.row");
    let row: serde_json::Value = serde_json::from_str(&row).unwrap();
    assert_eq!(row["columns"][3]["value"], serde_json::json!({"text": "3"}));
    assert_eq!(row["columns"][4]["value"], "bytes_in_value");
}

#[test]
fn a_row_is_routed_again_from_its_dead_letter_as_the_first_time() {
    let expected = with_change(ROW, |change| {
        match EventRouter::new(Options::native()).route(change) {
            Ok(Routed::Publish { record, .. }) => record,
            other => panic!("expected a record, found {other:?}"),
        }
    });
    let missing = Options {
        placements: vec![Placement::header("sequence", "seq")],
        ..options()
    };
    let (letter, error) = dead_letter(missing, ROW);
    assert_eq!(error.reason(), "missing_column");
    let topic = texts(&letter)
        .into_iter()
        .find(|(name, _)| name.ends_with(".topic"));
    assert_eq!(topic.unwrap().1, "outbox.event.order");
    assert_eq!(routed_again(letter, Options::native()), Ok(expected));
}

#[test]
fn what_fails_again_fails_for_the_same_reason() {
    let partition = Options {
        placements: vec![Placement {
            field: "seq".to_owned(),
            target: PlacementTarget::Partition,
        }],
        ..options()
    };
    let cases: [(Options, Row<'_>, &str); 3] = [
        (
            options(),
            [ROW[0], Some(b"no topic"), ROW[2], None, None],
            "illegal_topic",
        ),
        (
            partition,
            [ROW[0], ROW[1], None, Some(b"-1"), ROW[4]],
            "partition",
        ),
        (
            options(),
            [ROW[0], Some(b"\xff"), ROW[2], None, ROW[4]],
            "value",
        ),
    ];
    for (options, row, reason) in cases {
        let (letter, error) = dead_letter(options.clone(), row);
        assert_eq!(error.reason(), reason);
        assert_eq!(letter.key.is_some(), row[2].is_some());
        assert_eq!(routed_again(letter, options), Err(error));
    }
}

#[test]
fn columns_that_are_excluded_are_not_in_a_dead_letter() {
    let without = Options {
        columns: ColumnFilter::excluding("public.outbox.(seq|payload)").unwrap(),
        ..options()
    };
    let (letter, _) = dead_letter(without, ROW);
    assert_eq!(letter.value, None);
    let (_, row) = texts(&letter).pop().unwrap();
    assert!(!row.contains("seq") && !row.contains("payload"), "{row}");
}

#[test]
fn a_row_for_the_dead_letter_topic_itself_becomes_a_dead_letter() {
    let own = Options {
        topic: crate::router::TopicRoute::new("(.*)", "$1").unwrap(),
        dead_letter_topic: Some("order".into()),
        ..options()
    };
    let (_, error) = dead_letter(own, ROW);
    assert_eq!(
        error.to_string(),
        "topic \"order\" takes no events: dead letters are in it"
    );
}

#[test]
fn a_refused_record_comes_out_of_its_dead_letter_as_it_was() {
    let id = Header {
        name: "id".into(),
        value: Some(Bytes::from_static(b"e-1")),
    };
    for partition in [None, Some(3)] {
        let record = Record {
            topic: "outbox.event.order".into(),
            partition,
            key: None,
            value: Some(Bytes::from_static(b"large")),
            headers: smallvec::smallvec![id.clone()],
            timestamp_ms: -5,
        };
        let reason = Reason {
            code: "record_too_large",
            message: "it is too large".to_owned(),
        };
        let letter = record.dead_letter("dead".into(), &origin(), &reason);
        assert_eq!((&*letter.topic, letter.partition), ("dead", None));
        assert_eq!(letter.timestamp_ms, 1_700_000_000_123);
        let read = Letter::read(letter.key, letter.value, letter.headers.to_vec());
        assert_eq!(
            read,
            Ok(Letter {
                reason: "record_too_large".to_owned(),
                table: "public.outbox".to_owned(),
                lsn: "1/FF".to_owned(),
                event_id: Some("e-1".to_owned()),
                topic: Some("outbox.event.order".to_owned()),
                content: Content::Record(Box::new(record)),
            })
        );
    }
}

#[test]
fn a_record_that_is_no_dead_letter_is_told_by_its_headers() {
    let read = |headers| Letter::read(None, None, headers).unwrap_err().to_string();
    assert_eq!(
        read(Vec::new()),
        "it has no header outboxd.dead_letter.kind"
    );
    let kind = |value: &'static [u8]| Header {
        name: format!("{PREFIX}{KIND}").into(),
        value: Some(Bytes::from_static(value)),
    };
    assert_eq!(
        read(vec![kind(b"other")]),
        "its header outboxd.dead_letter.kind cannot be read"
    );
    assert_eq!(
        read(vec![kind(b"row")]),
        "it has no header outboxd.dead_letter.row"
    );
}
