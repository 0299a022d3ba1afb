//! How eagerly the reader reads.

use std::time::Duration;

use tokio::time::Instant;

/// Holding back on purpose while there is a backlog.
///
/// A walsender sends each row by itself while the socket takes it, and a reader that is always ready
/// costs both sides a packet and a wake-up a row. One that lets the socket fill halves the server's
/// work and reads many rows at once. While rows come one by one with time in between it never rests.
#[derive(Debug)]
pub(super) struct Appetite {
    busy_reads_in_a_row: u32,
    last_read_at: Option<Instant>,
    rest: Duration,
    rested: bool,
}

impl Default for Appetite {
    fn default() -> Self {
        Self {
            busy_reads_in_a_row: 0,
            last_read_at: None,
            rest: Self::SHORTEST_REST,
            rested: false,
        }
    }
}

impl Appetite {
    /// A read with so much in it is a backlog at once; small ones are when they follow each other.
    const BACKLOG_BYTES: usize = 4 * 1024;
    const BACKLOG_READS: u32 = 16;
    const BACKLOG_GAP: Duration = Duration::from_micros(300);
    /// What a rest is to bring: less and the walsender sends row by row, more and the socket is
    /// full and the walsender waits for us.
    const WANTED_BYTES: std::ops::Range<usize> = 16 * 1024..48 * 1024;
    const SHORTEST_REST: Duration = Duration::from_micros(30);
    const LONGEST_REST: Duration = Duration::from_micros(500);

    /// How long to stay away from the socket after a read of so many bytes.
    pub(super) fn rest_after(&mut self, bytes: usize, now: Instant) -> Option<Duration> {
        let gap = self.last_read_at.map(|last| now.duration_since(last));
        let busy = gap.is_some_and(|gap| gap < Self::BACKLOG_GAP + self.rest);
        self.last_read_at = Some(now);
        if std::mem::take(&mut self.rested) {
            self.adapt(bytes);
        }
        self.busy_reads_in_a_row = if bytes >= Self::BACKLOG_BYTES {
            Self::BACKLOG_READS
        } else if busy && bytes > 0 {
            self.busy_reads_in_a_row + 1
        } else {
            0
        };
        self.rested = self.busy_reads_in_a_row >= Self::BACKLOG_READS;
        self.rested.then_some(self.rest)
    }

    fn adapt(&mut self, bytes: usize) {
        if bytes < 1024 {
            // The backlog is gone.
            self.busy_reads_in_a_row = 0;
            self.rest = Self::SHORTEST_REST;
        } else if bytes < Self::WANTED_BYTES.start {
            self.rest = (self.rest * 5 / 4).min(Self::LONGEST_REST);
        } else if bytes > Self::WANTED_BYTES.end {
            self.rest = (self.rest * 3 / 4).max(Self::SHORTEST_REST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of so many bytes, each so long after the one before and the rest that it took.
    fn rests(reads: impl IntoIterator<Item = (usize, Duration)>) -> Vec<Option<Duration>> {
        let (mut appetite, mut now) = (Appetite::default(), Instant::now());
        let mut rests = Vec::new();
        for (bytes, gap) in reads {
            now += gap + rests.last().copied().flatten().unwrap_or_default();
            rests.push(appetite.rest_after(bytes, now));
        }
        rests
    }

    const SOON: Duration = Duration::from_micros(20);

    #[test]
    fn rows_that_come_one_by_one_are_read_at_once() {
        let reads = std::iter::repeat_n((500, Duration::from_millis(1)), 1000);
        assert_eq!(rests(reads), vec![None; 1000]);
    }

    #[test]
    fn small_reads_that_follow_each_other_are_a_backlog() {
        let rests = rests(std::iter::repeat_n((500, SOON), 30));
        let first = rests.iter().position(Option::is_some);
        assert_eq!(first, Some(Appetite::BACKLOG_READS as usize));
    }

    #[test]
    fn rests_grow_until_they_bring_enough_and_shrink_when_the_socket_is_full() {
        let (few, many) = (rests([(8000, SOON); 40]), rests([(100_000, SOON); 40]));
        assert_eq!(few[39], Some(Appetite::LONGEST_REST));
        assert_eq!(many[39], Some(Appetite::SHORTEST_REST));
        let right = rests([(30_000, SOON); 40]);
        assert_eq!(right, vec![Some(Appetite::SHORTEST_REST); 40]);
    }

    #[test]
    fn a_rest_that_brought_nothing_ends_the_backlog() {
        let reads = [(30_000, SOON), (500, SOON), (500, SOON)];
        assert_eq!(rests(reads), [Some(Appetite::SHORTEST_REST), None, None]);
    }
}
