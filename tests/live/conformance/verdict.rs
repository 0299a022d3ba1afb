//! What outboxd made of a case against what Debezium made of it, and against the differences that
//! are wanted.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::case::{Case, Outcome, data};
use super::run::{End, Seen};

/// Wanted differences by name, with the cases that show each. The words are in the code's table.
pub(super) type Differences = BTreeMap<String, Difference>;
/// How outboxd says that it halts where Debezium's task fails, by case.
pub(super) type Halts = BTreeMap<String, Halt>;
/// Cases that are not right yet, with what is missing.
pub(super) type Open = BTreeMap<String, String>;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Difference {
    /// Everything that outboxd makes of each case that shows it.
    cases: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Halt {
    pub(super) how: String,
    pub(super) message: String,
}

pub(super) struct Tables {
    pub(super) differences: Differences,
    pub(super) halts: Halts,
    pub(super) open: Open,
}

const DIFFERENCES: &str = "differences.json";
const HALTS: &str = "halts.json";

impl Tables {
    pub(super) fn read() -> Self {
        Self {
            differences: read(DIFFERENCES),
            halts: read(HALTS),
            open: read("open.json"),
        }
    }

    pub(super) fn write(&self) {
        write(DIFFERENCES, &self.differences);
        write(HALTS, &self.halts);
    }

    /// Takes over what was seen, where it was asked to be written down.
    pub(super) fn learn(&mut self, case: &Case, seen: &Seen) {
        let differs = self.wanted_mut(&case.name);
        if let Some(wanted) = differs {
            *wanted = described(seen);
        }
        let halts = case.expect.outcome != Outcome::Published && self.wanted(&case.name).is_none();
        match &seen.end {
            End::Halted { how, message } if halts => {
                let halt = Halt {
                    how: how.clone(),
                    message: message.clone(),
                };
                self.halts.insert(case.name.clone(), halt);
            }
            _ => drop(self.halts.remove(&case.name)),
        }
    }
}

impl Tables {
    /// What a wanted difference makes of a case.
    pub(super) fn wanted(&self, case: &str) -> Option<&Value> {
        let mut differences = self.differences.values();
        differences.find_map(|difference| difference.cases.get(case))
    }

    fn wanted_mut(&mut self, case: &str) -> Option<&mut Value> {
        let mut differences = self.differences.values_mut();
        differences.find_map(|difference| difference.cases.get_mut(case))
    }

    /// Every case that is named.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        let differences = self.differences.values();
        let different = differences.flat_map(|difference| difference.cases.keys());
        different.chain(self.halts.keys()).chain(self.open.keys())
    }
}

