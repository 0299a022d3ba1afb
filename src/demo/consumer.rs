//! A consumer as another service would have it: it reads the topic and applies each event to a
//! table of its own if the event's version is newer than what the table holds.

use std::str;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::mpsc;
use tokio_postgres::Client;

use super::broker::{Broker, PARTITIONS};
use super::error::{DemoError, During};

const SCHEMA: &str = "
CREATE TABLE shipments (
  order_id text    PRIMARY KEY,
  status   text,
  deleted  boolean NOT NULL DEFAULT false,
  last_seq bigint  NOT NULL
);
";
/// The version guard: an event that was applied before, or an older one, changes no row.
const APPLY: &str = "
INSERT INTO shipments (order_id, status, deleted, last_seq) VALUES ($1, $2, false, $3)
ON CONFLICT (order_id) DO UPDATE
   SET status = excluded.status, deleted = excluded.deleted, last_seq = excluded.last_seq
 WHERE shipments.last_seq < excluded.last_seq
";

const POLL: Duration = Duration::from_millis(50);
const QUEUE: usize = 256;
const LAST_LOOK_PATIENCE: Duration = Duration::from_secs(15);

/// One record of the topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) partition: i32,
    pub(super) offset: i64,
    /// The header `id`.
    pub(super) id: String,
    /// The key.
    pub(super) order: String,
    /// The header `seq`.
    pub(super) version: i64,
    pub(super) status: String,
    /// The record's timestamp, Unix time: when the transaction was committed.
    pub(super) committed_ms: i64,
}

/// Reads on a thread of its own, from the beginning of every partition.
pub(super) struct Consumer {
    deliveries: mpsc::Receiver<Result<Delivery, DemoError>>,
    finish: Arc<AtomicBool>,
    _thread: JoinHandle<()>,
}

impl Consumer {
    pub(super) fn start(broker: &Broker) -> Result<Self, DemoError> {
        let reader = Reader::open(broker).during("the consumer")?;
        let (sender, deliveries) = mpsc::channel(QUEUE);
        let finish = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&finish);
        let thread = std::thread::Builder::new()
            .name("demo-consumer".to_owned())
            .spawn(move || reader.run(&sender, &asked))
            .during("the consumer's thread")?;
        Ok(Self {
            deliveries,
            finish,
            _thread: thread,
        })
    }

    /// `None` once all was read after [`finish`](Self::finish). Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Result<Delivery, DemoError>> {
        self.deliveries.recv().await
    }

    /// Nothing is written any more: read to the end of each partition as it is now.
    pub(super) fn finish(&self) {
        self.finish.store(true, Ordering::Release);
    }
}

struct Reader {
    consumer: BaseConsumer,
    topic: String,
    /// By partition: the offset of the next record.
    next: Vec<i64>,
}

