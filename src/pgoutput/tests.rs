use smallvec::SmallVec;

use super::*;
use crate::lsn::Lsn;
use crate::timestamp::Timestamp;

const BEGIN: &[u8] = b"B\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\xe8\0\0\x02\xde";
const COMMIT: &[u8] = b"C\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x02\x30\0\0\0\0\0\0\x03\xe8";
const ORIGIN: &[u8] = b"O\0\0\0\0\0\0\0\x09upstream\0";
const RELATION: &[u8] =
    b"R\0\0\x40\0public\0orders\0d\0\x02\x01id\0\0\0\0\x17\xff\xff\xff\xff\0note\0\0\0\x04\x13\0\0\0\x0c";
const TYPE: &[u8] = b"Y\0\0\x40\x08public\0mood\0";
const INSERT: &[u8] = b"I\0\0\x40\0N\0\x04t\0\0\0\x02abnub\0\0\0\x01\xff";
const UPDATE: &[u8] = b"U\0\0\x40\0N\0\x01u";
const UPDATE_OF_KEY: &[u8] = b"U\0\0\x40\0K\0\x02t\0\0\0\x017nN\0\x02t\0\0\0\x018n";
const UPDATE_OF_FULL_ROW: &[u8] = b"U\0\0\x40\0O\0\x01t\0\0\0\0N\0\x01n";
const DELETE_BY_KEY: &[u8] = b"D\0\0\x40\0K\0\x01t\0\0\0\x017";
const DELETE_OF_FULL_ROW: &[u8] = b"D\0\0\x40\0O\0\0";
const TRUNCATE: &[u8] = b"T\0\0\0\x02\x03\0\0\x40\0\0\0\x40\x10";
const MESSAGE: &[u8] = b"M\x01\0\0\0\0\0\0\x02\0audit\0\0\0\0\x03\0\xff1";

const EACH_MESSAGE: [&[u8]; 13] = [
    BEGIN,
    COMMIT,
    ORIGIN,
    RELATION,
    TYPE,
    INSERT,
    UPDATE,
    UPDATE_OF_KEY,
    UPDATE_OF_FULL_ROW,
    DELETE_BY_KEY,
    DELETE_OF_FULL_ROW,
    TRUNCATE,
    MESSAGE,
];

fn tuple<'a>(datums: &[Datum<'a>]) -> Tuple<'a> {
    Tuple {
        datums: SmallVec::from_slice(datums),
    }
}

fn column(name: &str, type_oid: u32, type_modifier: i32, is_key: bool) -> Column {
    Column {
        name: name.to_owned(),
        type_oid,
        type_modifier,
        is_key,
    }
}

fn check<'a>(body: &'a [u8], expected: Message<'a>) {
    assert_eq!(decode(body), Ok(expected));
}

fn check_refusal(body: &[u8], expected: &str) {
    assert_eq!(decode(body).unwrap_err().to_string(), expected);
}

#[test]
fn a_transaction_is_named_by_its_commit_and_ends_behind_it() {
    check(
        BEGIN,
        Message::Begin(Begin {
            final_lsn: Lsn::new(0x200),
            commit_time: Timestamp::from_postgres_us(1000),
            xid: 734,
        }),
    );
    check(
        COMMIT,
        Message::Commit(Commit {
            commit_lsn: Lsn::new(0x200),
            end_lsn: Lsn::new(0x230),
            commit_time: Timestamp::from_postgres_us(1000),
        }),
    );
}

#[test]
fn a_transaction_that_came_through_replication_names_its_origin() {
    check(
        ORIGIN,
        Message::Origin {
            commit_lsn: Lsn::new(9),
            name: "upstream",
        },
    );
}

#[test]
fn a_relation_has_its_columns_in_tuple_order() {
    check(
        RELATION,
        Message::Relation(Relation {
            oid: 0x4000,
            namespace: "public".to_owned(),
            name: "orders".to_owned(),
            replica_identity: ReplicaIdentity::Default,
            columns: vec![column("id", 23, -1, true), column("note", 1043, 12, false)],
        }),
    );
}