fn read<T: for<'a> Deserialize<'a>>(file: &str) -> T {
    let text = fs::read_to_string(data().join(file)).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn write(file: &str, value: &impl Serialize) {
    let text = serde_json::to_string_pretty(value).unwrap() + "\n";
    fs::write(data().join(file), text).unwrap();
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// The same records.
    Same,
    /// The same records before, and halted where Debezium's task fails.
    HaltedAlike,
    /// As the table of differences says.
    Better,
    /// Known not to be right yet.
    Open,
    Failed,
}

/// With what is wrong, where something is.
pub(super) fn judge(
    tables: &Tables,
    case: &Case,
    seen: &Result<Seen, String>,
) -> (Verdict, String) {
    let faults = match seen {
        Ok(seen) => faults(tables, case, seen),
        Err(panic) => vec![panic.clone()],
    };
    match (faults.is_empty(), tables.open.contains_key(&case.name)) {
        (true, true) => (
            Verdict::Failed,
            "it is right: remove it from open.json".to_owned(),
        ),
        (false, true) => (Verdict::Open, faults.join("\n")),
        (false, false) => (Verdict::Failed, faults.join("\n")),
        (true, false) if tables.wanted(&case.name).is_some() => (Verdict::Better, String::new()),
        (true, false) if case.expect.outcome == Outcome::Published => {
            (Verdict::Same, String::new())
        }
        (true, false) => (Verdict::HaltedAlike, String::new()),
    }
}

fn faults(tables: &Tables, case: &Case, seen: &Seen) -> Vec<String> {
    let actual = described(seen);
    if let Some(wanted) = tables.wanted(&case.name) {
        let mut faults = differences(wanted, &actual);
        if faults.is_empty() && actual == recorded(case) {
            faults.push("it is the same: remove it from differences.json".to_owned());
        }
        return faults;
    }
    let mut expected = recorded(case);
    let mut faults = Vec::new();
    if case.expect.outcome != Outcome::Published {
        match tables.halts.get(&case.name) {
            Some(halt) => expected["end"] = json!(halt),
            None => faults.push("no entry in halts.json".to_owned()),
        }
    }
    faults.extend(differences(&expected, &actual));
    faults
}

/// One value for everything that is compared.
fn described(seen: &Seen) -> Value {
    let end = match &seen.end {
        End::Published => json!("published"),
        End::Halted { how, message } => json!({"how": how, "message": message}),
    };
    json!({
        "end": end,
        "records": seen.records,
        "partitions": seen.partitions,
        "sql_errors": seen.sql_errors,
        "queries": seen.queries,
    })
}

fn recorded(case: &Case) -> Value {
    let expect = &case.expect;
    // The class is the recorder's client library's.
    let sql_errors: Vec<_> = expect
        .sql_errors
        .iter()
        .map(|error| error.split_once(": ").map_or(error.as_str(), |(_, m)| m))
        .collect();
    let end = match expect.outcome {
        Outcome::Published => json!("published"),
        outcome => json!(format!("{outcome:?}")),
    };
    json!({
        "end": end,
        "records": expect.records,
        "partitions": expect.partitions,
        "sql_errors": sql_errors,
        "queries": expect.queries,
    })
}

/// Readable lines; none where both are equal.
fn differences(expected: &Value, actual: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let empty = Map::new();
    let (wanted, found) = (
        expected.as_object().unwrap_or(&empty),
        actual.as_object().unwrap_or(&empty),
    );
    for (part, found) in found {
        let wanted = wanted.get(part).unwrap_or(&Value::Null);
        if wanted == found {
            continue;
        }
        match (wanted.as_array(), found.as_array()) {
            (Some(wanted), Some(found)) if part == "records" => {
                records(wanted, found, &mut lines);
            }
            _ => pair(part, wanted, found, &mut lines),
        }
    }
    lines
}

const SHOWN: usize = 3;

fn records(wanted: &[Value], found: &[Value], lines: &mut Vec<String>) {
    if wanted.len() != found.len() {
        lines.push(format!("records: {} - {} +", wanted.len(), found.len()));
    }
    let mut shown = 0;
    for index in 0..wanted.len().max(found.len()) {
        let none = Value::Null;
        let (wanted, found) = (
            wanted.get(index).unwrap_or(&none),
            found.get(index).unwrap_or(&none),
        );
        if wanted == found {
            continue;
        }
        shown += 1;
        if shown > SHOWN {
            lines.push("…".to_owned());
            return;
        }
        match (wanted.as_object(), found.as_object()) {
            (Some(wanted), Some(found)) => {
                for (field, value) in wanted {
                    let other = found.get(field).unwrap_or(&none);
                    if value != other {
                        pair(&format!("record {index} {field}"), value, other, lines);
                    }
                }
            }
            _ => pair(&format!("record {index}"), wanted, found, lines),
        }
    }
}

fn pair(what: &str, wanted: &Value, found: &Value, lines: &mut Vec<String>) {
    // Of long lists (headers) only what differs.
    if let (Some(wanted), Some(found)) = (wanted.as_array(), found.as_array())
        && wanted.len() == found.len()
        && wanted.len() > 2
    {
        for (index, (wanted, found)) in wanted.iter().zip(found).enumerate() {
            if wanted != found {
                lines.push(format!("{what} [{index}]\n  - {wanted}\n  + {found}"));
            }
        }
        return;
    }
    lines.push(format!("{what}\n  - {wanted}\n  + {found}"));
}
