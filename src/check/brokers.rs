//! The brokers and the topics that the relay writes to, with the rights that it needs there.

use std::sync::Arc;
use std::time::Duration;

use super::topics::{self, Purpose, Seen, TopicChecks};
use crate::config::Config;
use crate::errand::{KAFKA, Progress};
use crate::journal::Entry;
use crate::kafka::{self, Inspector};
use crate::postgres;
use crate::postgres::preflight::Check;
use crate::relay;

const REACH_PATIENCE: Duration = Duration::from_secs(5);
/// All questions for topics together.
const TOPICS_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct Target {
    pub(super) checks: Vec<Check>,
    pub(super) position: Position,
}

/// What can be known of the journal's entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Position {
    /// There is no journal, or it cannot be read, for a reason that is told.
    #[default]
    Hidden,
    /// A topic that does not exist has no entry.
    Absent,
    ToBeRead,
}

impl Target {
    /// The newest entry, where the topic has one; and whether that is known.
    pub(super) async fn read(
        &mut self,
        config: &Config,
        progress: &Progress,
    ) -> Option<Option<Entry>> {
        let journal = match (self.position, &config.relay.journal) {
            (Position::ToBeRead, Some(journal)) => journal.clone(),
            (Position::Absent, _) => return Some(None),
            _ => return None,
        };
        let asked = progress.asks(KAFKA, "the journal's entry");
        let read = relay::journal::read(config.kafka.clone(), journal).await;
        drop(asked);
        let read = read.and_then(|stored| stored.unreadable.map_or(Ok(stored.newest), Err));
        match read {
            Ok(entry) => Some(entry),
            Err(error) => {
                self.checks.push(topics::unread(&error));
                None
            }
        }
    }
}

/// Is there anyone to ask? Blocks.
pub(super) fn reach(config: &Config, progress: &Progress) -> Result<usize, Check> {
    let _asked = progress.asks(KAFKA, "the brokers");
    let reached = kafka::reach(&config.kafka, REACH_PATIENCE);
    reached.map(|cluster| cluster.brokers).map_err(|error| {
        let servers = config.door.spell("kafka.bootstrap.servers");
        let hint = format!("Check {servers} and the security settings.");
        Check::error("brokers", postgres::chain(&error), hint)
    })
}

/// Asks for each topic. Blocks.
pub(super) fn examine(
    config: &Config,
    brokers: Result<usize, Check>,
    events: &[Arc<str>],
    progress: &Progress,
) -> Target {
    let mut target = Target::default();
    let brokers = match brokers {
        Ok(brokers) => brokers,
        Err(check) => {
            target.checks.push(check);
            return target;
        }
    };
    let answer = match brokers {
        1 => "1 broker answers".to_owned(),
        brokers => format!("{brokers} brokers answer"),
    };
    target.checks.push(Check::ok("brokers", answer));
    let inspector = match Inspector::new(&config.kafka, TOPICS_PATIENCE) {
        Ok(inspector) => inspector,
        Err(error) => {
            let check = Check::error("topics", postgres::chain(&error), "Report this.");
            target.checks.push(check);
            return target;
        }
    };
    let mut topics = TopicChecks::new(config, &inspector, brokers);
    let asked = progress.asks(KAFKA, "the topics of events");
    for topic in events {
        topics.look(topic, Purpose::Events);
    }
    asked.now("the dead-letter topic");
    if let Some(topic) = &config.router.dead_letter_topic {
        topics.look(topic, Purpose::DeadLetters);
    }
    asked.now("the position journal");
    if let Some(journal) = &config.relay.journal {
        target.position = match topics.look(&journal.topic, Purpose::Journal) {
            Seen::Missing => Position::Absent,
            Seen::There => Position::ToBeRead,
            Seen::Unknown => Position::Hidden,
        };
    }
    target.checks.append(&mut topics.checks);
    target
}
