//! The writing task.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Options;
use super::pen::{Pen, Silence};
use super::writer::{Haste, Wanted, Written};
use crate::journal::Entry;
use crate::kafka::{DeliveryError, Options as KafkaOptions};
use crate::observe::{Problem, Repeated};
use crate::relay::backoff::Backoff;
use crate::relay::brokers;
use crate::relay::error::Undelivered;
use crate::relay::view::Obstacle;
use crate::relay::{Options as RelayOptions, View};

const REPEAT_INTERVAL: Duration = Duration::from_secs(30);

pub(super) struct Keeper {
    pen: Pen,
    topic: String,
    interval: Duration,
    backoff: Backoff,
    repeated: Repeated,
    wants: watch::Receiver<Wanted>,
    writes: watch::Sender<Written>,
    view: View,
}

impl Keeper {
    pub(super) fn new(
        kafka: &KafkaOptions,
        options: &Options,
        relay: &RelayOptions,
        view: View,
        wants: watch::Receiver<Wanted>,
        writes: watch::Sender<Written>,
    ) -> Self {
        Self {
            pen: Pen::new(kafka, options),
            topic: options.topic.clone(),
            interval: relay.confirm_interval,
            backoff: Backoff::new(relay.backoff_min, relay.backoff_max),
            repeated: Repeated::new(REPEAT_INTERVAL),
            wants,
            writes,
            view,
        }
    }

    /// Until nobody wants anything any more. Whatever was wanted meanwhile, the last one is written.
    pub(super) async fn run(mut self) {
        while self.wants.changed().await.is_ok() {
            let began = Instant::now();
            self.write().await;
            // A receiver of its own: what it has seen is still new to the loop.
            let mut next = self.wants.clone();
            tokio::select! {
                () = tokio::time::sleep_until(began + self.interval) => {}
                _ = next.wait_for(|wanted| wanted.haste > Haste::None) => {}
            }
        }
    }

    async fn write(&mut self) {
        loop {
            let Wanted { entry, haste } = self.wants.borrow_and_update().clone();
            let Some(entry) = entry else {
                return;
            };
            let (view, writes, topic) = (&self.view, &self.writes, &self.topic);
            let silent = |silence| {
                stuck_in_silence(view, topic, haste, silence);
                writes.send_modify(|written| written.stuck = true);
            };
            match self.pen.write(&entry, silent).await {
                Ok(()) => {
                    self.done(entry);
                    return;
                }
                Err(error) => {
                    self.failed(error, haste);
                    tokio::time::sleep(self.backoff.pause()).await;
                }
            }
        }
    }

    fn done(&mut self, entry: Entry) {
        self.backoff.reset();
        if self.repeated.recovered() || self.writes.borrow().stuck {
            tracing::info!("recovered: the position journal is written again");
        }
        self.view.unblock(Obstacle::Journal);
        self.view.unblock(Obstacle::BrokersOfJournal);
        self.view.metrics.journal_writes.inc();
        let position = i64::try_from(entry.confirmed_lsn.as_u64());
        let metrics = &self.view.metrics;
        metrics.journal_lsn_bytes.set(position.unwrap_or(i64::MAX));
        self.writes.send_replace(Written {
            entry: Some(entry),
            ..Written::default()
        });
    }

    fn failed(&mut self, error: Option<DeliveryError>, haste: Haste) {
        let Some(error) = error else {
            return;
        };
        let said = error.to_string();
        let settled = !error.concerns_the_attempt();
        let undelivered = Undelivered::new(error, None);
        let hint = undelivered.waiting().hint.unwrap_or_default();
        let problem = unwritten(&self.topic, haste == Haste::Awaited, &said, Some(hint));
        let now = std::time::Instant::now();
        if let Some(unsaid) = self.repeated.say(&undelivered.kind(), now) {
            self.view.report(&problem, unsaid);
        }
        self.view.block(Obstacle::Journal, problem);
        self.view.unblock(Obstacle::BrokersOfJournal);
        self.writes.send_modify(|written| {
            written.stuck = true;
            written.refused = settled.then_some(undelivered);
        });
    }
}

/// Brokers that are away are the cause; that no position is written follows from it.
fn stuck_in_silence(view: &View, topic: &str, haste: Haste, silence: Silence) {
    match silence {
        Silence::NoBroker(reason) => {
            view.block(Obstacle::BrokersOfJournal, brokers::away(Some(reason)));
            view.unblock(Obstacle::Journal);
        }
        Silence::NoAnswer => {
            let problem = unwritten(topic, haste == Haste::Awaited, "no answer from Kafka", None);
            view.block(Obstacle::Journal, problem);
            view.unblock(Obstacle::BrokersOfJournal);
        }
    }
}

/// What waits for a position that does not get into the journal: a start, or confirmations.
pub fn unwritten(topic: &str, at_start: bool, reason: &str, hint: Option<String>) -> Problem {
    let without = format!(
        "The topic can be made by hand: kafka-topics.sh --create --topic {topic} --partitions 1 --config cleanup.policy=compact. With position.topic set to nothing there is no journal, and docs/operating.md says what is not noticed then."
    );
    let waits = if at_start {
        format!("No event is sent before the relay's entry is in topic \"{topic}\".")
    } else {
        format!(
            "Events are sent, and none is confirmed to PostgreSQL until its position is in topic \"{topic}\"."
        )
    };
    Problem {
        message: format!("the position cannot be written to the journal: {reason}"),
        detail: Some(waits),
        hint: Some(match hint {
            Some(hint) => format!("{hint} {without}"),
            None => without,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::observe::{Metrics, State, Status};

    fn shown(view: &View) -> (String, String) {
        let problem = view.status.problem().unwrap();
        (problem.message, problem.detail.unwrap_or_default())
    }

    #[test]
    fn brokers_that_are_away_are_told_instead_of_the_journal_that_waits_for_them() {
        let status = Status::new("n", "s", "p", SystemTime::UNIX_EPOCH);
        let view = View::new(Metrics::new().unwrap(), status);
        view.set_state(State::Streaming);
        stuck_in_silence(&view, "positions", Haste::None, Silence::NoAnswer);
        let (message, detail) = shown(&view);
        assert_eq!(
            message,
            "the position cannot be written to the journal: no answer from Kafka"
        );
        assert!(detail.starts_with("Events are sent, and none"), "{detail}");
        stuck_in_silence(&view, "positions", Haste::Awaited, Silence::NoAnswer);
        assert!(shown(&view).1.starts_with("No event is sent before"));
        let refused = Silence::NoBroker("connection refused".to_owned());
        stuck_in_silence(&view, "positions", Haste::None, refused);
        let (message, detail) = shown(&view);
        assert_eq!(message, "no Kafka broker can be reached");
        assert_eq!(detail, "connection refused");
        let text = String::from_utf8(view.metrics.render().unwrap()).unwrap();
        assert!(text.contains("outboxd_blocked{reason=\"journal\"} 0"));
        assert!(text.contains("outboxd_blocked{reason=\"brokers\"} 1"));
    }
}
