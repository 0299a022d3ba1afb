//! Logs on standard error: one line for a change of state, never one per row.

use std::fmt::{self, Write};
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::LogOptions;
use super::patient::{Patient, Reception};

/// Called once, by `main`. The level is the only thing that can be wrong; the error says how.
pub fn init_logging(options: &LogOptions) -> Result<(), String> {
    let filter = filter(&options.level)?;
    let terminal = std::io::stderr().is_terminal();
    let reception = Arc::new(Reception::default());
    let confess = if options.is_json() {
        confess_json
    } else {
        confess_text
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || Patient::new(std::io::stderr(), Arc::clone(&reception), confess))
        // They go to standard error, too, by a macro that panics where it cannot be written.
        .log_internal_errors(false);
    if options.is_json() {
        builder
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .init();
    } else {
        builder.with_ansi(terminal).event_format(Text).init();
    }
    Ok(())
}

const LEFT_OUT: &str = "log lines were left out: nobody read standard error";

fn confess_text(left_out: u64) -> String {
    format!("{}  WARN {LEFT_OUT} left_out={left_out}\n", now())
}

fn confess_json(left_out: u64) -> String {
    let timestamp = now();
    let line = serde_json::json!({
        "timestamp": timestamp, "level": "WARN", "message": LEFT_OUT, "left_out": left_out,
        "target": module_path!(),
    });
    format!("{line}\n")
}

fn now() -> String {
    let mut time = String::new();
    match SystemTime.format_time(&mut Writer::new(&mut time)) {
        Ok(()) => time,
        // A text takes everything.
        Err(fmt::Error) => String::new(),
    }
}

/// A level concerns outboxd itself, librdkafka's lines included; what libraries say below a warning
/// is for who names them in directives (`outboxd=debug,hyper=trace`).
pub(super) fn filter(level: &str) -> Result<EnvFilter, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let directives = match level.to_ascii_lowercase().as_str() {
        level @ ("off" | "error") => level.to_owned(),
        level if LEVELS.contains(&level) => format!("warn,outboxd={level}"),
        // A word that is no level would be the name of a module, and silence everything else.
        _ if !level.contains('=') => {
            let levels = LEVELS.join(", ");
            return Err(format!("\"{level}\" is not one of {levels}"));
        }
        _ => level.to_owned(),
    };
    EnvFilter::builder()
        .parse(directives)
        .map_err(|error| error.to_string())
}

/// `2026-01-31T12:00:00.000000Z  INFO message name=value`, on one line whatever the values hold: a
/// server's message or a topic's name must not be able to write log lines of its own, nor to the
/// terminal.
struct Text;

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let time = now();
        let level = *event.metadata().level();
        let mut fields = Fields::default();
        event.record(&mut fields);
        if writer.has_ansi_escapes() {
            let colour = colour(level);
            write!(
                writer,
                "\x1b[2m{time}\x1b[0m \x1b[{colour}m{level:>5}\x1b[0m"
            )?;
        } else {
            write!(writer, "{time} {level:>5}")?;
        }
        writeln!(writer, " {}{}", fields.message, fields.others)
    }
}

const fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "31",
        Level::WARN => "33",
        Level::INFO => "32",
        Level::DEBUG | Level::TRACE => "34",
    }
}

/// A line under construction. Empty values are left out.
#[derive(Default)]
struct Fields {
    message: String,
    others: String,
}

impl Fields {
    fn add(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            escape(value, &mut self.message);
        } else if !value.is_empty() {
            self.others.push(' ');
            self.others.push_str(field.name());
            self.others.push('=');
            if value.contains([' ', '=', '"']) {
                self.others.push('"');
                escape(&value.replace('"', "\\\""), &mut self.others);
                self.others.push('"');
            } else {
                escape(value, &mut self.others);
            }
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // Writing to a string fails only when the value's own Debug does.
        if write!(text, "{value:?}").is_ok() {
            self.add(field, &text);
        }
    }
}

/// A text that is not ours, for a terminal.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape(text, &mut out);
    out
}

/// Control characters, and those that change the direction of text, as their escapes.
fn escape(text: &str, out: &mut String) {
    for letter in text.chars() {
        let turns = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2028}' | '\u{2029}' | '\u{2066}'..='\u{2069}');
        if letter.is_control() || turns {
            out.extend(letter.escape_default());
        } else {
            out.push(letter);
        }
    }
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
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for level in ["info", "DEBUG", "off", "outboxd=debug,hyper=warn"] {
            assert!(filter(level).is_ok(), "{level}");
        }
        let error = filter("verbose").unwrap_err();
        assert_eq!(
            error,
            "\"verbose\" is not one of off, error, warn, info, debug, trace"
        );
    }

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Paper {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    /// What is logged, without the time.
    fn logged(ansi: bool, log: impl FnOnce()) -> String {
        let paper = Paper::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(paper.clone())
            .with_ansi(ansi)
            .event_format(Text)
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        let (_, line) = text.split_once(' ').unwrap();
        line.to_owned()
    }

    #[test]
    fn a_line_has_the_level_the_message_and_the_fields() {
        let line = logged(false, || {
            let (lsn, hint, rows) = ("0/1", "grant it", 3);
            tracing::info!(%lsn, hint, rows, detail = "", slot = "a\" b", "slot found");
        });
        assert_eq!(
            line,
            " INFO slot found lsn=0/1 hint=\"grant it\" rows=3 slot=\"a\\\" b\"\n"
        );
    }

    #[test]
    fn a_foreign_text_cannot_write_a_line_of_its_own() {
        let foreign = "a\n2026-01-01T00:00:00Z ERROR forged\r\x1b[2J\u{202e}";
        let line = logged(false, || {
            tracing::warn!(topic = %foreign, "server said: {foreign}");
        });
        let escaped = "a\\n2026-01-01T00:00:00Z ERROR forged\\r\\u{1b}[2J\\u{202e}";
        assert_eq!(
            line,
            format!(" WARN server said: {escaped} topic=\"{escaped}\"\n")
        );
    }

    #[test]
    fn on_a_terminal_only_our_own_colours_get_through() {
        let line = logged(true, || tracing::error!("\x1b[2Jred"));
        assert_eq!(line, "\x1b[31mERROR\x1b[0m \\u{1b}[2Jred\n");
    }

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
