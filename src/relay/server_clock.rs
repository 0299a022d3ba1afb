//! The server's clock, by what its messages say of when they were sent. A commit's age is a difference of
//! two times of one clock then, whatever this machine's says.

use std::time::Duration;

use tokio::time::Instant;

use crate::timestamp::Timestamp;

/// A message arrives after it was sent, and the one that was least on its way tells most. Clocks drift,
/// so what an hour ago was least says less than what is least now.
const WINDOW: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct ServerClock {
    /// What counts the time between messages.
    base: Instant,
    estimate: Option<Estimate>,
    /// The estimate is of a stream before: this one's server may be another.
    is_earlier: bool,
}

/// In microseconds from what was counted since `base` to the server's time.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// The last message's.
    sent: Timestamp,
    began: Instant,
    most_us: i64,
    /// Of the window before.
    most_before_us: Option<i64>,
}

impl ServerClock {
    pub(super) const fn new(base: Instant) -> Self {
        Self {
            base,
            estimate: None,
            is_earlier: false,
        }
    }

    /// What is known counts until the first message is here.
    pub(super) const fn begin_stream(&mut self) {
        self.is_earlier = true;
    }

    pub(super) fn hear(&mut self, sent: Timestamp, at: Instant) {
        let ahead_us = sent.as_postgres_us().saturating_sub(self.counted_us(at));
        let is_earlier = std::mem::take(&mut self.is_earlier);
        // Within a stream an earlier time than before is of a clock that was set back.
        let known = self
            .estimate
            .filter(|known| !is_earlier && sent >= known.sent);
        let Some(known) = known else {
            self.estimate = Some(Estimate {
                sent,
                began: at,
                most_us: ahead_us,
                most_before_us: None,
            });
            return;
        };
        let is_over = at.saturating_duration_since(known.began) >= WINDOW;
        self.estimate = Some(match is_over {
            true => Estimate {
                sent,
                began: at,
                most_us: ahead_us,
                most_before_us: Some(known.most_us),
            },
            false => Estimate {
                sent,
                most_us: known.most_us.max(ahead_us),
                ..known
            },
        });
    }

    /// The server's time; `None` before its first message.
    pub(super) fn now(&self, at: Instant) -> Option<Timestamp> {
        let known = self.estimate?;
        let most_us = known.most_before_us.unwrap_or(i64::MIN).max(known.most_us);
        let us = self.counted_us(at).saturating_add(most_us);
        Some(Timestamp::from_postgres_us(us))
    }

    fn counted_us(&self, at: Instant) -> i64 {
        let counted = at.saturating_duration_since(self.base);
        i64::try_from(counted.as_micros()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        base: Instant,
        clock: ServerClock,
    }

    impl World {
        fn new() -> Self {
            let base = Instant::now();
            let clock = ServerClock::new(base);
            Self { base, clock }
        }

        fn at(&self, ms: u64) -> Instant {
            self.base + Duration::from_millis(ms)
        }

        /// A message that says `sent_ms` is here after `ms`.
        fn hear(&mut self, sent_ms: i64, ms: u64) {
            let at = self.at(ms);
            self.clock
                .hear(Timestamp::from_postgres_us(sent_ms * 1000), at);
        }

        fn now_ms(&self, ms: u64) -> Option<i64> {
            let now = self.clock.now(self.at(ms))?;
            Some(now.as_postgres_us() / 1000)
        }
    }

    #[test]
    fn the_servers_time_goes_on_from_its_last_message_whatever_our_clock_says() {
        let mut world = World::new();
        assert_eq!(world.now_ms(0), None);
        world.hear(5_000_000, 10);
        assert_eq!(world.now_ms(10), Some(5_000_000));
        assert_eq!(world.now_ms(3_610), Some(5_003_600));
    }

    #[test]
    fn a_message_that_was_long_on_its_way_sets_nothing_back() {
        let mut world = World::new();
        world.hear(5_000_000, 0);
        // Sent at once behind it, and read when there was room again.
        world.hear(5_000_001, 30_000);
        assert_eq!(world.now_ms(30_000), Some(5_030_000));
        // The first one had been under way itself.
        world.hear(5_030_500, 30_001);
        assert_eq!(world.now_ms(30_001), Some(5_030_500));
    }

    #[test]
    fn a_server_clock_that_is_set_counts_from_its_next_message() {
        let mut world = World::new();
        world.hear(5_000_000, 0);
        world.hear(1_400_100, 100);
        assert_eq!(world.now_ms(200), Some(1_400_200));
        world.hear(8_600_300, 300);
        assert_eq!(world.now_ms(400), Some(8_600_400));
    }

    #[test]
    fn what_was_least_on_its_way_long_ago_counts_no_more() {
        let mut world = World::new();
        world.hear(1_000, 0);
        // The server's clock is slower by a thousandth.
        world.hear(60_940, 60_000);
        assert_eq!(world.now_ms(60_000), Some(61_000));
        world.hear(120_880, 120_000);
        assert_eq!(world.now_ms(120_000), Some(120_940));
    }

    #[test]
    fn another_streams_server_has_a_clock_of_its_own() {
        let mut world = World::new();
        world.hear(5_000_000, 0);
        world.clock.begin_stream();
        assert_eq!(world.now_ms(50), Some(5_000_050));
        world.hear(5_000_010, 100);
        assert_eq!(world.now_ms(100), Some(5_000_010));
    }
}
