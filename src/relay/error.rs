//! What ends a session, and what ends the relay.

use std::error::Error;
use std::fmt;

use crate::kafka::{DeliveryError, PublishError};
use crate::observe::Problem;
use crate::pipeline::PipelineError;
use crate::postgres::slot::SlotVerdict;
use crate::postgres::{ObjectError, PostgresError, chain};

#[derive(Debug)]
pub enum RelayError {
    Postgres(PostgresError),
    Pipeline(PipelineError),
    Publish(PublishError),
    /// A record cannot be delivered and `relay.on_blocked` is `exit`.
    Undeliverable(DeliveryError),
    /// Table, slot or publication is not what the configuration needs.
    Object(ObjectError),
    /// The producer's thread ended by itself.
    ProducerGone,
}

impl RelayError {
    /// Primary, detail, hint, after the example of PostgreSQL's manual.
    pub fn problem(&self) -> Problem {
        let problem = |message: String, detail: Option<String>, hint: Option<String>| Problem {
            message,
            detail,
            hint,
        };
        match self {
            Self::Postgres(error) => problem(error.to_string(), error.detail(), error.hint()),
            Self::Pipeline(error) => {
                let hint = match error {
                    PipelineError::Route(unroutable) => unroutable.source.hint(),
                    _ => "Report this together with the server's version.".to_owned(),
                };
                problem(error.to_string(), error.source().map(chain), Some(hint))
            }
            Self::Publish(error) => problem(error.to_string(), error.source().map(chain), None),
            Self::Undeliverable(error) => problem(error.to_string(), None, Some(error.hint())),
            Self::Object(error) => problem(error.to_string(), error.detail(), error.hint()),
            Self::ProducerGone => {
                problem("the Kafka producer ended unexpectedly".into(), None, None)
            }
        }
    }
}

impl RelayError {
    /// The slot is invalidated: its detail says which positions cannot be streamed any more.
    pub(super) const fn is_loss(&self) -> bool {
        matches!(
            self,
            Self::Object(ObjectError::SlotUnusable {
                verdict: SlotVerdict::Lost { .. },
                ..
            })
        )
    }
}

impl From<ObjectError> for RelayError {
    fn from(error: ObjectError) -> Self {
        match error {
            ObjectError::Session(error) => Self::Postgres(error),
            error => Self::Object(error),
        }
    }
}

impl fmt::Display for RelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem().message)
    }
}

impl Error for RelayError {}

impl From<PostgresError> for RelayError {
    fn from(error: PostgresError) -> Self {
        Self::Postgres(error)
    }
}

impl From<PublishError> for RelayError {
    fn from(error: PublishError) -> Self {
        Self::Publish(error)
    }
}
