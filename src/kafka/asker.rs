//! The thread that asks the brokers for topics, and makes one where that is its task.
//!
//! Right after its creation a topic's metadata can name some of its partitions only, and librdkafka
//! then fails records for the others (seen with Kafka 4.3: 66 % of 100,000 sends). So the first
//! record waits until two answers in a row agree and every partition has a leader.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use rdkafka::admin::AdminClient;
use rdkafka::client::Client;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::{BaseProducer, Producer};

use super::admin::{self, Quiet};
use super::creation::{self, TopicCreation};
use super::delivery::Context;
use super::error::DeliveryErrorKind;
use super::options::Options;
use super::publisher::Command;
use super::topic::{Answer, TopicFacts};

pub(super) struct Asker {
    producer: Arc<BaseProducer<Context>>,
    options: Options,
    answers: Sender<Command>,
}

/// Made for one question: a topic is asked for once in its life.
type Admin = Option<AdminClient<Quiet>>;

enum Obstacle {
    /// A broker that is away is not the topic's fault: wait for as long as it takes.
    Outage,
    Refusal(DeliveryErrorKind),
    /// A refusal where it lasts: brokers that are about to join a new cluster change it.
    Perhaps(DeliveryErrorKind),
}

/// What the brokers know of a topic that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Complete(usize),
    /// No leader yet, or somebody is about to create it.
    Incomplete,
    /// The relay has made it just now, or a moment ago.
    Made,
}

const LOOK_TIMEOUT: Duration = Duration::from_millis(500);
/// Brokers that are far, or throttle their clients, take longer than that: doubled each time.
const LONGEST_LOOK: Duration = Duration::from_secs(8);
/// Between two looks; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

impl Asker {
    pub(super) fn new(
        producer: &Arc<BaseProducer<Context>>,
        options: &Options,
        answers: Sender<Command>,
    ) -> Self {
        Self {
            producer: Arc::clone(producer),
            options: options.clone(),
            answers,
        }
    }

    /// Until nobody asks any more.
    pub(super) fn run(self, questions: &Receiver<Arc<str>>) {
        while let Ok(topic) = questions.recv() {
            let mut admin = None;
            let found = self.find(&topic, questions, &mut admin);
            self.producer.context().health().makes_topic(false);
            let Some(found) = found else {
                return;
            };
            let found = found.map(|partitions| TopicFacts {
                partitions,
                max_message_bytes: self.max_message_bytes(&topic, &mut admin),
            });
            let answer = Command::Topic(Answer { topic, found });
            if self.answers.send(answer).is_err() {
                return;
            }
            // The client's end takes a moment, for which the answer does not wait.
            drop(admin);
        }
    }

