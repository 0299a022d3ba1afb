//! What can go wrong between the relay and PostgreSQL.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use super::sqlstate;
use crate::reader::ReadError;
use crate::wire::{OneLine, ServerMessage};

#[derive(Debug)]
pub enum PostgresError {
    /// No host could be used; each with its reason.
    Unreachable {
        attempts: Vec<(String, Self)>,
    },
    Connect {
        source: io::Error,
    },
    ConnectTimeout {
        after: Duration,
    },
    TlsRefused,
    Tls {
        reason: String,
    },
    /// Settings for TLS that do not go together.
    TlsOptions {
        reason: &'static str,
    },
    /// A certificate or key file that cannot be used.
    TlsFile {
        path: String,
        reason: String,
    },
    PasswordMissing {
        method: &'static str,
    },
    AuthenticationMethod {
        method: String,
    },
    Scram {
        source: io::Error,
    },
    /// The server is not of the kind that `target_session_attrs` asks for.
    WrongServer {
        wanted: &'static str,
    },
    Server(Box<ServerMessage>),
    /// The connection ended, or nothing came for too long.
    Closed,
    Silent {
        after: Duration,
    },
    Io {
        source: io::Error,
    },
    Malformed(ReadError),
    /// A message that the protocol does not allow here.
    Unexpected {
        expected: &'static str,
        tag: u8,
    },
    /// PostgreSQL 18 skips the rows of a publication that it cannot load and only warns.
    PublicationSkipped(Box<ServerMessage>),
    /// The server ended the stream by itself, as it does when it stops.
    StreamEnded,
    /// The server waits with its shutdown for positions that cannot be confirmed now.
    StoppingServer,
    /// An ordinary session failed without a word of the server (see `Server` for those).
    Sql(Box<tokio_postgres::Error>),
}

/// The server looks for the publication as the catalog was at the row that it decodes.
const YOUNGER_PUBLICATION: &str = "The publication has to be older than everything that the slot still has to send. If it was dropped and made again, drop the slot and start again: the retained rows are published again, and events that were already deleted are lost.";

/// The function of the server's source that looks for one (`pg_publication.c`, from 14 to 18).
const OF_PUBLICATIONS: &str = "get_publication_oid";

const POOLER: &str = "A pooler such as pgbouncer answers there. A replication session cannot be shared: put PostgreSQL's own address into postgres.url.";

const NO_DATABASE: &str = "Check postgres.url and postgres.database. A database that was dropped has taken its replication slots with it: what was committed and not confirmed cannot be streamed any more.";

