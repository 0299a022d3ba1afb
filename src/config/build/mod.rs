//! From settings to the rooms' own options: each value is parsed here, once, into a type that
//! cannot be wrong.

mod errors;
mod format;
mod kafka;
mod postgres;
mod router;
mod topics;

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use super::environment::Environment;
use super::limits::Limits;
use super::settings::Settings;
use super::{Config, Door, Fault, Note, Sources, keys};
use crate::observe::{HttpOptions, LogFormat, LogOptions};
use crate::postgres::slot::SlotOptions;
use crate::relay;
use crate::router::{Heartbeat, illegal_topic};
use errors::Errors;

/// Names of the values of a setting that is one of a few.
type Choices<T> = &'static [(&'static str, T)];

const BOOLEANS: Choices<bool> = &[("true", true), ("false", false)];
const LOG_FORMATS: Choices<LogFormat> = &[
    ("auto", LogFormat::Auto),
    ("text", LogFormat::Text),
    ("json", LogFormat::Json),
];

const DROPS_SLOT: &str = "the slot is dropped at each clean stop: what is committed while the relay is down is not streamed, and is lost where the outbox does not keep its rows";

/// `None` where something is wrong; the faults say what.
pub(super) fn build(
    settings: Settings,
    door: Door,
    mut notes: Vec<Note>,
    sources: &Sources,
    environment: &Environment,
    faults: &mut Vec<Fault>,
) -> Option<Config> {
    let mut read = Read {
        settings: &settings,
        door: &door,
        faults,
    };
    read.refuse_control_characters();
    let name = read.required("name");
    // All of them before the first `?`: every fault is told in one go.
    let postgres = postgres::options(&mut read, name.as_deref().unwrap_or_default(), environment);
    let slot = postgres::slot(&mut read);
    let publication = postgres::publication(&mut read);
    let tables = postgres::tables(&mut read);
    let snapshot = postgres::snapshot(&mut read);
    if let (Some(tables), Some(snapshot)) = (&tables, &snapshot) {
        postgres::selects_of_other_tables(&mut read, tables, snapshot, &mut notes);
    }
    let errors = errors::errors(&mut read, name.as_deref().unwrap_or_default());
    let router = router::options(&mut read, errors.as_ref());
    let journal = journal(&mut read, slot.as_ref(), postgres.as_ref());
    let relay = relay(&mut read, errors.as_ref(), journal);
    let kafka = kafka::options(&mut read, relay.as_ref(), sources);
    let http = http(&mut read);
    let log = log(&mut read);
    if slot.as_ref().is_some_and(|slot| slot.drop_on_stop) {
        let place = read.place("slot.drop_on_stop");
        notes.push(Note::warning(place, DROPS_SLOT));
    }
    Some(Config {
        name: name?,
        postgres: postgres?,
        slot: slot?,
        publication: publication?,
        tables: tables?,
        snapshot: snapshot?,
        router: router?,
        kafka: kafka?,
        relay: relay?,
        http: http?,
        log: log?,
        notes,
        settings,
        door,
    })
}

/// Settings on their way into types. Each method that gives `None` has told a fault.
struct Read<'a> {
    settings: &'a Settings,
    door: &'a Door,
    faults: &'a mut Vec<Fault>,
}

