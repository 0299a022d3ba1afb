//! What the relay says of itself: one value that every reader copies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::{Serialize, Serializer};
use tokio::sync::Notify;

use super::history::History;
use crate::lsn::Lsn;

/// design: `starting → standby | snapshotting → streaming`, and from any of them the last three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Starting,
    /// Another instance holds the lead.
    Standby,
    Snapshotting,
    Streaming,
    /// A row cannot be routed or a record not be delivered.
    Blocked,
    /// The slot is invalidated or gone.
    Lost,
    Stopping,
}

impl State {
    pub const ALL: [Self; 7] = [
        Self::Starting,
        Self::Standby,
        Self::Snapshotting,
        Self::Streaming,
        Self::Blocked,
        Self::Lost,
        Self::Stopping,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Standby => "standby",
            Self::Snapshotting => "snapshotting",
            Self::Streaming => "streaming",
            Self::Blocked => "blocked",
            Self::Lost => "lost",
            Self::Stopping => "stopping",
        }
    }

    /// Events flow.
    pub const fn is_ready(self) -> bool {
        matches!(self, Self::Snapshotting | Self::Streaming)
    }
}

/// Which part this instance has among those of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// No session with the server.
    #[default]
    None,
    /// Waits for the lead.
    Standby,
    Leader,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::None, Self::Standby, Self::Leader];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Standby => "standby",
            Self::Leader => "leader",
        }
    }
}

/// An error in the form of PostgreSQL's manual.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

impl Problem {
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            detail: None,
            hint: None,
        }
    }

    /// With every text in other words.
    #[must_use]
    pub fn reworded(self, words: impl Fn(&str) -> String) -> Self {
        Self {
            message: words(&self.message),
            detail: self.detail.as_deref().map(&words),
            hint: self.hint.as_deref().map(&words),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Positions {
    #[serde(serialize_with = "as_text")]
    pub received_lsn: Lsn,
    /// Kafka has acknowledged everything before it.
    #[serde(serialize_with = "as_text")]
    pub published_lsn: Lsn,
    /// The last one that was sent to the server.
    #[serde(serialize_with = "as_text")]
    pub confirmed_lsn: Lsn,
    pub in_flight_records: usize,
    pub in_flight_bytes: usize,
    /// Age of the oldest commit that is not confirmed; 0 when caught up.
    pub lag_seconds: f64,
    /// Acknowledged by Kafka, and everything before them.
    pub records_published: u64,
    /// Of these, in the dead-letter topic.
    pub records_dead_lettered: u64,
    pub transactions: u64,
    pub kafka_reachable: bool,
}

/// The slot as the server sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SlotFacts {
    pub active: bool,
    pub wal_status: Option<String>,
    pub invalidation_reason: Option<String>,
    pub retained_bytes: Option<i64>,
    pub confirmed_lag_bytes: Option<i64>,
    pub safe_wal_bytes: Option<i64>,
    /// The next two are of PostgreSQL 17 and later.
    pub failover: Option<bool>,
    pub synced: Option<bool>,
}

/// What deletes retained rows whose time is over, where that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Housekeeping {
    /// When no such row was left.
    #[serde(serialize_with = "as_rfc3339_if_any")]
    pub completed_at: Option<SystemTime>,
    /// It deletes nothing before the next start.
    pub rests: bool,
    pub error: Option<Problem>,
}

/// One effective setting; secrets are masked before they come here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownSetting {
    pub key: String,
    pub value: String,
    pub origin: String,
}

/// Shared between the relay, which writes, and the HTTP server, which reads.
#[derive(Clone, Debug)]
pub struct Status {
    inner: Arc<Mutex<Inner>>,
    /// Wakes whoever tells others of state and role.
    news: Arc<Notify>,
}

#[derive(Debug)]
struct Inner {
    shown: Shown,
    history: History,
    settings: Vec<ShownSetting>,
}

