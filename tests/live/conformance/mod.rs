//! What real Debezium was recorded to do, done again by the built relay with real servers.

mod case;
mod lane;
mod records;
mod run;
mod verdict;

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use case::{Base, Case};
use lane::Lane;
use run::Seen;
use verdict::{Tables, Verdict, judge};

/// A family, or FAMILY/NAME, or several with commas: the others are not run.
const CASES: &str = "OUTBOXD_CASES";
/// Writes down what is seen, for cases that halt and for those in the table of differences.
const WRITE: &str = "OUTBOXD_WRITE_GOLDEN";
const LANES: &str = "OUTBOXD_LANES";
const DEFAULT_LANES: usize = 3;

struct Finished {
    case: Case,
    seen: Result<Seen, String>,
    took: Duration,
}

#[test]
fn every_recorded_case_is_the_same_or_stands_in_the_tables() {
    let wanted = std::env::var(CASES).unwrap_or_default();
    let cases: VecDeque<Case> = case::all()
        .into_iter()
        .filter(|case| is_wanted(&wanted, &case.name))
        .collect();
    assert!(!cases.is_empty(), "{CASES}={wanted} names no case");
    let lanes = std::env::var(LANES).map_or(DEFAULT_LANES, |text| text.parse().unwrap());
    let begun = Instant::now();
    let mut finished = run_all(cases, lanes);
    finished.sort_by(|a, b| a.case.name.cmp(&b.case.name));

    let mut tables = Tables::read();
    if std::env::var_os(WRITE).is_some() {
        for Finished { case, seen, .. } in &finished {
            if let Ok(seen) = seen {
                tables.learn(case, seen);
            }
        }
        tables.write();
    }
    if wanted.is_empty() {
        assert_no_stale_entries(&tables, &finished);
    }
    let counts = report(&tables, &finished);
    say(&format!("conformance: {counts} in {:.0?}", begun.elapsed()));
    assert_eq!(counts.failed(), 0, "{counts}");
}

fn is_wanted(wanted: &str, name: &str) -> bool {
    wanted.is_empty()
        || wanted.split(',').any(|wanted| {
            wanted == name
                || name
                    .split_once('/')
                    .is_some_and(|(family, _)| family == wanted)
        })
}

fn run_all(cases: VecDeque<Case>, lanes: usize) -> Vec<Finished> {
    let base = Arc::new(case::base());
    let queue = Arc::new(Mutex::new(cases));
    let lanes: Vec<_> = (0..lanes)
        .map(|_| {
            let (base, queue) = (Arc::clone(&base), Arc::clone(&queue));
            std::thread::spawn(move || run_lane(&base, &queue))
        })
        .collect();
    lanes
        .into_iter()
        .flat_map(|lane| lane.join().expect("a lane ends"))
        .collect()
}

fn run_lane(base: &Base, queue: &Mutex<VecDeque<Case>>) -> Vec<Finished> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let lane = runtime.block_on(Lane::start());
    let mut finished = Vec::new();
    loop {
        let Some(case) = queue.lock().unwrap().pop_front() else {
            return finished;
        };
        let begun = Instant::now();
        let run = || runtime.block_on(run::run(&lane, base, &case));
        let seen = catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            text.unwrap_or_else(|| "a panic without words".to_owned())
        });
        let took = begun.elapsed();
        finished.push(Finished { case, seen, took });
    }
}

#[derive(Default)]
struct Counts(BTreeMap<Verdict, usize>);

impl Counts {
    fn of(&self, verdict: Verdict) -> usize {
        self.0.get(&verdict).copied().unwrap_or(0)
    }

    fn failed(&self) -> usize {
        self.of(Verdict::Failed)
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} cases: {} the same, {} halted alike, {} better on purpose, {} open, {} FAILED",
            self.0.values().sum::<usize>(),
            self.of(Verdict::Same),
            self.of(Verdict::HaltedAlike),
            self.of(Verdict::Better),
            self.of(Verdict::Open),
            self.failed(),
        )
    }
}

fn report(tables: &Tables, finished: &[Finished]) -> Counts {
    let mut counts = Counts::default();
    for Finished { case, seen, took } in finished {
        let (verdict, text) = judge(tables, case, seen);
        *counts.0.entry(verdict).or_default() += 1;
        match verdict {
            Verdict::Failed => say(&format!(
                "FAILED {name} ({took:.1?})\n{text}\n{said}alone: OUTBOXD_TEST_CACHE=$(scripts/fetch-servers) {CASES}={name} cargo test --profile checked --test live conformance\n",
                name = case.name,
                said = said(seen),
            )),
            Verdict::Open => say(&format!("open {}: {}", case.name, tables.open[&case.name])),
            _ if *took > Duration::from_secs(15) => say(&format!("slow {}: {took:.1?}", case.name)),
            _ => {}
        }
    }
    counts
}

/// Also where the test passes, so not through what the harness captures.
fn say(line: &str) {
    writeln!(std::io::stdout().lock(), "{line}").unwrap();
}

/// Warnings and errors of the relay.
fn said(seen: &Result<Seen, String>) -> String {
    let Ok(seen) = seen else {
        return String::new();
    };
    let lines = seen.log.iter().filter(|line| !line.contains("\"INFO\""));
    lines.map(|line| format!("  | {line}\n")).collect()
}

fn assert_no_stale_entries(tables: &Tables, finished: &[Finished]) {
    let known = |name: &&String| finished.iter().any(|done| done.case.name == **name);
    let unknown: Vec<_> = tables.names().filter(|name| !known(name)).collect();
    assert!(unknown.is_empty(), "no such cases: {unknown:?}");
}
