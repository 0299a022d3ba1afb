mod deserted;

use std::time::Duration;

use bytes::Bytes;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use rdkafka::{Offset, TopicPartitionList};
use smallvec::smallvec;

use super::*;
use crate::ack::{Limits, Outcome, Window};
use crate::kafka::{DeliveryReports, Publisher, TopicCreation};
use crate::router::Header as RecordHeader;

type Cluster = MockCluster<'static, rdkafka::producer::DefaultProducerContext>;

fn cluster(topic: &str, partitions: i32) -> Cluster {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(topic, partitions, 1).unwrap();
    cluster
}

fn start(cluster: &Cluster, properties: &[(&str, &str)]) -> (Publisher, DeliveryReports) {
    Publisher::start(&options(cluster, properties)).unwrap()
}

fn options(cluster: &Cluster, properties: &[(&str, &str)]) -> Options {
    options_at(&cluster.bootstrap_servers(), properties)
}

fn options_at(servers: &str, properties: &[(&str, &str)]) -> Options {
    let properties = properties
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    let mut options = Options::new(servers, properties, LIMITS).unwrap();
    options.topic_timeout = Duration::from_millis(1500);
    options
}

fn record(topic: &str, key: Option<&str>, value: &str) -> Arc<Record> {
    Arc::new(Record {
        topic: topic.into(),
        partition: None,
        key: key.map(|key| Bytes::copy_from_slice(key.as_bytes())),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        headers: smallvec![
            RecordHeader {
                name: "id".into(),
                value: Some(Bytes::from_static(b"e"))
            },
            RecordHeader {
                name: "id".into(),
                value: None
            },
            RecordHeader {
                name: "x".into(),
                value: Some(Bytes::new())
            },
        ],
        timestamp_ms: 1_700_000_000_000,
    })
}

/// Settles reports until `done`; panics after ten seconds.
async fn settle(
    window: &mut Window,
    reports: &mut DeliveryReports,
    mut done: impl FnMut(&Window) -> bool,
) -> Vec<DeliveryError> {
    let mut errors = Vec::new();
    let settled = async {
        while !done(window) {
            for report in reports.recv().await.expect("the thread lives") {
                let outcome = match report.fate {
                    Fate::Acknowledged { partition } => Outcome::Acknowledged { partition },
                    Fate::NotSent => Outcome::NotSent,
                    Fate::Failed { partition, error } => {
                        errors.push(error);
                        Outcome::Failed { partition }
                    }
                };
                window.settle(report.ticket, outcome);
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), settled)
        .await
        .expect("settles in time");
    errors
}

const LIMITS: Limits = Limits {
    records: 1_000_000,
    bytes: 1 << 30,
};

/// The values of a topic with one partition, in the order of its log.
fn values_of(cluster: &Cluster, topic: &str) -> Vec<String> {
    read(cluster, topic, 1)
        .into_iter()
        .map(|read| read.value)
        .collect()
}

fn window() -> Window {
    Window::new(LIMITS)
}

fn issue(
    window: &mut Window,
    records: impl IntoIterator<Item = Arc<Record>>,
) -> crate::ack::Resend {
    records
        .into_iter()
        .map(|record| (window.issue(Arc::clone(&record)), record))
        .collect()
}

struct Read {
    partition: i32,
    key: Option<String>,
    value: String,
    headers: Vec<(String, Option<Vec<u8>>)>,
    timestamp_ms: Option<i64>,
}

/// Everything in the topic.
fn read(cluster: &Cluster, topic: &str, partitions: i32) -> Vec<Read> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .set("group.id", "reader")
        .create()
        .unwrap();
    let mut assignment = TopicPartitionList::new();
    let mut count = 0;
    for partition in 0..partitions {
        let (low, high) = consumer
            .fetch_watermarks(topic, partition, Duration::from_secs(5))
            .unwrap();
        count += usize::try_from(high - low).unwrap();
        assignment
            .add_partition_offset(topic, partition, Offset::Beginning)
            .unwrap();
    }
    consumer.assign(&assignment).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut found = Vec::new();
    while found.len() < count {
        assert!(
            Instant::now() < deadline,
            "{} of {count} records in time",
            found.len()
        );
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else {
            continue;
        };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        found.push(Read {
            partition: message.partition(),
            key: message.key().map(text),
            value: message.payload().map(text).unwrap_or_default(),
            headers: message.headers().map_or_else(Vec::new, |headers| {
                headers
                    .iter()
                    .map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec)))
                    .collect()
            }),
            timestamp_ms: message.timestamp().to_millis(),
        });
    }
    found
}

