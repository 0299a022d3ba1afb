//! The one place that decides between trying again and stopping.

use super::RelayError;
use crate::pipeline::PipelineError;
use crate::postgres::PostgresError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disposition {
    /// Heals by itself, or by somebody's hand elsewhere: try again for ever, with pauses.
    Retry,
    /// The operator has to choose: stay up, say so, confirm nothing, do not connect again.
    Hold,
    /// The configuration or the environment is wrong in a way that trying again cannot change.
    Exit,
}

/// No wildcard for kinds of errors: a new one does not compile until it is decided here.
pub(super) fn disposition(error: &RelayError) -> Disposition {
    match error {
        RelayError::Postgres(error) => postgres(error),
        RelayError::Pipeline(PipelineError::Route(_)) => Disposition::Hold,
        // Bytes that were misread once are not better read a second time, but a connection that
        // was cut in the middle can look like that.
        RelayError::Pipeline(PipelineError::Decode { .. } | PipelineError::OutOfOrder { .. }) => {
            Disposition::Retry
        }
        RelayError::Publish(_) => Disposition::Exit,
        RelayError::Undeliverable(_) => Disposition::Exit,
        // A missing table, publication or grant is mended on the server, not here.
        RelayError::Source(_) => Disposition::Retry,
        RelayError::Lost(_) => Disposition::Hold,
        RelayError::ProducerGone => Disposition::Exit,
    }
}

fn postgres(error: &PostgresError) -> Disposition {
    match error {
        PostgresError::Unreachable { attempts } => {
            let settled = attempts
                .iter()
                .all(|(_, error)| postgres(error) == Disposition::Exit);
            if settled {
                Disposition::Exit
            } else {
                Disposition::Retry
            }
        }
        PostgresError::TlsOptions { .. }
        | PostgresError::TlsFile { .. }
        | PostgresError::PasswordMissing { .. }
        | PostgresError::AuthenticationMethod { .. } => Disposition::Exit,
        // Whatever the server refuses can be mended on the server, and is cheap to ask again: a
        // password that is rotated, a database that is restored, a right that is granted.
        PostgresError::Server(_) | PostgresError::Sql(_) | PostgresError::PublicationSkipped(_) => {
            Disposition::Retry
        }
        PostgresError::Connect { .. }
        | PostgresError::ConnectTimeout { .. }
        | PostgresError::TlsRefused
        | PostgresError::Tls { .. }
        | PostgresError::Scram { .. }
        | PostgresError::WrongServer { .. }
        | PostgresError::Closed
        | PostgresError::Silent { .. }
        | PostgresError::Io { .. }
        | PostgresError::Malformed(_)
        | PostgresError::Unexpected { .. }
        | PostgresError::StreamEnded => Disposition::Retry,
    }
}
