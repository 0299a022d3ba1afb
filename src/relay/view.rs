//! What the relay shows: state, problem, metrics and one log line per change of state.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::RelayError;
use super::opening::TAKEOVERS;
use crate::kafka::DeliveryError;
use crate::observe::{Metrics, Problem, Role, State, Status, begin_at_zero};
use crate::router::{DropReason, Note, RouteError};

/// Cheap to clone; every part of the relay narrates through one.
#[derive(Clone, Debug)]
pub struct View {
    pub metrics: Metrics,
    pub status: Status,
    phase: Arc<Mutex<Phase>>,
}

/// A row's label among the reasons of [`Metrics::records_failed`].
pub(super) const UNROUTABLE: &str = "unroutable";

/// What can stand in the way. Of several, the first one shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Obstacle {
    /// Something on the server that somebody has to mend, or to decide on.
    Source,
    /// A row that cannot be routed.
    Row,
    /// A record that was not delivered.
    Delivery,
    /// No broker can be reached.
    Brokers,
    /// The same, seen where only the position journal has something to write.
    BrokersOfJournal,
    /// The position journal is not written.
    Journal,
}

impl Obstacle {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Row => "row",
            Self::Delivery => "delivery",
            Self::Brokers | Self::BrokersOfJournal => "brokers",
            Self::Journal => "journal",
        }
    }
}

/// Obstacles lie over whatever the relay is doing, and leave that visible again when they are over.
#[derive(Debug)]
struct Phase {
    doing: State,
    /// Why there is no session, beside the obstacles.
    problem: Option<Problem>,
    obstacles: BTreeMap<Obstacle, Problem>,
}

impl Phase {
    fn state(&self) -> State {
        match self.doing {
            // The end shows, whatever stands in its way.
            State::Stopping | State::Lost => self.doing,
            _ if !self.obstacles.is_empty() => State::Blocked,
            doing => doing,
        }
    }

    fn problem(&self) -> Option<&Problem> {
        match self.doing {
            State::Lost => self.problem.as_ref(),
            _ => self.obstacles.values().next().or(self.problem.as_ref()),
        }
    }
}

impl View {
    pub fn new(metrics: Metrics, status: Status) -> Self {
        let reasons = DeliveryError::REASONS.into_iter().chain([UNROUTABLE]);
        begin_at_zero(&metrics.records_failed, reasons);
        begin_at_zero(
            &metrics.rows_dropped,
            DropReason::ALL.map(DropReason::as_str),
        );
        let dead_letters = RouteError::REASONS
            .into_iter()
            .chain(DeliveryError::OF_RECORDS);
        begin_at_zero(&metrics.records_dead_lettered, dead_letters);
        begin_at_zero(&metrics.row_notes, Note::ALL.map(Note::as_str));
        begin_at_zero(&metrics.reconnects, RelayError::REASONS);
        begin_at_zero(&metrics.takeovers, TAKEOVERS);
        let phase = Phase {
            doing: State::Starting,
            problem: None,
            obstacles: BTreeMap::new(),
        };
        Self {
            metrics,
            status,
            phase: Arc::new(Mutex::new(phase)),
        }
    }

    pub fn set_state(&self, state: State) {
        self.change(|phase| phase.doing = state);
    }

    pub(super) fn set_role(&self, role: Role) {
        self.status.set_role(role);
        self.metrics.set_role(role);
    }

    /// What keeps a session from being there.
    pub(super) fn set_problem(&self, problem: Option<Problem>) {
        self.change(|phase| phase.problem = problem);
    }

    pub(super) fn block(&self, obstacle: Obstacle, problem: Problem) {
        self.change(|phase| drop(phase.obstacles.insert(obstacle, problem)));
    }

    /// The obstacle is gone, where it was there; others keep blocking.
    pub(super) fn unblock(&self, obstacle: Obstacle) {
        let was_there = self.change(|phase| phase.obstacles.remove(&obstacle).is_some());
        if was_there && matches!(obstacle, Obstacle::Delivery | Obstacle::Brokers) {
            tracing::info!("recovered: records are delivered again");
        }
    }

    /// `unsaid`: how often it was left out of the log since the last time.
    pub(super) fn report(&self, problem: &Problem, unsaid: u64) {
        tracing::error!(
            detail = problem.detail.as_deref(),
            hint = problem.hint.as_deref(),
            repeated = unsaid,
            "{}",
            problem.message
        );
    }

    /// The one place where what is known becomes what shows.
    fn change<T>(&self, change: impl FnOnce(&mut Phase) -> T) -> T {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut phase);
        let (state, now) = (phase.state(), SystemTime::now());
        let stands = |name: &str| phase.obstacles.keys().any(|known| known.as_str() == name);
        self.metrics.blocked.set_all(stands);
        let problem = phase.problem().cloned();
        if self.status.set_state(state, problem, now) {
            self.metrics.set_state(state);
            tracing::info!(state = state.as_str(), "state changed");
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        let status = Status::new("n", "s", "p", SystemTime::UNIX_EPOCH);
        View::new(Metrics::new().unwrap(), status)
    }

    fn problem(message: &str) -> Problem {
        Problem {
            message: message.into(),
            detail: None,
            hint: None,
        }
    }

    fn shown(view: &View) -> (State, Option<String>) {
        let message = view.status.problem().map(|problem| problem.message);
        (view.status.state(), message)
    }

    #[test]
    fn what_goes_on_under_an_obstacle_shows_again_when_it_is_over() {
        let view = view();
        view.set_state(State::Snapshotting);
        view.block(Obstacle::Delivery, problem("topic"));
        view.set_state(State::Starting);
        view.set_problem(Some(problem("server away")));
        assert_eq!(shown(&view), (State::Blocked, Some("topic".into())));
        view.unblock(Obstacle::Delivery);
        assert_eq!(shown(&view), (State::Starting, Some("server away".into())));
        view.set_state(State::Streaming);
        view.set_problem(None);
        assert_eq!(shown(&view), (State::Streaming, None));
    }

    #[test]
    fn the_end_of_one_obstacle_does_not_end_another() {
        let view = view();
        view.set_state(State::Streaming);
        view.block(Obstacle::Brokers, problem("brokers"));
        view.block(Obstacle::Delivery, problem("topic"));
        view.block(Obstacle::Row, problem("row"));
        assert_eq!(shown(&view), (State::Blocked, Some("row".into())));
        let text = String::from_utf8(view.metrics.render().unwrap()).unwrap();
        let blocked: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("outboxd_blocked{reason="))
            .collect();
        let expected = [
            "\"brokers\"} 1",
            "\"delivery\"} 1",
            "\"journal\"} 0",
            "\"row\"} 1",
            "\"source\"} 0",
        ];
        assert_eq!(blocked, expected);
        view.unblock(Obstacle::Delivery);
        assert_eq!(shown(&view), (State::Blocked, Some("row".into())));
        view.unblock(Obstacle::Row);
        assert_eq!(shown(&view), (State::Blocked, Some("brokers".into())));
        view.unblock(Obstacle::Brokers);
        assert_eq!(shown(&view), (State::Streaming, None));
    }

    #[test]
    fn a_lost_slot_and_the_end_show_through_every_obstacle() {
        let view = view();
        view.block(Obstacle::Delivery, problem("topic"));
        view.set_problem(Some(problem("lost")));
        view.set_state(State::Lost);
        assert_eq!(shown(&view), (State::Lost, Some("lost".into())));
        view.set_state(State::Stopping);
        assert_eq!(shown(&view), (State::Stopping, Some("topic".into())));
    }
}