#[tokio::test]
async fn keys_go_to_the_partitions_of_javas_producer_and_headers_arrive_as_they_are() {
    let cluster = cluster("t", 7);
    let (publisher, mut reports) = start(&cluster, &[]);
    let mut window = window();
    let keys = ["21", "foobar", "a-little-bit-long-string"];
    publisher.send(issue(
        &mut window,
        keys.map(|key| record("t", Some(key), key)),
    ));
    assert_eq!(
        settle(&mut window, &mut reports, Window::is_empty).await,
        []
    );

    let found = read(&cluster, "t", 7);
    let mut partitions: Vec<_> = found
        .iter()
        .map(|read| (read.key.clone().unwrap(), read.partition))
        .collect();
    partitions.sort();
    let expected = [("21", 3), ("a-little-bit-long-string", 1), ("foobar", 0)];
    assert_eq!(
        partitions,
        expected.map(|(key, partition)| (key.to_owned(), partition))
    );
    let headers = [
        ("id", Some(b"e".to_vec())),
        ("id", None),
        ("x", Some(Vec::new())),
    ];
    assert_eq!(
        found[0].headers,
        headers.map(|(name, value)| (name.to_owned(), value))
    );
    assert_eq!(found[0].timestamp_ms, Some(1_700_000_000_000));
}

#[tokio::test]
async fn order_survives_a_full_queue() {
    let cluster = cluster("t", 1);
    let (publisher, mut reports) = start(&cluster, &[("queue.buffering.max.messages", "10")]);
    let mut window = window();
    let values: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    publisher.send(issue(
        &mut window,
        values.iter().map(|v| record("t", Some("k"), v)),
    ));
    assert_eq!(
        settle(&mut window, &mut reports, Window::is_empty).await,
        []
    );
    let found = values_of(&cluster, "t");
    assert_eq!(found, values);
}

#[tokio::test]
async fn after_a_refusal_the_resend_leaves_a_complete_and_ordered_suffix() {
    let cluster = cluster("t", 1);
    let (publisher, mut reports) = start(&cluster, &[("batch.num.messages", "1")]);
    let mut window = window();
    publisher.send(issue(&mut window, [record("t", Some("k"), "warm")]));
    settle(&mut window, &mut reports, Window::is_empty).await;

    cluster.request_errors(
        RDKafkaApiKey::Produce,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE],
    );
    let values = ["1", "2", "3", "4", "5"];
    publisher.send(issue(
        &mut window,
        values.map(|value| record("t", Some("k"), value)),
    ));
    let errors = settle(&mut window, &mut reports, Window::is_settled).await;
    // Whether others were under way by then is the threads' affair.
    let kind = &errors[0].kind;
    assert!(
        matches!(
            kind,
            DeliveryErrorKind::BatchRefused(_) | DeliveryErrorKind::RecordTooLarge { .. }
        ),
        "{kind:?}"
    );

    publisher.resume();
    publisher.send(window.resend());
    assert_eq!(
        settle(&mut window, &mut reports, Window::is_empty).await,
        []
    );
    let found = values_of(&cluster, "t");
    assert_eq!(
        found[found.len() - 5..],
        values,
        "the last copies are complete and in order"
    );
}