impl PostgresError {
    /// The server's own code, where it was the server that refused.
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Self::Server(message) | Self::PublicationSkipped(message) => Some(&message.sqlstate),
            Self::Unreachable { attempts } => {
                attempts.last().and_then(|(_, error)| error.sqlstate())
            }
            _ => None,
        }
    }

    /// None was given, or it is the wrong one.
    pub fn is_about_a_password(&self) -> bool {
        match self {
            Self::PasswordMissing { .. } | Self::Scram { .. } => true,
            Self::Server(message) => message.sqlstate == "28P01",
            Self::Unreachable { attempts } => {
                let mut errors = attempts.iter().map(|(_, error)| error);
                errors.any(Self::is_about_a_password)
            }
            _ => false,
        }
    }

    /// A server is on its way down or up, and says so instead of taking a session.
    pub fn is_server_between_states(&self) -> bool {
        match self {
            Self::Server(message) => message.sqlstate == sqlstate::CANNOT_CONNECT_NOW,
            Self::Unreachable { attempts } => attempts
                .iter()
                .any(|(_, error)| error.is_server_between_states()),
            _ => false,
        }
    }

    /// What it has in common with its repeats: no duration, size or process id.
    pub fn kind(&self) -> String {
        match self {
            Self::Server(message) | Self::PublicationSkipped(message) => {
                format!("server {}", message.sqlstate)
            }
            Self::Unreachable { attempts } => {
                let kinds = attempts
                    .iter()
                    .map(|(host, error)| format!("{host}: {}", error.kind()));
                kinds.collect::<Vec<_>>().join("; ")
            }
            Self::Silent { .. } => "silent".to_owned(),
            Self::ConnectTimeout { .. } => "connect timeout".to_owned(),
            Self::Malformed(_) => "malformed".to_owned(),
            other => other.to_string(),
        }
    }

    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Server(message) | Self::PublicationSkipped(message) => one_line(&message.detail),
            Self::Unreachable { attempts } => match attempts.as_slice() {
                [(_, error)] => error.detail(),
                attempts => {
                    let all = attempts
                        .iter()
                        .map(|(host, error)| format!("{host}: {}", chain(error)));
                    Some(all.collect::<Vec<_>>().join("; "))
                }
            },
            _ => None,
        }
    }

    /// What somebody can do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Server(message) => return one_line(&message.hint).or_else(|| for_code(message)),
            Self::PublicationSkipped(_) => YOUNGER_PUBLICATION,
            Self::Unreachable { attempts } => {
                return attempts.last().and_then(|(_, error)| error.hint());
            }
            Self::Connect { .. } | Self::ConnectTimeout { .. } => {
                "Check postgres.host and postgres.port, that the server listens on that address (listen_addresses), and what lies between."
            }
            Self::TlsRefused => "Set ssl = on in postgresql.conf, or sslmode to prefer.",
            Self::Tls { .. } => {
                "Check the server's certificate, postgres.sslmode and postgres.sslrootcert."
            }
            Self::TlsOptions { .. } => "Correct postgres.sslmode or the setting that it names.",
            Self::TlsFile { .. } => "Check that the file is PEM and that the relay may read it.",
            Self::PasswordMissing { .. } => {
                "Set postgres.password, postgres.password_file or PGPASSFILE."
            }
            Self::AuthenticationMethod { .. } => {
                "Let pg_hba.conf ask this role for scram-sha-256, md5, password or a certificate."
            }
            Self::Scram { .. } => {
                "Check the role's password, and that it goes to the right server."
            }
            Self::WrongServer { .. } => {
                "Name the primary's address, or several hosts to choose from."
            }
            Self::Closed | Self::Silent { .. } | Self::Io { .. } => {
                "Look at the server's log and at proxies and networks between."
            }
            Self::StreamEnded | Self::StoppingServer => "Wait until the server is back.",
            Self::Malformed(_) | Self::Unexpected { .. } => {
                "See that no proxy or pooler stands between: it has to speak the replication protocol. Otherwise report this together with the server's version."
            }
            Self::Sql(_) => return None,
        };
        Some(hint.to_owned())
    }

    /// Of a statement that comes near rows: what the server says can be a trigger's or a function's, with
    /// values of theirs, under any code that they like. Its code says what it is.
    pub(crate) fn without_words(error: impl Into<Self>) -> Self {
        match error.into() {
            Self::Server(told) => Self::Server(Box::new(ServerMessage {
                message: sqlstate::meaning(&told.sqlstate).to_owned(),
                detail: None,
                hint: None,
                ..*told
            })),
            other => other,
        }
    }

    /// The many ways in which a socket says that the other side is gone are one.
    pub(super) fn broken(source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset => Self::Closed,
            _ => Self::Io { source },
        }
    }

    pub(super) fn unexpected(expected: &'static str, tag: u8) -> Self {
        Self::Unexpected { expected, tag }
    }
}