impl Reader {
    fn open(broker: &Broker) -> Result<Self, KafkaError> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &broker.bootstrap_servers)
            .set("group.id", "outboxd-demo")
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "50")
            .set("reconnect.backoff.ms", "50")
            .create()?;
        let mut all = TopicPartitionList::new();
        let mut next = Vec::new();
        for partition in 0..PARTITIONS {
            all.add_partition_offset(&broker.topic, partition, Offset::Beginning)?;
            next.push(0);
        }
        consumer.assign(&all)?;
        Ok(Self {
            consumer,
            topic: broker.topic.clone(),
            next,
        })
    }

    /// Ends when the receiver is gone, at the first error, or at the end after `finish`.
    fn run(mut self, sender: &mpsc::Sender<Result<Delivery, DemoError>>, finish: &AtomicBool) {
        let mut ends: Option<(Vec<i64>, Instant)> = None;
        while !sender.is_closed() {
            let read = match self.consumer.poll(POLL) {
                Some(Ok(message)) => Some(delivery(&message)),
                // Not the end of anything: librdkafka goes on by itself.
                Some(Err(KafkaError::MessageConsumption(_))) | None => None,
                Some(Err(source)) => Some(Err(source).during("the consumer")),
            };
            if let Some(read) = read {
                let failed = read.is_err();
                if let Ok(delivery) = &read {
                    self.advance(delivery);
                }
                if sender.blocking_send(read).is_err() || failed {
                    return;
                }
            }
            if ends.is_none() && finish.load(Ordering::Acquire) {
                match self.ends() {
                    Ok(found) => ends = Some((found, Instant::now() + LAST_LOOK_PATIENCE)),
                    Err(error) => {
                        drop(sender.blocking_send(Err(error)));
                        return;
                    }
                }
            }
            if let Some((ends, deadline)) = &ends
                && (self.next.iter().zip(ends).all(|(next, end)| next >= end)
                    || Instant::now() > *deadline)
            {
                return;
            }
        }
    }

    fn advance(&mut self, delivery: &Delivery) {
        let at = usize::try_from(delivery.partition).ok();
        if let Some(next) = at.and_then(|at| self.next.get_mut(at)) {
            *next = delivery.offset + 1;
        }
    }

    fn ends(&self) -> Result<Vec<i64>, DemoError> {
        (0..PARTITIONS)
            .map(|partition| {
                self.consumer
                    .fetch_watermarks(&self.topic, partition, LAST_LOOK_PATIENCE)
                    .map(|(_, high)| high)
                    .during("the ends of the partitions")
            })
            .collect()
    }
}

fn delivery(message: &BorrowedMessage<'_>) -> Result<Delivery, DemoError> {
    let (partition, offset) = (message.partition(), message.offset());
    let need = |what, text: Option<&str>| {
        text.map(str::to_owned).ok_or(DemoError::Record {
            partition,
            offset,
            what,
        })
    };
    let header = |name| {
        let headers = message.headers()?;
        let value = headers.iter().find(|header| header.key == name)?.value?;
        str::from_utf8(value).ok()
    };
    let payload = message
        .payload()
        .and_then(|payload| serde_json::from_slice::<serde_json::Value>(payload).ok());
    let status = payload
        .as_ref()
        .and_then(|payload| payload.get("status")?.as_str());
    let version = need("header \"seq\"", header("seq"))?;
    Ok(Delivery {
        partition,
        offset,
        id: need("header \"id\"", header("id"))?,
        order: need(
            "key",
            message.key().and_then(|key| str::from_utf8(key).ok()),
        )?,
        version: version.parse().map_err(|_| DemoError::Record {
            partition,
            offset,
            what: "number in its header \"seq\"",
        })?,
        status: need("status in its value", status)?,
        committed_ms: message.timestamp().to_millis().unwrap_or(0),
    })
}

pub(super) async fn open(warehouse: &Client) -> Result<(), DemoError> {
    warehouse
        .batch_execute(SCHEMA)
        .await
        .during("the consumer's table")
}

/// True when the event was news.
pub(super) async fn apply(warehouse: &Client, delivery: &Delivery) -> Result<bool, DemoError> {
    warehouse
        .execute(
            APPLY,
            &[&delivery.order, &delivery.status, &delivery.version],
        )
        .await
        .during("applying an event")
        .map(|rows| rows > 0)
}

/// (order, status, version) in the order of the orders.
pub(super) type Rows = Vec<(String, String, i64)>;

pub(super) async fn rows(client: &Client, sql: &str) -> Result<Rows, DemoError> {
    let rows = client.query(sql, &[]).await.during("reading a table")?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)))
        .collect::<Result<_, tokio_postgres::Error>>()
        .during("reading a table")
}

pub(super) const SOURCE_ROWS: &str = "SELECT id, status, version FROM orders ORDER BY id";
pub(super) const CONSUMER_ROWS: &str =
    "SELECT order_id, status, last_seq FROM shipments WHERE NOT deleted ORDER BY order_id";
