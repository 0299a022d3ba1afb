//! Deliveries that failed: what failed, when it is tried again, when it is over.

use std::time::Duration;

use tokio::time::Instant;

use super::Options;
use super::backoff::Backoff;
use crate::ack::Ticket;
use crate::kafka::DeliveryError;

/// From the first failure until every record that failed is acknowledged.
#[derive(Debug)]
pub(super) struct Trouble {
    backoff: Backoff,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    error: DeliveryError,
    /// The furthest record that failed.
    ticket: Ticket,
    retry_at: Option<Instant>,
    needs_new_producer: bool,
}

impl Trouble {
    pub(super) fn new(options: &Options) -> Self {
        let backoff = Backoff::new(options.backoff_min, options.backoff_max);
        Self {
            backoff,
            current: None,
        }
    }

    /// True for the first failure and for one of another kind than the last.
    pub(super) fn note(&mut self, ticket: Ticket, error: DeliveryError) -> bool {
        let fatal = error.needs_new_producer();
        match &mut self.current {
            None => {
                let needs_new_producer = fatal;
                self.current = Some(Current {
                    error,
                    ticket,
                    retry_at: None,
                    needs_new_producer,
                });
                true
            }
            Some(current) => {
                current.needs_new_producer |= fatal;
                current.ticket = current.ticket.max(ticket);
                let news = current.error != error;
                current.error = error;
                news
            }
        }
    }

    pub(super) fn error(&self) -> Option<&DeliveryError> {
        self.current.as_ref().map(|current| &current.error)
    }

    /// Everything in flight has settled: the pause before the next attempt starts.
    pub(super) fn schedule(&mut self, now: Instant) -> Option<Duration> {
        let current = self.current.as_mut()?;
        if current.retry_at.is_some() {
            return None;
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
    use crate::kafka::DeliveryErrorKind;

    fn error(kind: DeliveryErrorKind) -> DeliveryError {
        DeliveryError {
            topic: "t".into(),
            kind,
        }
    }

    #[test]
    fn trouble_lasts_until_the_furthest_failed_record_is_acknowledged() {
        let mut trouble = Trouble::new(&Options::default());
        assert!(trouble.note(Ticket(3), error(DeliveryErrorKind::TopicMissing)));
        assert!(!trouble.note(Ticket(7), error(DeliveryErrorKind::TopicMissing)));
        assert!(trouble.note(Ticket(5), error(DeliveryErrorKind::TopicAuthorization)));
        assert!(!trouble.is_over(Ticket(7)));
        assert!(trouble.is_over(Ticket(8)));
        assert_eq!(trouble.error(), None);
    }

    #[test]
    fn one_attempt_is_scheduled_at_a_time_and_a_fatal_error_asks_for_a_new_producer() {
        let mut trouble = Trouble::new(&Options::default());
        let now = Instant::now();
        assert_eq!(trouble.schedule(now), None);
        trouble.note(
            Ticket(0),
            error(DeliveryErrorKind::ProducerFatal(String::new())),
        );
        trouble.note(Ticket(1), error(DeliveryErrorKind::Purged));
        assert!(trouble.schedule(now).is_some());
        assert_eq!(trouble.schedule(now), None);
        assert!(trouble.begin_attempt());
        assert_eq!(trouble.retry_at(), None);
        trouble.note(Ticket(0), error(DeliveryErrorKind::Purged));
        assert!(!trouble.begin_attempt());
    }
}
