//! Whether a stream begins at the slot's position or after what the connector has delivered. In doubt
//! it begins at the slot's: that repeats, and loses nothing.

use std::fmt;

use super::offset::{ConnectorOffset, Kind, Snapshot};
use super::search::{Delivered, Place};
use crate::lsn::Lsn;

/// The slot and its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What is confirmed: the slot's position, or the relay's own where that is further.
    pub confirmed: Lsn,
    /// Where the server writes.
    pub written: Lsn,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    After(Delivered),
    AtSlot(AtSlot),
}

/// Why the connector's offset does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtSlot {
    /// It has none, or it was taken out.
    NoOffset,
    /// Everything that it had delivered is confirmed.
    Confirmed,
    /// Of a snapshot: what follows it begins where the slot does.
    Snapshot,
    /// Rows that were in the table may not be in Kafka.
    IncompleteSnapshot,
    /// The server has not come that far: it is another one, or an older state of it.
    BeyondServer { offset: Lsn, written: Lsn },
    /// It does not say which transaction it stands in.
    Unclear,
}

pub fn decide(offset: Option<&ConnectorOffset>, standing: Standing) -> Start {
    let Some(offset) = offset else {
        return Start::AtSlot(AtSlot::NoOffset);
    };
    let reached = offset.furthest();
    if reached > standing.written {
        return Start::AtSlot(AtSlot::BeyondServer {
            offset: reached,
            written: standing.written,
        });
    }
    match offset.snapshot {
        Some(Snapshot::Complete) => return Start::AtSlot(AtSlot::Snapshot),
        Some(Snapshot::Incomplete) => return Start::AtSlot(AtSlot::IncompleteSnapshot),
        None => {}
    }
    // The position of a row may be the end of the commit before it, so that alone does not settle it.
    let is_past = match offset.kind {
        Kind::Row | Kind::Begin => standing.confirmed > reached,
        Kind::Commit | Kind::Unknown => standing.confirmed >= reached,
    };
    if is_past {
        return Start::AtSlot(AtSlot::Confirmed);
    }
    let Some(transaction) = offset.transaction else {
        return Start::AtSlot(AtSlot::Unclear);
    };
    let place = match (offset.kind, offset.committed) {
        (Kind::Row, _) => Place::Row { lsn: offset.lsn },
        (Kind::Begin, _) => Place::Begin,
        (Kind::Commit, Some(end)) => Place::Commit { end },
        (Kind::Commit, None) | (Kind::Unknown, _) => return Start::AtSlot(AtSlot::Unclear),
    };
    Start::After(Delivered {
        place,
        xid: transaction.xid,
        commit_time: transaction.commit_time,
        committed: offset.committed,
    })
}

impl AtSlot {
    /// The operator has something to look at.
    pub const fn is_unexpected(self) -> bool {
        match self {
            Self::Confirmed | Self::Snapshot => false,
            Self::NoOffset
            | Self::IncompleteSnapshot
            | Self::BeyondServer { .. }
            | Self::Unclear => true,
        }
    }
}