/// For what the server refuses without a hint of its own (PostgreSQL's manual, appendix A).
fn for_code(message: &ServerMessage) -> Option<String> {
    let hint = match message.sqlstate.as_str() {
        // A type or a slot can be undefined, too.
        sqlstate::UNDEFINED_OBJECT if message.routine.as_deref() == Some(OF_PUBLICATIONS) => {
            YOUNGER_PUBLICATION
        }
        sqlstate::PROTOCOL_VIOLATION if message.message.contains("startup parameter") => POOLER,
        "28P01" => "Check the role's password.",
        "28000" => {
            "Let pg_hba.conf take this role from this address, for its database and for replication."
        }
        sqlstate::INVALID_CATALOG_NAME => NO_DATABASE,
        "42501" => "Grant the role what it lacks; outboxd check has the SQL.",
        "53300" => {
            "Raise max_connections or max_wal_senders, or keep room with reserved_connections."
        }
        "53400" => "Raise max_replication_slots, or drop a slot that nobody uses.",
        "55006" => {
            "Stop the other reader of the slot, or end it: SELECT pg_terminate_backend(PID)."
        }
        sqlstate::CANNOT_CONNECT_NOW => "Wait: the server is starting or stopping.",
        "57P01" | "57P02" => {
            "The server ended the session: it stops, or somebody ended it. Its log says why."
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

fn one_line(text: &Option<String>) -> Option<String> {
    text.as_deref().map(|text| OneLine(text).to_string())
}

/// An error and what caused it, as one sentence.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

impl fmt::Display for PostgresError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { attempts } => match attempts.as_slice() {
                [(host, error)] => write!(f, "cannot connect to PostgreSQL at {host}: {error}"),
                _ => write!(
                    f,
                    "cannot connect to any of {} PostgreSQL hosts",
                    attempts.len()
                ),
            },
            Self::Connect { source } => write!(f, "connection failed: {source}"),
            Self::ConnectTimeout { after } => write!(f, "no answer within {after:?}"),
            Self::TlsRefused => f.write_str("the server does not speak TLS"),
            Self::Tls { reason } => write!(f, "TLS failed: {}", OneLine(reason)),
            Self::TlsOptions { reason } => f.write_str(reason),
            Self::TlsFile { path, reason } => write!(f, "file \"{path}\" cannot be used: {reason}"),
            Self::PasswordMissing { method } => {
                write!(
                    f,
                    "the server asks for a password ({method}) and none is set"
                )
            }
            Self::AuthenticationMethod { method } => {
                write!(
                    f,
                    "the server asks for authentication by {method}, which is not supported"
                )
            }
            Self::Scram { source } => write!(f, "SCRAM authentication failed: {source}"),
            Self::WrongServer { wanted } => write!(f, "the server is not {wanted}"),
            Self::Server(message) => message.fmt(f),
            Self::Closed => f.write_str("the server closed the connection"),
            Self::Silent { after } => write!(f, "the server said nothing for {after:?}"),
            Self::Io { source } => write!(f, "the connection broke: {source}"),
            Self::Malformed(error) => write!(f, "the server sent a malformed message: {error}"),
            Self::Unexpected { expected, tag } => {
                write!(
                    f,
                    "expected {expected} from the server, found message 0x{tag:02X}"
                )
            }
            Self::PublicationSkipped(message) => {
                write!(f, "the server skips the publication's rows: {message}")
            }
            Self::StreamEnded => f.write_str("the server ended the stream"),
            Self::StoppingServer => f.write_str("the server is shutting down"),
            Self::Sql(error) => f.write_str(&chain(error.as_ref())),
        }
    }
}

impl Error for PostgresError {}

impl From<ReadError> for PostgresError {
    fn from(error: ReadError) -> Self {
        Self::Malformed(error)
    }
}

/// What the server says is one kind of error, whichever session it came on.
impl From<tokio_postgres::Error> for PostgresError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(refusal) => Self::Server(Box::new(ServerMessage {
                severity: refusal
                    .parsed_severity()
                    .map_or_else(|| refusal.severity().to_owned(), |s| s.to_string()),
                sqlstate: refusal.code().code().to_owned(),
                message: refusal.message().to_owned(),
                detail: refusal.detail().map(str::to_owned),
                hint: refusal.hint().map(str::to_owned),
                routine: refusal.routine().map(str::to_owned),
            })),
            None if error.is_closed() => Self::Closed,
            None => Self::Sql(Box::new(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_comes_near_rows_only_the_code_is_told() {
        for (sqlstate, meaning) in [
            ("57014", "query canceled"),
            ("40001", "serialization failure"),
            ("08000", "connection exception"),
            ("53100", "disk full"),
            ("58030", "I/O error"),
            ("P0001", "PL/pgSQL error"),
        ] {
            let secret = || Some("secret".to_owned());
            let told = PostgresError::Server(Box::new(ServerMessage {
                severity: "ERROR".to_owned(),
                sqlstate: sqlstate.to_owned(),
                message: "a row has the secret".to_owned(),
                detail: secret(),
                hint: secret(),
                routine: None,
            }));
            let told = PostgresError::without_words(told);
            assert_eq!(told.to_string(), format!("ERROR {sqlstate}: {meaning}"));
            let rest = [told.detail(), told.hint()].map(Option::unwrap_or_default);
            assert!(!rest.concat().contains("secret"), "{rest:?}");
            assert_eq!(told.sqlstate(), Some(sqlstate));
        }
    }
}