/// `/status`
#[derive(Debug, Serialize)]
struct Shown {
    name: String,
    version: &'static str,
    state: State,
    #[serde(serialize_with = "as_rfc3339")]
    state_since: SystemTime,
    role: Role,
    slot: String,
    publication: String,
    error: Option<Problem>,
    #[serde(serialize_with = "as_rfc3339_if_any")]
    error_since: Option<SystemTime>,
    #[serde(flatten)]
    positions: Positions,
    slot_facts: Option<SlotFacts>,
    /// `None`: rows are to stay.
    housekeeping: Option<Housekeeping>,
}

/// `/details`
#[derive(Serialize)]
struct Details<'a> {
    #[serde(flatten)]
    history: &'a History,
    topics: Vec<TopicCount>,
    settings: &'a [ShownSetting],
}

#[derive(Serialize)]
struct TopicCount {
    topic: String,
    records: u64,
}

impl Status {
    pub fn new(name: &str, slot: &str, publication: &str, now: SystemTime) -> Self {
        let inner = Inner {
            shown: Shown {
                name: name.to_owned(),
                version: env!("CARGO_PKG_VERSION"),
                state: State::Starting,
                state_since: now,
                role: Role::None,
                slot: slot.to_owned(),
                publication: publication.to_owned(),
                error: None,
                error_since: None,
                positions: Positions::default(),
                slot_facts: None,
                housekeeping: None,
            },
            history: History::new(now),
            settings: Vec::new(),
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
            news: Arc::new(Notify::new()),
        }
    }

    /// The state, and what stands in the way. True when the state is another one than before. The
    /// first problem after none begins the time; another one in between does not.
    pub fn set_state(&self, state: State, problem: Option<Problem>, now: SystemTime) -> bool {
        let mut inner = self.lock();
        let shown = &mut inner.shown;
        let changed = shown.state != state;
        let is_new = changed || shown.error != problem;
        if changed {
            shown.state = state;
            shown.state_since = now;
        }
        shown.error_since = match problem {
            Some(_) => shown.error_since.or(Some(now)),
            None => None,
        };
        if is_new {
            inner.history.note(state, problem.as_ref(), now);
        }
        inner.shown.error = problem;
        drop(inner);
        self.news.notify_one();
        changed
    }

    pub fn state(&self) -> State {
        self.lock().shown.state
    }

    pub fn problem(&self) -> Option<Problem> {
        self.lock().shown.error.clone()
    }

    pub fn set_role(&self, role: Role) {
        self.lock().shown.role = role;
        self.news.notify_one();
    }

    pub fn role(&self) -> Role {
        self.lock().shown.role
    }

