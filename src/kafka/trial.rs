//! Whether the brokers would take a record, asked without sending it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::admin::AdminClient;

use super::admin::{self, Quiet};
use super::check::{Cluster, reach};
use super::creation::TopicCreation;
use super::error::{DeliveryError, DeliveryErrorKind, PublishError, SizeLimit};
use super::options::Options;
use crate::router::Record;

/// Blocking. Each topic is asked for once.
pub struct Trial {
    options: Options,
    cluster: Option<Cluster>,
    /// `max.message.bytes`, where the brokers let us see it.
    limits: HashMap<Arc<str>, Option<usize>>,
}

/// What a batch of one record has beside key, value and headers, at least.
const BATCH_OF_ONE_BYTES: usize = 61 + 7;

impl Trial {
    pub fn new(options: &Options) -> Self {
        Self {
            options: options.clone(),
            cluster: None,
            limits: HashMap::new(),
        }
    }

    /// The inner error is what a delivery would end with. Compression, which may make a record fit, is
    /// not tried.
    pub fn ask(
        &mut self,
        record: &Record,
        patience: Duration,
    ) -> Result<Result<(), DeliveryError>, PublishError> {
        if self.cluster.is_none() {
            self.cluster = Some(reach(&self.options, patience)?);
        }
        let refused = self.refusal(record).map(|kind| DeliveryError {
            topic: Arc::clone(&record.topic),
            kind,
        });
        Ok(refused.map_or(Ok(()), Err))
    }

    fn refusal(&mut self, record: &Record) -> Option<DeliveryErrorKind> {
        let size_bytes = record.length_bytes();
        let own = self.options.message_max_bytes();
        if size_bytes + BATCH_OF_ONE_BYTES > own {
            let limit = SizeLimit::Relay(own);
            return Some(DeliveryErrorKind::RecordTooLarge { size_bytes, limit });
        }
        let topics = &self.cluster.as_ref()?.topics;
        let Some(partitions) = topics.get(&*record.topic) else {
            // Who makes it is asked when there is something for it.
            let is_made = matches!(self.options.topic_creation, TopicCreation::Relay(_));
            return (!is_made).then_some(DeliveryErrorKind::TopicMissing);
        };
        let count = i32::try_from(*partitions).unwrap_or(i32::MAX);
        if let Some(partition) = record.partition.filter(|wanted| *wanted >= count) {
            return Some(DeliveryErrorKind::InvalidPartition { partition, count });
        }
        let limit = self.limit(&record.topic)?;
        let limit = (size_bytes + BATCH_OF_ONE_BYTES > limit).then_some(limit)?;
        let limit = SizeLimit::Topic(Some(limit));
        Some(DeliveryErrorKind::RecordTooLarge { size_bytes, limit })
    }

    fn limit(&mut self, topic: &Arc<str>) -> Option<usize> {
        if let Some(known) = self.limits.get(topic) {
            return *known;
        }
        let made = self.options.question_config().create_with_context(Quiet);
        let admin: Option<AdminClient<Quiet>> = made.ok();
        let found = admin.and_then(|admin| admin::max_message_bytes(&admin, topic));
        self.limits.insert(Arc::clone(topic), found);
        found
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;

    use super::*;
    use crate::ack::Limits;

    #[test]
    fn missing_topics_partitions_and_records_that_are_too_large_are_told() {
        let window = Limits {
            records: 1,
            bytes: 1,
        };
        let properties = BTreeMap::from([("message.max.bytes".to_owned(), "2000".to_owned())]);
        let mut trial = Trial::new(&Options::new("nowhere:1", properties, window).unwrap());
        trial.cluster = Some(Cluster {
            brokers: 1,
            topics: BTreeMap::from([("t".to_owned(), 2)]),
        });
        trial.limits.insert("t".into(), Some(1000));
        let mut refusal = |topic: &str, partition: Option<i32>, length: usize| {
            let record = Record {
                topic: topic.into(),
                partition,
                key: None,
                value: Some(Bytes::from(vec![b'x'; length])),
                headers: smallvec::smallvec![],
                timestamp_ms: 1,
            };
            let asked = trial.ask(&record, Duration::ZERO).unwrap();
            asked.err().map(|error| error.kind)
        };
        assert_eq!(refusal("t", Some(1), 10), None);
        let missing = DeliveryErrorKind::TopicMissing;
        assert_eq!(refusal("u", None, 10), Some(missing));
        let (partition, count) = (2, 2);
        let invalid = DeliveryErrorKind::InvalidPartition { partition, count };
        assert_eq!(refusal("t", Some(2), 10), Some(invalid));
        let large =
            |size_bytes, limit| Some(DeliveryErrorKind::RecordTooLarge { size_bytes, limit });
        assert_eq!(
            refusal("t", None, 990),
            large(990, SizeLimit::Topic(Some(1000)))
        );
        assert_eq!(
            refusal("u", None, 1990),
            large(1990, SizeLimit::Relay(2000))
        );
    }
}
