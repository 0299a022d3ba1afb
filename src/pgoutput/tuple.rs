//! The columns of one row.

use smallvec::SmallVec;

/// A row's datums in column order.
#[derive(Debug, Default, PartialEq)]
pub struct Tuple<'a> {
    pub datums: SmallVec<[Datum<'a>; 16]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datum<'a> {
    Null,
    /// A TOASTed value that an update did not change: the server does not send it.
    UnchangedToast,
    /// The type's text output, in the database's encoding as the client asked for it (UTF-8).
    Text(&'a [u8]),
    Binary(&'a [u8]),
}