    /// Waits until state or role were set. One caller waits at a time.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    pub fn set_positions(&self, positions: Positions, now: SystemTime) {
        let mut inner = self.lock();
        inner.history.measure(positions.lag_seconds, now);
        inner.shown.positions = positions;
    }

    /// `None`: there is no such slot.
    pub fn set_slot_facts(&self, facts: Option<SlotFacts>) {
        self.lock().shown.slot_facts = facts;
    }

    pub fn change_housekeeping(&self, change: impl FnOnce(&mut Housekeeping)) {
        let mut inner = self.lock();
        let housekeeping = inner.shown.housekeeping.get_or_insert(Housekeeping {
            completed_at: None,
            rests: false,
            error: None,
        });
        change(housekeeping);
    }

    pub fn set_settings(&self, settings: Vec<ShownSetting>) {
        self.lock().settings = settings;
    }

    /// What counts now, for people at a terminal too.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&self.lock().shown)
    }

    /// What is only for the page: what was, what was published by topic, what is configured.
    pub(super) fn details(&self, topics: Vec<(String, u64)>) -> serde_json::Result<String> {
        let inner = self.lock();
        let topics = topics
            .into_iter()
            .map(|(topic, records)| TopicCount { topic, records });
        serde_json::to_string(&Details {
            history: &inner.history,
            topics: topics.collect(),
            settings: &inner.settings,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn as_text<S: Serializer>(lsn: &Lsn, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(lsn)
}

pub(super) fn as_rfc3339<S: Serializer>(
    time: &SystemTime,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    // humantime has no word for times before 1970.
    let time = (*time).max(SystemTime::UNIX_EPOCH);
    serializer.collect_str(&humantime::format_rfc3339_seconds(time))
}

fn as_rfc3339_if_any<S: Serializer>(
    time: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => as_rfc3339(time, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn problem(message: &str) -> Problem {
        Problem {
            message: message.to_owned(),
            detail: None,
            hint: Some("do this".to_owned()),
        }
    }

    #[test]
    fn the_json_has_state_error_positions_and_slot() {
        let status = Status::new("shop", "outboxd", "pub", at(1));
        assert!(status.set_state(State::Blocked, Some(problem("one")), at(2)));
        assert!(!status.set_state(State::Blocked, Some(problem("<b>two</b>")), at(3)));
        status.set_role(Role::Leader);
        let positions = Positions {
            received_lsn: Lsn::new(0x1_0000_00FF),
            lag_seconds: 1.5,
            in_flight_records: 2,
            ..Positions::default()
        };
        status.set_positions(positions, at(4));
        status.set_slot_facts(Some(SlotFacts {
            active: true,
            wal_status: Some("reserved".to_owned()),
            retained_bytes: Some(10),
            failover: Some(true),
            ..SlotFacts::default()
        }));
        status.change_housekeeping(|housekeeping| housekeeping.rests = true);
        let found: Value = serde_json::from_str(&status.to_json().unwrap()).unwrap();
        let expected = json!({
            "name": "shop",
            "version": env!("CARGO_PKG_VERSION"),
            "state": "blocked",
            "state_since": "1970-01-01T00:00:02Z",
            "role": "leader",
            "slot": "outboxd",
            "publication": "pub",
            "error": { "message": "<b>two</b>", "detail": null, "hint": "do this" },
            "error_since": "1970-01-01T00:00:02Z",
            "received_lsn": "1/FF",
            "published_lsn": "0/0",
            "confirmed_lsn": "0/0",
            "in_flight_records": 2,
            "in_flight_bytes": 0,
            "lag_seconds": 1.5,
            "records_published": 0,
            "records_dead_lettered": 0,
            "transactions": 0,
            "kafka_reachable": false,
            "slot_facts": {
                "active": true,
                "wal_status": "reserved",
                "invalidation_reason": null,
                "retained_bytes": 10,
                "confirmed_lag_bytes": null,
                "safe_wal_bytes": null,
                "failover": true,
                "synced": null
            },
            "housekeeping": { "completed_at": null, "rests": true, "error": null }
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn the_details_have_the_lag_what_happened_the_topics_and_the_settings() {
        let status = Status::new("shop", "outboxd", "pub", at(1));
        status.set_state(State::Blocked, Some(problem("one")), at(2));
        let positions = Positions {
            lag_seconds: 1.5,
            ..Positions::default()
        };
        status.set_positions(positions, at(4));
        let setting = ShownSetting {
            key: "name".to_owned(),
            value: "shop".to_owned(),
            origin: "default".to_owned(),
        };
        status.set_settings(vec![setting]);
        let json = status.details(vec![("t".to_owned(), 3)]).unwrap();
        let happened = |at: &str, state: &str, error: Value| json!({ "at": at, "last_at": at, "times": 1, "state": state, "error": error });
        let error = json!({ "message": "one", "detail": null, "hint": "do this" });
        let expected = json!({
            "lag": { "interval_seconds": 10, "until": "1970-01-01T00:00:10Z", "seconds": [1.5] },
            "happened": [
                happened("1970-01-01T00:00:02Z", "blocked", error),
                happened("1970-01-01T00:00:01Z", "starting", Value::Null),
            ],
            "topics": [{ "topic": "t", "records": 3 }],
            "settings": [{ "key": "name", "value": "shop", "origin": "default" }],
        });
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), expected);
    }

    #[test]
    fn a_problem_that_is_over_is_not_shown() {
        let status = Status::new("shop", "outboxd", "pub", at(1));
        status.set_state(State::Starting, Some(problem("one")), at(4));
        status.set_state(State::Starting, None, at(5));
        assert_eq!(status.problem(), None);
        status.set_state(State::Starting, Some(problem("two")), at(6));
        assert_eq!(status.lock().shown.error_since, Some(at(6)));
    }
}