impl Read<'_> {
    /// The value or the default.
    fn text(&self, key: &str) -> String {
        match self.settings.get(key) {
            Some(setting) => setting.value.trim().to_owned(),
            None => keys::find(key).map_or("", |key| key.default).to_owned(),
        }
    }

    /// As [`Read::text`], where empty means unset.
    fn optional(&self, key: &str) -> Option<String> {
        Some(self.text(key)).filter(|text| !text.is_empty())
    }

    fn place(&self, key: &str) -> String {
        self.settings
            .get(key)
            .map_or_else(|| key.to_owned(), |setting| setting.origin.place(key))
    }

    fn fault(&mut self, key: &str, message: impl Into<String>) {
        let fault = Fault::new(self.place(key), message);
        self.faults.push(fault);
    }

    /// The value without blanks that a person leaves at the ends; a fault where it is missing.
    fn required(&mut self, key: &str) -> Option<String> {
        let text = self.optional(key);
        if text.is_none() {
            let is_set = self.settings.get(key).is_some();
            self.fault(key, if is_set { "is empty" } else { "is not set" });
        }
        text
    }

    /// How the user's own files name a key.
    fn spell(&self, key: &str) -> String {
        self.door.spell(key)
    }

    fn choice<T: Clone>(&mut self, key: &str, choices: Choices<T>) -> Option<T> {
        let text = self.text(key);
        let found = choices
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(&text));
        if found.is_none() {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            self.fault(
                key,
                format!("\"{text}\" is not one of {}", names.join(", ")),
            );
        }
        found.map(|(_, value)| value.clone())
    }

    fn boolean(&mut self, key: &str) -> Option<bool> {
        self.choice(key, BOOLEANS)
    }

    fn parsed<T: FromStr>(&mut self, key: &str, expected: &str) -> Option<T> {
        let text = self.text(key);
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.fault(key, format!("\"{text}\" is not {expected}"));
        }
        parsed
    }

    fn duration(&mut self, key: &str) -> Option<Duration> {
        let text = self.text(key);
        match humantime::parse_duration(&text) {
            Ok(duration) => {
                let holds = |limits: Limits| limits.hold_duration(duration);
                self.within(key, holds).then_some(duration)
            }
            Err(_) => {
                self.fault(
                    key,
                    format!("\"{text}\" is not a duration such as 500ms, 30s or 5m"),
                );
                None
            }
        }
    }

    fn bytes(&mut self, key: &str) -> Option<usize> {
        let size: bytesize::ByteSize = self.parsed(key, "a size such as 512KiB or 16MiB")?;
        let bytes = size.as_u64();
        self.within(key, |limits| limits.hold(bytes))
            .then(|| usize::try_from(bytes).ok())?
    }

    fn number<T: TryFrom<u64>>(&mut self, key: &str) -> Option<T> {
        let number = self.parsed(key, "a whole number")?;
        self.within(key, |limits| limits.hold(number))
            .then(|| T::try_from(number).ok())?
    }

    /// A fault where the key's limits do not hold.
    fn within(&mut self, key: &str, holds: impl Fn(Limits) -> bool) -> bool {
        match keys::limits(key) {
            Some(limits) if !holds(limits) => {
                let text = self.text(key);
                self.fault(key, format!("\"{text}\" is out of range: {limits}"));
                false
            }
            _ => true,
        }
    }

    /// Names end up in logs, in SQL and in records: none is worth a line break.
    fn refuse_control_characters(&mut self) {
        for key in keys::of_names() {
            let texts = match key.is_list() {
                true => self.list(key.name),
                false => vec![self.text(key.name)],
            };
            for text in texts {
                if text.chars().any(char::is_control) {
                    let shown = text.escape_debug();
                    let message = format!("\"{shown}\" has a control character");
                    self.fault(key.name, message);
                }
            }
        }
    }

    /// Items of a list; blanks around them do not count.
    fn list(&self, key: &str) -> Vec<String> {
        let text = self.text(key);
        text.split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(str::to_owned)
            .collect()
    }

    fn first_line(&mut self, key: &str) -> Option<String> {
        let path = self.optional(key)?;
        match std::fs::read_to_string(Path::new(&path)) {
            Ok(text) => Some(text.lines().next().unwrap_or_default().to_owned()),
            Err(error) => {
                self.fault(key, format!("\"{path}\" cannot be read: {error}"));
                None
            }
        }
    }
}

fn relay(
    read: &mut Read<'_>,
    errors: Option<&Errors>,
    journal: Option<Option<relay::JournalOptions>>,
) -> Option<relay::Options> {
    let max_in_flight_bytes = read.bytes("relay.max_in_flight_bytes");
    let max_in_flight_records = read.number("relay.max_in_flight_records");
    let status_interval = read.duration("relay.status_interval");
    let confirm_interval = read.duration("relay.confirm_interval");
    let shutdown_timeout = read.duration("relay.shutdown_timeout");
    let backoff_min = read.duration("relay.backoff_min");
    let backoff_max = read.duration("relay.backoff_max");
    if backoff_min > backoff_max && backoff_max.is_some() {
        let message = format!("is longer than {}", read.spell("relay.backoff_max"));
        read.fault("relay.backoff_min", message);
    }
    let health_interval = read.duration("relay.health_interval");
    let heartbeat = heartbeat(read);
    let handover = handover(read);
    let housekeeping = housekeeping(read);
    Some(relay::Options {
        max_in_flight_bytes: max_in_flight_bytes?,
        max_in_flight_records: max_in_flight_records?,
        status_interval: status_interval?,
        confirm_interval: confirm_interval?,
        shutdown_timeout: shutdown_timeout?,
        backoff_min: backoff_min?,
        backoff_max: backoff_max?,
        health_interval: health_interval?,
        on_blocked: errors?.on_blocked.clone(),
        heartbeat: heartbeat?,
        housekeeping: housekeeping?,
        journal: journal?,
        handover,
    })
}

