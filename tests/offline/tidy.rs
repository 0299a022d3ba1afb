//! The rules of the house that a compiler does not hold: who may know whom, how long a file may be,
//! what may not be written in one, and that the documents' links lead somewhere.

mod dependencies;
mod documents;
mod sources;

use std::collections::BTreeMap;

use self::sources::{Source, files, production_sources};

/// A room may name these other rooms and nothing else of ours. A room that is missing here has no
/// rule yet and fails; `main`, `lib` and the commands compose and may name all.
const MAY_NAME: [(&str, &[&str]); 19] = [
    ("lsn", &[]),
    ("timestamp", &[]),
    ("secret", &[]),
    ("java", &[]),
    ("reader", &["lsn", "timestamp"]),
    ("wire", &["lsn", "timestamp", "reader"]),
    ("pgoutput", &["lsn", "timestamp", "reader"]),
    ("outbox", &["lsn", "timestamp", "java", "pgoutput"]),
    (
        "router",
        &["lsn", "timestamp", "java", "pgoutput", "outbox"],
    ),
    ("ack", &["lsn", "timestamp", "router"]),
    ("journal", &["lsn"]),
    ("connect", &["lsn", "timestamp", "java", "pgoutput"]),
    (
        "pipeline",
        &[
            "lsn",
            "timestamp",
            "pgoutput",
            "outbox",
            "router",
            "ack",
            "connect",
        ],
    ),
    (
        "postgres",
        &[
            "lsn",
            "timestamp",
            "secret",
            "java",
            "reader",
            "wire",
            "pgoutput",
            "outbox",
        ],
    ),
    ("kafka", &["secret", "router", "ack"]),
    ("observe", &["lsn", "timestamp"]),
    (
        "relay",
        &[
            "lsn",
            "timestamp",
            "java",
            "wire",
            "outbox",
            "router",
            "ack",
            "journal",
            "connect",
            "pipeline",
            "postgres",
            "kafka",
            "observe",
        ],
    ),
    (
        "config",
        &[
            "secret", "java", "postgres", "router", "kafka", "relay", "observe",
        ],
    ),
    ("cli", &["kafka"]),
];

const COMPOSE: [&str; 12] = [
    "shadow",
    "main",
    "lib",
    "redrive",
    "check",
    "errand",
    "setup",
    "slot",
    "snapshot",
    "status",
    "demo",
    "healthcheck",
];

/// A file that names a room it may not, and why.
const NAMED_ALL_THE_SAME: [(&str, &str, &str); 4] = [
    (
        "relay/comparing.rs",
        "config",
        "the relay is started with all of it",
    ),
    (
        "relay/mod.rs",
        "config",
        "the relay is started with all of it",
    ),
    (
        "relay/opening.rs",
        "config",
        "the relay is started with all of it",
    ),
    (
        "relay/health.rs",
        "config",
        "the relay is started with all of it",
    ),
];

/// No socket, clock, thread, file, environment or log line.
const PURE: [&str; 13] = [
    "lsn",
    "timestamp",
    "secret",
    "java",
    "reader",
    "wire",
    "pgoutput",
    "outbox",
    "router",
    "ack",
    "journal",
    "connect",
    "pipeline",
];
const NOT_IN_PURE: [&str; 18] = [
    "tokio",
    "tokio_postgres",
    "tokio_openssl",
    "postgres_openssl",
    "openssl",
    "rdkafka",
    "socket2",
    "hyper",
    "hyper_util",
    "prometheus",
    "tracing",
    "tracing_subscriber",
    "rand",
    "clap",
    "std::net",
    "std::thread",
    "std::fs",
    "std::env",
];
/// Reading a clock; values of these types may be handed in.
const CLOCKS: [&str; 2] = ["Instant::now", "SystemTime::now"];

/// What else a room of the shell leaves to others.
const NOT_IN_SHELL: [(&str, &[&str]); 5] = [
    ("postgres", &["rdkafka", "prometheus", "hyper", "clap"]),
    (
        "kafka",
        &[
            "tokio_postgres",
            "postgres_protocol",
            "prometheus",
            "hyper",
            "clap",
        ],
    ),
    (
        "observe",
        &["rdkafka", "tokio_postgres", "postgres_protocol", "clap"],
    ),
    ("relay", &["rdkafka", "postgres_protocol", "hyper", "clap"]),
    (
        "config",
        &[
            "rdkafka",
            "tokio",
            "tokio_postgres",
            "postgres_protocol",
            "std::net",
        ],
    ),
];

