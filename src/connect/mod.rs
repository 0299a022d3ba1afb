//! What Kafka Connect had delivered when it was stopped, and how it is passed over. A connector
//! commits its place with each record: a row of a transaction, not a position behind which all is
//! done. `docs/protocol.md` has what was seen of it.

mod decision;
mod offset;
mod search;
mod testimony;

pub use decision::{AtSlot, Standing, Start, decide};
pub use offset::{ConnectorOffset, Kind, OffsetError, Snapshot, is_key_of};
pub use search::{Delivered, NotFound, Passed, Place, Search, Taken, Whose};
pub use testimony::Testimony;
