//! What the relay knew of its slot, as it is kept in a compacted topic: written before each
//! confirmation, read before each stream, compared with what the server says.

mod entry;
mod ledger;
mod verdict;

pub use entry::{Entry, EntryError};
pub use ledger::Ledger;
pub use verdict::{Gap, Knowledge, Server, judge};
