//! Deliveries that failed: what failed, when it is tried again, when it is over.

use std::time::Duration;

use tokio::time::Instant;

use super::Options;
use super::backoff::Backoff;
use super::error::Undelivered;
use crate::ack::Ticket;

/// From the first failure until every record that failed is acknowledged.
#[derive(Debug)]
pub(super) struct Trouble {
    backoff: Backoff,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    /// `None` where every failed record goes out in another form.
    last: Option<Undelivered>,
    /// The first of this attempt that tells what is wrong with a record or its topic.
    cause: Option<Undelivered>,
    /// The furthest record that failed.
    ticket: Ticket,
    retry_at: Option<Instant>,
    needs_new_producer: bool,
    /// The next attempt is another one than the last.
    changed: bool,
}

impl Trouble {
    pub(super) fn new(options: &Options) -> Self {
        let backoff = Backoff::new(options.backoff_min, options.backoff_max);
        Self {
            backoff,
            current: None,
        }
    }

    pub(super) fn note(&mut self, ticket: Ticket, failure: Undelivered) {
        let current = self.at(ticket);
        current.needs_new_producer |= failure.error.needs_new_producer();
        if current.cause.is_none() && !failure.error.concerns_the_attempt() {
            current.cause = Some(failure.clone());
        }
        current.last = Some(failure);
    }

    /// A dead letter takes the place of the record that failed: nothing is wrong any more.
    pub(super) fn note_replaced(&mut self, ticket: Ticket) {
        self.at(ticket).changed = true;
    }

    fn at(&mut self, ticket: Ticket) -> &mut Current {
        let current = self.current.get_or_insert(Current {
            last: None,
            cause: None,
            ticket,
            retry_at: None,
            needs_new_producer: false,
            changed: false,
        });
        current.ticket = current.ticket.max(ticket);
        current
    }

    /// What failed is no concern of ours any more.
    pub(super) fn forget(&mut self) {
        self.current = None;
        self.backoff.reset();
    }

    pub(super) fn is_on(&self) -> bool {
        self.current.is_some()
    }

    /// What this attempt has shown to be wrong with a record or its topic. `None` where only
    /// another attempt can tell.
    pub(super) fn cause(&self) -> Option<&Undelivered> {
        self.current.as_ref()?.cause.as_ref()
    }

    /// What is to be shown: the cause, and while there is none what was heard last.
    pub(super) fn shown(&self) -> Option<&Undelivered> {
        let current = self.current.as_ref()?;
        current.cause.as_ref().or(current.last.as_ref())
    }

    /// Everything in flight has settled: the pause before the next attempt starts.
    pub(super) fn schedule(&mut self, now: Instant) -> Option<Duration> {
        let current = self.current.as_mut()?;
        if current.retry_at.is_some() {
            return None;
        }
        if std::mem::take(&mut current.changed) && current.cause.is_none() {
            self.backoff.reset();
            current.retry_at = Some(now);
            return Some(Duration::ZERO);
        }
        let pause = self.backoff.pause();
        current.retry_at = Some(now + pause);
        Some(pause)
    }

    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.current.as_ref()?.retry_at
    }

    /// The attempt is made now. True when it takes a new producer.
    pub(super) fn begin_attempt(&mut self) -> bool {
        let Some(current) = &mut self.current else {
            return false;
        };
        current.retry_at = None;
        current.cause = None;
        std::mem::take(&mut current.needs_new_producer)
    }

    /// Everything below `released` is acknowledged. True when that ends the trouble.
    pub(super) fn is_over(&mut self, released: Ticket) -> bool {
        let over = self
            .current
            .as_ref()
            .is_some_and(|current| released > current.ticket);
        if over {
            self.current = None;
            self.backoff.reset();
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::{DeliveryError, DeliveryErrorKind as Kind};

    fn failure(kind: Kind) -> Undelivered {
        let topic = "t".into();
        Undelivered::new(DeliveryError { topic, kind }, None)
    }

    #[test]
    fn trouble_lasts_until_the_furthest_failed_record_is_acknowledged() {
        let mut trouble = Trouble::new(&Options::default());
        trouble.note(Ticket(3), failure(Kind::TopicMissing));
        trouble.note(Ticket(7), failure(Kind::TopicMissing));
        trouble.note(Ticket(5), failure(Kind::TopicAuthorization));
        assert!(!trouble.is_over(Ticket(7)) && trouble.is_on());
        assert!(trouble.is_over(Ticket(8)) && !trouble.is_on());
    }

    #[test]
    fn the_cause_is_what_names_a_record_or_topic_and_is_asked_anew_by_each_attempt() {
        let batch = || failure(Kind::BatchRefused("too large".to_owned()));
        let mut trouble = Trouble::new(&Options::default());
        assert_eq!((trouble.cause(), trouble.shown()), (None, None));
        for unclear in [
            batch(),
            failure(Kind::Purged),
            failure(Kind::ProducerFatal(String::new())),
        ] {
            trouble.note(Ticket(0), unclear.clone());
            assert_eq!((trouble.cause(), trouble.shown()), (None, Some(&unclear)));
        }
        let missing = failure(Kind::TopicMissing);
        trouble.note(Ticket(1), missing.clone());
        trouble.note(Ticket(2), batch());
        assert_eq!(trouble.cause(), Some(&missing));
        assert_eq!(trouble.shown(), Some(&missing));
        trouble.begin_attempt();
        assert_eq!((trouble.cause(), trouble.shown()), (None, Some(&batch())));
    }

    #[test]
    fn a_record_that_is_replaced_goes_out_at_once_and_nothing_is_wrong_with_it() {
        let mut trouble = Trouble::new(&Options::default());
        let now = Instant::now();
        trouble.note_replaced(Ticket(2));
        assert_eq!((trouble.shown(), trouble.is_on()), (None, true));
        assert_eq!(trouble.schedule(now), Some(Duration::ZERO));
        assert_eq!(trouble.retry_at(), Some(now));
        assert!(!trouble.begin_attempt());
        trouble.note_replaced(Ticket(3));
        trouble.note(Ticket(4), failure(Kind::TopicMissing));
        assert!(
            trouble.schedule(now) > Some(Duration::ZERO),
            "there is more to wait for"
        );
        assert!(!trouble.is_over(Ticket(4)) && trouble.is_over(Ticket(5)));
    }

    #[test]
    fn one_attempt_is_scheduled_at_a_time_and_a_fatal_error_asks_for_a_new_producer() {
        let mut trouble = Trouble::new(&Options::default());
        let now = Instant::now();
        assert_eq!(trouble.schedule(now), None);
        trouble.note(Ticket(0), failure(Kind::ProducerFatal(String::new())));
        trouble.note(Ticket(1), failure(Kind::Purged));
        assert!(trouble.schedule(now).is_some());
        assert_eq!(trouble.schedule(now), None);
        assert!(trouble.begin_attempt());
        assert_eq!(trouble.retry_at(), None);
        trouble.note(Ticket(0), failure(Kind::Purged));
        assert!(!trouble.begin_attempt());
    }
}
