use std::sync::Arc;

use crate::lsn::Lsn;
use crate::pgoutput::{Relation, Tuple};
use crate::timestamp::Timestamp;

/// One change of one row. Snapshot rows and streamed rows are the same thing to the router.
#[derive(Debug)]
pub struct Change<'a, 'row> {
    pub operation: Operation,
    pub relation: &'a Arc<Relation>,
    /// The row after the change; absent for delete and truncate.
    pub new: Option<&'a Tuple<'row>>,
    /// Commit time of the transaction; for a snapshot row the time of the snapshot.
    pub commit_time: Timestamp,
    /// Where the transaction commits; for a snapshot row the snapshot's consistent point.
    pub commit_lsn: Lsn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A row that a snapshot read.
    Read,
    Insert,
    Update,
    Delete,
    Truncate,
}
