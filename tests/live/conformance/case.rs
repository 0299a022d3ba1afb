//! The recorded cases: what was done, and what Debezium made of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

pub(super) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/conformance")
}

/// What a case is laid over.
#[derive(Deserialize)]
pub(super) struct Base {
    pub(super) setup: String,
    pub(super) connector: Map<String, Value>,
    pub(super) worker: Map<String, Value>,
}

pub(super) struct Case {
    /// FAMILY/NAME.
    pub(super) name: String,
    pub(super) done: Done,
    pub(super) expect: Expect,
}

impl Case {
    /// The answers to questions of our own were recorded whole.
    pub(super) fn long_bytes(&self) -> usize {
        if self.name.starts_with("asked/") {
            usize::MAX
        } else {
            2000
        }
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Done {
    #[serde(rename = "about")]
    _about: String,
    #[serde(default = "yes")]
    pub(super) base_table: bool,
    #[serde(default)]
    pub(super) setup: OneOrMany,
    #[serde(default)]
    pub(super) topics: Vec<Topic>,
    #[serde(default)]
    pub(super) connector: Map<String, Value>,
    #[serde(default)]
    pub(super) steps: Vec<Step>,
    #[serde(default)]
    pub(super) hold_slot: bool,
    /// It never streams.
    #[serde(default)]
    pub(super) no_stream: bool,
    #[serde(default)]
    pub(super) ignore_topics: Vec<String>,
    /// Only these fields of each record were kept.
    pub(super) compact: Option<Vec<String>>,
    #[serde(default)]
    pub(super) query: Vec<String>,
    /// A query for a moment in milliseconds: the age of each record is counted from it.
    pub(super) record_age_from: Option<String>,
    /// How long Debezium was waited for; the relay says itself when it is done.
    #[serde(rename = "wait")]
    _wait: Option<Value>,
    /// It may not stream, which the relay says itself.
    #[serde(rename = "no_stream_ok")]
    _no_stream_ok: Option<bool>,
    #[serde(rename = "settle")]
    _settle: Option<Value>,
    #[serde(rename = "linger")]
    _linger: Option<Value>,
    #[serde(rename = "may_stall")]
    _may_stall: Option<Value>,
    #[serde(rename = "varies")]
    _varies: Option<String>,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Default, Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(super) fn statements(&self) -> &[String] {
        match self {
            Self::None => &[],
            Self::One(statement) => std::slice::from_ref(statement),
            Self::Many(statements) => statements,
        }
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Topic {
    pub(super) name: String,
    #[serde(default = "one")]
    pub(super) partitions: i32,
}

fn one() -> i32 {
    1
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Step {
    /// By itself.
    Statement(String),
    Transaction(Vec<String>),
    Special(Special),
}

#[derive(Clone, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Special {
    Sql {
        sql: String,
        session: Option<String>,
        #[serde(default)]
        may_fail: bool,
    },
    Copy {
        copy: String,
        data: String,
    },
    Sleep {
        sleep: f64,
    },
    WaitSentinel {
        #[serde(rename = "wait_sentinel")]
        _mark: String,
    },
    WaitStreaming {
        #[serde(rename = "wait_streaming")]
        _yes: Value,
    },
    WaitState {
        wait_state: String,
    },
    Rest {
        rest: (String, String),
    },
    Config {
        config: Map<String, Value>,
    },
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    pub(super) outcome: Outcome,
    #[serde(default)]
    pub(super) records: Vec<Value>,
    /// Topics with more partitions than one.
    #[serde(default)]
    pub(super) partitions: BTreeMap<String, usize>,
    #[serde(default)]
    pub(super) sql_errors: Vec<String>,
    #[serde(default)]
    pub(super) queries: Map<String, Value>,
    /// Records of each topic, which the records say as well.
    #[serde(rename = "topics")]
    _topics: Option<Value>,
    #[serde(rename = "varies")]
    _varies: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Published,
    Failed,
    Stalled,
    Refused,
}

pub(super) fn base() -> Base {
    serde_json::from_str(&fs::read_to_string(data().join("base.json")).unwrap()).unwrap()
}

/// Every case of every family, by name.
pub(super) fn all() -> Vec<Case> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Recorded {
        case: Done,
        expect: Expect,
    }
    let mut cases = Vec::new();
    for file in fs::read_dir(data().join("recorded")).unwrap() {
        let path = file.unwrap().path();
        let family = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let recorded: BTreeMap<String, Recorded> = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for (name, Recorded { case, expect }) in recorded {
            cases.push(Case {
                name: format!("{family}/{name}"),
                done: case,
                expect,
            });
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}
