//! `--sink stdout`: one line of JSON per record.

use std::io::Write;
use std::sync::mpsc::Receiver;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::delivery::{DeliveryReport, Fate};
use super::error::{DeliveryError, DeliveryErrorKind};
use super::publisher::{Command, Reports};
use crate::ack::Resend;
use crate::router::Record;

pub(super) fn run(out: &mut impl Write, commands: &Receiver<Command>, reports: &Reports) {
    let mut halted = false;
    while let Ok(command) = commands.recv() {
        match command {
            Command::Send(batch) => {
                for report in write(out, batch, &mut halted) {
                    if reports.send(report).is_err() {
                        return;
                    }
                }
            }
            Command::Resume => halted = false,
            Command::Topic(_) | Command::Refused(_) | Command::AllSettled | Command::Deserted => {}
            Command::Close(_) => return,
        }
    }
}

/// A record is acknowledged once the whole batch is flushed.
fn write(out: &mut impl Write, batch: Resend, halted: &mut bool) -> Vec<DeliveryReport> {
    let written = if *halted {
        None
    } else {
        Some(write_lines(out, &batch))
    };
    let report = |ticket, topic, first: bool| {
        let fate = match &written {
            None => Fate::NotSent,
            Some(Ok(())) => Fate::Acknowledged { partition: 0 },
            Some(Err(error)) if first => Fate::Failed {
                partition: None,
                error: DeliveryError {
                    topic,
                    kind: DeliveryErrorKind::Sink(error.to_string()),
                },
            },
            Some(Err(_)) => Fate::NotSent,
        };
        DeliveryReport { ticket, fate }
    };
    let settled = batch
        .iter()
        .enumerate()
        .map(|(index, (ticket, record))| report(*ticket, record.topic.clone(), index == 0))
        .collect();
    *halted |= matches!(written, Some(Err(_)));
    settled
}

fn write_lines(out: &mut impl Write, batch: &Resend) -> std::io::Result<()> {
    for (_, record) in batch {
        serde_json::to_writer(&mut *out, &line(record))?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

fn line(record: &Record) -> Value {
    let headers: Vec<Value> = record
        .headers
        .iter()
        .map(|header| json!([&*header.name, bytes(header.value.as_deref())]))
        .collect();
    json!({
        "topic": &*record.topic,
        "partition": record.partition,
        "key": bytes(record.key.as_deref()),
        "headers": headers,
        "timestamp_ms": record.timestamp_ms,
        "value": bytes(record.value.as_deref()),
    })
}

/// Text as text; other bytes as `{"base64": …}`.
fn bytes(bytes: Option<&[u8]>) -> Value {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => Value::Null,
        Some((_, Ok(text))) => Value::from(text),
        Some((bytes, Err(_))) => json!({ "base64": BASE64.encode(bytes) }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use smallvec::smallvec;

    use super::*;
    use crate::ack::Ticket;
    use crate::router::Header;

    fn batch() -> Resend {
        let record = Record {
            topic: "t".into(),
            partition: None,
            key: Some(Bytes::from_static(b"k\n")),
            value: Some(Bytes::from_static(&[0xff])),
            headers: smallvec![Header {
                name: "id".into(),
                value: None
            }],
            timestamp_ms: 5,
        };
        vec![(Ticket(7), Arc::new(record))]
    }

    #[test]
    fn a_record_is_one_line_of_json() {
        let mut out = Vec::new();
        let settled = write(&mut out, batch(), &mut false);
        assert!(matches!(settled[0].fate, Fate::Acknowledged { .. }));
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"topic\":\"t\",\"partition\":null,\"key\":\"k\\n\",\"headers\":[[\"id\",null]],\"timestamp_ms\":5,\"value\":{\"base64\":\"/w==\"}}\n"
        );
    }

    #[test]
    fn a_closed_pipe_is_a_failure_and_stops_the_output() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut halted = false;
        let settled = write(&mut Closed, batch(), &mut halted);
        assert!(matches!(settled[0].fate, Fate::Failed { .. }));
        assert!(halted);
        let settled = write(&mut Closed, batch(), &mut halted);
        assert!(matches!(settled[0].fate, Fate::NotSent));
    }
}
