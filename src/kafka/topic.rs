//! Topics: valid names, and whether one is ready for its first record.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::client::{Client, ClientContext};
use rdkafka::error::RDKafkaErrorCode;

use super::error::DeliveryErrorKind;

/// What the brokers say of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TopicFacts {
    partitions: usize,
    /// Every partition has a leader.
    complete: bool,
}

/// Kafka's rule (`org.apache.kafka.common.internals.Topic`).
pub(super) fn is_valid_name(name: &str) -> bool {
    (1..=249).contains(&name.len())
        && name != "."
        && name != ".."
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// Topics that are ready, and the one that is waited for.
///
/// Right after its creation a topic's metadata can name some of its partitions only, and librdkafka
/// then fails records for the others (seen with Kafka 4.3: 66 % of 100,000 sends). So the first
/// record waits until two answers in a row agree and every partition has a leader.
#[derive(Debug, Default)]
pub(super) struct Topics {
    ready: HashMap<Arc<str>, i32>,
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    topic: Arc<str>,
    deadline: Instant,
    next_look: Instant,
    seen: Option<usize>,
}

pub(super) enum Readiness {
    Ready { partitions: i32 },
    Wait,
    Failed(DeliveryErrorKind),
}

const LOOK_TIMEOUT: Duration = Duration::from_millis(500);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

impl Topics {
    /// Whether a record may be sent to `topic` now. Asks the brokers at most every 20 ms.
    pub(super) fn readiness<C: ClientContext>(
        &mut self,
        topic: &Arc<str>,
        client: &Client<C>,
        timeout: Duration,
    ) -> Readiness {
        if let Some(partitions) = self.ready.get(topic) {
            return Readiness::Ready {
                partitions: *partitions,
            };
        }
        if !is_valid_name(topic) {
            return Readiness::Failed(DeliveryErrorKind::TopicInvalid);
        }
        let now = Instant::now();
        let waiting = match &mut self.waiting {
            Some(waiting) if waiting.topic == *topic => waiting,
            other => other.insert(Waiting {
                topic: Arc::clone(topic),
                deadline: now + timeout,
                next_look: now,
                seen: None,
            }),
        };
        if now < waiting.next_look {
            return Readiness::Wait;
        }
        waiting.next_look = now + LOOK_INTERVAL;
        let deadline = waiting.deadline;
        let answer = look(client, topic, LOOK_TIMEOUT);
        match answer {
            Ok(facts) if facts.complete && waiting.seen == Some(facts.partitions) => {
                self.waiting = None;
                let partitions = i32::try_from(facts.partitions).unwrap_or(i32::MAX);
                self.ready.insert(Arc::clone(topic), partitions);
                Readiness::Ready { partitions }
            }
            Ok(facts) if facts.complete => {
                waiting.seen = Some(facts.partitions);
                Readiness::Wait
            }
            Err(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                self.fail(DeliveryErrorKind::TopicAuthorization)
            }
            Err(RDKafkaErrorCode::InvalidTopic) => self.fail(DeliveryErrorKind::TopicInvalid),
            // A broker that is away is an outage, not the topic's fault: wait for as long as it
            // takes.
            Err(code) if is_outage(code) => {
                waiting.deadline = now + timeout;
                Readiness::Wait
            }
            _ if now >= deadline => self.fail(DeliveryErrorKind::TopicMissing),
            _ => Readiness::Wait,
        }
    }

    /// A record for it failed: its metadata may have changed, so the next one waits again.
    pub(super) fn forget(&mut self, topic: &str) {
        self.ready.remove(topic);
    }

    fn fail(&mut self, kind: DeliveryErrorKind) -> Readiness {
        self.waiting = None;
        Readiness::Failed(kind)
    }
}

fn is_outage(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::BrokerTransportFailure
            | RDKafkaErrorCode::AllBrokersDown
            | RDKafkaErrorCode::OperationTimedOut
            | RDKafkaErrorCode::Resolve
    )
}

fn look<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    timeout: Duration,
) -> Result<TopicFacts, RDKafkaErrorCode> {
    let metadata = client
        .fetch_metadata(Some(topic), timeout)
        .map_err(|error| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail))?;
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return Err(RDKafkaErrorCode::UnknownTopic);
    };
    if let Some(error) = found.error() {
        return Err(RDKafkaErrorCode::from(error));
    }
    let partitions = found.partitions();
    Ok(TopicFacts {
        partitions: partitions.len(),
        complete: !partitions.is_empty()
            && partitions.iter().all(|partition| partition.leader() >= 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_names_follow_kafkas_rule() {
        let longest = "x".repeat(249);
        for name in ["a", "outbox.event.order", "A_b-9", longest.as_str()] {
            assert!(is_valid_name(name), "{name}");
        }
        let too_long = "x".repeat(250);
        for name in ["", ".", "..", "a b", "a/b", "é", "a$", too_long.as_str()] {
            assert!(!is_valid_name(name), "{name}");
        }
    }
}
