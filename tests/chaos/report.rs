//! What was done, what it cost, and what the checker found, in one table.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::checker::{Checker, Verdict};
use crate::faults::Fault;
use crate::load::Counts;
use crate::world::World;

const EXAMPLES: usize = 5;

pub(crate) struct Report {
    began: Instant,
    asked: Duration,
    rate: f64,
    seed: u64,
    /// Until what was committed at the fault's end was confirmed.
    waits: BTreeMap<Fault, Vec<Duration>>,
    in_pairs: u64,
    stalls: Vec<String>,
    pub(crate) peak_kib: u64,
    pub(crate) drained: bool,
    starts: u64,
    undrained: u64,
    deaths: Vec<String>,
    load: Vec<(&'static str, u64)>,
    records: Vec<(&'static str, u64)>,
    verdict: Verdict,
}

type Wait = Result<Duration, String>;

impl Report {
    pub(crate) fn new(asked: Duration, rate: f64, seed: u64) -> Self {
        Self {
            began: Instant::now(),
            asked,
            rate,
            seed,
            waits: BTreeMap::new(),
            in_pairs: 0,
            stalls: Vec::new(),
            peak_kib: 0,
            drained: false,
            starts: 0,
            undrained: 0,
            deaths: Vec::new(),
            load: Vec::new(),
            records: Vec::new(),
            verdict: Verdict::default(),
        }
    }

    pub(crate) fn waited(&mut self, wait: Wait) {
        self.stalls.extend(wait.err());
    }

    pub(crate) fn caught_up(&mut self, faults: &[Fault], wait: Wait) {
        let names: Vec<String> = faults.iter().map(|fault| fault.name()).collect();
        let names = names.join(" and ");
        let at = self.began.elapsed().as_secs();
        match wait {
            Ok(wait) => {
                println!("{at:>5} s  {names}: caught up after {wait:.1?}");
                if let [fault] = faults {
                    self.waits.entry(*fault).or_default().push(wait);
                } else {
                    self.in_pairs += 1;
                    for fault in faults {
                        self.waits.entry(*fault).or_default();
                    }
                }
            }
            Err(said) => self.stalls.push(format!("{at} s, {names}: {said}")),
        }
    }

    pub(crate) fn is_stalled(&self) -> bool {
        !self.stalls.is_empty()
    }

    pub(crate) fn note_world(&mut self, world: &World, counts: &Counts) {
        self.starts = world.starts;
        self.undrained = world.undrained;
        self.deaths.clone_from(&world.deaths);
        let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        self.load = vec![
            ("transactions committed", count(&counts.transactions)),
            (
                "of which deleted what they had inserted",
                count(&counts.deleted_at_once),
            ),
            ("transactions rolled back", count(&counts.rolled_back)),
            ("connections that writers lost", count(&counts.cuts)),
        ];
    }

    pub(crate) fn note_check(&mut self, checker: Checker, committed: &HashMap<String, i64>) {
        self.records = vec![
            ("records in Kafka", checker.records),
            ("repeats", checker.repeats),
            ("of which after a thaw", checker.after_thaw),
            (
                "records that overtook a failed one, and came again",
                checker.overtook,
            ),
        ];
        self.verdict = checker.verdict(committed);
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.verdict.is_clean()
            && self.verdict.events > 0
            && self.stalls.is_empty()
            && self.deaths.is_empty()
            && self.drained
    }

    pub(crate) fn print(&self) {
        println!(
            "\n| fault | times alone | caught up after: median | longest |\n|---|---|---|---|"
        );
        for (fault, waits) in &self.waits {
            let mut waits = waits.clone();
            waits.sort_unstable();
            let shown = |wait: Option<&Duration>| {
                wait.map_or_else(
                    || "-".to_owned(),
                    |wait| format!("{:.1} s", wait.as_secs_f64()),
                )
            };
            let median = shown(waits.get(waits.len() / 2));
            println!(
                "| {} | {} | {median} | {} |",
                fault.name(),
                waits.len(),
                shown(waits.last())
            );
        }
        println!("| two at a time | {} | | |", self.in_pairs);
        println!(
            "\n| of {:?} at {} events/s, seed {} | |\n|---|---|",
            self.asked, self.rate, self.seed
        );
        let row = |name: &str, value: u64| println!("| {name} | {value} |");
        row("seconds in all", self.began.elapsed().as_secs());
        row("events committed", self.verdict.events.unsigned_abs());
        for (name, value) in self.load.iter().chain(&self.records) {
            row(name, *value);
        }
        row("relays started", self.starts);
        row("stops that could not drain in time", self.undrained);
        row("relays that ended by themselves", self.deaths.len() as u64);
        row("stalls", self.stalls.len() as u64);
        row("most memory of a relay, MiB", self.peak_kib / 1024);
        row("keys with gaps", self.verdict.gaps.len() as u64);
        row("keys out of order", self.verdict.out_of_order.len() as u64);
        row("events altered", self.verdict.altered.len() as u64);
        row(
            "events never committed",
            self.verdict.uncommitted.len() as u64,
        );
        let verdict = &self.verdict;
        for (what, examples) in [
            ("gap", &verdict.gaps),
            ("order", &verdict.out_of_order),
            ("altered", &verdict.altered),
            ("never committed", &verdict.uncommitted),
            ("ended", &self.deaths),
            ("stall", &self.stalls),
        ] {
            for example in examples.iter().take(EXAMPLES) {
                println!("{what}: {example}");
            }
        }
        if !self.drained {
            println!("the last stop did not drain");
        }
    }
}
