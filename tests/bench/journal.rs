//! What the position journal costs: the same with it and without it, in one run.

use std::time::Duration;

use crate::support::{Kafka, Postgres, Shop, Version};
use crate::{drain_with, insert_rows, takeover};

const ROWS: u64 = 150_000;
/// Each way twice, so that what the first one warms up is nobody's gain.
const TURNS: [(&str, bool); 4] = [
    ("first_without", false),
    ("first_with", true),
    ("second_with", true),
    ("second_without", false),
];
const TAKEOVERS: usize = 10;
const WITHOUT: &[&str] = &["position.topic="];

#[derive(Default)]
struct Cost {
    seconds: f64,
    cpu_seconds: f64,
}

pub(crate) async fn measure() {
    let [without, with] = drains().await;
    let holes = [
        median(takeover::after_kills(TAKEOVERS, WITHOUT).await),
        median(takeover::after_kills(TAKEOVERS, &[]).await),
    ];
    println!("| measurement | without the journal | with it | ratio |\n|---|---|---|---|");
    let rows = 2.0 * ROWS as f64;
    let rates = [&without, &with].map(|cost| rows / cost.seconds);
    let processor = [&without, &with].map(|cost| cost.cpu_seconds / rows * 1e6);
    let started = [&without, &with].map(|cost| cost.seconds * 500.0);
    row("drain, start to exit, rows/s", rates, 0);
    row(&format!("the same in ms for {ROWS} rows"), started, 0);
    row("CPU seconds per million rows", processor, 2);
    let title = format!("hole when the leader is killed, median of {TAKEOVERS}, ms");
    row(&title, holes, 0);
}

fn row(name: &str, [without, with]: [f64; 2], digits: usize) {
    println!(
        "| {name} | {without:.digits$} | {with:.digits$} | {:.2} |",
        with / without
    );
}

/// Without it, and with it.
async fn drains() -> [Cost; 2] {
    let (postgres, kafka) = (Postgres::start(Version::V18, &[]), Kafka::start());
    let client = postgres.client().await;
    Shop::create_tables(&client).await;
    let publication =
        "CREATE PUBLICATION outbox FOR TABLE outbox WITH (publish = 'insert, update')";
    client.batch_execute(publication).await.unwrap();
    for (slot, _) in TURNS {
        let make = "SELECT pg_create_logical_replication_slot($1, 'pgoutput')";
        client.query(make, &[&slot]).await.unwrap();
    }
    insert_rows(&client, ROWS).await;
    let mut costs = [Cost::default(), Cost::default()];
    for (slot, with) in TURNS {
        let settings = if with { &[][..] } else { WITHOUT };
        let drained = drain_with(&postgres, &kafka, slot, settings).await;
        let cost = &mut costs[usize::from(with)];
        cost.seconds += drained.seconds;
        cost.cpu_seconds += drained.cpu_seconds;
    }
    costs
}

fn median(mut holes: Vec<Duration>) -> f64 {
    holes.sort_unstable();
    holes[holes.len() / 2].as_secs_f64() * 1e3
}
