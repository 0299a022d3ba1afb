//! The builder that other tests stand on writes what a server would.

use outboxd::lsn::Lsn;
use outboxd::pgoutput::{
    Begin, Commit, Datum, Delete, Insert, Message, OldTuple, ReplicaIdentity, Tuple, Update, decode,
};
use outboxd::timestamp::Timestamp;

use crate::support::golden;
use crate::support::pgoutput_builder::{
    Columns, Stream, Transaction, Value, WalMessage, outbox, table, txn,
};
use crate::support::pgoutput_encoder::encode;

fn tuple<'a>(datums: impl IntoIterator<Item = Datum<'a>>) -> Tuple<'a> {
    Tuple {
        datums: datums.into_iter().collect(),
    }
}

fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Tuple<'a> {
    tuple(texts.into_iter().map(|text| Datum::Text(text.as_bytes())))
}

fn kinds(messages: &[WalMessage]) -> String {
    let tags = messages.iter().map(|message| char::from(message.body[0]));
    tags.collect()
}

fn check<'a>(messages: &'a [WalMessage], expected: impl IntoIterator<Item = (u64, Message<'a>)>) {
    let found: Vec<_> = messages
        .iter()
        .map(|message| (message.lsn, decode(&message.body).unwrap()))
        .collect();
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(lsn, message)| (Lsn::new(lsn), message))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn every_captured_message_is_encoded_byte_for_byte() {
    for capture in golden::captures() {
        for captured in &capture.messages {
            let message = decode(&captured.body).unwrap();
            assert_eq!(encode(&message), captured.body, "{}", capture.name());
        }
    }
}

#[test]
fn a_transaction_runs_from_begin_to_commit() {
    let time = Timestamp::from_unix_ms(1_767_323_045_000);
    let transaction = txn(9)
        .committed_at(time)
        .insert("Order", "7")
        .insert("Order", "8")
        .commit(0x230);
    let sent = Stream::default().send(&transaction);
    let row = |values| {
        Message::Insert(Insert {
            relation: outbox().oid,
            new: values,
        })
    };
    check(
        &sent,
        [
            (
                0x1fe,
                Message::Begin(Begin {
                    final_lsn: Lsn::new(0x200),
                    commit_time: time,
                    xid: 9,
                }),
            ),
            (0x1fe, Message::Relation(outbox())),
            (
                0x1fe,
                row(texts(["9.1", "Order", "7", r#"{"event":"9.1"}"#])),
            ),
            (
                0x1ff,
                row(texts(["9.2", "Order", "8", r#"{"event":"9.2"}"#])),
            ),
            (
                0x230,
                Message::Commit(Commit {
                    commit_lsn: Lsn::new(0x200),
                    end_lsn: Lsn::new(0x230),
                    commit_time: time,
                }),
            ),
        ],
    );
}

#[test]
fn a_stream_describes_a_table_once_and_again_when_it_has_changed() {
    let order = |xid, end_lsn| -> Transaction { txn(xid).insert("Order", "7").commit(end_lsn) };
    let wider = outbox().column("tenant", 25);
    let row = ["3.1", "Order", "7", "{}", "acme"];
    let after_alter = txn(3).insert_into(&wider, row).commit(0x500);

    let mut stream = Stream::default();
    assert_eq!(kinds(&stream.send(&order(1, 0x300))), "BRIC");
    assert_eq!(kinds(&stream.send(&order(2, 0x400))), "BIC");
    assert_eq!(kinds(&stream.send(&after_alter)), "BRIC");
    assert_eq!(kinds(&stream.send(&after_alter)), "BIC");
    assert_eq!(kinds(&Stream::default().send(&after_alter)), "BRIC");
    assert_eq!(stream.described(), [outbox().oid].into());
}

#[test]
fn old_rows_follow_the_replica_identity() {
    let mut whole = table(7, "shop", "notes").column("a", 25);
    whole.replica_identity = ReplicaIdentity::Full;
    let keyed = table(8, "shop", "tags").key("id", 23).column("a", 25);
    let transaction = txn(1)
        .update_from(&whole, ["before"], ["after"])
        .update(&keyed, [Value::from("1"), Value::UnchangedToast])
        .delete(&keyed, [Some("1"), None])
        .commit(0x200);
    let sent = Stream::default().send(&transaction);
    assert_eq!(kinds(&sent), "BRURUDC");
    check(
        &[&sent[2..3], &sent[4..6]].concat(),
        [
            (
                0x1cd,
                Message::Update(Update {
                    relation: 7,
                    old: Some(Box::new(OldTuple::Full(texts(["before"])))),
                    new: texts(["after"]),
                }),
            ),
            (
                0x1ce,
                Message::Update(Update {
                    relation: 8,
                    old: None,
                    new: tuple([Datum::Text(b"1"), Datum::UnchangedToast]),
                }),
            ),
            (
                0x1cf,
                Message::Delete(Delete {
                    relation: 8,
                    old: OldTuple::Key(tuple([Datum::Text(b"1"), Datum::Null])),
                }),
            ),
        ],
    );
}

#[test]
fn origins_truncates_and_logical_messages_stand_in_their_places() {
    let tags = table(8, "shop", "tags").key("id", 23);
    let transaction = txn(1)
        .origin("upstream")
        .message("audit", b"\0\xff")
        .truncate(&[&outbox(), &tags])
        .commit(0x200);
    let sent = Stream::default().send(&transaction);
    assert_eq!(kinds(&sent), "BOMRRTC");
}
