//! PostgreSQL's clock. Nothing here reads a clock: the shell passes the time in.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds from the Unix epoch to PostgreSQL's epoch, 2000-01-01 00:00 UTC.
const POSTGRES_EPOCH_UNIX_MS: i64 = 946_684_800_000;

/// A moment as the replication protocol carries it: microseconds since 2000-01-01 00:00 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_postgres_us(us: i64) -> Self {
        Self(us)
    }

    pub const fn as_postgres_us(self) -> i64 {
        self.0
    }

    pub const fn from_unix_ms(ms: i64) -> Self {
        Self(
            ms.saturating_sub(POSTGRES_EPOCH_UNIX_MS)
                .saturating_mul(1000),
        )
    }

    pub const fn from_unix_us(us: i64) -> Self {
        Self(us.saturating_sub(POSTGRES_EPOCH_UNIX_MS * 1000))
    }

    pub const fn as_unix_us(self) -> i64 {
        self.0.saturating_add(POSTGRES_EPOCH_UNIX_MS * 1000)
    }

    /// Milliseconds since 1970-01-01 00:00 UTC, rounded down: a Kafka record's timestamp.
    pub const fn as_unix_ms(self) -> i64 {
        self.0
            .div_euclid(1000)
            .saturating_add(POSTGRES_EPOCH_UNIX_MS)
    }
}

impl From<SystemTime> for Timestamp {
    /// A time out of range is the nearest representable one.
    fn from(time: SystemTime) -> Self {
        let us = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        let unix_us = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => us(after),
            Err(before) => -us(before.duration()),
        };
        Self(unix_us.saturating_sub(POSTGRES_EPOCH_UNIX_MS * 1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_line_up() {
        assert_eq!(
            Timestamp::from_postgres_us(0).as_unix_ms(),
            POSTGRES_EPOCH_UNIX_MS
        );
        assert_eq!(
            Timestamp::from_unix_ms(0).as_postgres_us(),
            -POSTGRES_EPOCH_UNIX_MS * 1000
        );
        assert_eq!(Timestamp::from(UNIX_EPOCH), Timestamp::from_unix_ms(0));
        assert_eq!(Timestamp::from_unix_us(1).as_unix_us(), 1);
        assert_eq!(Timestamp::from_unix_us(0), Timestamp::from_unix_ms(0));
    }

    #[test]
    fn milliseconds_round_down_on_both_sides_of_the_epoch() {
        assert_eq!(
            Timestamp::from_postgres_us(1999).as_unix_ms(),
            POSTGRES_EPOCH_UNIX_MS + 1
        );
        assert_eq!(
            Timestamp::from_postgres_us(-1).as_unix_ms(),
            POSTGRES_EPOCH_UNIX_MS - 1
        );
    }
}
