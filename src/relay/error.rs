//! What ends a session, and what ends the relay.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::{MovedSlot, OnStandby};
use crate::journal::{EntryError, Gap};
use crate::kafka::{DeliveryError, PublishError, ReadError};
use crate::observe::Problem;
use crate::pipeline::PipelineError;
use crate::postgres::slot::SlotVerdict;
use crate::postgres::{ObjectError, PostgresError, chain};
use crate::router::Record;

#[derive(Debug)]
pub enum RelayError {
    Postgres(PostgresError),
    Pipeline(PipelineError),
    Publish(PublishError),
    /// A record cannot be delivered and `errors.on_blocked` is `exit`.
    Undeliverable(Undelivered),
    /// Table, slot or publication is not what the configuration needs.
    Object(ObjectError),
    /// The slot or its server is not what was known of it.
    Gap(Gap),
    /// The same after Kafka Connect.
    MovedSlot(Box<MovedSlot>),
    /// It is not what was known, and the server is a standby.
    Standby {
        slot: String,
        seen: OnStandby,
    },
    /// Some of a snapshot's rows were published before one that cannot be read.
    SnapshotCut {
        rows: u64,
        source: ObjectError,
    },
    JournalUnread(ReadError),
    /// Kafka said nothing to a command that had an entry for the journal.
    JournalUnwritten {
        topic: String,
        after: Duration,
        /// librdkafka's last words, where no broker can be reached.
        reason: Option<String>,
    },
    /// The topic of Kafka Connect's offsets.
    OffsetsUnread(ReadError),
    /// What stands in the journal under our key.
    JournalEntry {
        topic: String,
        key: String,
        offset: i64,
        source: EntryError,
    },
    /// The producer's thread ended by itself.
    ProducerGone,
}

/// A failed attempt, with the event that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    pub error: DeliveryError,
    /// The header `id`. Absent where the error is not about one record.
    pub event_id: Option<String>,
    /// It was to be written in the place of an event.
    pub is_dead_letter: bool,
}

impl Undelivered {
    pub fn new(error: DeliveryError, record: Option<&Record>) -> Self {
        let record = record.filter(|_| error.concerns_the_record());
        let event_id = record.and_then(Record::event_id).map(|id| short_id(&id));
        Self {
            error,
            event_id,
            is_dead_letter: false,
        }
    }

    /// As a relay says it that sends it again.
    pub(super) fn waiting(&self) -> Problem {
        let problem = self.problem();
        match self.error.may_heal() {
            true => tried_again(problem),
            false => problem,
        }
    }

    /// As the last word.
    pub(super) fn problem(&self) -> Problem {
        let event = self.event_id.as_deref();
        let event = event.map(|id| format!("The event has the id {id}."));
        let letter = self.is_dead_letter.then(|| IS_DEAD_LETTER.to_owned());
        let detail = letter.into_iter().chain(event).collect::<Vec<_>>();
        let message = match self.is_dead_letter {
            true => format!("a dead letter cannot be written: {}", self.error),
            false => self.error.to_string(),
        };
        Problem {
            message,
            detail: (!detail.is_empty()).then(|| detail.join(" ")),
            hint: Some(self.error.hint()),
        }
    }

    /// What it has in common with its repeats.
    pub(super) fn kind(&self) -> String {
        format!("{} {}", self.error.reason(), self.error.topic)
    }
}

/// Of what goes on: only a relay can promise it, and not one that ends.
pub(super) fn tried_again(problem: Problem) -> Problem {
    let hint = problem.hint.map(|hint| format!("{hint} {AGAIN}"));
    Problem {
        hint: Some(hint.unwrap_or_else(|| AGAIN.to_owned())),
        ..problem
    }
}

const AGAIN: &str = "It is tried again by itself.";

const IS_DEAD_LETTER: &str =
    "It is the dead letter of an event, which is in no other topic: nothing goes on without it.";
/// An id is short; what is longer is something else.
const ID_CHARACTERS: usize = 100;

/// An event's id as it may be told.
pub(super) fn short_id(id: &str) -> String {
    id.chars().take(ID_CHARACTERS).collect()
}

