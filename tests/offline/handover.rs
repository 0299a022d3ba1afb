//! Where Kafka Connect can have stopped, place by place: the pipeline publishes what follows, and
//! confirms nothing before it is there.

use std::sync::Arc;

use outboxd::ack::{Limits, Outcome};
use outboxd::connect::{ConnectorOffset, Search, Standing, Start, decide};
use outboxd::lsn::Lsn;
use outboxd::pipeline::{Pipeline, PipelineError};
use outboxd::router::{EventRouter, Options, Record};
use outboxd::timestamp::Timestamp;

use crate::support::pgoutput_builder::{Stream, Transaction, WalMessage, outbox, txn};

const SLOT: Lsn = Lsn::new(0x100);
const WRITTEN: Lsn = Lsn::new(0x1000);
/// From 1970 to 2000.
const UNIX_US: i64 = 946_684_800_000_000;

/// Inserts and deletes; one whose rows were written before the commit of the one before it; one
/// that publishes nothing.
fn transactions() -> Vec<Transaction> {
    let time = |us| Timestamp::from_postgres_us(us);
    vec![
        txn(11)
            .committed_at(time(1))
            .insert("Order", "a")
            .insert("Order", "b")
            .delete(&outbox(), [Some("11.1"), None, None, None])
            .commit(0x200),
        txn(10)
            .committed_at(time(2))
            .insert("Order", "a")
            .commit(0x230),
        txn(12)
            .committed_at(time(3))
            .delete(&outbox(), [Some("11.2"), None, None, None])
            .commit(0x300),
        txn(14)
            .committed_at(time(4))
            .insert("Order", "c")
            .insert("Order", "a")
            .insert("Order", "b")
            .commit(0x400),
        txn(13)
            .committed_at(time(5))
            .insert("Order", "c")
            .commit(0x500),
    ]
}

/// A place and the offset that Debezium would store there.
struct Stop {
    json: String,
    /// Events before it.
    events: usize,
}

/// After each row that is an event, and, as with heartbeats, after each commit and each begin.
fn stops(transactions: &[Transaction]) -> Vec<Stop> {
    let mut stream = Stream::default();
    let (mut stops, mut events, mut committed) = (Vec::new(), 0, None);
    for transaction in transactions {
        let offset = |kind: &str, lsn: Lsn, committed: Option<Lsn>| {
            let commit = committed.map_or_else(String::new, |lsn| {
                format!("\"lsn_commit\":{},", lsn.as_u64())
            });
            let (xid, lsn) = (transaction.xid, lsn.as_u64());
            let ts_usec = transaction.commit_time.as_postgres_us() + UNIX_US;
            format!(
                "{{\"lsn_proc\":{lsn},\"messageType\":\"{kind}\",{commit}\"lsn\":{lsn},\"txId\":{xid},\"ts_usec\":{ts_usec}}}"
            )
        };
        for message in stream.send(transaction) {
            let (kind, is_event) = match message.body[0] {
                b'B' => ("BEGIN", false),
                b'I' => ("INSERT", true),
                b'C' => ("COMMIT", false),
                _ => continue,
            };
            events += usize::from(is_event);
            if kind == "COMMIT" {
                committed = Some(transaction.end_lsn);
            }
            stops.push(Stop {
                json: offset(kind, message.lsn, committed),
                events,
            });
        }
    }
    stops
}

fn messages(transactions: &[Transaction]) -> Vec<WalMessage> {
    let mut stream = Stream::default();
    transactions
        .iter()
        .flat_map(|each| stream.send(each))
        .collect()
}

fn pipeline() -> Pipeline {
    let limits = Limits {
        records: 100,
        bytes: 1 << 20,
    };
    let mut pipeline = Pipeline::new(EventRouter::new(Options::default()), limits);
    pipeline.start_stream(SLOT);
    pipeline
}

fn search(json: &str) -> Option<Search> {
    let offset = ConnectorOffset::from_json(json.as_bytes()).unwrap();
    let standing = Standing {
        confirmed: SLOT,
        written: WRITTEN,
    };
    match decide(Some(&offset), standing) {
        Start::After(delivered) => Some(Search::new(delivered, WRITTEN)),
        Start::AtSlot(_) => None,
    }
}

/// The events' names. What is published is acknowledged at once.
fn publish(pipeline: &mut Pipeline, messages: &[WalMessage]) -> Result<Vec<String>, PipelineError> {
    let mut published = Vec::new();
    for message in messages {
        pipeline.handle_wal(message.lsn, &message.body)?;
        for (ticket, record) in pipeline.take_outgoing() {
            published.push(event(&record));
            pipeline.handle_delivery(ticket, Outcome::Acknowledged { partition: 0 });
        }
    }
    Ok(published)
}

fn event(record: &Arc<Record>) -> String {
    record.event_id().unwrap()
}

#[test]
fn wherever_the_connector_stopped_the_rest_follows_and_nothing_else() {
    let transactions = transactions();
    let messages = messages(&transactions);
    let all = publish(&mut pipeline(), &messages).unwrap();
    assert_eq!(all.len(), 7);
    let stops = stops(&transactions);
    for stop in &stops {
        let mut pipeline = pipeline();
        pipeline.start_after(search(&stop.json).expect("each of them counts"));
        let published = publish(&mut pipeline, &messages).unwrap();
        assert_eq!(published, all[stop.events..], "{}", stop.json);
        let passed = pipeline.take_passed().unwrap();
        assert_eq!(passed.rows, stop.events as u64, "{}", stop.json);
        assert_eq!(pipeline.confirmed(), Lsn::new(0x500), "{}", stop.json);
    }
    assert_eq!(stops.len(), 17);
}

#[test]
fn nothing_is_confirmed_on_the_way_to_the_connectors_place() {
    let transactions = transactions();
    let last = stops(&transactions).pop().unwrap();
    let mut pipeline = pipeline();
    pipeline.start_after(search(&last.json).unwrap());
    let (rest, end) = (messages(&transactions[..4]), messages(&transactions));
    assert!(publish(&mut pipeline, &rest).unwrap().is_empty());
    pipeline.handle_keepalive(Lsn::new(0x400)).unwrap();
    assert_eq!(pipeline.confirmed(), SLOT);
    let mut again = pipeline;
    again.end_stream();
    again.start_stream(SLOT);
    again.start_after(search(&last.json).unwrap());
    assert!(publish(&mut again, &end).unwrap().is_empty());
    assert_eq!(again.confirmed(), Lsn::new(0x500));
}

#[test]
fn an_offset_of_another_history_ends_the_stream_with_nothing_confirmed() {
    let transactions = transactions();
    let all = messages(&transactions);
    for stop in stops(&transactions) {
        for (from, to) in [
            ("\"txId\":1", "\"txId\":2"),
            ("\"ts_usec\":9", "\"ts_usec\":8"),
        ] {
            let json = stop.json.replacen(from, to, 1);
            let mut pipeline = pipeline();
            pipeline.start_after(search(&json).unwrap());
            let ended = publish(&mut pipeline, &all).map(|_| ());
            let ended = ended.and_then(|()| pipeline.handle_keepalive(WRITTEN));
            let not_found = matches!(ended, Err(PipelineError::ConnectorOffset { .. }));
            assert!(not_found, "{json}");
            assert_eq!(pipeline.confirmed(), SLOT, "{json}");
            // The next stream begins at the slot and has everything.
            pipeline.end_stream();
            pipeline.start_stream(SLOT);
            assert_eq!(publish(&mut pipeline, &all).unwrap().len(), 7, "{json}");
        }
    }
}
