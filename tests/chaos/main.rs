//! Random faults on real servers for a given time, and then a look at all of Kafka. `scripts/chaos` runs
//! it; it ends with status 1 where an event is lost, altered or out of order, or where a relay stalls.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../support/live/mod.rs"]
mod support;

mod checker;
mod faults;
mod load;
mod report;
mod world;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use checker::Checker;
use faults::Fault;
use load::Load;
use report::Report;
use support::Consumer;
use world::{TOPIC, World};

/// Longer is a stall: nothing here needs so long once it is over.
const STALLED_AFTER: Duration = Duration::from_secs(120);

#[tokio::main]
async fn main() -> ExitCode {
    let given: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    let given = |index: usize, default: &str| {
        let value = given.get(index);
        value.map_or(default, String::as_str).to_owned()
    };
    let time: Duration = humantime::parse_duration(&given(0, "3m")).expect("a duration, as in 10m");
    let rate: f64 = given(1, "200").parse().expect("events per second");
    let seed: u64 = match given(2, "").as_str() {
        "" => rand::random_range(0..1_000_000),
        seed => seed.parse().expect("a seed"),
    };
    println!("chaos for {time:?} at {rate} events/s, seed {seed}");
    let report = run(time, rate, seed).await;
    report.print();
    if report.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn run(time: Duration, rate: f64, seed: u64) -> Report {
    let mut world = World::open().await;
    let client = world.postgres.client().await;
    Load::create_tables(&client).await;
    world.start_relays();
    let mut report = Report::new(time, rate, seed);
    report.waited(world.catch_up(STALLED_AFTER).await);
    let load = Load::start(&world.postgres.url(), rate, seed);
    let mut random = StdRng::seed_from_u64(seed);
    let end = Instant::now() + time;
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    while Instant::now() < end && !report.is_stalled() {
        let quiet = Duration::from_millis(random.random_range(300..3_000));
        tokio::select! {
            _ = &mut interrupted => break,
            () = tokio::time::sleep(quiet) => {}
        }
        let faults = inflict(&mut world, &mut random).await;
        report.caught_up(&faults, world.catch_up(STALLED_AFTER).await);
        report.peak_kib = report.peak_kib.max(world.peak_kib());
    }
    let counts = load.finish().await;
    report.waited(world.catch_up(STALLED_AFTER).await);
    world.look_for_deaths();
    let undrained = world.undrained;
    world.stop_all();
    report.drained = world.undrained == undrained;
    report.note_world(&world, &counts);
    let checker = read_all(&world);
    let committed = world.committed().await;
    report.note_check(checker, &committed);
    report
}

/// One fault, or two at a time, each for as long as it is drawn to last.
async fn inflict(world: &mut World, random: &mut StdRng) -> Vec<Fault> {
    let mut faults = vec![faults::draw(random)];
    let second = faults::draw(random);
    if random.random_bool(0.3) && second.fits(faults[0]) {
        faults.push(second);
    }
    for fault in &faults {
        fault.begin(world, random).await;
        tokio::time::sleep(fault.hold(random)).await;
    }
    for fault in &faults {
        fault.end(world).await;
    }
    faults
}

/// Everything in the topic, read past the lines.
fn read_all(world: &World) -> Checker {
    let consumer = Consumer::new(&world.kafka, TOPIC);
    let mut checker = Checker::new(world.thaws.clone());
    while let Some(event) = consumer.next(Duration::from_secs(5)) {
        checker.add(&event);
    }
    checker
}