#[tokio::test]
async fn a_refused_batch_is_sent_again_one_record_at_a_time_before_one_is_blamed() {
    let cluster = cluster("t", 1);
    // So that what is handed over one by one is one request.
    let (publisher, mut reports) = start(&cluster, &[("linger.ms", "300")]);
    let mut window = window();
    publisher.send(issue(&mut window, [record("t", Some("k"), "warm")]));
    settle(&mut window, &mut reports, Window::is_empty).await;

    use RDKafkaRespErr::{
        RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE as TOO_LARGE, RD_KAFKA_RESP_ERR_NO_ERROR as FINE,
    };
    cluster.request_errors(RDKafkaApiKey::Produce, &[TOO_LARGE; 5]);
    let values = ["1", "22", "333", "4444", "55555"];
    let batch = issue(&mut window, values.map(|value| record("t", None, value)));
    publisher.send(batch);
    let errors = settle(&mut window, &mut reports, Window::is_settled).await;
    assert_eq!(errors.len(), 5, "all of the batch: {errors:?}");
    for error in errors {
        assert_eq!(error.reason(), "batch_refused");
    }

    // The third request is the third record: nothing else is with it.
    cluster.clear_request_errors(RDKafkaApiKey::Produce);
    cluster.request_errors(RDKafkaApiKey::Produce, &[FINE, FINE, TOO_LARGE]);
    publisher.resume();
    publisher.send(window.resend());
    let errors = settle(&mut window, &mut reports, Window::is_settled).await;
    let kinds: Vec<_> = errors.into_iter().map(|error| error.kind).collect();
    let expected = DeliveryErrorKind::RecordTooLarge {
        size_bytes: 3 + "id".len() * 2 + "x".len() + "e".len(),
        limit: SizeLimit::Topic(None),
    };
    assert_eq!(kinds, [expected]);
    assert_eq!(window.len(), 3, "the first two are acknowledged");

    publisher.resume();
    publisher.send(window.resend());
    let errors = settle(&mut window, &mut reports, Window::is_empty).await;
    assert_eq!(errors, []);
    assert_eq!(values_of(&cluster, "t")[1..], values, "nothing came twice");
}

#[tokio::test]
async fn a_producer_without_the_right_to_an_id_is_replaced_and_the_next_one_delivers() {
    let cluster = cluster("t", 1);
    cluster.request_errors(
        RDKafkaApiKey::InitProducerId,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED],
    );
    let (publisher, mut reports) = start(&cluster, &[]);
    let mut window = window();
    let values = ["1", "2", "3"];
    publisher.send(issue(
        &mut window,
        values.map(|value| record("t", Some("k"), value)),
    ));
    let errors = settle(&mut window, &mut reports, Window::is_settled).await;
    assert_eq!(errors[0].kind, DeliveryErrorKind::ClusterAuthorization);
    assert!(errors[0].needs_new_producer());
    drop(publisher);

    let (publisher, mut reports) = start(&cluster, &[]);
    publisher.send(window.resend());
    let errors = settle(&mut window, &mut reports, Window::is_empty).await;
    assert_eq!(errors, []);
    assert_eq!(values_of(&cluster, "t"), values);
}

#[tokio::test]
async fn nothing_is_sent_between_a_failure_and_the_word_to_go_on() {
    let cluster = cluster("t", 1);
    let (publisher, mut reports) = start(&cluster, &[]);
    let mut window = window();
    publisher.send(issue(
        &mut window,
        [record("no such topic!", None, "x"), record("t", None, "y")],
    ));
    let errors = settle(&mut window, &mut reports, Window::is_settled).await;
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].kind, DeliveryErrorKind::TopicInvalid);
    publisher.send(issue(&mut window, [record("t", None, "z")]));
    settle(&mut window, &mut reports, Window::is_settled).await;
    assert_eq!(window.len(), 3, "none was delivered");
}