    /// Looks until the topic is complete, or the time is over. `None` when nobody waits any more.
    fn find(
        &self,
        topic: &str,
        questions: &Receiver<Arc<str>>,
        admin: &mut Admin,
    ) -> Option<Result<i32, DeliveryErrorKind>> {
        let client = self.producer.client();
        let mut deadline = Instant::now() + self.options.topic_timeout;
        let mut seen = None;
        let mut pause = FIRST_PAUSE;
        let mut patience = LOOK_TIMEOUT;
        let mut is_made = false;
        loop {
            let mut perhaps = None;
            match self.look_or_create(topic, patience, is_made, admin) {
                Ok(Look::Complete(partitions)) if seen == Some(partitions) => {
                    return Some(Ok(i32::try_from(partitions).unwrap_or(i32::MAX)));
                }
                Ok(Look::Complete(partitions)) => {
                    pause = FIRST_PAUSE;
                    seen = Some(partitions);
                }
                Ok(Look::Incomplete) => seen = None,
                Ok(Look::Made) => {
                    if !is_made {
                        deadline = Instant::now() + self.options.topic_timeout;
                    }
                    (is_made, seen) = (true, None);
                }
                Err(Obstacle::Outage) => {
                    deadline = Instant::now() + self.options.topic_timeout;
                    patience = (patience * 2).min(LONGEST_LOOK);
                }
                Err(Obstacle::Refusal(kind)) => return Some(Err(kind)),
                Err(Obstacle::Perhaps(kind)) => perhaps = Some(kind),
            }
            if Instant::now() >= deadline {
                if let Some(kind) = perhaps {
                    return Some(Err(kind));
                }
                let other = look_alike(client, topic);
                return Some(Err(match other {
                    Some(_) => DeliveryErrorKind::TopicCollision { existing: other },
                    None => DeliveryErrorKind::TopicMissing,
                }));
            }
            if questions.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                return None;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// One that was made is not made again, and takes a moment to be known to every broker.
    fn look_or_create(
        &self,
        topic: &str,
        patience: Duration,
        is_made: bool,
        admin: &mut Admin,
    ) -> Result<Look, Obstacle> {
        use RDKafkaErrorCode as Code;
        let client = self.producer.client();
        let code = match look(client, topic, patience) {
            Ok(found) => {
                client.context().health().answered();
                return Ok(found.map_or(Look::Incomplete, Look::Complete));
            }
            Err(code) => code,
        };
        match (code, &self.options.topic_creation) {
            (code, _) if is_outage(code) => {
                if patience == LONGEST_LOOK {
                    let reason = format!("no answer to what topic {topic} has: {code}");
                    client.context().health().failed("TopicQuestion", &reason);
                }
                Err(Obstacle::Outage)
            }
            (Code::TopicAuthorizationFailed, _) => {
                Err(Obstacle::Refusal(DeliveryErrorKind::TopicAuthorization))
            }
            (Code::InvalidTopic, _) => Err(Obstacle::Refusal(refused_name(client, topic))),
            (Code::UnknownTopic | Code::UnknownTopicOrPartition, TopicCreation::Relay(rules)) => {
                if is_made {
                    return Ok(Look::Made);
                }
                client.context().health().makes_topic(true);
                let Some(admin) = self.admin(admin) else {
                    return Err(Obstacle::Outage);
                };
                match creation::create(admin, topic, rules.settings(topic)) {
                    Ok(()) => Ok(Look::Made),
                    Err(code) if is_outage(code) => Err(Obstacle::Outage),
                    Err(Code::InvalidTopic) => Err(Obstacle::Refusal(refused_name(client, topic))),
                    Err(code) => {
                        let kind = DeliveryErrorKind::TopicNotCreated(code.to_string());
                        Err(match code {
                            // More replicas than brokers that have joined by now.
                            Code::InvalidReplicationFactor => Obstacle::Perhaps(kind),
                            _ => Obstacle::Refusal(kind),
                        })
                    }
                }
            }
            _ => Ok(Look::Incomplete),
        }
    }

    fn max_message_bytes(&self, topic: &str, admin: &mut Admin) -> Option<usize> {
        if admin::is_in_process(self.producer.client(), LOOK_TIMEOUT) {
            return None;
        }
        admin::max_message_bytes(self.admin(admin)?, topic)
    }

    fn admin<'a>(&self, admin: &'a mut Admin) -> Option<&'a AdminClient<Quiet>> {
        if admin.is_none() {
            let made = self.options.question_config().create_with_context(Quiet);
            *admin = made
                .inspect_err(|error| tracing::debug!("no client for questions: {error}"))
                .ok();
        }
        admin.as_ref()
    }
}

fn is_outage(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::BrokerTransportFailure
            | RDKafkaErrorCode::AllBrokersDown
            | RDKafkaErrorCode::OperationTimedOut
            | RDKafkaErrorCode::RequestTimedOut
            | RDKafkaErrorCode::NotController
            | RDKafkaErrorCode::Resolve
    )
}

/// A name by the rule that the broker does not want: one of those that differ in `.` and `_` only.
fn refused_name(client: &Client<Context>, topic: &str) -> DeliveryErrorKind {
    if topic.contains(['.', '_']) {
        let existing = look_alike(client, topic);
        DeliveryErrorKind::TopicCollision { existing }
    } else {
        DeliveryErrorKind::TopicInvalid
    }
}

/// A topic that Kafka takes for the same where it makes new ones. A broker that makes topics by
/// itself does not say so (seen with Kafka 4.3): the topic just stays missing.
fn look_alike(client: &Client<Context>, topic: &str) -> Option<String> {
    if !topic.contains(['.', '_']) {
        return None;
    }
    let wanted = topic.replace('.', "_");
    let metadata = client.fetch_metadata(None, LOOK_TIMEOUT).ok()?;
    let mut names = metadata.topics().iter().map(|topic| topic.name());
    let found = names.find(|name| *name != topic && name.replace('.', "_") == wanted);
    found.map(str::to_owned)
}

/// The number of partitions, where every one has a leader.
fn look(
    client: &Client<Context>,
    topic: &str,
    patience: Duration,
) -> Result<Option<usize>, RDKafkaErrorCode> {
    let metadata = client
        .fetch_metadata(Some(topic), patience)
        .map_err(|error| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail))?;
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return Err(RDKafkaErrorCode::UnknownTopic);
    };
    if let Some(error) = found.error() {
        return Err(RDKafkaErrorCode::from(error));
    }
    let partitions = found.partitions();
    let complete = !partitions.is_empty() && partitions.iter().all(|each| each.leader() >= 0);
    Ok(complete.then_some(partitions.len()))
}
