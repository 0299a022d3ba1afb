//! Two doors, one room: outboxd's own file and the files of Kafka Connect both become settings
//! under outboxd's own keys, and one immutable [`Config`] is made of these.
//!
//! ```text
//!  outboxd.toml ──────────────────────┐
//!  connector + worker files ─> table ─┤
//!  OUTBOXD_* ─────────────────────────┼─> Settings (value, origin) ─> build ─> Config
//!  --set key=value ───────────────────┘                        └────> convert ─> outboxd.toml
//! ```

mod build;
mod connection_string;
mod connector;
mod convert;
mod door;
mod environment;
mod error;
mod keys;
mod limits;
mod nearest;
mod passfile;
mod reference;
mod settings;
mod toml_file;

use std::path::PathBuf;

use crate::postgres::publication::PublicationOptions;
use crate::postgres::slot::SlotOptions;
use crate::postgres::snapshot::SnapshotOptions;
use crate::postgres::table::TableFilter;
use crate::router::EventRouter;
use crate::{kafka, observe, postgres, relay, router};
use environment::Environment;

pub use connector::Written;
pub use convert::to_toml;
pub use door::Door;
pub use environment::variables;
pub use error::{ConfigError, Fault, Note};
pub use keys::{KEYS, Key};
pub use reference::{keys_reference, properties_reference};
pub use settings::{Origin, Settings};

/// Everything decided before the first connection.
#[derive(Clone, Debug)]
pub struct Config {
    pub name: String,
    pub postgres: postgres::Options,
    pub slot: SlotOptions,
    pub publication: PublicationOptions,
    pub tables: TableFilter,
    pub snapshot: SnapshotOptions,
    pub router: router::Options,
    pub kafka: kafka::Options,
    pub relay: relay::Options,
    pub http: observe::HttpOptions,
    pub log: observe::LogOptions,
    /// Lines for the log at start.
    pub notes: Vec<Note>,
    /// What was set, where it came from, secrets masked.
    pub settings: Settings,
    /// Whose files they were, for messages that name a setting.
    pub door: Door,
}

impl Config {
    /// The router of everything that is configured.
    pub fn event_router(&self) -> EventRouter {
        let journal = self.relay.journal.as_ref();
        EventRouter::new(router::Options {
            journal_topic: journal.map(|journal| journal.topic.as_str().into()),
            ..self.router.clone()
        })
    }
}

/// What to read, as typed on the command line.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// outboxd's own file.
    pub config: Option<PathBuf>,
    /// A connector's file, and the worker's beside it.
    pub connector: Option<PathBuf>,
    pub worker: Option<PathBuf>,
    /// `key=value`, in outboxd's own keys.
    pub set: Vec<String>,
    /// False with another sink than Kafka: brokers need not be named then.
    pub needs_kafka: bool,
}

/// Reads files and environment. Every fault found is in the error, not just the first.
pub fn load(
    sources: &Sources,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    let environment = Environment::new(environment);
    let mut faults = Vec::new();
    let mut notes = Vec::new();
    let config =
        gather(sources, &environment, &mut faults, &mut notes).and_then(|(settings, door)| {
            build::build(settings, door, notes, sources, &environment, &mut faults)
        });
    match config {
        Some(config) if faults.is_empty() => Ok(config),
        _ => Err(ConfigError { faults }),
    }
}

/// defaults < file < environment < flags, for both doors alike. `None` where a file is not what it
/// was taken for, so that nothing more can be said.
fn gather(
    sources: &Sources,
    environment: &Environment,
    faults: &mut Vec<Fault>,
    notes: &mut Vec<Note>,
) -> Option<(Settings, Door)> {
    let mut door = Door::Own;
    let mut settings = Settings::default();
    if let Some(path) = &sources.config {
        let layer = toml_file::read(path, faults);
        settings.apply(layer, faults);
    }
    if sources.connector.is_some() || sources.worker.is_some() {
        door = Door::Connect(connector::read(
            sources,
            environment,
            &mut settings,
            faults,
            notes,
        )?);
    }
    let layer = environment.settings(faults);
    settings.apply(layer, faults);
    let layer = flags(&sources.set, faults);
    settings.apply(layer, faults);
    Some((settings, door))
}

fn flags(assignments: &[String], faults: &mut Vec<Fault>) -> Vec<(String, String, Origin)> {
    let mut layer = Vec::new();
    for assignment in assignments {
        match assignment.split_once('=') {
            Some((key, value)) if keys::is_known(key.trim()) => {
                layer.push((key.trim().to_owned(), value.trim().to_owned(), Origin::Flag));
            }
            Some((key, _)) => faults.push(keys::unknown("--set", key.trim())),
            None => faults.push(
                Fault::new("--set", format!("\"{assignment}\" has no value"))
                    .hint("Write --set section.key=value."),
            ),
        }
    }
    layer
}
