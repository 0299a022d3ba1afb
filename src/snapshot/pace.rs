//! So many rows per second, and not more at once after a pause.

use std::num::NonZeroU32;
use std::time::Duration;

/// What a timer that rings late may make up for.
const MADE_UP: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Pace {
    step: Duration,
    /// When the next row is due, after the beginning.
    due: Duration,
}

impl Pace {
    pub(super) fn new(rows_per_second: NonZeroU32) -> Self {
        Self {
            step: Duration::from_secs(1) / rows_per_second.get(),
            due: Duration::ZERO,
        }
    }

    /// When the next row may go, after the beginning; `now` after the beginning too.
    pub(super) fn next(&mut self, now: Duration) -> Duration {
        let due = self.due.max(now.saturating_sub(MADE_UP));
        self.due = due + self.step;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_due_one_by_one_and_a_pause_is_not_made_up_for() {
        let ms = Duration::from_millis;
        let mut pace = Pace::new(NonZeroU32::new(50).unwrap());
        let due = [ms(0), ms(1), ms(45)].map(|now| pace.next(now));
        assert_eq!(due, [ms(0), ms(20), ms(40)]);
        assert_eq!(pace.next(ms(10_000)), ms(9_900));
        assert_eq!(pace.next(ms(10_000)), ms(9_920));
    }
}