#[test]
fn an_empty_namespace_is_the_servers_catalog() {
    let body = b"R\0\0\x0b\x41\0pg_job\0n\0\0";
    check(
        body,
        Message::Relation(Relation {
            oid: 0xb41,
            namespace: "pg_catalog".to_owned(),
            name: "pg_job".to_owned(),
            replica_identity: ReplicaIdentity::Nothing,
            columns: Vec::new(),
        }),
    );
    let body = b"Y\0\0\0\x17\0int4\0";
    check(
        body,
        Message::Type {
            oid: 23,
            namespace: "pg_catalog",
            name: "int4",
        },
    );
}

#[test]
fn a_type_has_a_qualified_name() {
    check(
        TYPE,
        Message::Type {
            oid: 0x4008,
            namespace: "public",
            name: "mood",
        },
    );
}

#[test]
fn an_insert_borrows_its_datums() {
    check(
        INSERT,
        Message::Insert(Insert {
            relation: 0x4000,
            new: tuple(&[
                Datum::Text(b"ab"),
                Datum::Null,
                Datum::UnchangedToast,
                Datum::Binary(b"\xff"),
            ]),
        }),
    );
}

#[test]
fn sixteen_datums_need_no_allocation() {
    let body = [b"I\0\0\0\x01N\0\x10".as_slice(), &[b'n'; 16]].concat();
    let Ok(Message::Insert(insert)) = decode(&body) else {
        panic!("an insert of sixteen nulls");
    };
    assert_eq!(insert.new.datums.len(), 16);
    assert!(!insert.new.datums.spilled());
}

#[test]
fn an_update_has_the_old_row_that_the_replica_identity_kept() {
    check(
        UPDATE,
        Message::Update(Update {
            relation: 0x4000,
            old: None,
            new: tuple(&[Datum::UnchangedToast]),
        }),
    );
    check(
        UPDATE_OF_KEY,
        Message::Update(Update {
            relation: 0x4000,
            old: Some(Box::new(OldTuple::Key(tuple(&[
                Datum::Text(b"7"),
                Datum::Null,
            ])))),
            new: tuple(&[Datum::Text(b"8"), Datum::Null]),
        }),
    );
    check(
        UPDATE_OF_FULL_ROW,
        Message::Update(Update {
            relation: 0x4000,
            old: Some(Box::new(OldTuple::Full(tuple(&[Datum::Text(b"")])))),
            new: tuple(&[Datum::Null]),
        }),
    );
}

#[test]
fn a_delete_has_the_key_or_the_whole_row() {
    check(
        DELETE_BY_KEY,
        Message::Delete(Delete {
            relation: 0x4000,
            old: OldTuple::Key(tuple(&[Datum::Text(b"7")])),
        }),
    );
    check(
        DELETE_OF_FULL_ROW,
        Message::Delete(Delete {
            relation: 0x4000,
            old: OldTuple::Full(tuple(&[])),
        }),
    );
}

#[test]
fn a_truncate_names_every_table_and_its_options() {
    for (options, cascade, restart_identity) in [
        (0, false, false),
        (1, true, false),
        (2, false, true),
        (3, true, true),
    ] {
        let mut body = TRUNCATE.to_vec();
        body[5] = options;
        check(
            &body,
            Message::Truncate {
                relations: vec![0x4000, 0x4010],
                cascade,
                restart_identity,
            },
        );
    }
}

#[test]
fn a_logical_message_has_a_prefix_and_any_bytes() {
    let message = LogicalMessage {
        transactional: true,
        lsn: Lsn::new(0x200),
        prefix: "audit",
        content: b"\0\xff1",
    };
    check(MESSAGE, Message::Message(message));
}

#[test]
fn every_message_cut_short_or_followed_by_a_byte_is_refused() {
    for message in EACH_MESSAGE {
        decode(message).unwrap();
        for end in 0..message.len() {
            assert!(decode(&message[..end]).is_err(), "{message:?} cut at {end}");
        }
        let mut longer = message.to_vec();
        longer.push(0);
        let refusal = decode(&longer).unwrap_err().to_string();
        assert!(
            refusal.ends_with(": end: expected no more bytes, found 1"),
            "{refusal}"
        );
    }
}

