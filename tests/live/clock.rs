//! The server's wall clock is set while the relay streams.

use std::time::{Duration, SystemTime};

use crate::support::{Reader, Relay, Scene, Shop, Shutdown, Version, wait_until};

const HOUR: i64 = 3600;

/// An hour ahead, the server takes the relay for silent and ends the stream, which begins again.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_or_forward_neither_stalls_nor_loses() {
    let mut scene = Scene::open(Version::V18, &[]).await;
    scene.postgres.stop(Shutdown::Fast);
    scene.postgres.take_clock();
    scene.postgres.start_again();
    let client = scene.postgres.client().await;
    let relay = Relay::start(&scene.postgres, &scene.kafka, &[]);
    relay.wait_for_state("streaming").await;
    let shop = Shop::open(&scene.postgres, 200, u64::MAX).await;
    let mut reader = Reader::new(&scene.kafka);
    reader.read_until(100);
    for ahead_seconds in [-HOUR, HOUR, 0] {
        scene.postgres.set_clock(ahead_seconds);
        let now = "SELECT extract(epoch FROM clock_timestamp())::float8";
        let told: f64 = client.query_one(now, &[]).await.unwrap().get(0);
        let ours = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        assert!((told - ours - ahead_seconds as f64).abs() < 60.0, "{told}");
        for _ in 0..2 {
            reader.read_more(100);
            let lag = relay.metric("outboxd_lag_seconds").unwrap();
            assert!(lag >= 0.0, "{ahead_seconds}: {lag}");
        }
        confirms(&relay, ahead_seconds).await;
        // What was committed before is behind us, and the numbers are of now.
        reader.read_more(200);
        for _ in 0..3 {
            reader.read_more(100);
            let lag = relay.metric("outboxd_lag_seconds").unwrap();
            assert!((0.0..60.0).contains(&lag), "{ahead_seconds}: {lag}");
        }
    }
    let (repeats, ends) = (
        reader.tally.repeats(),
        relay.metric("outboxd_reconnects_total{reason=\"closed\"}"),
    );
    println!("three settings of the clock: repeats {repeats}, streams ended {ends:?}");
    reader.close(&client, shop, vec![relay]).await;
}

/// It is ready, and what is committed now is soon confirmed.
async fn confirms(relay: &Relay, ahead_seconds: i64) {
    let confirmed = || relay.metric("outboxd_confirmed_lsn_bytes").unwrap();
    let before = confirmed();
    let what = format!("a confirmation, {ahead_seconds} s ahead");
    wait_until(Duration::from_secs(20), &what, async || {
        relay.get("/readyz").is_some_and(|(code, _)| code == 200) && confirmed() > before
    })
    .await;
}
