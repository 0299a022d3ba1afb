//! A cluster that names no broker for a moment, as Kafka does while a broker that is alone stops.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Mutex;

use super::*;

const METADATA: i16 = 3;
/// Behind the number of the answer, no tags, and the time of a throttle.
const BROKERS: usize = 4 + 1 + 4;
/// Number, "127.0.0.1", port, no rack, no tags.
const BROKER_BYTES: usize = 4 + 10 + 4 + 1 + 1;
const PORT: usize = BROKERS + 1 + 4 + 10;

/// In front of a cluster of one broker; both its names lead here.
struct Line {
    port: u16,
    /// The next answers about this topic name no broker.
    empties: Arc<AtomicUsize>,
}

impl Line {
    fn to(cluster: &Cluster) -> Self {
        let server = cluster.bootstrap_servers();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let empties = Arc::new(AtomicUsize::new(0));
        let given = Arc::clone(&empties);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&server)) else {
                    return;
                };
                let asked = Arc::new(Mutex::new(HashMap::new()));
                let there = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let noted = Arc::clone(&asked);
                std::thread::spawn(move || forward(there, &noted));
                let given = Arc::clone(&given);
                std::thread::spawn(move || back((server, client), &asked, port, &given));
            }
        });
        Self { port, empties }
    }
}

type Asked = Mutex<HashMap<i32, i16>>;

fn frame(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length).ok()?;
    let mut frame = vec![0; usize::try_from(i32::from_be_bytes(length)).ok()?];
    from.read_exact(&mut frame).ok()?;
    Some(frame)
}

fn send(to: &mut TcpStream, frame: &[u8]) -> Option<()> {
    to.write_all(&i32::try_from(frame.len()).ok()?.to_be_bytes())
        .ok()?;
    to.write_all(frame).ok()
}

fn forward((mut client, mut server): (TcpStream, TcpStream), asked: &Asked) {
    while let Some(request) = frame(&mut client) {
        let number = |at: usize| i16::from_be_bytes([request[at], request[at + 1]]);
        if number(0) == METADATA {
            let correlation = i32::from_be_bytes(request[4..8].try_into().unwrap());
            asked.lock().unwrap().insert(correlation, number(2));
        }
        if send(&mut server, &request).is_none() {
            break;
        }
    }
    drop(server.shutdown(Shutdown::Both));
}

fn back(
    (mut server, mut client): (TcpStream, TcpStream),
    asked: &Asked,
    port: u16,
    empties: &AtomicUsize,
) {
    while let Some(mut answer) = frame(&mut server) {
        let correlation = i32::from_be_bytes(answer[..4].try_into().unwrap());
        if let Some(version) = asked.lock().unwrap().remove(&correlation) {
            assert_eq!(version, 12, "the answer's layout is that of version 12");
            if empties.load(Ordering::Acquire) > 0 {
                empties.fetch_sub(1, Ordering::AcqRel);
                answer.splice(BROKERS..BROKERS + BROKER_BYTES + 1, [1]);
            } else {
                answer[PORT..PORT + 4].copy_from_slice(&u32::from(port).to_be_bytes());
            }
        }
        if send(&mut client, &answer).is_none() {
            break;
        }
    }
    drop(client.shutdown(Shutdown::Both));
}

const ROUNDS: usize = 6;

/// Whether librdkafka finds its brokers again is a race of its threads: either way all arrives.
#[tokio::test]
async fn whoever_is_told_of_no_broker_delivers_in_the_end() {
    let mut deserted = 0;
    for round in 0..ROUNDS {
        let cluster = cluster("t", 1);
        let line = Line::to(&cluster);
        let properties = [
            ("statistics.interval.ms", "200"),
            ("topic.metadata.refresh.interval.ms", "50"),
        ];
        let options = options_at(&format!("127.0.0.1:{}", line.port), &properties);
        let (mut publisher, mut reports) = Publisher::start(&options).unwrap();
        let mut window = window();
        publisher.send(issue(&mut window, [record("t", Some("k"), "1")]));
        let errors = settle(&mut window, &mut reports, Window::is_empty).await;
        assert_eq!(errors, []);

        cluster.create_topic("other", 1, 1).unwrap();
        line.empties.store(1 + round % 4, Ordering::Release);
        publisher.send(issue(&mut window, [record("other", Some("k"), "2")]));
        publisher.send(issue(&mut window, [record("t", Some("k"), "3")]));
        let errors = settle(&mut window, &mut reports, Window::is_settled).await;
        line.empties.store(0, Ordering::Release);
        if let Some(error) = errors.first() {
            assert_deserted(error);
            deserted += 1;
            (publisher, reports) = Publisher::start(&options).unwrap();
            publisher.send(window.resend());
            let errors = settle(&mut window, &mut reports, Window::is_empty).await;
            assert_eq!(errors, []);
        }
        assert_eq!(values_of(&cluster, "other"), ["2"]);
        assert_eq!(values_of(&cluster, "t"), ["1", "3"]);
    }
    println!("deserted in {deserted} of {ROUNDS} rounds");
}

fn assert_deserted(error: &DeliveryError) {
    assert_eq!(
        error.to_string(),
        "the producer failed for good: librdkafka has no broker left to turn to"
    );
    assert!(error.needs_new_producer());
}

#[tokio::test]
async fn what_is_under_way_and_what_waits_is_left_to_the_next_producer() {
    let cluster = cluster("t", 1);
    let (publisher, mut reports) = start(&cluster, &[]);
    let mut window = window();
    publisher.send(issue(&mut window, [record("t", Some("k"), "1")]));
    let errors = settle(&mut window, &mut reports, Window::is_empty).await;
    assert_eq!(errors, []);

    cluster.broker_down(1).unwrap();
    let records = ["2", "3"].map(|value| record("t", Some("k"), value));
    publisher.send(issue(&mut window, records));
    publisher.send(issue(&mut window, [record("unknown", Some("k"), "4")]));
    publisher.command(Command::Deserted);
    let errors = settle(&mut window, &mut reports, Window::is_settled).await;
    assert_deserted(&errors[0]);
    drop(publisher);

    cluster.broker_up(1).unwrap();
    cluster.create_topic("unknown", 1, 1).unwrap();
    let (publisher, mut reports) = start(&cluster, &[]);
    publisher.send(window.resend());
    let errors = settle(&mut window, &mut reports, Window::is_empty).await;
    assert_eq!(errors, []);
    assert_eq!(values_of(&cluster, "t"), ["1", "2", "3"]);
    assert_eq!(values_of(&cluster, "unknown"), ["4"]);
}