impl fmt::Display for AtSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOffset => f.write_str("the connector has no offset there"),
            Self::Confirmed => {
                f.write_str("everything that the connector's offset stands for is confirmed")
            }
            Self::Snapshot => f.write_str("the connector's offset is of its snapshot"),
            Self::IncompleteSnapshot => f.write_str(
                "the connector's snapshot is not complete: rows that were in the table may be missing in Kafka",
            ),
            Self::BeyondServer { offset, written } => write!(
                f,
                "the connector's offset {offset} lies beyond {written}, where the server writes: it belongs to another server, or this one was restored"
            ),
            Self::Unclear => {
                f.write_str("the connector's offset does not name the transaction it stands in")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::offset::Transaction;
    use super::*;
    use crate::timestamp::Timestamp;

    const TIME: Timestamp = Timestamp::from_postgres_us(7);

    fn offset(kind: Kind, lsn: u64, committed: Option<u64>) -> ConnectorOffset {
        ConnectorOffset {
            lsn: Lsn::new(lsn),
            committed: committed.map(Lsn::new),
            transaction: Some(Transaction {
                xid: 5,
                commit_time: TIME,
            }),
            kind,
            snapshot: None,
        }
    }

    fn decided(offset: &ConnectorOffset, confirmed: u64) -> Start {
        let standing = Standing {
            confirmed: Lsn::new(confirmed),
            written: Lsn::new(1000),
        };
        decide(Some(offset), standing)
    }

    fn after(place: Place, committed: Option<u64>) -> Start {
        Start::After(Delivered {
            place,
            xid: 5,
            commit_time: TIME,
            committed: committed.map(Lsn::new),
        })
    }

    #[test]
    fn a_row_counts_until_something_behind_it_is_confirmed() {
        let row = offset(Kind::Row, 300, Some(200));
        let place = Place::Row { lsn: Lsn::new(300) };
        for confirmed in [100, 200, 250, 300] {
            assert_eq!(decided(&row, confirmed), after(place, Some(200)));
        }
        assert_eq!(decided(&row, 301), Start::AtSlot(AtSlot::Confirmed));
        // A long transaction's row lies before the commit that was sent before it.
        let early = offset(Kind::Row, 150, Some(200));
        let place = Place::Row { lsn: Lsn::new(150) };
        assert_eq!(decided(&early, 200), after(place, Some(200)));
        assert_eq!(decided(&early, 201), Start::AtSlot(AtSlot::Confirmed));
        // The first that a connector streams has no commit before it.
        let first = offset(Kind::Row, 300, None);
        let place = Place::Row { lsn: Lsn::new(300) };
        assert_eq!(decided(&first, 300), after(place, None));
    }

    #[test]
    fn a_commit_counts_until_it_is_confirmed() {
        let commit = offset(Kind::Commit, 300, Some(300));
        let end = Lsn::new(300);
        assert_eq!(
            decided(&commit, 299),
            after(Place::Commit { end }, Some(300))
        );
        assert_eq!(decided(&commit, 300), Start::AtSlot(AtSlot::Confirmed));
    }

    #[test]
    fn a_begin_has_none_of_its_rows() {
        let begin = offset(Kind::Begin, 300, Some(200));
        assert_eq!(decided(&begin, 200), after(Place::Begin, Some(200)));
    }

    #[test]
    fn what_is_of_another_server_of_a_snapshot_or_unclear_does_not_count() {
        let standing = Standing {
            confirmed: Lsn::new(100),
            written: Lsn::new(299),
        };
        let row = offset(Kind::Row, 300, Some(200));
        let beyond = AtSlot::BeyondServer {
            offset: Lsn::new(300),
            written: Lsn::new(299),
        };
        assert_eq!(decide(Some(&row), standing), Start::AtSlot(beyond));
        assert_eq!(decide(None, standing), Start::AtSlot(AtSlot::NoOffset));
        let unclear = ConnectorOffset {
            transaction: None,
            ..row.clone()
        };
        assert_eq!(decided(&unclear, 100), Start::AtSlot(AtSlot::Unclear));
        let beat = offset(Kind::Unknown, 300, None);
        assert_eq!(decided(&beat, 100), Start::AtSlot(AtSlot::Unclear));
        assert_eq!(decided(&beat, 300), Start::AtSlot(AtSlot::Confirmed));
        for (snapshot, expected) in [
            (Snapshot::Complete, AtSlot::Snapshot),
            (Snapshot::Incomplete, AtSlot::IncompleteSnapshot),
        ] {
            let offset = ConnectorOffset {
                snapshot: Some(snapshot),
                ..row.clone()
            };
            assert_eq!(decided(&offset, 100), Start::AtSlot(expected));
        }
    }
}