#[test]
fn a_cut_field_is_named_with_what_it_needs_and_what_is_left() {
    let cases: [(&[u8], &str); 14] = [
        (b"", "pgoutput: tag: expected a message, found no bytes"),
        (
            b"B\0",
            "pgoutput Begin: final LSN: expected 8 bytes, found 1",
        ),
        (
            &COMMIT[..COMMIT.len() - 1],
            "pgoutput Commit: commit time: expected 8 bytes, found 7",
        ),
        (
            b"O\0\0\0\0\0\0\0\x09up",
            "pgoutput Origin: name: expected a zero byte after the text, found none",
        ),
        (
            b"R\0\0\0\x01a\0b\0d\0\x02\0c\0\0\0\0\x17\0\0",
            "pgoutput Relation: column 1 type modifier: expected 4 bytes, found 2",
        ),
        (
            b"R\0\0\0\x01a\0b\0d\xff\xff",
            "pgoutput Relation: column 1 flags: expected 1 bytes, found 0",
        ),
        (b"Y\0", "pgoutput Type: oid: expected 4 bytes, found 1"),
        (
            b"I\0\0\0\x01N\0\x03nnt\0\0\0\x0cabcde",
            "pgoutput Insert: tuple column 3: expected 12 bytes, found 5",
        ),
        (
            b"I\0\0\0\x01N\0\x01t\0\0",
            "pgoutput Insert: tuple column 1 length: expected 4 bytes, found 2",
        ),
        (
            b"I\0\0\0\x01N\xff\xffn",
            "pgoutput Insert: tuple columns: expected 65535 bytes, found 1",
        ),
        (
            b"U\0\0\0\x01K\0\x01t\0\0\0\x02a",
            "pgoutput Update: old tuple column 1: expected 2 bytes, found 1",
        ),
        (
            b"U\0\0\0\x01K\0\x01nN\0\x01t\0\0\0\x02a",
            "pgoutput Update: new tuple column 1: expected 2 bytes, found 1",
        ),
        (
            b"T\xff\xff\xff\xff\0",
            "pgoutput Truncate: relations: expected 17179869180 bytes, found 0",
        ),
        (
            b"M\0\0\0\0\0\0\0\0\0a\0\x7f\xff\xff\xff",
            "pgoutput Message: content: expected 2147483647 bytes, found 0",
        ),
    ];
    for (body, expected) in cases {
        check_refusal(body, expected);
    }
}

#[test]
fn a_byte_that_a_field_cannot_have_is_named() {
    let with = |body: &[u8], at: usize, byte: u8| {
        let mut body = body.to_vec();
        body[at] = byte;
        body
    };
    let cases: [(Vec<u8>, &str); 13] = [
        (
            b"S\0\0\0\x01\x01".to_vec(),
            "pgoutput: tag: expected a known message, found byte 0x53",
        ),
        (
            with(COMMIT, 1, 1),
            "pgoutput Commit: flags: expected no flag, found byte 0x01",
        ),
        (
            with(RELATION, 19, b'x'),
            "pgoutput Relation: replica identity: expected one of d, n, f, i, found byte 0x78",
        ),
        (
            with(RELATION, 22, 2),
            "pgoutput Relation: column 1 flags: expected 0 or 1, found byte 0x02",
        ),
        (
            with(INSERT, 5, b'K'),
            "pgoutput Insert: tuple kind: expected N, found byte 0x4B",
        ),
        (
            with(INSERT, 8, b'x'),
            "pgoutput Insert: tuple column 1 kind: expected one of n, u, t, b, found byte 0x78",
        ),
        (
            with(INSERT, 9, 0x80),
            "pgoutput Insert: tuple column 1 length: expected a length, found -2147483646",
        ),
        (
            with(UPDATE, 5, b'X'),
            "pgoutput Update: tuple kind: expected one of K, O, N, found byte 0x58",
        ),
        (
            with(UPDATE_OF_KEY, 15, b'O'),
            "pgoutput Update: new tuple kind: expected N, found byte 0x4F",
        ),
        (
            with(DELETE_BY_KEY, 5, b'N'),
            "pgoutput Delete: tuple kind: expected K or O, found byte 0x4E",
        ),
        (
            with(TRUNCATE, 5, 4),
            "pgoutput Truncate: options: expected 0, 1, 2 or 3, found byte 0x04",
        ),
        (
            with(MESSAGE, 1, 2),
            "pgoutput Message: flags: expected 0 or 1, found byte 0x02",
        ),
        (
            with(TYPE, 5, 0xff),
            "pgoutput Type: namespace: expected UTF-8, found other bytes",
        ),
    ];
    for (body, expected) in cases {
        check_refusal(&body, expected);
    }
}
