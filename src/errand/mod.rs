//! What the commands have in common that end by themselves: a request to stop ends each of their waits,
//! also those in the server, and what takes long is told while it is waited for.

mod progress;

use crate::observe::Problem;
use crate::postgres::Sessions;
use crate::relay::{Stop, stop_on_signals, stop_requested};

pub use progress::{Asked, Progress};

pub struct Errand {
    stop: Stop,
    sessions: Sessions,
    progress: Progress,
}

/// A stop was asked for before the work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl Errand {
    /// `sessions` are those that the work opens.
    pub fn begin(sessions: &Sessions) -> Result<Self, Problem> {
        let stop = stop_on_signals()
            .map_err(|error| Problem::new(format!("no signal handlers: {error}")))?;
        Ok(Self::with(stop, sessions))
    }

    fn with(stop: Stop, sessions: &Sessions) -> Self {
        Self {
            stop,
            sessions: sessions.clone(),
            progress: Progress::default(),
        }
    }

    /// Does `work` to its end, or up to a request to stop: what it waits for in the server is cancelled
    /// then, and it is dropped.
    pub async fn attend<T>(&self, work: impl Future<Output = T>) -> Result<T, Stopped> {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            () = self.stop_requested() => {}
            done = &mut work => return Ok(done),
            never = self.progress.tell() => match never {},
        }
        // Before the sessions are dropped, which would leave the server at it.
        self.sessions.cancel().await;
        Err(Stopped)
    }

    /// For work that minds it by itself.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    pub async fn stop_requested(&self) {
        stop_requested(&mut self.stop.clone()).await;
    }

    /// What is still waited for in the server.
    pub async fn cancel(&self) {
        self.sessions.cancel().await;
    }

    /// Tells of what `side` is asked for, until the value is dropped.
    pub fn asks(&self, side: &'static str, what: &'static str) -> Asked {
        self.progress.asks(side, what)
    }

    /// For threads that ask.
    pub const fn progress(&self) -> &Progress {
        &self.progress
    }
}

pub const POSTGRES: &str = "PostgreSQL";
pub const KAFKA: &str = "Kafka";

impl Stopped {
    /// `done`: what there is of it, and what to do now.
    pub fn with(self, done: &str, hint: &str) -> Problem {
        Problem {
            message: "stopped by a signal before the work was done".to_owned(),
            detail: Some(done.to_owned()),
            hint: Some(hint.to_owned()),
        }
    }
}

impl From<Stopped> for Problem {
    fn from(stopped: Stopped) -> Self {
        stopped.with("Nothing was changed.", "Run it again.")
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;

    #[tokio::test]
    async fn a_request_to_stop_ends_a_wait_and_not_what_is_done() {
        let (ask, stop) = watch::channel(false);
        let errand = Errand::with(stop, &Sessions::default());
        assert_eq!(errand.attend(async { 7 }).await, Ok(7));
        let asking = async {
            tokio::task::yield_now().await;
            ask.send_replace(true);
        };
        let waiting = errand.attend(std::future::pending::<()>());
        let (ended, ()) = tokio::join!(waiting, asking);
        assert_eq!(ended, Err(Stopped));
        assert!(errand.is_stopped());
        assert_eq!(errand.attend(async { 7 }).await, Err(Stopped));
    }
}
