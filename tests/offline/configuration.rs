//! Both doors of the configuration, from files and variables to `Config`.

mod connectors;
mod convert;
mod dead_letters;
mod documents;
mod own_file;
mod refusals;
mod topics;
mod values;

use std::path::PathBuf;

use outboxd::config::{Config, ConfigError, Sources, load};

fn connectors() -> PathBuf {
    PathBuf::from("tests/data/connectors")
}

/// A run of one of the files in `tests/data/connectors`.
struct Given {
    sources: Sources,
    environment: Vec<(String, String)>,
}

impl Given {
    fn connector(file: &str) -> Self {
        Self::from(Sources {
            connector: Some(connectors().join(file)),
            ..sources()
        })
    }

    fn nothing() -> Self {
        Self::from(sources())
    }

    fn from(sources: Sources) -> Self {
        Self {
            sources,
            environment: Vec::new(),
        }
    }

    fn worker(mut self, file: &str) -> Self {
        self.sources.worker = Some(connectors().join(file));
        self
    }

    fn set(mut self, assignment: &str) -> Self {
        self.sources.set.push(assignment.to_owned());
        self
    }

    fn broker(self) -> Self {
        self.set("kafka.bootstrap.servers=127.0.0.1:9092")
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    fn load(self) -> Result<Config, ConfigError> {
        load(&self.sources, self.environment.into_iter())
    }

    fn config(self) -> Config {
        self.load().unwrap_or_else(|error| panic!("{error}"))
    }

    /// All faults as they are printed, without the folder of the test's files.
    fn faults(self) -> String {
        let error = self.load().expect_err("a refusal");
        error.to_string().replace("tests/data/connectors/", "")
    }
}

fn sources() -> Sources {
    Sources {
        needs_kafka: true,
        ..Sources::default()
    }
}

/// What was set by other than a default, as `key=value`.
fn set_values(config: &Config) -> Vec<String> {
    config
        .settings
        .shown()
        .into_iter()
        .filter(|(_, _, origin)| *origin != outboxd::config::Origin::Default)
        .map(|(key, value, _)| format!("{key}={value}"))
        .collect()
}

/// Messages of the notes, warnings with a mark, without the folder of the test's files.
fn notes(config: &Config) -> Vec<String> {
    config
        .notes
        .iter()
        .map(|note| {
            let mark = if note.warning { "! " } else { "" };
            format!("{mark}{note}").replace("tests/data/connectors/", "")
        })
        .collect()
}
