//! What the relay says of itself: one value that every reader copies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::{Serialize, Serializer};

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

/// An error in the form of PostgreSQL's manual.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Positions {
    #[serde(serialize_with = "as_text")]
    pub received_lsn: Lsn,
    #[serde(serialize_with = "as_text")]
    pub confirmed_lsn: Lsn,
    pub in_flight_records: usize,
    pub in_flight_bytes: usize,
    /// Age of the oldest commit that is not confirmed; 0 when caught up.
    pub lag_seconds: f64,
    pub records_published: u64,
    pub transactions: u64,
}

/// The slot as the server sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SlotFacts {
    pub active: bool,
    pub wal_status: Option<String>,
    pub retained_bytes: Option<i64>,
    pub confirmed_lag_bytes: Option<i64>,
    pub safe_wal_bytes: Option<i64>,
}

/// Shared between the relay, which writes, and the HTTP server, which reads.
#[derive(Clone, Debug)]
pub struct Status(Arc<Mutex<Inner>>);

#[derive(Clone, Debug, Serialize)]
struct Inner {
    name: String,
    version: &'static str,
    state: State,
    #[serde(serialize_with = "as_unix_seconds")]
    state_since: SystemTime,
    slot: String,
    publication: String,
    error: Option<Problem>,
    #[serde(serialize_with = "as_unix_seconds_if_any")]
    error_since: Option<SystemTime>,
    #[serde(flatten)]
    positions: Positions,
    slot_facts: Option<SlotFacts>,
}

impl Status {
    pub fn new(name: &str, slot: &str, publication: &str, now: SystemTime) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            name: name.to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            state: State::Starting,
            state_since: now,
            slot: slot.to_owned(),
            publication: publication.to_owned(),
            error: None,
            error_since: None,
            positions: Positions::default(),
            slot_facts: None,
        })))
    }

    /// True when the state is another one than before.
    pub fn set_state(&self, state: State, now: SystemTime) -> bool {
        let mut inner = self.lock();
        let changed = inner.state != state;
        if changed {
            inner.state = state;
            inner.state_since = now;
        }
        changed
    }

    pub fn state(&self) -> State {
        self.lock().state
    }

    /// The first problem after none begins the time; another one in between does not.
    pub fn set_problem(&self, problem: Option<Problem>, now: SystemTime) {
        let mut inner = self.lock();
        inner.error_since = match problem {
            Some(_) => inner.error_since.or(Some(now)),
            None => None,
        };
        inner.error = problem;
    }

    pub fn problem(&self) -> Option<Problem> {
        self.lock().error.clone()
    }

    pub fn set_positions(&self, positions: Positions) {
        self.lock().positions = positions;
    }

    /// `None`: there is no such slot.
    pub fn set_slot_facts(&self, facts: Option<SlotFacts>) {
        self.lock().slot_facts = facts;
    }

    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&*self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn as_text<S: Serializer>(lsn: &Lsn, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(lsn)
}

fn as_unix_seconds<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let seconds = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    serializer.serialize_u64(seconds)
}

fn as_unix_seconds_if_any<S: Serializer>(
    time: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => as_unix_seconds(time, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

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
        assert!(status.set_state(State::Blocked, at(2)));
        assert!(!status.set_state(State::Blocked, at(3)));
        status.set_problem(Some(problem("one")), at(4));
        status.set_problem(Some(problem("<b>two</b>")), at(5));
        status.set_positions(Positions {
            received_lsn: Lsn::new(0x1_0000_00FF),
            lag_seconds: 1.5,
            in_flight_records: 2,
            ..Positions::default()
        });
        status.set_slot_facts(Some(SlotFacts {
            active: true,
            wal_status: Some("reserved".to_owned()),
            retained_bytes: Some(10),
            ..SlotFacts::default()
        }));
        let found: serde_json::Value = serde_json::from_str(&status.to_json().unwrap()).unwrap();
        let expected = json!({
            "name": "shop",
            "version": env!("CARGO_PKG_VERSION"),
            "state": "blocked",
            "state_since": 2,
            "slot": "outboxd",
            "publication": "pub",
            "error": { "message": "<b>two</b>", "detail": null, "hint": "do this" },
            "error_since": 4,
            "received_lsn": "1/FF",
            "confirmed_lsn": "0/0",
            "in_flight_records": 2,
            "in_flight_bytes": 0,
            "lag_seconds": 1.5,
            "records_published": 0,
            "transactions": 0,
            "slot_facts": {
                "active": true,
                "wal_status": "reserved",
                "retained_bytes": 10,
                "confirmed_lag_bytes": null,
                "safe_wal_bytes": null
            }
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn a_problem_that_is_over_is_not_shown() {
        let status = Status::new("shop", "outboxd", "pub", at(1));
        status.set_problem(Some(problem("one")), at(4));
        status.set_problem(None, at(5));
        assert_eq!(status.problem(), None);
        status.set_problem(Some(problem("two")), at(6));
        assert_eq!(status.lock().error_since, Some(at(6)));
    }
}
