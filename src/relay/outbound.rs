//! The pipeline and the producer together: what leaves, what comes back, what is tried again. It
//! lives through reconnects of the source.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::brokers::{self, Brokers, News};
use super::error::{Undelivered, short_id};
use super::kill_point::{Edge, KillPoint};
use super::server_clock::ServerClock;
use super::trouble::Trouble;
use super::view::Obstacle;
use super::{OnBlocked, RelayError, View};
use crate::ack::{Outcome, Ticket};
use crate::kafka::{DeliveryReport, DeliveryReports, Fate, Options as KafkaOptions, Publisher};
use crate::observe::Repeated;
use crate::pipeline::Pipeline;
use crate::router::Record;
use crate::router::dead_letter::Reason;
use crate::timestamp::Timestamp;

/// Where records go.
#[derive(Clone, Debug)]
pub enum Sink {
    Kafka(Box<KafkaOptions>),
    Stdout,
    /// Somebody looks at them, and they are not published.
    Watched(std::sync::mpsc::SyncSender<Arc<Record>>),
}

impl Sink {
    /// What is confirmed is in Kafka. Of a record that somebody has only seen nothing may be deleted.
    pub(super) const fn publishes(&self) -> bool {
        match self {
            Self::Kafka(_) => true,
            Self::Stdout | Self::Watched(_) => false,
        }
    }

    fn start(&self) -> Result<(Publisher, DeliveryReports), RelayError> {
        Ok(match self {
            Self::Kafka(options) => Publisher::start(options)?,
            Self::Stdout => Publisher::start_stdout()?,
            Self::Watched(out) => Publisher::start_watched(out.clone())?,
        })
    }
}

pub(super) struct Outbound {
    pub(super) pipeline: Pipeline,
    pub(super) server_clock: ServerClock,
    sink: Sink,
    publisher: Publisher,
    reports: DeliveryReports,
    trouble: Trouble,
    brokers: Brokers,
    looks: Interval,
    on_blocked: OnBlocked,
    repeated: Repeated,
    dead_letters_said: Repeated,
    topics: TopicCounters,
    view: View,
    pub(super) kill_point: KillPoint,
}

const REPEAT_INTERVAL: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

impl Outbound {
    pub(super) fn start(
        pipeline: Pipeline,
        sink: Sink,
        options: &super::Options,
        view: View,
    ) -> Result<Self, RelayError> {
        let (publisher, reports) = sink.start()?;
        Ok(Self {
            pipeline,
            server_clock: ServerClock::new(Instant::now()),
            sink,
            publisher,
            reports,
            trouble: Trouble::new(options),
            brokers: Brokers::default(),
            looks: every(LOOK_INTERVAL),
            on_blocked: options.on_blocked.clone(),
            repeated: Repeated::new(REPEAT_INTERVAL),
            dead_letters_said: Repeated::new(REPEAT_INTERVAL),
            topics: TopicCounters::default(),
            view,
            kill_point: KillPoint::default(),
        })
    }

    /// Hands what the pipeline has made to the producer.
    pub(super) fn send(&mut self) {
        let outgoing = self.pipeline.take_outgoing();
        if !outgoing.is_empty() {
            self.publisher.send(outgoing);
            self.kill_point.pass(Edge::Enqueued);
            self.tell_of_dead_letters();
        }
    }

    /// Room for a row, and nothing to make good first.
    pub(super) fn can_accept(&self) -> bool {
        self.pipeline.can_accept() && !self.trouble.is_on()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pipeline.window().is_empty()
    }

    pub(super) fn health(&self) -> &crate::kafka::Health {
        self.publisher.health()
    }

    /// Nothing that is outstanding can be acknowledged before somebody mends something.
    pub(super) fn is_stuck(&self) -> bool {
        self.trouble.is_on() || self.brokers.are_away()
    }

