//! The one place that decides between trying again and stopping.

use super::{RelayError, SeenOffset};
use crate::journal::Gap;
use crate::kafka::ReadError;
use crate::pipeline::PipelineError;
use crate::postgres::slot::SlotVerdict;
use crate::postgres::{ObjectError, PostgresError, sqlstate};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disposition {
    /// Heals by itself, or by somebody's hand elsewhere: try again for ever, with pauses.
    Retry,
    /// Somebody has to mend it on the server: blocked until then, and asked again with pauses.
    Wait,
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
        // Without it from then on: at the slot's position.
        RelayError::Pipeline(
            PipelineError::ConnectorOffset { .. } | PipelineError::OtherHistory { .. },
        ) => Disposition::Retry,
        RelayError::Publish(_) => Disposition::Exit,
        RelayError::Undeliverable(_) => Disposition::Exit,
        RelayError::Object(error) => object(error),
        // Somebody has to decide whether what is missing may be missing.
        // An address that leads to the right server again needs nobody.
        RelayError::Gap(Gap::OtherSystem { .. } | Gap::OtherHistory { .. }) => Disposition::Wait,
        RelayError::Gap(
            Gap::OtherSlot { .. } | Gap::Rewound { .. } | Gap::Missing { .. } | Gap::Moved { .. },
        )
        | RelayError::JournalEntry { .. } => Disposition::Hold,
        // The connector's offset is looked at once the slot is free.
        RelayError::MovedSlot(moved) => match moved.offset {
            SeenOffset::InUse => Disposition::Wait,
            SeenOffset::Unreadable { .. } | SeenOffset::Read(_) => Disposition::Hold,
        },
        // The address leads to the primary again, or the standby becomes one.
        RelayError::Standby { .. } => Disposition::Wait,
        // Each attempt would publish the rows before it again.
        RelayError::SnapshotCut { .. } => Disposition::Hold,
        RelayError::JournalUnread(ReadError::TopicAuthorization { .. }) => Disposition::Wait,
        // Brokers that are away are waited for.
        RelayError::JournalUnread(
            ReadError::Client(_)
            | ReadError::TopicMissing { .. }
            | ReadError::BeyondEnd { .. }
            | ReadError::Silent { .. },
        )
        | RelayError::OffsetsUnread(_) => Disposition::Retry,
        RelayError::ProducerGone | RelayError::JournalUnwritten { .. } => Disposition::Exit,
    }
}

fn object(error: &ObjectError) -> Disposition {
    match error {
        ObjectError::Session(error) => postgres(error),
        // Rows lie between what was published and what the slot would send next: going on by itself
        // would leave them out without a word.
        ObjectError::SlotAppeared { .. } | ObjectError::SlotMoved { .. } => Disposition::Hold,
        ObjectError::SlotUnusable {
            verdict: SlotVerdict::Lost { .. },
            ..
        } => Disposition::Hold,
        // It ends with the transactions that it waits for.
        ObjectError::SlotUnusable {
            verdict: SlotVerdict::BeingMade { .. },
            ..
        } => Disposition::Retry,
        ObjectError::SlotUnusable { .. }
        | ObjectError::NoTable { .. }
        | ObjectError::NotPublishable { .. }
        | ObjectError::PublicationMissing { .. }
        | ObjectError::PublicationGone { .. }
        | ObjectError::PublicationRefused { .. }
        | ObjectError::PublicationLacksTable { .. }
        | ObjectError::PublicationLacksInserts { .. }
        | ObjectError::PublicationForAllTables { .. }
        | ObjectError::NoRoomForSlot { .. }
        | ObjectError::FailoverUnsupported { .. }
        | ObjectError::RowsUnreadable { .. }
        | ObjectError::SelectionRefused { .. }
        | ObjectError::SelectionUnclosed { .. }
        | ObjectError::GeneratedColumn { .. }
        | ObjectError::NoTimeColumn { .. }
        | ObjectError::ExpiredRows { .. }
        | ObjectError::ExpiredRowsKept { .. }
        | ObjectError::NotUtf8 { .. } => Disposition::Wait,
    }
}

