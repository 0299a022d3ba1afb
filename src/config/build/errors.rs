//! What becomes of a row that cannot be routed or delivered.

use std::sync::Arc;

use super::{Choices, Read};
use crate::relay::OnBlocked;
use crate::router::illegal_topic;

const ON_BLOCKED_KEY: &str = "errors.on_blocked";
const TOPIC_KEY: &str = "errors.dead_letter.topic";

#[derive(Clone, Copy)]
enum Policy {
    Wait,
    Exit,
    DeadLetter,
}

const ON_BLOCKED: Choices<Policy> = &[
    ("wait", Policy::Wait),
    ("exit", Policy::Exit),
    ("dead-letter", Policy::DeadLetter),
];

pub(super) struct Errors {
    pub(super) on_blocked: OnBlocked,
    pub(super) dead_letter_topic: Option<Arc<str>>,
}

pub(super) fn errors(read: &mut Read<'_>, name: &str) -> Option<Errors> {
    let policy = read.choice(ON_BLOCKED_KEY, ON_BLOCKED)?;
    let on_blocked = match policy {
        Policy::Exit => OnBlocked::Exit,
        // A dead letter that cannot be written blocks like any other record.
        Policy::Wait | Policy::DeadLetter => OnBlocked::Wait,
    };
    let dead_letter_topic = match policy {
        Policy::DeadLetter => Some(topic(read, name)?),
        Policy::Wait | Policy::Exit => None,
    };
    Some(Errors {
        on_blocked,
        dead_letter_topic,
    })
}

fn topic(read: &mut Read<'_>, name: &str) -> Option<Arc<str>> {
    let given = read.optional(TOPIC_KEY);
    let topic = given.unwrap_or_else(|| format!("{name}.dead-letter"));
    if let Some(reason) = illegal_topic(&topic) {
        let message = format!("\"{topic}\" is not a topic name: {reason}");
        read.fault(TOPIC_KEY, message);
        return None;
    }
    if read.text("heartbeat.topic") == topic {
        read.fault(TOPIC_KEY, "is the topic of the heartbeats");
        return None;
    }
    Some(topic.into())
}
