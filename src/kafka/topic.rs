//! Topics as the producer's thread knows them: valid names, and whether one is ready for its first
//! record.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::asker::Asker;
use super::error::{DeliveryErrorKind, PublishError};

/// Kafka's rule (`org.apache.kafka.common.internals.Topic`).
pub fn is_valid_name(name: &str) -> bool {
    (1..=249).contains(&name.len())
        && name != "."
        && name != ".."
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// Of a topic that is complete: every partition has a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TopicFacts {
    pub(super) partitions: i32,
    /// `None` where the brokers do not let us see it.
    pub(super) max_message_bytes: Option<usize>,
}

/// Comes back as a command of the producer's thread.
pub(super) struct Answer {
    pub(super) topic: Arc<str>,
    pub(super) found: Result<TopicFacts, DeliveryErrorKind>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready(TopicFacts),
    Wait,
    Failed(DeliveryErrorKind),
}

/// Topics that are ready, and the one that is asked for. A thread of its own asks: the producer's
/// thread goes on with deliveries meanwhile.
pub(super) struct Topics {
    ready: HashMap<Arc<str>, TopicFacts>,
    asked: Option<Arc<str>>,
    /// The last answer, where it was none that a record could be sent on.
    failed: Option<(Arc<str>, DeliveryErrorKind)>,
    /// Its end ends the thread, which has at most one request under way by then.
    questions: SyncSender<Arc<str>>,
}

impl Topics {
    pub(super) fn start(asker: Asker) -> Result<Self, PublishError> {
        // One question at a time.
        let (questions, receiver) = sync_channel(1);
        std::thread::Builder::new()
            .name("kafka-topics".to_owned())
            .spawn(move || asker.run(&receiver))
            .map_err(PublishError::Thread)?;
        Ok(Self::asking(questions))
    }

    fn asking(questions: SyncSender<Arc<str>>) -> Self {
        Self {
            ready: HashMap::new(),
            asked: None,
            failed: None,
            questions,
        }
    }

    /// Whether a record may be sent to `topic` now. Asks where that is not known.
    pub(super) fn readiness(&mut self, topic: &Arc<str>) -> Readiness {
        if let Some(facts) = self.ready.get(topic) {
            return Readiness::Ready(*facts);
        }
        if !is_valid_name(topic) {
            return Readiness::Failed(DeliveryErrorKind::TopicInvalid);
        }
        if let Some((failed, kind)) = self.failed.take()
            && failed == *topic
        {
            return Readiness::Failed(kind);
        }
        if self.asked.is_none() {
            if self.questions.try_send(Arc::clone(topic)).is_err() {
                let reason = "the thread that asks for topics has ended".to_owned();
                return Readiness::Failed(DeliveryErrorKind::ProducerFatal(reason));
            }
            self.asked = Some(Arc::clone(topic));
        }
        Readiness::Wait
    }

    pub(super) fn answer(&mut self, answer: Answer) {
        self.asked = None;
        match answer.found {
            Ok(facts) => {
                self.ready.insert(answer.topic, facts);
            }
            Err(kind) => self.failed = Some((answer.topic, kind)),
        }
    }

    pub(super) fn max_message_bytes(&self, topic: &str) -> Option<usize> {
        self.ready.get(topic)?.max_message_bytes
    }

    /// A record for it failed: what is known of it may have changed, so the next one waits again.
    pub(super) fn forget(&mut self, topic: &str) {
        self.ready.remove(topic);
    }

    /// An answer from before a pause is no answer to what is tried after it.
    pub(super) fn forget_failure(&mut self) {
        self.failed = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

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

    const FACTS: TopicFacts = TopicFacts {
        partitions: 3,
        max_message_bytes: Some(1000),
    };

    /// Nobody asks a broker: the answers are the test's.
    fn topics() -> (Topics, Receiver<Arc<str>>) {
        let (questions, receiver) = sync_channel(1);
        (Topics::asking(questions), receiver)
    }

    fn answer(topic: &str, found: Result<TopicFacts, DeliveryErrorKind>) -> Answer {
        let topic = topic.into();
        Answer { topic, found }
    }

    #[test]
    fn a_topic_is_asked_for_once_and_then_known() {
        let (mut topics, questions) = topics();
        let (first, second) = ("a".into(), "b".into());
        assert_eq!(topics.readiness(&first), Readiness::Wait);
        assert_eq!(topics.readiness(&first), Readiness::Wait);
        assert_eq!(topics.readiness(&second), Readiness::Wait);
        assert_eq!(
            questions.try_iter().collect::<Vec<_>>(),
            std::slice::from_ref(&first)
        );
        topics.answer(answer("a", Ok(FACTS)));
        assert_eq!(topics.readiness(&first), Readiness::Ready(FACTS));
        assert_eq!(topics.max_message_bytes("a"), Some(1000));
        topics.forget("a");
        assert_eq!(topics.readiness(&first), Readiness::Wait);
    }

    #[test]
    fn a_refusal_is_told_once_to_a_record_of_its_topic_and_not_after_a_pause() {
        let (mut topics, questions) = topics();
        let topic: Arc<str> = "a".into();
        let missing = || answer("a", Err(DeliveryErrorKind::TopicMissing));
        topics.readiness(&topic);
        topics.answer(missing());
        let told = topics.readiness(&topic);
        assert_eq!(told, Readiness::Failed(DeliveryErrorKind::TopicMissing));
        assert_eq!(questions.try_iter().count(), 1);
        assert_eq!(topics.readiness(&topic), Readiness::Wait);
        topics.answer(missing());
        topics.forget_failure();
        assert_eq!(questions.try_iter().count(), 1);
        assert_eq!(topics.readiness(&topic), Readiness::Wait);
    }

    #[test]
    fn without_anyone_to_ask_the_producer_is_of_no_use() {
        let (mut topics, questions) = topics();
        drop(questions);
        let reason = "the thread that asks for topics has ended".to_owned();
        assert_eq!(
            topics.readiness(&"a".into()),
            Readiness::Failed(DeliveryErrorKind::ProducerFatal(reason))
        );
    }
}
