//! Two doors, one room: outboxd's own file and the files of Kafka Connect both become settings
//! under outboxd's own keys, and one immutable [`Config`] is made of these.

mod build;
//mod connector;
mod environment;
mod error;
mod keys;
//mod properties;
mod settings;
mod toml_file;
mod url;

use std::path::PathBuf;

use crate::{kafka, observe, postgres, relay, router};

pub use error::{ConfigError, Fault};
pub use keys::{KEYS, Key, reference};
pub use settings::{Origin, Setting, Settings};

/// Everything decided before the first connection.
#[derive(Clone, Debug)]
pub struct Config {
    pub name: String,
    pub postgres: postgres::Options,
    pub slot: postgres::slot::SlotOptions,
    pub publication: postgres::publication::PublicationOptions,
    pub tables: postgres::table::TableFilter,
    pub snapshot: postgres::snapshot::SnapshotOptions,
    pub router: router::Options,
    pub kafka: kafka::Options,
    pub relay: relay::Options,
    pub http: observe::HttpOptions,
    pub log: observe::LogOptions,
    /// Lines for the log at start: old names, keys without meaning here.
    pub notes: Vec<String>,
    pub settings: Settings,
}

/// Where to read from, as typed on the command line.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub config: Option<PathBuf>,
    pub connector: Option<PathBuf>,
    pub worker: Option<PathBuf>,
    /// `key=value`
    pub set: Vec<String>,
    /// Standard output as sink: no broker is needed.
    pub needs_kafka: bool,
}

/// Reads files and environment. Every fault found is in the error, not just the first.
pub fn load(
    sources: &Sources,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    let environment: Vec<_> = environment.collect();
    let mut settings = Settings::default();
    let mut faults = Vec::new();
    let mut notes = Vec::new();
    if let Some(path) = &sources.config {
        toml_file::read(path, &mut settings, &mut faults);
    }
    if sources.connector.is_some() || sources.worker.is_some() {
        let lookup = |name: &str| {
            environment
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value.clone())
        };
        let _ = &lookup;
    }
    environment::read(&environment, &mut settings, &mut notes);
    for assignment in &sources.set {
        settings.set_flag(assignment, &mut faults);
    }
    let config = build::build(
        settings,
        notes,
        sources.needs_kafka,
        &environment,
        &mut faults,
    );
    match config {
        Some(config) if faults.is_empty() => Ok(config),
        _ => Err(ConfigError { faults }),
    }
}
