//! What a command that takes long is waiting for.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::observe::remark;

/// Clones tell of the same command.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// By side: what it is asked for, and since when.
    asked: Arc<Mutex<BTreeMap<&'static str, Question>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Question {
    what: &'static str,
    since: Instant,
}

/// One side is asked, one question after the other; over when it is dropped.
#[derive(Debug)]
#[must_use = "it is over when it is dropped"]
pub struct Asked {
    progress: Progress,
    side: &'static str,
}

impl Asked {
    pub fn now(&self, what: &'static str) {
        let since = Instant::now();
        let mut asked = self.progress.asked();
        asked.insert(self.side, Question { what, since });
    }
}

/// Shorter waits are not worth a word.
const SILENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_secs(2);

impl Progress {
    /// Of one side at a time.
    pub fn asks(&self, side: &'static str, what: &'static str) -> Asked {
        let progress = self.clone();
        let asked = Asked { progress, side };
        asked.now(what);
        asked
    }

    /// Says on standard error what is still waited for.
    pub async fn tell(&self) -> Infallible {
        let mut pause = SILENCE;
        loop {
            tokio::time::sleep(pause).await;
            pause = PAUSE;
            if let Some(line) = self.line(Instant::now()) {
                remark(&line);
            }
        }
    }

    fn line(&self, now: Instant) -> Option<String> {
        let asked = self.asked();
        let long = asked
            .iter()
            .map(|(side, question)| (side, question, now - question.since));
        let long = long.filter(|(_, _, waited)| *waited >= SILENCE);
        let lines = long.map(|(side, question, waited)| {
            let (what, seconds) = (question.what, waited.as_secs());
            format!("{side} for {what} ({seconds} s)")
        });
        let lines = lines.collect::<Vec<_>>().join(", ");
        (!lines.is_empty()).then(|| format!("outboxd: still asking {lines}"))
    }

    fn asked(&self) -> MutexGuard<'_, BTreeMap<&'static str, Question>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.progress.asked().remove(self.side);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_what_each_side_is_asked_for_and_since_when() {
        let progress = Progress::default();
        let later = |ms| Instant::now() + Duration::from_millis(ms);
        assert_eq!(progress.line(later(5000)), None);
        let server = progress.asks("PostgreSQL", "its settings");
        let brokers = progress.asks("Kafka", "topic rights");
        assert_eq!(progress.line(later(500)), None, "that is not long");
        assert_eq!(
            progress.line(later(4200)).unwrap(),
            "outboxd: still asking Kafka for topic rights (4 s), PostgreSQL for its settings (4 s)"
        );
        drop(brokers);
        assert_eq!(
            progress.line(later(1000)).unwrap(),
            "outboxd: still asking PostgreSQL for its settings (1 s)"
        );
        drop(server);
        assert_eq!(progress.line(later(5000)), None);
    }
}
