//! What a check that takes long is waiting for.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::observe::remark;

/// Clones tell of the same check.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    began: Instant,
    /// By side: what it is asked for.
    asked: Arc<Mutex<BTreeMap<&'static str, &'static str>>>,
}

const SILENCE: Duration = Duration::from_secs(2);

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            asked: Arc::default(),
        }
    }

    pub(super) fn asks(&self, side: &'static str, what: &'static str) {
        self.asked().insert(side, what);
    }

    pub(super) fn done(&self, side: &'static str) {
        self.asked().remove(side);
    }

    /// Says on standard error what is still waited for, every two seconds.
    pub(super) async fn tell(&self) -> Infallible {
        loop {
            tokio::time::sleep(SILENCE).await;
            if let Some(line) = self.line(self.began.elapsed()) {
                remark(&line);
            }
        }
    }

    fn line(&self, elapsed: Duration) -> Option<String> {
        let asked = self.asked();
        let asked = asked
            .iter()
            .map(|(side, what)| format!("{side} for {what}"));
        let asked = asked.collect::<Vec<_>>().join(", ");
        (!asked.is_empty())
            .then(|| format!("outboxd: still asking {asked} ({} s)", elapsed.as_secs()))
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, &'static str>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_what_each_side_is_asked_for() {
        let progress = Progress::new();
        let line = || progress.line(Duration::from_millis(4200));
        assert_eq!(line(), None);
        progress.asks("PostgreSQL", "its settings");
        progress.asks("Kafka", "the brokers");
        progress.asks("Kafka", "topic rights");
        assert_eq!(
            line().unwrap(),
            "outboxd: still asking Kafka for topic rights, PostgreSQL for its settings (4 s)"
        );
        progress.done("Kafka");
        progress.done("PostgreSQL");
        assert_eq!(line(), None);
    }
}