impl RelayError {
    /// What it has in common with its repeats, whatever durations and sizes they tell of.
    pub(super) fn kind(&self) -> String {
        match self {
            Self::Postgres(error) | Self::Object(ObjectError::Session(error)) => error.kind(),
            Self::Undeliverable(undelivered) => undelivered.kind(),
            // A standby replays on.
            Self::Standby { slot, seen } => seen.message(slot),
            Self::Pipeline(PipelineError::Decode { .. }) => "decode".to_owned(),
            Self::Pipeline(PipelineError::OutOfOrder { .. }) => "out of order".to_owned(),
            Self::Pipeline(PipelineError::ConnectorOffset { .. }) => "connector offset".to_owned(),
            Self::Pipeline(PipelineError::OtherHistory { .. }) => "other history".to_owned(),
            Self::Pipeline(PipelineError::Route(_))
            | Self::Object(_)
            | Self::Publish(_)
            | Self::Gap(_)
            | Self::MovedSlot(_)
            | Self::SnapshotCut { .. }
            | Self::JournalUnread(_)
            | Self::JournalUnwritten { .. }
            | Self::OffsetsUnread(_)
            | Self::JournalEntry { .. }
            | Self::ProducerGone => self.to_string(),
        }
    }

    /// Every word of [`Self::reason`].
    pub(super) const REASONS: [&str; 9] = [
        "unreachable",
        "refused",
        "closed",
        "silent",
        "server_stopping",
        "protocol",
        "object",
        "journal",
        "other",
    ];

    /// A short, fixed word for a metric's label: why a session ended or could not be had.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Postgres(error) | Self::Object(ObjectError::Session(error)) => of_session(error),
            Self::Pipeline(PipelineError::Decode { .. } | PipelineError::OutOfOrder { .. }) => {
                "protocol"
            }
            Self::Object(_)
            | Self::Gap(_)
            | Self::MovedSlot(_)
            | Self::Standby { .. }
            | Self::SnapshotCut { .. } => "object",
            Self::JournalUnread(_) | Self::JournalUnwritten { .. } | Self::JournalEntry { .. } => {
                "journal"
            }
            Self::Pipeline(
                PipelineError::ConnectorOffset { .. }
                | PipelineError::OtherHistory { .. }
                | PipelineError::Route(_),
            )
            | Self::OffsetsUnread(_)
            | Self::Publish(_)
            | Self::Undeliverable(_)
            | Self::ProducerGone => "other",
        }
    }

    /// Primary, detail, hint, after the example of PostgreSQL's manual. As the last word: a relay that
    /// goes on says so beside it.
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
                    PipelineError::ConnectorOffset { .. } => format!(
                        "The stream begins again at the slot's position. {} Check that the worker's and the connector's files are those of the connector that used this slot.",
                        super::handover::AT_SLOT
                    ),
                    PipelineError::OtherHistory { .. } => "The stream begins again at the slot's position: nothing of the server's history is left out. Its disk was put back to an earlier time, or another server has its identity: find out which, for Kafka has events that its database does not.".to_owned(),
                    _ => "Report this together with the server's version.".to_owned(),
                };
                problem(error.to_string(), error.source().map(chain), Some(hint))
            }
            Self::Publish(error) => {
                let hint = "Check the settings under kafka; outboxd check asks the brokers.";
                let cause = error.source().map(chain);
                problem(error.to_string(), cause, Some(hint.to_owned()))
            }
            Self::Undeliverable(undelivered) => undelivered.problem(),
            Self::Object(error) => problem(error.to_string(), error.detail(), error.hint()),
            Self::Gap(gap) => problem(gap.to_string(), Some(gap.detail()), Some(gap.hint())),
            Self::MovedSlot(moved) => moved.problem(),
            Self::Standby { slot, seen } => problem(seen.message(slot), Some(seen.detail()), Some(OnStandby::hint())),
            Self::SnapshotCut { rows, source } => {
                let again = format!("Kafka has the {rows} rows before it, and the next attempt publishes them once more: it is not made by itself.");
                let detail = source.detail().into_iter().chain([again]);
                let hint = source.hint().into_iter().chain(["Then start the relay again.".to_owned()]);
                problem(
                    format!("the snapshot cannot go on: {source}"),
                    Some(detail.collect::<Vec<_>>().join(" ")),
                    Some(hint.collect::<Vec<_>>().join(" ")),
                )
            }
            Self::JournalUnread(error) => problem(
                format!("the position journal cannot be read: {error}"),
                error.source().map(chain),
                Some(error.hint()),
            ),
            Self::JournalUnwritten { topic, after, reason } => problem(
                format!("the position journal cannot be written: no answer for {after:?}"),
                reason.clone().filter(|reason| !reason.is_empty()),
                Some(format!("Check that the brokers run and take records for topic \"{topic}\", kafka.bootstrap.servers and the security settings.")),
            ),
            Self::OffsetsUnread(error) => problem(
                format!("Kafka Connect's offsets cannot be read: {error}"),
                error.source().map(chain),
                Some(format!(
                    "{} With connect.offset_topic set to nothing the stream begins at the slot's position.",
                    error.hint()
                )),
            ),
            Self::JournalEntry { topic, key, offset, source } => problem(
                format!("the position journal's entry cannot be used: {source}"),
                Some(format!("Topic \"{topic}\", offset {offset}, key \"{key}\".")),
                Some("Use a relay that is not older than the one before, or give this one a position.key of its own. outboxd run --accept-gap writes the entry anew.".to_owned()),
            ),
            Self::ProducerGone => {
                let hint = "Start it again: nothing unacknowledged was confirmed. Report this.";
                let message = "the Kafka producer ended unexpectedly";
                problem(message.to_owned(), None, Some(hint.to_owned()))
            }
        }
    }
}

