//! What `outboxd check` asks the brokers. Changes nothing: a producer's question can create a topic
//! (`auto.create.topics.enable`), this one does not.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, DeliveryResult, Producer, ProducerContext};

use super::error::PublishError;
use super::options::Options;

/// What the brokers say of themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    pub brokers: usize,
    /// Partitions of each topic that this client may see.
    pub topics: BTreeMap<String, usize>,
}

/// Asks for the whole cluster. Blocks for at most `patience`.
pub fn reach(options: &Options, patience: Duration) -> Result<Cluster, PublishError> {
    let client: BaseProducer<Listener> = options
        .question_config()
        .create_with_context(Listener::default())
        .map_err(PublishError::Client)?;
    match client.client().fetch_metadata(None, patience) {
        Ok(metadata) => Ok(Cluster {
            brokers: metadata.brokers().len(),
            topics: metadata
                .topics()
                .iter()
                .map(|topic| (topic.name().to_owned(), topic.partitions().len()))
                .collect(),
        }),
        Err(source) => {
            for _ in 0..EVENTS {
                client.poll(Duration::ZERO);
            }
            Err(PublishError::Unreachable {
                servers: options.bootstrap_servers().to_owned(),
                reasons: client.context().take(),
                source,
            })
        }
    }
}

/// More than librdkafka says while one question is asked.
const EVENTS: usize = 64;

/// Keeps the reasons of failed connections: the question itself only says that the time is over.
#[derive(Debug, Default)]
pub(super) struct Listener(Mutex<Vec<String>>);

/// A few ways to fail are enough.
const REASONS: usize = 4;

impl Listener {
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ClientContext for Listener {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, "librdkafka: {}", message.escape_debug());
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) {
            return;
        }
        let reason = reason.escape_debug().to_string();
        let mut reasons = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if reasons.len() < REASONS && !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
}

impl ProducerContext for Listener {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ack::Limits;

    #[test]
    fn a_broker_that_does_not_answer_is_named_with_the_reason() {
        // Bound, and nothing accepts there once the listener is gone.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        drop(listener);
        let window = Limits {
            records: 1,
            bytes: 1,
        };
        let options = Options::new(&server, BTreeMap::new(), window).unwrap();
        let error = reach(&options, Duration::from_millis(500)).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("no broker of {server} answers: "))
                && text.contains("Connection refused"),
            "{text}"
        );
    }
}
