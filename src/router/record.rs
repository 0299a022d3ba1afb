use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

/// What Kafka gets. `None` as key or value is Kafka's null, not an empty string.
///
/// A record owns its bytes: it lives until Kafka has acknowledged it and every earlier record,
/// and must not pin the buffer that the row was read into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub topic: Arc<str>,
    /// `None` leaves the choice to the partitioner (Java's murmur2 over the key).
    pub partition: Option<i32>,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    /// In order; a name may occur twice.
    pub headers: SmallVec<[Header; 4]>,
    /// Milliseconds since 1970-01-01 00:00 UTC.
    pub timestamp_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub name: Arc<str>,
    pub value: Option<Bytes>,
}

impl Record {
    /// What one record costs beside its bytes: its own struct, the allocations' heads, its place in
    /// the window and in librdkafka's queue.
    const OVERHEAD_BYTES: usize = 512;

    /// Memory that the record is counted with against the window.
    pub fn size_bytes(&self) -> usize {
        Self::OVERHEAD_BYTES + self.length_bytes()
    }

    /// Key, value and headers, as a producer's limit on records counts them.
    pub fn length_bytes(&self) -> usize {
        let length = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
        let headers: usize = self
            .headers
            .iter()
            .map(|header| header.name.len() + length(&header.value))
            .sum();
        length(&self.key) + length(&self.value) + headers
    }
}
