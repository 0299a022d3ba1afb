//! The pure pipeline between a scripted walsender and a pretend broker. A seed is a schedule: what
//! was committed, when each side moves, which deliveries fail, where the connection is cut and where
//! the process dies. After every step the guarantees of `docs/guarantees.md` are looked at.

mod broker;
mod generations;
mod journal;
mod log;
mod world;

use std::cell::Cell;
use std::ops::{AddAssign, Range};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use outboxd::router::Options;

use self::log::DEAD_LETTERS;
use self::world::World;
use crate::support::mutation::Random;

/// How many schedules are tried.
const SIMULATIONS: &str = "OUTBOXD_SIMULATIONS";
const DEFAULT_SIMULATIONS: u64 = 10_000;
/// The one schedule to try again; its steps are printed.
const SEED: &str = "OUTBOXD_SIMULATION_SEED";

#[test]
fn every_schedule_of_faults_leaves_each_key_complete_and_in_order() {
    let (seeds, trace) = seeds();
    let schedules = seeds.end - seeds.start;
    let total = std::thread::scope(|scope| {
        let shares = shares(&seeds);
        let threads: Vec<_> = shares
            .map(|share| scope.spawn(move || run(share, trace)))
            .collect();
        let mut total = Tally::default();
        for thread in threads {
            total += thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        total
    });
    println!("{schedules} schedules: {total:?}");
    if schedules >= 1000 {
        let Tally {
            failures,
            resent,
            cuts,
            crashes,
            stops,
            dead_letters,
            put_back,
            other_histories,
            passed_rows,
            others,
            ..
        } = total;
        let disasters = cuts.min(crashes).min(stops).min(put_back);
        let searches = other_histories.min(passed_rows).min(others);
        assert!(
            searches >= schedules / 100,
            "too few restarts of the server"
        );
        let least = failures.min(resent).min(dead_letters).min(disasters);
        assert!(least >= schedules / 4, "too quiet to prove anything");
    }
}

/// One thread's seeds.
fn run(seeds: Range<u64>, trace: bool) -> Tally {
    let current = Cell::new(0);
    let mut total = Tally::default();
    let wait = Options::default();
    let dead_letters = Options {
        dead_letter_topic: Some(DEAD_LETTERS.into()),
        ..Options::default()
    };
    // Every other schedule has events that have to become dead letters.
    let options = |seed| if seed % 2 == 0 { &wait } else { &dead_letters };
    let all = || {
        for seed in seeds {
            current.set(seed);
            total += World::new(seed, options(seed), trace).run();
        }
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(all)) {
        let seed = current.get();
        eprintln!("replay it: {SEED}={seed} cargo test --test offline simulation -- --nocapture");
        resume_unwind(panic);
    }
    total
}

/// As many ranges as there are processors, which together are `seeds`.
fn shares(seeds: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let count = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let (start, length) = (seeds.start, seeds.end - seeds.start);
    (0..count).map(move |n| start + length * n / count..start + length * (n + 1) / count)
}

fn seeds() -> (Range<u64>, bool) {
    let number = |name| {
        let text = std::env::var(name).ok()?;
        let number = text.parse();
        Some(number.unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
    };
    match number(SEED) {
        Some(seed) => (seed..seed + 1, true),
        None => (0..number(SIMULATIONS).unwrap_or(DEFAULT_SIMULATIONS), false),
    }
}

/// What happened in the schedules that ran.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    steps: u64,
    failures: u64,
    resent: u64,
    cuts: u64,
    crashes: u64,
    put_back: u64,
    other_histories: u64,
    passed_rows: u64,
    /// Another instance has streamed in between.
    others: u64,
    stops: u64,
    /// Acknowledged in their topic.
    dead_letters: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.failures += other.failures;
        self.resent += other.resent;
        self.cuts += other.cuts;
        self.crashes += other.crashes;
        self.put_back += other.put_back;
        self.other_histories += other.other_histories;
        self.passed_rows += other.passed_rows;
        self.others += other.others;
        self.stops += other.stops;
        self.dead_letters += other.dead_letters;
    }
}

/// How likely faults are in one schedule, each as one in so many chances.
#[derive(Clone, Copy)]
struct Faults {
    /// A delivery fails.
    delivery: Option<usize>,
    /// A connection, the server or the relay ends.
    disaster: Option<usize>,
}

impl Faults {
    fn draw(random: &mut Random) -> Self {
        let deliveries = [None, Some(40), Some(15), Some(6), Some(3)];
        let disasters = [None, Some(300), Some(100), Some(40), Some(15)];
        Self {
            delivery: deliveries[random.below(deliveries.len())],
            disaster: disasters[random.below(disasters.len())],
        }
    }

    fn none() -> Self {
        Self {
            delivery: None,
            disaster: None,
        }
    }

    fn delivery_fails(self, random: &mut Random) -> bool {
        self.delivery.is_some_and(|n| random.one_in(n))
    }

    fn disaster_strikes(self, random: &mut Random) -> bool {
        self.disaster.is_some_and(|n| random.one_in(n))
    }
}

trait Chance {
    fn one_in(&mut self, n: usize) -> bool;
}

impl Chance for Random {
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}
