//! The last hour of lag and the last things that happened, for people. Both are bounded.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::status::{Problem, State, as_rfc3339};

/// One point stands for this time and holds the worst lag in it.
const SAMPLE_SECONDS: u64 = 10;
const SAMPLES: usize = 360;
const HAPPENINGS: usize = 50;

#[derive(Clone, Debug, Serialize)]
pub(super) struct History {
    lag: Lag,
    /// The latest first.
    happened: VecDeque<Happening>,
}

#[derive(Clone, Debug, Serialize)]
struct Lag {
    interval_seconds: u64,
    /// The end of the last point.
    #[serde(serialize_with = "as_rfc3339")]
    until: SystemTime,
    /// The oldest first; `null` where nothing was measured.
    seconds: VecDeque<Option<f64>>,
    /// Which interval since 1970 the last point is.
    #[serde(skip)]
    last: u64,
}

/// A change of state or of what stands in the way. What repeats itself is one of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Happening {
    #[serde(serialize_with = "as_rfc3339")]
    at: SystemTime,
    #[serde(serialize_with = "as_rfc3339")]
    last_at: SystemTime,
    times: u64,
    state: State,
    error: Option<Problem>,
}

impl History {
    pub(super) fn new(now: SystemTime) -> Self {
        let lag = Lag {
            interval_seconds: SAMPLE_SECONDS,
            until: now,
            seconds: VecDeque::new(),
            last: 0,
        };
        let first = Happening::new(State::Starting, None, now);
        Self {
            lag,
            happened: VecDeque::from([first]),
        }
    }

    pub(super) fn note(&mut self, state: State, error: Option<&Problem>, now: SystemTime) {
        if let Some(last) = self.happened.front_mut() {
            if last.is_repeated_by(state, error) {
                last.error = error.cloned();
                last.last_at = now;
                last.times += 1;
                return;
            }
            // What is over in the same state needs no line of its own.
            if last.state == state && error.is_none() {
                return;
            }
        }
        self.happened.truncate(HAPPENINGS - 1);
        self.happened
            .push_front(Happening::new(state, error.cloned(), now));
    }

    pub(super) fn measure(&mut self, lag_seconds: f64, now: SystemTime) {
        self.lag.measure(lag_seconds, now);
    }
}

impl Happening {
    fn new(state: State, error: Option<Problem>, now: SystemTime) -> Self {
        Self {
            at: now,
            last_at: now,
            times: 1,
            state,
            error,
        }
    }

    /// Durations and process ids differ from one attempt to the next.
    fn is_repeated_by(&self, state: State, error: Option<&Problem>) -> bool {
        let same = |one: &Problem, other: &Problem| {
            let letters =
                |text: &str| -> String { text.chars().filter(|c| !c.is_ascii_digit()).collect() };
            letters(&one.message) == letters(&other.message)
        };
        self.state == state
            && matches!((&self.error, error), (Some(one), Some(other)) if same(one, other))
    }
}

impl Lag {
    fn measure(&mut self, seconds: f64, now: SystemTime) {
        let since = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let interval = since.as_secs() / SAMPLE_SECONDS;
        let skipped = interval.saturating_sub(self.last).saturating_sub(1);
        let is_same = interval == self.last;
        match self.seconds.back_mut() {
            Some(Some(worst)) if is_same => *worst = worst.max(seconds),
            // The clock was set back, or forward by more than is shown: begin anew.
            Some(_) if interval < self.last || skipped >= SAMPLES as u64 => self.seconds.clear(),
            Some(_) => (0..skipped).for_each(|_| self.seconds.push_back(None)),
            None => {}
        }
        if !is_same || self.seconds.is_empty() {
            self.seconds.push_back(Some(seconds));
        }
        while self.seconds.len() > SAMPLES {
            self.seconds.pop_front();
        }
        self.last = interval;
        self.until = SystemTime::UNIX_EPOCH + Duration::from_secs((interval + 1) * SAMPLE_SECONDS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn lags(history: &History) -> Vec<Option<f64>> {
        history.lag.seconds.iter().copied().collect()
    }

    #[test]
    fn a_point_has_the_worst_lag_of_its_ten_seconds_and_a_gap_has_none() {
        let mut history = History::new(at(1000));
        for (time, lag) in [
            (1001, 1.0),
            (1009, 3.0),
            (1009, 2.0),
            (1010, 0.5),
            (1031, 4.0),
        ] {
            history.measure(lag, at(time));
        }
        assert_eq!(lags(&history), [Some(3.0), Some(0.5), None, Some(4.0)]);
        assert_eq!(history.lag.until, at(1040));
    }

    #[test]
    fn no_more_than_an_hour_is_kept_whatever_the_clock_does() {
        let mut history = History::new(at(0));
        for time in 0..5000 {
            history.measure(time as f64, at(time));
        }
        assert_eq!(history.lag.seconds.len(), SAMPLES);
        assert_eq!(history.lag.seconds[0], Some(1409.0));
        for time in [4000, 9_000_000_000] {
            history.measure(7.0, at(time));
            assert_eq!(lags(&history), [Some(7.0)], "{time}");
        }
    }

    #[test]
    fn what_repeats_itself_is_one_line_with_a_count() {
        let mut history = History::new(at(0));
        let silent = |seconds: u64| Problem::new(format!("silent for {seconds} s"));
        for time in 1..=3 {
            history.note(State::Starting, Some(&silent(time)), at(time));
        }
        history.note(State::Starting, None, at(4));
        history.note(State::Streaming, None, at(5));
        history.note(State::Streaming, None, at(6));
        let repeated = Happening {
            last_at: at(3),
            times: 3,
            ..Happening::new(State::Starting, Some(silent(3)), at(1))
        };
        let expected = [
            Happening::new(State::Streaming, None, at(5)),
            repeated,
            Happening::new(State::Starting, None, at(0)),
        ];
        assert_eq!(history.happened, expected);
    }

    #[test]
    fn the_list_of_what_happened_is_bounded() {
        let mut history = History::new(at(0));
        for time in 0..500 {
            let state = State::ALL[usize::try_from(time).unwrap() % 2];
            history.note(state, None, at(time));
        }
        assert_eq!(history.happened.len(), HAPPENINGS);
        assert_eq!(history.happened[0].at, at(499));
    }
}