#[tokio::test]
async fn a_topic_that_is_missing_or_not_ours_blocks_until_it_is_there_and_nothing_comes_twice() {
    let cluster = cluster("other", 1);
    let mut options = options(&cluster, &[]);
    options.topic_timeout = Duration::from_millis(300);
    options.topic_creation = TopicCreation::Nobody;
    let (publisher, mut reports) = Publisher::start(&options).unwrap();
    let mut window = window();
    let values = ["1", "2", "3"];
    publisher.send(issue(
        &mut window,
        values.map(|value| record("t", Some("k"), value)),
    ));
    let mut errors = settle(&mut window, &mut reports, Window::is_settled).await;
    let forbidden = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.topic_error("t", forbidden).unwrap();
    publisher.resume();
    publisher.send(window.resend());
    errors.extend(settle(&mut window, &mut reports, Window::is_settled).await);
    let kinds: Vec<_> = errors.into_iter().map(|error| error.kind).collect();
    assert_eq!(
        kinds,
        [
            DeliveryErrorKind::TopicMissing,
            DeliveryErrorKind::TopicAuthorization
        ]
    );

    let fine = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR;
    cluster.topic_error("t", fine).unwrap();
    cluster.create_topic("t", 1, 1).unwrap_or_default();
    publisher.resume();
    publisher.send(window.resend());
    let errors = settle(&mut window, &mut reports, Window::is_empty).await;
    assert_eq!(errors, []);
    assert_eq!(values_of(&cluster, "t"), values);
}

#[tokio::test]
async fn a_name_beside_one_that_kafka_takes_for_the_same_is_told_with_that_one() {
    let cluster = cluster("a.b", 1);
    let mut options = options(&cluster, &[]);
    options.topic_timeout = Duration::from_millis(100);
    options.topic_creation = TopicCreation::Nobody;
    let (publisher, mut reports) = Publisher::start(&options).unwrap();
    let mut window = window();
    publisher.send(issue(&mut window, [record("a_b", None, "x")]));
    let errors = settle(&mut window, &mut reports, Window::is_settled).await;
    assert_eq!(
        errors[0].to_string(),
        "topic \"a_b\" does not exist and cannot be created beside topic \"a.b\": Kafka takes '.' and '_' for the same there"
    );
}

#[tokio::test]
async fn a_stop_while_a_topic_is_missing_does_not_wait_for_it() {
    let cluster = cluster("other", 1);
    let mut options = options(&cluster, &[]);
    options.topic_creation = TopicCreation::Nobody;
    options.topic_timeout = Duration::from_secs(60);
    let (publisher, mut reports) = Publisher::start(&options).unwrap();
    let mut window = window();
    publisher.send(issue(&mut window, [record("t", None, "x")]));
    let started = Instant::now();
    publisher.close(Duration::from_millis(50)).await;
    assert!(started.elapsed() < Duration::from_secs(1));
    settle(&mut window, &mut reports, Window::is_settled).await;
    assert_eq!(window.len(), 1);
}

#[tokio::test]
async fn records_that_cannot_be_sent_say_why() {
    let cluster = cluster("t", 3);
    let kind_of = async |record: Record| {
        let (publisher, mut reports) = start(&cluster, &[("message.max.bytes", "2000")]);
        let mut window = window();
        publisher.send(issue(&mut window, [Arc::new(record)]));
        settle(&mut window, &mut reports, Window::is_settled)
            .await
            .remove(0)
            .kind
    };
    let base = Record::clone(&record("t", None, "x"));
    for partition in [-1, 3] {
        let record = Record {
            partition: Some(partition),
            ..base.clone()
        };
        let expected = DeliveryErrorKind::InvalidPartition {
            partition,
            count: 3,
        };
        assert_eq!(kind_of(record).await, expected);
    }
    let record = Record {
        timestamp_ms: -1,
        ..base.clone()
    };
    assert_eq!(
        kind_of(record).await,
        DeliveryErrorKind::InvalidTimestamp { timestamp_ms: -1 }
    );
    let large = Record {
        value: Some(Bytes::from(vec![b'x'; 5000])),
        ..base
    };
    assert!(matches!(
        kind_of(large).await,
        DeliveryErrorKind::RecordTooLarge { .. }
    ));
}

