//! The way through a stream to the place where the connector stopped.
//!
//! Transactions come whole and in the order of their commits. What lies before the connector's own is
//! passed over; its own has to be there, with the same number and the same moment of commit, or the
//! offset is of another history and nothing that was passed over counts as delivered.

use std::fmt;

use crate::lsn::Lsn;
use crate::pgoutput::Begin;
use crate::timestamp::Timestamp;

/// Up to where a connector has delivered.
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

/// The transaction that the offset names is not where it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFound {
    pub xid: u32,
    /// The transaction that stands there; none where the stream has no more of them.
    pub found: Option<u32>,
}

/// The search is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
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
    delivered: Delivered,
    /// What was committed when the search began lies before it.
    limit: Lsn,
    rows: u64,
    /// The open transaction is the connector's: where it commits.
    inside: Option<Lsn>,
    over: bool,
}

impl Search {
    /// `limit` is where the server wrote when the connector had stopped.
    pub const fn new(delivered: Delivered, limit: Lsn) -> Self {
        Self {
            delivered,
            limit,
            rows: 0,
            inside: None,
            over: false,
        }
    }

    pub fn begin(&mut self, begin: &Begin) -> Result<(), NotFound> {
        let Delivered {
            xid, commit_time, ..
        } = self.delivered;
        self.inside = None;
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
    pub fn row(&mut self, lsn: Lsn, is_insert: bool) -> Taken {
        if let (Some(_), Place::Row { lsn: last }) = (self.inside, self.delivered.place) {
            // Of several rows at the position only the first is sure to be delivered.
            self.over = lsn >= last;
            if lsn > last {
                return Taken::ToPublish;
            }
        }
        self.rows += u64::from(is_insert);
        Taken::Delivered
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
            rows: self.rows,
            commit_lsn,
        })
    }

    const fn not_found(&self, found: Option<u32>) -> NotFound {
        NotFound {
            xid: self.delivered.xid,
            found,
        }
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { xid, found } = self;
        write!(f, "transaction {xid} has to be there, ")?;
        match found {
            Some(found) => write!(f, "and transaction {found} is"),
            None => f.write_str("and the stream goes on without it"),
        }
    }
}

impl std::error::Error for NotFound {}

#[cfg(test)]
mod tests;
