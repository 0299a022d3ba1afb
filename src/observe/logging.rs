//! Logs on standard error: one line for a change of state, never one per row.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::format::FmtSpan;

use super::{LogFormat, LogOptions};

/// Called once, by `main`. The filter is the only thing that can be wrong.
pub fn init_logging(options: &LogOptions) -> Result<(), ParseError> {
    let filter = EnvFilter::builder().parse(&options.level)?;
    let json = match options.format {
        LogFormat::Auto => !std::io::stderr().is_terminal(),
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::NONE);
    if json {
        builder
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .init();
    } else {
        builder
            .with_ansi(std::io::stderr().is_terminal())
            .with_target(false)
            .init();
    }
    Ok(())
}

/// Says a repeated failure once per interval, with a count of what was left unsaid.
#[derive(Debug)]
pub struct Repeated {
    interval: Duration,
    last: Option<(String, Instant)>,
    unsaid: u64,
}

impl Repeated {
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            last: None,
            unsaid: 0,
        }
    }

    /// How many were left unsaid since the last time, when this one is to be said.
    pub fn say(&mut self, what: &str, now: Instant) -> Option<u64> {
        if let Some((said, at)) = &self.last
            && said == what
            && now.duration_since(*at) < self.interval
        {
            self.unsaid += 1;
            return None;
        }
        self.last = Some((what.to_owned(), now));
        Some(std::mem::take(&mut self.unsaid))
    }

    /// True when there was something to recover from.
    pub fn recovered(&mut self) -> bool {
        self.unsaid = 0;
        self.last.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_failure_is_said_once_per_interval_with_its_count() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut repeated = Repeated::new(Duration::from_secs(30));
        assert_eq!(repeated.say("broken", at(0)), Some(0));
        assert_eq!(repeated.say("broken", at(1)), None);
        assert_eq!(repeated.say("broken", at(2)), None);
        assert_eq!(repeated.say("broken", at(31)), Some(2));
        assert_eq!(repeated.say("other", at(32)), Some(0));
        assert!(repeated.recovered());
        assert!(!repeated.recovered());
    }
}
