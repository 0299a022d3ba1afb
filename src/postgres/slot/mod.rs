//! The replication slot: the server's memory of what the relay has confirmed.

mod leader;
mod manage;
mod options;
mod state;
mod statistics;

pub use leader::Leader;
pub(super) use manage::{FAILOVER_SINCE, copy_temporary, create_sql, refuse_failover};
pub use manage::{
    Reach, advance, create, drop, drop_when_free, end_reader, reach, server_version, set_failover,
};
pub use options::{CreateMode, SlotName, SlotNameError, SlotOptions};
pub use state::{SlotDescription, SlotHolder, SlotVerdict, WalStatus};
pub use statistics::SlotStatistics;
