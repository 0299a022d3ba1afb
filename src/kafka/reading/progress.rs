//! How far a partition is read.

#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub(super) next: i64,
    /// The high watermark at the start.
    pub(super) end: i64,
    /// The brokers have said that nothing more comes, though the end is not reached, and that the
    /// partition goes as far as it did.
    has_ended: bool,
}

/// Offsets that were to be read, and before which the topic begins by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    pub partition: i32,
    pub from: i64,
    /// The first one that is there.
    pub to: i64,
}

impl Progress {
    pub(super) const fn new(next: i64, end: i64) -> Self {
        Self {
            next,
            end,
            has_ended: false,
        }
    }

    /// The partition begins at `low`. What was to be read before is gone.
    pub(super) fn begin_at(&mut self, partition: i32, low: i64) -> Option<Gone> {
        let (from, to) = (self.next, low.min(self.end));
        (to > from).then(|| {
            self.next = to;
            Gone {
                partition,
                from,
                to,
            }
        })
    }

    pub(super) fn read(&mut self, offset: i64) {
        self.next = self.end.min(offset + 1);
        self.has_ended = false;
    }

    /// The brokers have nothing more, and the partition goes up to `high`, where that could be asked.
    /// True where they have said both before.
    pub(super) fn end_early(&mut self, high: Option<i64>) -> bool {
        let goes_as_far = high.is_some_and(|high| high >= self.end);
        let is_over = goes_as_far && self.has_ended;
        self.has_ended = goes_as_far;
        if is_over {
            self.next = self.end;
        }
        is_over
    }

    pub(super) const fn is_done(&self) -> bool {
        self.next >= self.end
    }

    pub(super) fn left(&self) -> u64 {
        u64::try_from(self.end - self.next).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_before_the_end_counts_when_it_is_said_twice_of_a_whole_partition() {
        let mut progress = Progress::new(5, 8);
        // The leader does not know how far the records go, or does not say.
        for high in [Some(6), None, Some(7)] {
            assert!(!progress.end_early(high));
        }
        assert!(!progress.end_early(Some(8)));
        assert!(!progress.end_early(Some(6)), "another leader");
        assert!(!progress.end_early(Some(9)));
        progress.read(5);
        assert!(!progress.end_early(Some(9)));
        assert_eq!((progress.next, progress.left()), (6, 2));
        assert!(progress.end_early(Some(9)));
        assert!(progress.is_done());
    }

    #[test]
    fn what_lies_before_the_beginning_is_gone_and_told() {
        let mut progress = Progress::new(5, 8);
        assert_eq!(progress.begin_at(2, 5), None);
        let gone = |from, to| {
            Some(Gone {
                partition: 2,
                from,
                to,
            })
        };
        assert_eq!(progress.begin_at(2, 6), gone(5, 6));
        assert_eq!(progress.begin_at(2, 6), None);
        // Behind the end lies what was not to be read.
        assert_eq!(progress.begin_at(2, 20), gone(6, 8));
        assert!(progress.is_done());
    }
}
