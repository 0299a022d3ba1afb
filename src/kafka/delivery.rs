//! From librdkafka's callbacks to reports.

use std::sync::{Arc, mpsc as commands};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Headers, Message};
use rdkafka::producer::{DeliveryResult, ProducerContext};
use tokio::sync::mpsc;

use super::error::{DeliveryError, DeliveryErrorKind, SizeLimit};
use super::health::Health;
use super::producer::Traffic;
use super::publisher::{Command, Reports};
use crate::ack::Ticket;

/// What became of one attempt.
#[derive(Debug)]
pub struct DeliveryReport {
    pub ticket: Ticket,
    pub fate: Fate,
}

#[derive(Debug)]
pub enum Fate {
    /// librdkafka can report success without an offset (a retry that the broker had already), so
    /// none is promised.
    Acknowledged { partition: i32 },
    Failed {
        partition: Option<i32>,
        error: DeliveryError,
    },
    /// An earlier record failed; this one was not tried.
    NotSent,
}

/// The receiving end; at most as many reports wait here as records are outstanding.
#[derive(Debug)]
pub struct DeliveryReports(pub(super) mpsc::UnboundedReceiver<DeliveryReport>);

/// Taken at once at most, so that a flood of them does not keep the stream waiting.
const REPORTS_AT_ONCE: usize = 10_000;

impl DeliveryReports {
    /// What has come; `None` when the producer's threads have ended. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Vec<DeliveryReport>> {
        let mut reports = Vec::new();
        let count = self.0.recv_many(&mut reports, REPORTS_AT_ONCE).await;
        (count > 0).then_some(reports)
    }
}

/// librdkafka's callbacks. Deliveries run inside `poll`, on the thread of the reports; the others
/// run on threads of librdkafka's.
pub(super) struct Context {
    health: Arc<Health>,
    traffic: Arc<Traffic>,
    commands: commands::Sender<Command>,
    reports: Reports,
}

impl Context {
    pub(super) fn new(
        health: Arc<Health>,
        traffic: Arc<Traffic>,
        commands: commands::Sender<Command>,
        reports: Reports,
    ) -> Self {
        Self {
            health,
            traffic,
            commands,
            reports,
        }
    }

    pub(super) fn health(&self) -> &Health {
        &self.health
    }

    /// A failure stops the sending at once and goes to the sending thread, which knows what the
    /// producer and the topic say of it. The count goes down last: who sees none outstanding finds
    /// every report on its way.
    fn settle(&self, report: DeliveryReport) {
        // A receiver that is gone has no use for it.
        if matches!(report.fate, Fate::Failed { .. }) {
            self.traffic.halt();
            drop(self.commands.send(Command::Refused(report)));
        } else {
            drop(self.reports.send(report));
        }
        if self.traffic.settle() {
            drop(self.commands.send(Command::AllSettled));
        }
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        use RDKafkaLogLevel as Level;
        match level {
            // Comes through `error` too, with less around it.
            _ if facility == "FAIL" || facility == "ERROR" => {
                tracing::debug!(facility, "librdkafka: {}", message.escape_debug());
            }
            Level::Emerg | Level::Alert | Level::Critical | Level::Error | Level::Warning => {
                self.health.note(facility, message);
            }
            _ => tracing::debug!(facility, "librdkafka: {}", message.escape_debug()),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::AllBrokersDown) => self.health.lost(),
            Some(code) => self.health.failed(&format!("{code:?}"), reason),
            None => self.health.failed("ERROR", reason),
        }
    }

    fn stats_raw(&self, statistics: &[u8]) {
        if self.health.read_statistics(statistics) {
            drop(self.commands.send(Command::Deserted));
        }
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: usize) {
        let fate = match result {
            Ok(message) => {
                self.health.answered();
                Fate::Acknowledged {
                    partition: message.partition(),
                }
            }
            Err((error, message)) => {
                let partition = message.partition();
                Fate::Failed {
                    partition: (partition >= 0).then_some(partition),
                    error: DeliveryError {
                        topic: message.topic().into(),
                        kind: failure(error, message),
                    },
                }
            }
        };
        let report = DeliveryReport {
            ticket: Ticket(ticket as u64),
            fate,
        };
        self.settle(report);
    }
}

fn failure(error: &KafkaError, message: &impl Message) -> DeliveryErrorKind {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize) => {
            DeliveryErrorKind::RecordTooLarge {
                size_bytes: size_bytes(message),
                limit: SizeLimit::Topic(None),
            }
        }
        Some(RDKafkaErrorCode::InvalidTimestamp) => DeliveryErrorKind::InvalidTimestamp {
            timestamp_ms: message.timestamp().to_millis().unwrap_or_default(),
        },
        _ => DeliveryErrorKind::from_error(error),
    }
}

fn size_bytes(message: &impl Message) -> usize {
    let headers = message.headers().map_or(0, |headers| {
        headers
            .iter()
            .map(|header| header.key.len() + header.value.map_or(0, <[u8]>::len))
            .sum()
    });
    let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
    headers + length(message.key()) + length(message.payload())
}
