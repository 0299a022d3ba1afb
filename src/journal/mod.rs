//! What the relay knew of its slot, as it is kept in a compacted topic: written before each
//! confirmation, read before each stream, compared with what the server says.

mod beginning;
mod claim;
mod entry;
mod ledger;
mod verdict;

pub use beginning::{Beginning, Found, Past};
pub use claim::Claim;
pub use entry::{Entry, EntryError, SlotState};
pub use ledger::Ledger;
pub use verdict::{Gap, Knowledge, Server, judge};