    /// Waits for deliveries, for the time of the next attempt or for that of a look at the brokers,
    /// and deals with it. Cancel-safe: nothing is awaited between taking reports and settling them.
    pub(super) async fn turn(&mut self) -> Result<(), RelayError> {
        // Whatever ended the stream, what was issued goes out: nobody else would send it.
        self.send();
        let retry_at = self.trouble.retry_at();
        tokio::select! {
            biased;
            now = self.looks.tick() => {
                self.look_for_brokers(now);
                Ok(())
            }
            reports = self.reports.recv() => match reports {
                Some(reports) => self.settle(reports),
                None => Err(RelayError::ProducerGone),
            },
            () = until(retry_at) => self.retry(),
        }
    }

    fn settle(&mut self, reports: Vec<DeliveryReport>) -> Result<(), RelayError> {
        let acknowledged =
            |report: &DeliveryReport| matches!(report.fate, Fate::Acknowledged { .. });
        if reports.iter().any(acknowledged) {
            let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
            let last = &self.view.metrics.last_published_timestamp_seconds;
            last.set(since.as_secs_f64());
        }
        for report in reports {
            let outcome = match report.fate {
                Fate::Acknowledged { partition } => {
                    self.count_published(report.ticket);
                    Outcome::Acknowledged { partition }
                }
                Fate::NotSent => Outcome::NotSent,
                Fate::Failed { partition, error } => {
                    self.view
                        .metrics
                        .records_failed
                        .with_label_values(&[error.reason()])
                        .inc();
                    self.pipeline
                        .handle_delivery(report.ticket, Outcome::Failed { partition });
                    if !self.make_dead_letter(report.ticket, &error) {
                        self.note_failure(report.ticket, error);
                    }
                    continue;
                }
            };
            self.pipeline.handle_delivery(report.ticket, outcome);
            self.kill_point.pass(Edge::Acknowledged);
        }
        self.count_confirmed();
        if let Some(shown) = self.trouble.shown() {
            self.view.block(Obstacle::Delivery, shown.waiting());
        }
        let window = self.pipeline.window();
        if window.has_failures() && window.is_settled() {
            if self.on_blocked == OnBlocked::Exit
                && let Some(cause) = self.trouble.cause()
            {
                return Err(RelayError::Undeliverable(cause.clone()));
            }
            self.trouble.schedule(Instant::now());
        }
        if self.trouble.is_over(self.pipeline.window().released()) {
            self.repeated.recovered();
            self.view.unblock(Obstacle::Delivery);
        }
        Ok(())
    }

    fn retry(&mut self) -> Result<(), RelayError> {
        if self.trouble.begin_attempt() {
            let (publisher, reports) = self.sink.start()?;
            (self.publisher, self.reports) = (publisher, reports);
        } else {
            self.publisher.resume();
        }
        let resend = self.pipeline.take_resend();
        self.view.metrics.records_resent.inc_by(resend.len() as u64);
        self.publisher.send(resend);
        Ok(())
    }

    /// Of a record that was refused for something in it, where dead letters are the operator's choice.
    fn make_dead_letter(&mut self, ticket: Ticket, error: &crate::kafka::DeliveryError) -> bool {
        if !error.lies_in_the_record() {
            return false;
        }
        let reason = Reason {
            code: error.reason(),
            message: error.to_string(),
        };
        let made = self.pipeline.make_dead_letter(ticket, reason);
        if made {
            self.trouble.note_replaced(ticket);
            self.tell_of_dead_letters();
        }
        made
    }

    /// One line for all of them in an interval: that they are there is what somebody has to know.
    fn tell_of_dead_letters(&mut self) {
        let Some(letter) = self.pipeline.take_last_dead_letter() else {
            return;
        };
        let now = std::time::Instant::now();
        if self.dead_letters_said.say("dead letters", now).is_some() {
            let made = self.pipeline.counters().dead_letters.values().sum::<u64>();
            tracing::warn!(
                topic = self.pipeline.dead_letter_topic().map(AsRef::as_ref),
                reason = letter.reason.code,
                table = letter.origin.relation.qualified_name(),
                lsn = %letter.origin.commit_lsn,
                row = letter.origin.row,
                event_id = letter.event_id.as_deref().map(short_id),
                made,
                hint = "Mend the cause, then publish it with `outboxd redrive`.",
                "an event goes to the dead-letter topic: {}",
                letter.reason.message
            );
        }
    }