impl RelayError {
    /// What a snapshot met after `rows` of its rows were published.
    pub(super) fn of_snapshot(error: ObjectError, rows: u64) -> Self {
        match error {
            ObjectError::Session(error) => Self::Postgres(error),
            source if rows > 0 => Self::SnapshotCut { rows, source },
            error => Self::Object(error),
        }
    }

    /// The slot is invalidated or gone: the detail says which positions cannot be streamed any more.
    pub(super) fn is_loss(&self) -> bool {
        match self {
            Self::Gap(gap) => gap.is_loss(),
            Self::Object(ObjectError::SlotUnusable { verdict, .. }) => {
                matches!(verdict, SlotVerdict::Lost { .. })
            }
            _ => false,
        }
    }
}

fn of_session(error: &PostgresError) -> &'static str {
    match error {
        PostgresError::Unreachable { .. }
        | PostgresError::Connect { .. }
        | PostgresError::ConnectTimeout { .. }
        | PostgresError::TlsRefused
        | PostgresError::Tls { .. }
        | PostgresError::TlsOptions { .. }
        | PostgresError::TlsFile { .. }
        | PostgresError::PasswordMissing { .. }
        | PostgresError::AuthenticationMethod { .. }
        | PostgresError::Scram { .. }
        | PostgresError::WrongServer { .. } => "unreachable",
        PostgresError::Server(_) | PostgresError::PublicationSkipped(_) => "refused",
        PostgresError::Closed | PostgresError::Io { .. } | PostgresError::Sql(_) => "closed",
        PostgresError::Silent { .. } => "silent",
        PostgresError::StreamEnded | PostgresError::StoppingServer => "server_stopping",
        PostgresError::Malformed(_) | PostgresError::Unexpected { .. } => "protocol",
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

impl From<Gap> for RelayError {
    fn from(gap: Gap) -> Self {
        Self::Gap(gap)
    }
}

impl From<PublishError> for RelayError {
    fn from(error: PublishError) -> Self {
        Self::Publish(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::{DeliveryErrorKind, SizeLimit};

    #[test]
    fn that_it_is_tried_again_is_said_of_what_can_heal_and_goes_on() {
        let failure = |kind| {
            let topic = "t".into();
            Undelivered::new(DeliveryError { topic, kind }, None)
        };
        let missing = failure(DeliveryErrorKind::TopicMissing);
        let (last, waiting) = (missing.problem().hint, missing.waiting().hint);
        assert_eq!(waiting, last.map(|hint| format!("{hint} {AGAIN}")));
        let invalid = failure(DeliveryErrorKind::TopicInvalid);
        assert_eq!(invalid.waiting(), invalid.problem());
        let bare = tried_again(Problem::new("gone"));
        assert_eq!(bare.hint.as_deref(), Some(AGAIN));
    }

    #[test]
    fn the_repeats_of_a_failure_are_known_whatever_time_and_size_they_tell_of() {
        let silent = |ms| {
            RelayError::Postgres(PostgresError::Silent {
                after: Duration::from_millis(ms),
            })
        };
        assert_eq!(silent(10_001).kind(), silent(10_002).kind());
        let large = |size_bytes| {
            let limit = SizeLimit::Relay(1);
            let kind = DeliveryErrorKind::RecordTooLarge { size_bytes, limit };
            let topic = "t".into();
            Undelivered::new(DeliveryError { topic, kind }, None).kind()
        };
        assert_eq!(large(5), large(6));
        assert_ne!(
            silent(1).kind(),
            RelayError::Postgres(PostgresError::Closed).kind()
        );
    }
}