/// Lines of a source file without its tests.
const CEILING_LINES: usize = 500;
/// A file that may be longer, and why.
const LONGER: [(&str, &str); 0] = [];

#[test]
fn rooms_name_only_the_rooms_they_may_know() {
    let table = BTreeMap::from(MAY_NAME);
    let mut faults = Vec::new();
    for source in production_sources() {
        let room = source.room();
        if COMPOSE.contains(&room) {
            continue;
        }
        let Some(allowed) = table.get(room) else {
            faults.push(format!("{}: room {room} has no rule", source.path));
            continue;
        };
        for named in source.named_rooms() {
            let excused = NAMED_ALL_THE_SAME
                .iter()
                .any(|(path, excused, _)| (*path, *excused) == (&source.path, &named));
            if named != room && !allowed.contains(&named.as_str()) && !excused {
                faults.push(format!("{} names {named}", source.path));
            }
        }
        if source.is_top_of_room() && source.names("super") {
            faults.push(format!("{} names the crate by \"super\"", source.path));
        }
    }
    assert_none(&faults);
}

#[test]
fn pure_rooms_touch_nothing_outside() {
    let mut faults = Vec::new();
    for source in production_sources() {
        if PURE.contains(&source.room()) {
            let found = NOT_IN_PURE.iter().filter(|path| source.names(path));
            faults.extend(found.map(|path| format!("{} names {path}", source.path)));
            let read = CLOCKS.iter().filter(|clock| source.code.contains(*clock));
            faults.extend(read.map(|clock| format!("{} calls {clock}", source.path)));
        }
    }
    assert_none(&faults);
}

#[test]
fn rooms_of_the_shell_keep_to_their_own_side() {
    let table = BTreeMap::from(NOT_IN_SHELL);
    let mut faults = Vec::new();
    for source in production_sources() {
        let forbidden = table.get(source.room()).copied().unwrap_or_default();
        let found = forbidden.iter().filter(|path| source.names(path));
        faults.extend(found.map(|path| format!("{} names {path}", source.path)));
    }
    assert_none(&faults);
}

#[test]
fn source_files_stay_below_the_ceiling() {
    let longer = BTreeMap::from(LONGER);
    let faults: Vec<_> = production_sources()
        .iter()
        .filter(|source| source.lines > CEILING_LINES && !longer.contains_key(&*source.path))
        .map(|source| format!("{} has {} lines", source.path, source.lines))
        .collect();
    assert_none(&faults);
}

#[test]
fn nothing_is_unwrapped_outside_tests() {
    let faults: Vec<_> = production_sources()
        .iter()
        .filter(|source| source.code.contains(".unwrap()"))
        .map(|source| source.path.clone())
        .collect();
    assert_none(&faults);
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    // Put together here, or this file would be the first fault.
    let folders = ["work", "home", "root", "Users", "tmp/wt"].map(|name| format!("/{name}/"));
    let mut faults = Vec::new();
    for path in files("") {
        let text = String::from_utf8_lossy(&sources::read(&path)).into_owned();
        for (line, folder) in text
            .lines()
            .flat_map(|line| folders.iter().map(move |f| (line, f)))
        {
            if starts_a_path(line, folder) {
                faults.push(format!("{path}: {line}"));
            }
        }
    }
    assert_none(&faults);
}

/// The folder is the start of a path, and not a part of a longer one or of an address.
fn starts_a_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && !"._-}/".contains(before))
    })
}

#[test]
fn exceptions_are_for_files_that_exist() {
    let sources = production_sources();
    let excused = NAMED_ALL_THE_SAME.map(|(path, ..)| path);
    let longer = LONGER.map(|(path, _)| path);
    let faults: Vec<_> = excused
        .iter()
        .chain(&longer)
        .filter(|path| !sources.iter().any(|source: &Source| source.path == **path))
        .map(|path| format!("{path} is excused and does not exist"))
        .collect();
    assert_none(&faults);
}

fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
