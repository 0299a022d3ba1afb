//! What the relay shows: state, problem, metrics and one log line per change of state.

use std::time::SystemTime;

use crate::observe::{Metrics, Problem, State, Status};

/// Cheap to clone; every part of the relay narrates through one.
#[derive(Clone, Debug)]
pub struct View {
    pub metrics: Metrics,
    pub status: Status,
}

impl View {
    pub fn set_state(&self, state: State) {
        if self.status.set_state(state, SystemTime::now()) {
            self.metrics.set_state(state);
            tracing::info!(state = state.as_str(), "state changed");
        }
    }

    /// `unsaid`: how often it was left out of the log since the last time.
    pub(super) fn block(&self, problem: &Problem, unsaid: u64) {
        self.report(problem, unsaid);
        self.status.set_problem(Some(problem.clone()));
        self.set_state(State::Blocked);
    }

    /// What was blocked goes on.
    pub(super) fn unblock(&self) {
        self.status.set_problem(None);
        tracing::info!("recovered: records are delivered again");
        self.set_state(State::Streaming);
    }

    pub(super) fn report(&self, problem: &Problem, unsaid: u64) {
        let empty = String::new();
        tracing::error!(
            detail = %problem.detail.as_ref().unwrap_or(&empty).escape_debug(),
            hint = %problem.hint.as_ref().unwrap_or(&empty).escape_debug(),
            repeated = unsaid,
            "{}",
            problem.message
        );
    }
}
