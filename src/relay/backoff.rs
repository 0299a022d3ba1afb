//! Pauses between attempts.

use std::time::Duration;

use rand::RngExt;

/// Doubles from `min` to `max`; each pause is drawn between half of that and all of it, so that
/// many relays that lost one server do not come back in step.
#[derive(Debug)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) fn new(min: Duration, max: Duration) -> Self {
        Self {
            min,
            max,
            next: min,
        }
    }

    pub(super) fn pause(&mut self) -> Duration {
        let ceiling = self.next;
        self.next = self.next.saturating_mul(2).min(self.max);
        ceiling.mul_f64(rand::rng().random_range(0.5..=1.0))
    }

    /// What was tried has worked.
    pub(super) fn reset(&mut self) {
        self.next = self.min;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_start_over_after_success() {
        let (min, max) = (Duration::from_millis(100), Duration::from_millis(350));
        let mut backoff = Backoff::new(min, max);
        for ceiling_ms in [100, 200, 350, 350] {
            let pause = backoff.pause();
            let ceiling = Duration::from_millis(ceiling_ms);
            assert!(
                pause >= ceiling / 2 && pause <= ceiling,
                "{pause:?} within {ceiling:?}"
            );
        }
        backoff.reset();
        assert!(backoff.pause() <= min);
    }
}