#[tokio::test]
async fn a_broker_that_comes_back_gets_everything_in_order() {
    let cluster = cluster("t", 1);
    let (publisher, mut reports) = start(&cluster, &[]);
    let mut window = window();
    publisher.send(issue(&mut window, [record("t", Some("k"), "first")]));
    settle(&mut window, &mut reports, Window::is_empty).await;
    cluster.broker_down(1).unwrap();
    let values: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    publisher.send(issue(
        &mut window,
        values.iter().map(|v| record("t", Some("k"), v)),
    ));
    cluster.broker_up(1).unwrap();
    assert_eq!(
        settle(&mut window, &mut reports, Window::is_empty).await,
        []
    );
    let found = values_of(&cluster, "t");
    assert_eq!(found[1..], values);
}

#[tokio::test]
async fn closing_waits_for_what_is_outstanding() {
    let cluster = cluster("t", 1);
    let (publisher, mut reports) = start(&cluster, &[]);
    let mut window = window();
    publisher.send(issue(
        &mut window,
        (0..1000).map(|n| record("t", None, &n.to_string())),
    ));
    publisher.close(Duration::from_secs(10)).await;
    assert_eq!(
        settle(&mut window, &mut reports, Window::is_empty).await,
        []
    );
    assert!(reports.recv().await.is_none());
}

#[tokio::test]
async fn closing_without_patience_reports_every_record_all_the_same() {
    let cluster = cluster("t", 1);
    cluster.broker_down(1).unwrap();
    let (publisher, mut reports) = start(&cluster, &[]);
    let mut window = window();
    publisher.send(issue(
        &mut window,
        (0..10).map(|n| record("t", None, &n.to_string())),
    ));
    publisher.close(Duration::ZERO).await;
    settle(&mut window, &mut reports, Window::is_settled).await;
    assert_eq!(window.len(), 10);
}

#[test]
fn a_record_that_meets_a_halt_on_its_way_out_is_not_handed_over() {
    let cluster = cluster("t", 1);
    let (commands, receiver) = std::sync::mpsc::channel();
    let (reports, _delivered) = tokio::sync::mpsc::unbounded_channel();
    let options = options(&cluster, &[]);
    let mut worker = Worker::new(&options, Arc::default(), commands, reports).unwrap();
    let record = record("t", None, "x");
    worker.traffic.halt();
    let sent = loop {
        match worker.send(Ticket(0), &record) {
            Sent::NotYet(Held::ForTopic) => {
                worker.take(receiver.recv_timeout(Duration::from_secs(10)).unwrap());
            }
            sent => break sent,
        }
    };
    assert!(matches!(sent, Sent::NotYet(Held::ForRoom)));
    assert_eq!(worker.traffic.outstanding(), 0);
}

#[test]
fn a_producer_that_is_dropped_sends_nothing_of_what_waits() {
    let cluster = cluster("t", 1);
    let (commands, receiver) = std::sync::mpsc::channel();
    let (reports, mut delivered) = tokio::sync::mpsc::unbounded_channel();
    let (options, health) = (options(&cluster, &[]), Arc::new(Health::default()));
    let mut worker = Worker::new(&options, health, commands, reports).unwrap();
    let topic = "t".into();
    while worker.topics.readiness(&topic) == Readiness::Wait {
        worker.take(receiver.recv().unwrap());
    }
    let tickets: Vec<_> = (0..3).map(Ticket).collect();
    let records = tickets
        .iter()
        .map(|ticket| (*ticket, record("t", None, "v")));
    worker.queue.extend(records);
    worker.close(Instant::now(), &receiver);
    let mut not_sent = Vec::new();
    while let Ok(report) = delivered.try_recv() {
        assert!(matches!(report.fate, Fate::NotSent), "{:?}", report.fate);
        not_sent.push(report.ticket);
    }
    assert_eq!(not_sent, tickets);
}