    fn note_failure(&mut self, ticket: Ticket, error: crate::kafka::DeliveryError) {
        let record = self.pipeline.window().record(ticket);
        let mut failure = Undelivered::new(error, record.map(Arc::as_ref));
        failure.is_dead_letter = self.pipeline.dead_letter_topic() == Some(&failure.error.topic);
        let now = std::time::Instant::now();
        if let Some(unsaid) = self.repeated.say(&failure.kind(), now) {
            self.view.report(&failure.waiting(), unsaid);
        }
        self.trouble.note(ticket, failure);
    }

    fn count_published(&mut self, ticket: Ticket) {
        if let Some(record) = self.pipeline.window().record(ticket) {
            self.topics.count(&record.topic, &self.view);
        }
    }

    /// Records do not fail while no broker can be reached: they wait, for as long as it takes. That is
    /// to be seen all the same.
    fn look_for_brokers(&mut self, now: Instant) {
        let health = self.publisher.health();
        let outage = health.outage();
        // A new producer does not know yet, and is no news.
        let unknown = outage.is_none() && !health.is_reachable();
        if unknown && !self.is_empty() {
            return;
        }
        let away = outage.is_some() && !self.is_empty();
        match self.brokers.look(away, now) {
            Some(News::Away) => {
                let problem = brokers::away(outage);
                self.view.report(&problem, 0);
                self.view.block(Obstacle::Brokers, problem);
            }
            Some(News::Back) => self.view.unblock(Obstacle::Brokers),
            None => {}
        }
    }

    /// Another instance has or had the lead, as far as is known, and sends what is outstanding here: a
    /// late copy of ours would stand behind newer events for good. Only a request that is on the wire
    /// can still arrive.
    pub(super) fn give_up(&mut self) -> Result<(), RelayError> {
        if self.is_empty() {
            return Ok(());
        }
        let records = self.pipeline.window().len();
        tracing::warn!(
            records,
            "the lead is or was another instance's: what Kafka has not acknowledged is left to whoever streams it again"
        );
        // Dropping the old producer gives up what it holds.
        (self.publisher, self.reports) = self.sink.start()?;
        self.pipeline.give_up();
        self.trouble.forget();
        self.view.unblock(Obstacle::Delivery);
        Ok(())
    }

    /// This machine's clock counts only as long as the server has said nothing.
    pub(super) fn server_now(&self) -> Timestamp {
        let now = self.server_clock.now(Instant::now());
        now.unwrap_or_else(|| Timestamp::from(SystemTime::now()))
    }

    /// Also called while nothing is delivered: transactions without records are confirmed too.
    pub(super) fn count_confirmed(&mut self) {
        let now_us = self.server_now().as_postgres_us();
        for commit in self.pipeline.take_confirmed_commits() {
            let waited_us = now_us
                .saturating_sub(commit.commit_time.as_postgres_us())
                .max(0);
            self.view
                .metrics
                .commit_to_confirm_seconds
                .observe(waited_us as f64 / 1e6);
        }
    }

    /// Gives up what is outstanding after `patience`; the reports are not looked at any more.
    pub(super) async fn close(self, patience: Duration) {
        self.publisher.close(patience).await;
    }
}

/// Ticks at once and then at this pace; ticks that were missed are not made up for.
pub(super) fn every(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Ends at `deadline`; never without one.
pub(super) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Counters by topic without a lookup by name per record. Topics past the limit share one.
#[derive(Default)]
struct TopicCounters(Vec<(Arc<str>, prometheus::IntCounter)>);

const TOPIC_LABELS: usize = 100;

impl TopicCounters {
    fn count(&mut self, topic: &Arc<str>, view: &View) {
        let known = self
            .0
            .iter()
            .find(|(known, _)| Arc::ptr_eq(known, topic) || known == topic);
        if let Some((_, counter)) = known {
            counter.inc();
            return;
        }
        let room = self.0.len() < TOPIC_LABELS;
        let label = if room { topic.as_ref() } else { "(other)" };
        let counter = view.metrics.records_published.with_label_values(&[label]);
        counter.inc();
        if room {
            self.0.push((Arc::clone(topic), counter));
        }
    }
}

#[cfg(test)]
mod tests;
