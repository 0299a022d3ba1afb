//! A record of either side, and in what two of them differ.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;

use super::compare::Kind;
use crate::kafka::StoredRecord;
use crate::router::Record;

/// One record, ours or theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) topic: Arc<str>,
    /// Ours have none where the row does not name it.
    pub(super) partition: Option<i32>,
    /// Of theirs.
    pub(super) offset: i64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(super) timestamp_ms: Option<i64>,
}

impl Seen {
    pub(super) fn ours(record: &Record) -> Self {
        let bytes = |bytes: &Option<Bytes>| bytes.as_ref().map(|bytes| bytes.to_vec());
        Self {
            topic: Arc::clone(&record.topic),
            partition: record.partition,
            offset: 0,
            key: bytes(&record.key),
            value: bytes(&record.value),
            headers: record
                .headers
                .iter()
                .map(|header| (header.name.to_string(), bytes(&header.value)))
                .collect(),
            timestamp_ms: Some(record.timestamp_ms),
        }
    }

    pub(super) fn theirs(topic: Arc<str>, record: StoredRecord) -> Self {
        let bytes = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.to_vec());
        let headers = record.headers.into_iter();
        Self {
            topic,
            partition: Some(record.partition),
            offset: record.offset,
            key: bytes(record.key),
            value: bytes(record.value),
            headers: headers
                .map(|header| (header.name.to_string(), bytes(header.value)))
                .collect(),
            timestamp_ms: record.timestamp_ms,
        }
    }

    /// Headers that outboxd leaves out unless they are asked for: `docs/compatibility.md`.
    pub(super) fn without_context(&mut self) {
        self.headers
            .retain(|(name, _)| !name.starts_with("__debezium.context."));
    }

    /// The header that names the event.
    pub(super) fn id(&self) -> Option<String> {
        let header = self.headers.iter().find(|(name, _)| name == "id")?;
        let id = String::from_utf8_lossy(header.1.as_deref()?);
        (!id.is_empty()).then(|| id.into_owned())
    }

    pub(super) fn place(&self) -> String {
        let partition = self.partition.unwrap_or(-1);
        format!("{}/{partition} offset {}", self.topic, self.offset)
    }

    /// The partition that one of ours goes to, in a topic of so many, where the row or the key
    /// decides it.
    pub(super) fn placed(&self, partitions: Option<u32>) -> Option<i32> {
        let by_key = || Some(partition_of(self.key.as_deref()?, partitions?));
        self.partition.or_else(by_key)
    }

    /// What it takes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| 64 + name.len() + length(value));
        256 + length(&self.key) + length(&self.value) + headers.sum::<usize>()
    }

    /// The same for a repeat, and another for another event: of topic, key and value.
    pub(super) fn print(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.topic, &self.key, &self.value).hash(&mut hasher);
        hasher.finish()
    }

    /// Without a payload's text.
    pub(super) fn differences(
        &self,
        theirs: &Self,
        placed: Option<i32>,
        timestamps: bool,
    ) -> Vec<(Kind, String)> {
        let mut found = Vec::new();
        if self.topic != theirs.topic {
            found.push((Kind::Topic, format!("ours goes to topic {}", self.topic)));
        }
        if let Some(ours) = placed
            && theirs.partition != Some(ours)
        {
            found.push((Kind::Partition, format!("ours goes to partition {ours}")));
        }
        for (kind, ours, theirs) in [
            (Kind::Key, &self.key, &theirs.key),
            (Kind::Value, &self.value, &theirs.value),
        ] {
            if ours != theirs {
                found.push((kind, unlike(ours.as_deref(), theirs.as_deref())));
            }
        }
        if self.headers != theirs.headers {
            found.push((Kind::Headers, self.unlike_headers(theirs)));
        }
        if timestamps && self.timestamp_ms != theirs.timestamp_ms {
            let ms = |side: &Self| {
                side.timestamp_ms
                    .map_or_else(|| "none".to_owned(), |ms| ms.to_string())
            };
            found.push((
                Kind::Timestamp,
                format!("ours is {} ms, theirs {} ms", ms(self), ms(theirs)),
            ));
        }
        found
    }

    fn unlike_headers(&self, theirs: &Self) -> String {
        let names = |side: &Self| {
            let names: Vec<_> = side.headers.iter().map(|(name, _)| name.clone()).collect();
            names.join(", ")
        };
        if names(self) != names(theirs) {
            return format!("ours are {}; theirs {}", names(self), names(theirs));
        }
        let mut pairs = self.headers.iter().zip(&theirs.headers);
        let unlike_pair = pairs.find(|(ours, theirs)| ours != theirs);
        unlike_pair.map_or_else(String::new, |((name, ours), (_, theirs))| {
            format!("{name}: {}", unlike(ours.as_deref(), theirs.as_deref()))
        })
    }
}

fn unlike(ours: Option<&[u8]>, theirs: Option<&[u8]>) -> String {
    match (ours, theirs) {
        (None, _) => "ours is null".to_owned(),
        (_, None) => "theirs is null".to_owned(),
        (Some(ours), Some(theirs)) => {
            let same = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
            let (ours, theirs) = (ours.len(), theirs.len());
            format!(
                "ours has {ours} bytes, theirs {theirs}, different from byte {}",
                same + 1
            )
        }
    }
}

/// As Java's producer places a key: `toPositive(murmur2(key)) % partitions`.
fn partition_of(key: &[u8], partitions: u32) -> i32 {
    let positive = murmur2(key) & 0x7FFF_FFFF;
    i32::try_from(positive % partitions.max(1)).unwrap_or_default()
}

/// `org.apache.kafka.common.utils.Utils.murmur2`
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5BD1_E995;
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut hash = 0x9747_B28C ^ length;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        let tail = rest
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of Java's, as `docs/protocol.md` has them.
    #[test]
    fn keys_go_where_javas_producer_puts_them() {
        for (key, partition) in [("21", 3), ("foobar", 0), ("a-little-bit-long-string", 1)] {
            assert_eq!(partition_of(key.as_bytes(), 7), partition, "{key}");
        }
    }
}
