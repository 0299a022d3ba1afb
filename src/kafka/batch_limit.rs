//! Keeps librdkafka's batches below what a topic takes.
//!
//! `batch.size` is one for all topics. A topic whose `max.message.bytes` is smaller refuses a batch
//! that is larger, with every record in it, though each would be taken alone. So there is never more
//! outstanding for such topics together than one batch of theirs may hold, and a record that is
//! itself too large goes alone: its refusal says which it is, and nothing is behind it that would be
//! delivered all the same and have to be repeated.

use crate::router::Record;

/// What was sent since nothing was outstanding.
#[derive(Debug)]
pub(super) struct BatchLimit {
    batch_size: usize,
    /// For topics with a smaller limit.
    sent_bytes: usize,
    /// The last record is larger than its topic's limit.
    alone: bool,
}

/// Of a batch and of a record in it, beside keys, values and headers (record format version 2).
const BATCH_BYTES: usize = 61;
const RECORD_BYTES: usize = 36;
const HEADER_BYTES: usize = 10;

impl BatchLimit {
    pub(super) fn new(batch_size: usize) -> Self {
        Self {
            batch_size,
            sent_bytes: 0,
            alone: false,
        }
    }

    /// Whether the record may go now, with so many outstanding; then it counts as sent. Without any
    /// outstanding every record may.
    pub(super) fn admit(
        &mut self,
        record: &Record,
        max_message_bytes: Option<usize>,
        outstanding: usize,
    ) -> bool {
        let first = outstanding == 0;
        if first {
            *self = Self::new(self.batch_size);
        }
        if self.alone {
            return false;
        }
        let smaller = max_message_bytes.filter(|limit| *limit < self.batch_size);
        let Some(limit) = smaller else {
            return true;
        };
        let bytes = record.length_bytes() + RECORD_BYTES + HEADER_BYTES * record.headers.len();
        if !first && self.sent_bytes + bytes + BATCH_BYTES > limit {
            return false;
        }
        self.sent_bytes += bytes;
        self.alone = bytes + BATCH_BYTES > limit;
        true
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use smallvec::smallvec;

    use super::*;

    /// Takes `bytes` in a batch.
    fn record(bytes: usize) -> Record {
        Record {
            topic: "t".into(),
            partition: None,
            key: None,
            value: Some(Bytes::from(vec![b'x'; bytes - RECORD_BYTES])),
            headers: smallvec![],
            timestamp_ms: 1,
        }
    }

    #[test]
    fn a_topic_that_takes_whole_batches_is_never_waited_for() {
        let mut batches = BatchLimit::new(1000);
        for (outstanding, limit) in [None, Some(1000), Some(5000), None].into_iter().enumerate() {
            assert!(batches.admit(&record(900), limit, outstanding));
        }
    }

    #[test]
    fn what_is_outstanding_for_a_small_topic_fits_into_one_batch_of_it() {
        let mut batches = BatchLimit::new(1000);
        let limit = Some(BATCH_BYTES + 300);
        let admitted: Vec<_> = (0..4)
            .map(|sent| batches.admit(&record(100), limit, sent))
            .collect();
        assert_eq!(admitted, [true, true, true, false]);
        assert!(batches.admit(&record(900), None, 3), "another topic's goes");
        assert!(batches.admit(&record(100), limit, 0));
    }

    #[test]
    fn a_record_that_is_too_large_goes_with_nothing_before_it_and_nothing_behind_it() {
        let mut batches = BatchLimit::new(1000);
        let limit = Some(300);
        assert!(batches.admit(&record(100), limit, 0));
        assert!(!batches.admit(&record(400), limit, 1));
        assert!(batches.admit(&record(400), limit, 0));
        assert!(!batches.admit(&record(50), None, 1));
        assert!(batches.admit(&record(50), None, 0));
    }
}
