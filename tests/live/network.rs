//! Networks that are cut, silent or slow, on either side. What counts is what a consumer holds.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::support::{Direction, Reader, Relay, Scene, Shop, TcpProxy, Version, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);
/// Of lines that are reset.
const ROUNDS: u64 = 20;

type Fault = (&'static str, fn(&TcpProxy), fn(&TcpProxy));

/// What is done to a line, and how it ends.
const FAULTS: [Fault; 7] = [
    ("cut, and refused", TcpProxy::cut, TcpProxy::heal),
    (
        "reset in the middle of a message",
        |line| line.reset_within(777),
        TcpProxy::heal,
    ),
    (
        "silent, then everything goes on",
        |line| line.hold(Direction::Both),
        TcpProxy::heal,
    ),
    (
        "nothing reaches the server",
        |line| line.hold(Direction::ToServer),
        TcpProxy::heal,
    ),
    (
        "nothing comes back",
        |line| line.hold(Direction::ToClient),
        TcpProxy::heal,
    ),
    (
        "slow drip",
        |line| line.drip(100, Duration::from_millis(2)),
        TcpProxy::heal,
    ),
    (
        "half-open",
        |line| line.hold(Direction::Both),
        TcpProxy::heal_for_new_ones,
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_is_cut_silent_or_slow_loses_nothing_and_reorders_nothing() {
    let (scene, lines) = Scene::open_with_lines(Version::V18).await;
    let own = lines.settings();
    let settings = [
        own[0].as_str(),
        own[1].as_str(),
        "postgres.wal_sender_timeout=2s",
        "kafka.socket.timeout.ms=3000",
        "kafka.request.timeout.ms=2000",
        "relay.max_in_flight_records=1000",
        "relay.backoff_max=500ms",
    ];
    let relay = Relay::start(&scene.postgres, &scene.kafka, &settings);
    relay.wait_for_state("streaming").await;
    let shop = Shop::open(&scene.postgres, 500, u64::MAX).await;
    let mut reader = Reader::new(&scene.kafka);
    reader.read_until(200);
    for (side, line) in [("PostgreSQL", &lines.postgres), ("Kafka", &lines.kafka)] {
        for (what, begin, end) in FAULTS {
            let repeats = reader.tally.repeats();
            begin(line);
            reader.read_for(Duration::from_millis(1200));
            end(line);
            let over = Instant::now();
            reader.read_more(300);
            println!(
                "{side} {what}: 300 events {:?} later, repeats {}",
                over.elapsed(),
                reader.tally.repeats() - repeats
            );
        }
    }
    reader.close(&scene.client, shop, vec![relay]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_is_noticed_in_seconds() {
    let (scene, lines) = Scene::open_with_lines(Version::V14).await;
    let own = lines.settings();
    let settings = [
        own[0].as_str(),
        own[1].as_str(),
        "postgres.wal_sender_timeout=2s",
    ];
    let relay = Relay::start(&scene.postgres, &scene.kafka, &settings);
    relay.wait_for_state("streaming").await;
    lines.postgres.hold(Direction::Both);
    let begun = Instant::now();
    relay.wait_for_state("starting").await;
    let noticed = begun.elapsed();
    println!("a silent PostgreSQL was noticed after {noticed:?}");
    assert!(noticed < Duration::from_secs(5), "{noticed:?}");
    let error = relay.status().unwrap()["error"]["message"].clone();
    assert!(error.as_str().unwrap().contains("said nothing"), "{error}");
    lines.postgres.heal_for_new_ones();
    relay.wait_for_state("streaming").await;
    assert!(relay.stop().success());
}

/// The leader loses PostgreSQL and Kafka at once, and has records that are not acknowledged. When its
/// line to Kafka is back, they are the other instance's: copies behind newer events would stay there.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_lost_its_stream_sends_nothing_behind_its_successor() {
    let (scene, lines) = Scene::open_with_lines(Version::V18).await;
    let own = lines.settings();
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let first = Relay::start(&scene.postgres, &scene.kafka, &own);
    first.wait_for_state("streaming").await;
    let second = Relay::start(&scene.postgres, &scene.kafka, &[]);
    second.wait_for_state("standby").await;
    let shop = Shop::open(&scene.postgres, 500, u64::MAX).await;
    let mut reader = Reader::new(&scene.kafka);
    reader.read_until(200);

    lines.kafka.cut();
    wait_until(PATIENCE, "records wait for Kafka", async || {
        first
            .status()
            .is_some_and(|status| status["in_flight_records"].as_u64() > Some(300))
    })
    .await;
    lines.postgres.cut();
    second.wait_for_state("streaming").await;
    reader.read_more(500);
    lines.postgres.heal();
    wait_until(PATIENCE, "the first one waits for the lead", async || {
        first.logged("what Kafka has not acknowledged is left to whoever")
    })
    .await;
    lines.kafka.heal();
    reader.read_more(500);
    second.signal("TERM");
    first.wait_for_state("streaming").await;
    reader.read_more(500);
    println!(
        "lead and line lost at once: repeats {}",
        reader.tally.repeats()
    );
    reader.close(&scene.client, shop, vec![first]).await;
}

/// A line is to be as bad as a network, and no worse: what arrives before a reset has no hole, or a
/// record of another would be what the fault made of it.
#[test]
fn what_a_line_passes_before_it_is_reset_has_no_hole() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let line = TcpProxy::start(listener.local_addr().unwrap().port());
    let sent: Vec<u8> = (0..4_000_000_u32).flat_map(u32::to_be_bytes).collect();
    let (server_sent, port) = (sent.clone(), line.port());
    let server = std::thread::spawn(move || {
        for _ in 0..ROUNDS {
            let (mut client, _) = listener.accept().unwrap();
            // Reset under way.
            drop(client.write_all(&server_sent));
        }
    });
    for round in 0..ROUNDS {
        line.reset_within(100_000 + round * 1001);
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut found = Vec::new();
        assert!(client.read_to_end(&mut found).is_err(), "it is reset");
        assert!(
            found.len() < sent.len() && sent.starts_with(&found),
            "round {round}"
        );
    }
    server.join().unwrap();
}
