use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rdkafka::error::KafkaError;

/// What stops the demo before its summary.
#[derive(Debug)]
pub(super) enum DemoError {
    NoPostgres {
        given: Option<PathBuf>,
    },
    /// PostgreSQL refuses to run as root, and there is nobody else.
    NoUser,
    Io {
        what: &'static str,
        source: io::Error,
    },
    Failed {
        program: &'static str,
        ended: String,
        /// The last lines of what it said.
        said: String,
    },
    TooSlow {
        what: &'static str,
        patience: Duration,
        said: String,
    },
    Sql {
        what: &'static str,
        source: tokio_postgres::Error,
    },
    Kafka {
        what: &'static str,
        source: KafkaError,
    },
    /// A record that the demo's own events cannot look like.
    Record {
        partition: i32,
        offset: i64,
        what: &'static str,
    },
    Interrupted,
}

impl DemoError {
    pub(super) fn detail(&self) -> Option<String> {
        match self {
            Self::Failed { said, .. } | Self::TooSlow { said, .. } if !said.is_empty() => {
                Some(said.clone())
            }
            Self::Sql { source, .. } => source.as_db_error().map(|error| error.message().into()),
            _ => None,
        }
    }

    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoPostgres { given: None } => Some(
                "Install PostgreSQL 14 or later (Debian and Ubuntu: apt install postgresql), or say where its programs are: --postgres-bin DIR.",
            ),
            Self::NoPostgres { given: Some(_) } => {
                Some("The folder has to hold both programs; pg_config --bindir names it.")
            }
            Self::NoUser => Some("Run the demo as an ordinary user."),
            Self::Kafka { .. } => {
                Some("Leave --broker out to use the in-process broker, or check its address.")
            }
            _ => None,
        }
    }
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPostgres { given: None } => {
                f.write_str("initdb and postgres are not to be found")
            }
            Self::NoPostgres { given: Some(folder) } => {
                write!(f, "no initdb and postgres in {}", folder.display())
            }
            Self::NoUser => f.write_str(
                "PostgreSQL does not run as root, and there is neither a user \"postgres\" nor \"nobody\" to run it as",
            ),
            Self::Io { what, source } => write!(f, "{what}: {source}"),
            Self::Failed { program, ended, .. } => write!(f, "{program} ended: {ended}"),
            Self::TooSlow { what, patience, .. } => {
                write!(f, "{what} took more than {} s", patience.as_secs())
            }
            Self::Sql { what, source } => write!(f, "{what}: {source}"),
            Self::Kafka { what, source } => write!(f, "{what}: {source}"),
            Self::Record { partition, offset, what } => {
                write!(f, "the record at offset {offset} of partition {partition} has no {what}")
            }
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for DemoError {}

/// Errors of one kind with what was being done.
pub(super) trait During<T> {
    fn during(self, what: &'static str) -> Result<T, DemoError>;
}

impl<T> During<T> for Result<T, io::Error> {
    fn during(self, what: &'static str) -> Result<T, DemoError> {
        self.map_err(|source| DemoError::Io { what, source })
    }
}

impl<T> During<T> for Result<T, tokio_postgres::Error> {
    fn during(self, what: &'static str) -> Result<T, DemoError> {
        self.map_err(|source| DemoError::Sql { what, source })
    }
}

impl<T> During<T> for Result<T, KafkaError> {
    fn during(self, what: &'static str) -> Result<T, DemoError> {
        self.map_err(|source| DemoError::Kafka { what, source })
    }
}
