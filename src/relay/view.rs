//! What the relay shows: state, problem, metrics and one log line per change of state.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::observe::{Metrics, Problem, State, Status};

/// Cheap to clone; every part of the relay narrates through one.
#[derive(Clone, Debug)]
pub struct View {
    pub metrics: Metrics,
    pub status: Status,
    phase: Arc<Mutex<Phase>>,
}

/// `blocked` lies over whatever the relay is doing, and leaves that visible again when it is over.
#[derive(Debug)]
struct Phase {
    doing: State,
    blocked: bool,
}

impl View {
    pub fn new(metrics: Metrics, status: Status) -> Self {
        let phase = Phase {
            doing: State::Starting,
            blocked: false,
        };
        Self {
            metrics,
            status,
            phase: Arc::new(Mutex::new(phase)),
        }
    }

    pub fn set_state(&self, state: State) {
        let mut phase = self.phase();
        phase.doing = state;
        // The end of the process shows, whatever stood in its way.
        if !phase.blocked || state == State::Stopping {
            self.show(state);
        }
    }

    /// `unsaid`: how often it was left out of the log since the last time.
    pub(super) fn block(&self, problem: &Problem, unsaid: u64) {
        self.report(problem, unsaid);
        self.keep_blocked(problem);
    }

    pub(super) fn keep_blocked(&self, problem: &Problem) {
        if self.status.state() == State::Stopping {
            return;
        }
        self.status
            .set_problem(Some(problem.clone()), SystemTime::now());
        self.phase().blocked = true;
        self.show(State::Blocked);
    }

    /// What was blocked goes on.
    pub(super) fn unblock(&self) {
        let mut phase = self.phase();
        phase.blocked = false;
        self.status.set_problem(None, SystemTime::now());
        tracing::info!("recovered: records are delivered again");
        self.show(phase.doing);
    }

    /// A problem beside the blocked one does not hide it.
    pub(super) fn set_problem(&self, problem: Option<Problem>) {
        if !self.phase().blocked {
            self.status.set_problem(problem, SystemTime::now());
        }
    }

    pub(super) fn report(&self, problem: &Problem, unsaid: u64) {
        tracing::error!(
            detail = problem.detail.as_deref(),
            hint = problem.hint.as_deref(),
            repeated = unsaid,
            "{}",
            problem.message
        );
    }

    fn show(&self, state: State) {
        if self.status.set_state(state, SystemTime::now()) {
            self.metrics.set_state(state);
            tracing::info!(state = state.as_str(), "state changed");
        }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_under_a_block_shows_again_when_it_is_over() {
        let status = Status::new("n", "s", "p", SystemTime::UNIX_EPOCH);
        let view = View::new(Metrics::new().unwrap(), status);
        view.set_state(State::Snapshotting);
        let problem = Problem {
            message: "m".into(),
            detail: None,
            hint: None,
        };
        view.block(&problem, 0);
        view.set_state(State::Streaming);
        view.set_problem(None);
        assert_eq!(view.status.state(), State::Blocked);
        assert_eq!(view.status.problem(), Some(problem));
        view.unblock();
        assert_eq!(view.status.state(), State::Streaming);
        assert_eq!(view.status.problem(), None);
    }
}
