use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use smallvec::smallvec;

use super::*;
use crate::kafka::{DeliveryErrorKind, Reading};
use crate::lsn::Lsn;
use crate::observe::{Metrics, Problem, State, Status};
use crate::pgoutput::{Column, Datum, Relation, ReplicaIdentity, Tuple};
use crate::relay::Options;
use crate::router::EventRouter;

type Cluster = MockCluster<'static, DefaultProducerContext>;

const TOPIC: &str = "outbox.event.order";

fn cluster() -> Cluster {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(TOPIC, 1, 1).unwrap();
    cluster
}

fn outbound(cluster: &Cluster, options: &Options) -> Outbound {
    with_router(cluster, options, crate::router::Options::native())
}

fn with_router(cluster: &Cluster, options: &Options, router: crate::router::Options) -> Outbound {
    let limits = options.window();
    // What is sent together is one request, however the threads run.
    let linger = [("linger.ms".to_owned(), "200".to_owned())];
    let properties = linger.into_iter().collect();
    let kafka = KafkaOptions::new(&cluster.bootstrap_servers(), properties, limits);
    let sink = Sink::Kafka(Box::new(kafka.unwrap()));
    let status = Status::new("n", "s", "p", SystemTime::UNIX_EPOCH);
    let view = View::new(Metrics::new().unwrap(), status);
    view.set_state(State::Streaming);
    let pipeline = Pipeline::new(EventRouter::new(router), limits);
    Outbound::start(pipeline, sink, options, view).unwrap()
}

/// Rows with these ids, all for one topic.
fn send(outbound: &mut Outbound, ids: &[&str]) {
    let names = ["id", "aggregateid", "aggregatetype", "payload"];
    let column = |name: &str| Column {
        name: name.into(),
        type_oid: 25,
        type_modifier: -1,
        is_key: false,
    };
    let relation = Arc::new(Relation {
        oid: 1,
        namespace: "public".into(),
        name: "outbox".into(),
        replica_identity: ReplicaIdentity::Default,
        columns: names.map(column).to_vec(),
    });
    for id in ids {
        let row = Tuple {
            datums: smallvec![
                Datum::Text(id.as_bytes()),
                Datum::Text(b"k"),
                Datum::Text(b"order"),
                Datum::Text(b"{}"),
            ],
        };
        let (point, taken_at) = (Lsn::new(1), Timestamp::from_postgres_us(0));
        outbound
            .pipeline
            .handle_snapshot_row(&relation, &row, point, taken_at)
            .unwrap();
    }
    outbound.send();
}

/// Turns, and nothing else, until `done`.
async fn turn_until(
    outbound: &mut Outbound,
    done: impl Fn(&Outbound) -> bool,
) -> Result<(), RelayError> {
    let turned = async {
        while !done(outbound) {
            outbound.turn().await?;
        }
        Ok(())
    };
    tokio::time::timeout(Duration::from_secs(30), turned)
        .await
        .expect("it comes to that in time")
}

fn state(outbound: &Outbound) -> State {
    outbound.view.status.state()
}

#[tokio::test]
async fn brokers_that_come_back_end_the_block_also_while_there_is_no_stream() {
    let cluster = cluster();
    let mut outbound = outbound(&cluster, &Options::default());
    send(&mut outbound, &["1"]);
    turn_until(&mut outbound, Outbound::is_empty).await.unwrap();
    cluster.broker_down(1).unwrap();
    send(&mut outbound, &["2"]);
    turn_until(&mut outbound, |outbound| state(outbound) == State::Blocked)
        .await
        .unwrap();
    let away = Problem {
        message: "server away".into(),
        detail: None,
        hint: None,
    };
    outbound.view.set_state(State::Starting);
    outbound.view.set_problem(Some(away.clone()));
    assert_eq!(state(&outbound), State::Blocked);

    cluster.broker_up(1).unwrap();
    turn_until(&mut outbound, |outbound| state(outbound) != State::Blocked)
        .await
        .unwrap();
    assert_eq!(state(&outbound), State::Starting);
    assert_eq!(outbound.view.status.problem(), Some(away));
}