fn postgres(error: &PostgresError) -> Disposition {
    match error {
        PostgresError::Unreachable { attempts } => {
            let all = |wanted| attempts.iter().all(|(_, error)| postgres(error) == wanted);
            match () {
                () if all(Disposition::Exit) => Disposition::Exit,
                () if all(Disposition::Wait) => Disposition::Wait,
                () => Disposition::Retry,
            }
        }
        PostgresError::TlsOptions { .. }
        | PostgresError::TlsFile { .. }
        | PostgresError::PasswordMissing { .. }
        | PostgresError::AuthenticationMethod { .. } => Disposition::Exit,
        // The publication is gone, or younger than what the slot has to send.
        PostgresError::PublicationSkipped(_) => Disposition::Wait,
        PostgresError::Server(message)
            if [sqlstate::UNDEFINED_OBJECT, sqlstate::INVALID_CATALOG_NAME]
                .contains(&message.sqlstate.as_str()) =>
        {
            Disposition::Wait
        }
        // Whatever the server refuses can be mended on the server, and is cheap to ask again: a
        // password that is rotated, a database that is restored, a right that is granted.
        PostgresError::Server(_) | PostgresError::Sql(_) => Disposition::Retry,
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
        | PostgresError::StreamEnded
        | PostgresError::StoppingServer => Disposition::Retry,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsn::Lsn;
    use crate::relay::{MovedSlot, OnStandby};

    fn not_utf8() -> ObjectError {
        ObjectError::NotUtf8 {
            table: "public.outbox".into(),
            column: "payload".into(),
        }
    }

    #[test]
    fn what_a_standby_lacks_is_asked_for_again_and_on_a_primary_it_is_for_the_operator() {
        let (confirmed, written) = (Lsn::new(200), Lsn::new(150));
        let missing = Gap::Missing {
            slot: "outbox".into(),
            from: confirmed,
            to: written,
        };
        let moved = Gap::Moved {
            slot: "outbox".into(),
            from: written,
            to: confirmed,
        };
        for gap in [missing, moved, Gap::Rewound { confirmed, written }] {
            let seen = OnStandby::in_place_of(&gap).unwrap();
            let slot = "outbox".to_owned();
            let on_standby = RelayError::Standby { slot, seen };
            assert_eq!(disposition(&on_standby), Disposition::Wait);
            assert!(!on_standby.is_loss());
            assert_eq!(disposition(&gap.into()), Disposition::Hold);
        }
    }

    #[test]
    fn a_moved_slot_that_is_in_use_is_looked_at_again() {
        let moved = |offset| {
            let (slot, from, to) = ("outbox".to_owned(), Lsn::new(100), Lsn::new(200));
            disposition(&RelayError::MovedSlot(Box::new(MovedSlot {
                gap: Gap::Moved { slot, from, to },
                connector: "shop".to_owned(),
                store: "topic connect-offsets".to_owned(),
                offset,
            })))
        };
        assert_eq!(moved(SeenOffset::InUse), Disposition::Wait);
        let reason = "no such file".to_owned();
        let unreadable = SeenOffset::Unreadable { reason };
        assert_eq!(moved(unreadable), Disposition::Hold);
    }

    #[test]
    fn a_snapshot_that_has_published_rows_is_not_begun_again_by_itself() {
        let of_snapshot = |rows| RelayError::of_snapshot(not_utf8(), rows);
        assert_eq!(disposition(&of_snapshot(0)), Disposition::Wait);
        assert_eq!(disposition(&of_snapshot(7)), Disposition::Hold);
        let cut = ObjectError::Session(PostgresError::Closed);
        let cut = RelayError::of_snapshot(cut, 7);
        assert_eq!(disposition(&cut), Disposition::Retry);
    }

    #[test]
    fn a_slot_that_is_still_being_made_is_waited_for() {
        let being_made = RelayError::Object(ObjectError::SlotUnusable {
            name: "outbox".into(),
            verdict: SlotVerdict::BeingMade { by: None },
        });
        assert_eq!(disposition(&being_made), Disposition::Retry);
    }
}
