//! The way through a stream to the place where the connector stopped, or this relay itself before the
//! server was restarted.
//!
//! Transactions come whole and in the order of their commits. What lies before the last one that was
//! delivered is passed over; that one has to be there, with the same number and the same moment of
//! commit, or the place is of another history and nothing that was passed over counts as delivered.

use std::fmt;
use std::time::Duration;

use crate::lsn::Lsn;
use crate::pgoutput::Begin;
use crate::timestamp::Timestamp;

/// Who has delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Connector,
    Relay,
}

/// Up to where somebody has delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    pub place: Place,
    pub xid: u32,
    pub commit_time: Timestamp,
    /// The end of the transaction before; without it there was none before in the stream.
    pub committed: Option<Lsn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Everything before this position in the transaction, and the first row at it.
    Row { lsn: Lsn },
    /// Nothing of the transaction.
    Begin,
    /// All of the transaction.
    Commit { end: Lsn },
}

/// The place is not of this stream. `xid` is its transaction's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// The transaction is not where it has to be.
    Elsewhere {
        xid: u32,
        /// The transaction that stands there; none where the stream has no more of them.
        found: Option<u32>,
    },
    /// An event would be passed over that is older than what a connector leaves behind itself in its
    /// own slot.
    TooOld {
        xid: u32,
        passed: u32,
        older_by: Duration,
    },
}

/// A connector confirms to its slot what it has stored, once in an interval of a minute by default:
/// what lies further back than this is another slot's.
const LEFT_BEHIND: Duration = Duration::from_secs(15 * 60);

/// The search is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    pub whose: Whose,
    /// Inserted rows that were passed over.
    pub rows: u64,
    /// The transaction's commit.
    pub commit_lsn: Lsn,
}

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    Delivered,
    /// It is not delivered, and nothing after it is.
    ToPublish,
}

#[derive(Clone, Debug)]
pub struct Search {
    whose: Whose,
    delivered: Delivered,
    /// What was committed when the search began lies before it.
    limit: Lsn,
    rows: u64,
    /// The open transaction, and how much older than the last one it is.
    open: (u32, Duration),
    /// The open transaction is the last one: where it commits.
    inside: Option<Lsn>,
    over: bool,
}

impl Search {
    /// `limit` is where the server wrote when the connector had stopped.
    pub const fn new(delivered: Delivered, limit: Lsn) -> Self {
        Self::of(Whose::Connector, delivered, limit)
    }

    /// Up to the `end` of a transaction of which Kafka has all.
    pub const fn after(end: Lsn, xid: u32, commit_time: Timestamp) -> Self {
        let delivered = Delivered {
            place: Place::Commit { end },
            xid,
            commit_time,
            committed: Some(end),
        };
        Self::of(Whose::Relay, delivered, end)
    }

    pub const fn whose(&self) -> Whose {
        self.whose
    }

    const fn of(whose: Whose, delivered: Delivered, limit: Lsn) -> Self {
        Self {
            whose,
            delivered,
            limit,
            rows: 0,
            open: (0, Duration::ZERO),
            inside: None,
            over: false,
        }
    }

    pub fn begin(&mut self, begin: &Begin) -> Result<(), NotFound> {
        let Delivered {
            xid, commit_time, ..
        } = self.delivered;
        self.inside = None;
        let older_us = commit_time
            .as_postgres_us()
            .saturating_sub(begin.commit_time.as_postgres_us());
        let older_by = Duration::from_micros(u64::try_from(older_us).unwrap_or(0));
        self.open = (begin.xid, older_by);
        let is_it = begin.xid == xid && begin.commit_time == commit_time;
        if is_it {
            self.inside = Some(begin.final_lsn);
            self.over = self.delivered.place == Place::Begin;
            return Ok(());
        }
        // The commit that ends at a position begins before it.
        match self.delivered.committed {
            Some(committed) if begin.final_lsn < committed => Ok(()),
            _ => Err(self.not_found(Some(begin.xid))),
        }
    }

    /// A change of the open transaction.
    pub fn row(&mut self, lsn: Lsn, is_insert: bool) -> Result<Taken, NotFound> {
        if let (Some(_), Place::Row { lsn: last }) = (self.inside, self.delivered.place) {
            // Of several rows at the position only the first is sure to be delivered.
            self.over = lsn >= last;
            if lsn > last {
                return Ok(Taken::ToPublish);
            }
        }
        let (passed, older_by) = self.open;
        if self.whose == Whose::Connector && is_insert && older_by > LEFT_BEHIND {
            return Err(NotFound::TooOld {
                xid: self.delivered.xid,
                passed,
                older_by,
            });
        }
        self.rows += u64::from(is_insert);
        Ok(Taken::Delivered)
    }

    /// The open transaction ends at `end_lsn`.
    pub fn commit(&mut self, end_lsn: Lsn) -> Result<(), NotFound> {
        match (self.inside, self.delivered.place) {
            (Some(_), Place::Commit { end }) if end == end_lsn => self.over = true,
            (_, Place::Commit { end }) if end <= end_lsn => return Err(self.not_found(None)),
            (Some(_), Place::Row { .. } | Place::Begin) => self.over = true,
            (_, Place::Commit { .. }) | (None, _) => {}
        }
        Ok(())
    }

    /// Between transactions: the server has sent everything before `wal_end`.
    pub fn idle_at(&mut self, wal_end: Lsn) -> Result<(), NotFound> {
        if wal_end >= self.limit {
            return Err(self.not_found(None));
        }
        Ok(())
    }

    /// What follows is not delivered.
    pub fn passed(&self) -> Option<Passed> {
        let commit_lsn = self.inside.filter(|_| self.over)?;
        Some(Passed {
            whose: self.whose,
            rows: self.rows,
            commit_lsn,
        })
    }

    const fn not_found(&self, found: Option<u32>) -> NotFound {
        NotFound::Elsewhere {
            xid: self.delivered.xid,
            found,
        }
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elsewhere {
                xid,
                found: Some(found),
            } => write!(
                f,
                "transaction {xid} has to be there, and transaction {found} is"
            ),
            Self::Elsewhere { xid, found: None } => write!(
                f,
                "transaction {xid} has to be there, and the stream goes on without it"
            ),
            Self::TooOld {
                xid,
                passed,
                older_by,
            } => write!(
                f,
                "events of transaction {passed} would be passed over, which was committed {} min before the offset's own, {xid}; a connector's own slot is not so far behind it",
                older_by.as_secs() / 60
            ),
        }
    }
}

impl std::error::Error for NotFound {}

#[cfg(test)]
mod tests;