#[tokio::test]
async fn an_exit_names_the_one_record_of_a_refused_batch() {
    use RDKafkaRespErr::{
        RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE as TOO_LARGE, RD_KAFKA_RESP_ERR_NO_ERROR as FINE,
    };
    let cluster = cluster();
    let options = Options {
        on_blocked: OnBlocked::Exit,
        backoff_min: Duration::from_secs(1),
        ..Options::default()
    };
    let mut outbound = outbound(&cluster, &options);
    send(&mut outbound, &["warm"]);
    turn_until(&mut outbound, Outbound::is_empty).await.unwrap();
    cluster.request_errors(RDKafkaApiKey::Produce, &[TOO_LARGE; 5]);
    send(&mut outbound, &["1", "2", "3", "4", "5"]);
    let scheduled = |outbound: &Outbound| outbound.trouble.retry_at().is_some();
    turn_until(&mut outbound, scheduled).await.unwrap();
    let shown = outbound.trouble.shown().unwrap();
    assert_eq!(
        (shown.error.reason(), &shown.event_id),
        ("batch_refused", &None)
    );

    cluster.clear_request_errors(RDKafkaApiKey::Produce);
    cluster.request_errors(RDKafkaApiKey::Produce, &[FINE, FINE, TOO_LARGE]);
    let ended = turn_until(&mut outbound, Outbound::is_empty).await;
    let Err(RelayError::Undeliverable(failure)) = ended else {
        panic!("it ends with the record: {ended:?}");
    };
    assert!(matches!(
        failure.error.kind,
        DeliveryErrorKind::RecordTooLarge { .. }
    ));
    assert_eq!(failure.event_id.as_deref(), Some("3"));
}

/// Values of a topic, in order.
fn values(cluster: &Cluster, topic: &str) -> Vec<(String, Option<String>)> {
    let limits = Options::default().window();
    let servers = cluster.bootstrap_servers();
    let kafka = KafkaOptions::new(&servers, std::collections::BTreeMap::new(), limits).unwrap();
    let patience = Duration::from_secs(10);
    let mut reading = Reading::start(&kafka, topic, &Default::default(), patience).unwrap();
    let mut values = Vec::new();
    while let Some(record) = reading.read().unwrap() {
        let header = |name: &str| {
            let found = record.headers.iter().find(|header| *header.name == *name)?;
            Some(String::from_utf8(found.value.as_ref()?.to_vec()).unwrap())
        };
        values.push((header("id").unwrap(), header("outboxd.dead_letter.reason")));
    }
    values
}

#[tokio::test]
async fn a_record_that_is_refused_alone_goes_to_the_dead_letter_topic_and_the_others_go_on() {
    use RDKafkaRespErr::{
        RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE as TOO_LARGE, RD_KAFKA_RESP_ERR_NO_ERROR as FINE,
    };
    let cluster = cluster();
    cluster.create_topic("dead", 1, 1).unwrap();
    let options = Options {
        backoff_min: Duration::from_secs(1),
        ..Options::default()
    };
    let router = crate::router::Options {
        dead_letter_topic: Some("dead".into()),
        ..crate::router::Options::native()
    };
    let mut outbound = with_router(&cluster, &options, router);
    send(&mut outbound, &["warm"]);
    turn_until(&mut outbound, Outbound::is_empty).await.unwrap();
    cluster.request_errors(RDKafkaApiKey::Produce, &[TOO_LARGE; 5]);
    send(&mut outbound, &["1", "2", "3"]);
    let scheduled = |outbound: &Outbound| outbound.trouble.retry_at().is_some();
    turn_until(&mut outbound, scheduled).await.unwrap();
    assert_eq!(
        outbound.pipeline.counters().dead_letters.len(),
        0,
        "a batch names nobody"
    );

    cluster.clear_request_errors(RDKafkaApiKey::Produce);
    cluster.request_errors(RDKafkaApiKey::Produce, &[FINE, TOO_LARGE]);
    turn_until(&mut outbound, Outbound::is_empty).await.unwrap();
    assert_eq!(
        outbound.pipeline.counters().dead_letters,
        [("record_too_large", 1)].into()
    );
    assert_eq!(state(&outbound), State::Streaming);
    let is = |id: &str| (id.to_owned(), None);
    assert_eq!(values(&cluster, TOPIC), [is("warm"), is("1"), is("3")]);
    let letter = ("2".to_owned(), Some("record_too_large".to_owned()));
    assert_eq!(values(&cluster, "dead"), [letter]);
}

#[tokio::test]
async fn a_dead_letter_that_is_refused_blocks_and_says_what_it_is() {
    let cluster = cluster();
    cluster.create_topic("dead", 1, 1).unwrap();
    let options = Options::default();
    let router = crate::router::Options {
        dead_letter_topic: Some("dead".into()),
        ..crate::router::Options::native()
    };
    let mut outbound = with_router(&cluster, &options, router);
    let too_large = RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    cluster.request_errors(RDKafkaApiKey::Produce, &[too_large; 2]);
    send(&mut outbound, &["1"]);
    turn_until(&mut outbound, |outbound| state(outbound) == State::Blocked)
        .await
        .unwrap();
    let problem = outbound.view.status.problem().unwrap();
    assert!(
        problem.message.contains("too large for topic \"dead\""),
        "{problem:?}"
    );
    assert_eq!(
        problem.detail.as_deref(),
        Some(
            "It is the dead letter of an event, which is in no other topic: nothing goes on without it. The event has the id 1."
        )
    );
    turn_until(&mut outbound, Outbound::is_empty).await.unwrap();
    assert_eq!(state(&outbound), State::Streaming);
    assert_eq!(values(&cluster, "dead").len(), 1);
}
