//! Whether a stream works, or only begins.

use std::time::Duration;

use tokio::time::Instant;

use crate::lsn::Lsn;

/// A server that refuses a stream does so sooner.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// What one stream has shown so far. A message says little: where the server, or this program, fails
/// at the same row each time, each stream begins with the rows before it, and each publishes them.
#[derive(Debug)]
pub(super) struct Settling {
    start: Lsn,
    began_at: Instant,
    works: bool,
}

impl Settling {
    pub(super) fn begin(start: Lsn, now: Instant) -> Self {
        Self {
            start,
            began_at: now,
            works: false,
        }
    }

    pub(super) fn has_lasted(&self, now: Instant) -> bool {
        now - self.began_at > SETTLED_AFTER
    }

    /// True once: when `confirmed` has come further than the stream began, or when the stream has
    /// lasted and stands between transactions.
    pub(super) fn proves_itself(
        &mut self,
        confirmed: Lsn,
        in_transaction: bool,
        now: Instant,
    ) -> bool {
        if self.works {
            return false;
        }
        self.works = confirmed > self.start || (!in_transaction && self.has_lasted(now));
        self.works
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_works_when_it_gets_on_and_not_with_its_first_rows() {
        let (start, now) = (Lsn::new(100), Instant::now());
        let later = now + SETTLED_AFTER + Duration::from_millis(1);
        let begin = || Settling::begin(start, now);
        // Rows of a transaction that may never come to its end, however long they take.
        let mut stream = begin();
        assert!(!stream.proves_itself(start, true, now));
        assert!(!stream.proves_itself(start, true, later));
        assert!(stream.proves_itself(Lsn::new(101), true, later));
        assert!(!stream.proves_itself(Lsn::new(102), false, later), "once");
        // Nothing to send.
        let mut stream = begin();
        assert!(!stream.proves_itself(start, false, now));
        assert!(stream.proves_itself(start, false, later));
        assert!(begin().proves_itself(Lsn::new(101), false, now));
    }
}