/// The outer `None` where something is wrong.
fn journal(
    read: &mut Read<'_>,
    slot: Option<&SlotOptions>,
    postgres: Option<&crate::postgres::Options>,
) -> Option<Option<relay::JournalOptions>> {
    let Some(topic) = read.optional("position.topic") else {
        return Some(None);
    };
    if !crate::kafka::is_valid_name(&topic) {
        read.fault(
            "position.topic",
            format!("\"{topic}\" is not a topic's name"),
        );
        return None;
    }
    for other in ["errors.dead_letter.topic", "heartbeat.topic"] {
        if read.text(other) == topic {
            read.fault(other, "is the topic of the position journal");
            return None;
        }
    }
    let named = read.settings.get("name").map(|name| name.value.clone());
    let key = match read.optional("position.key").or(named) {
        Some(key) => key,
        None => format!("{}/{}", postgres?.database, slot?.name),
    };
    Some(Some(relay::JournalOptions { topic, key }))
}

/// Of a connector that is named whole.
fn handover(read: &mut Read<'_>) -> Option<relay::HandoverOptions> {
    let topic = read.optional("connect.offset_topic");
    let file = read.optional("connect.offset_file");
    let store = match (topic, file) {
        (Some(topic), _) => relay::OffsetStore::Topic(topic),
        (None, file) => relay::OffsetStore::File(file?.into()),
    };
    // The other door has told of what its files do not say.
    let mut named = |key| match read.door {
        Door::Own => read.required(key),
        Door::Connect(_) => read.optional(key),
    };
    let (connector, server) = (named("connect.connector"), named("connect.server"));
    Some(relay::HandoverOptions {
        connector: connector?,
        server: server?,
        slot: read.optional("connect.slot"),
        store,
    })
}

/// The outer `None` where something is wrong.
fn heartbeat(read: &mut Read<'_>) -> Option<Option<relay::HeartbeatOptions>> {
    const INTERVAL: &str = "heartbeat.interval";
    let text = read.text(INTERVAL);
    // Debezium's way to have none is an interval of 0.
    if text.is_empty() || humantime::parse_duration(&text).is_ok_and(|d| d.is_zero()) {
        return Some(None);
    }
    let interval = read.duration(INTERVAL);
    let server_name = read
        .optional("heartbeat.name")
        .unwrap_or_else(|| read.text("name"));
    let topic = read.optional("heartbeat.topic");
    if let Some(reason) = topic.as_deref().and_then(illegal_topic) {
        read.fault("heartbeat.topic", format!("is not a topic name: {reason}"));
    }
    let heartbeat = topic.map(|topic| Heartbeat {
        topic: topic.into(),
        server_name,
    });
    Some(Some(relay::HeartbeatOptions {
        interval: interval?,
        heartbeat,
        query: read.optional("heartbeat.query"),
    }))
}

/// The outer `None` where something is wrong.
fn housekeeping(read: &mut Read<'_>) -> Option<Option<relay::HousekeepingOptions>> {
    const RETAIN: &str = "housekeeping.retain";
    let text = read.text(RETAIN);
    if text.is_empty() || humantime::parse_duration(&text).is_ok_and(|d| d.is_zero()) {
        return Some(None);
    }
    let retain = read.duration(RETAIN);
    let batch_rows = read.number("housekeeping.batch_rows");
    let interval = read.duration("housekeeping.interval");
    let column = read.optional("housekeeping.column");
    let Some(column) = column.or_else(|| read.optional("outbox.timestamp")) else {
        let message = "needs a column that tells how old a row is: set housekeeping.column";
        read.fault(RETAIN, message);
        return None;
    };
    Some(Some(relay::HousekeepingOptions {
        retain: retain?,
        column,
        batch_rows: batch_rows?,
        interval: interval?,
    }))
}

fn http(read: &mut Read<'_>) -> Option<HttpOptions> {
    match read.optional("http.listen") {
        None => Some(HttpOptions { listen: None }),
        Some(_) => {
            let listen = read.parsed("http.listen", "a host and port such as 127.0.0.1:9464")?;
            Some(HttpOptions {
                listen: Some(listen),
            })
        }
    }
}

fn log(read: &mut Read<'_>) -> Option<LogOptions> {
    let format = read.choice("log.format", LOG_FORMATS);
    let level = read.required("log.level");
    if let Some(Err(reason)) = level.as_deref().map(LogOptions::check_level) {
        read.fault("log.level", reason);
    }
    Some(LogOptions {
        format: format?,
        level: level?,
    })
}
