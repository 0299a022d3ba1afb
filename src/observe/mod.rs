//! What can be seen from outside: logs, metrics, probes, status.

mod history;
mod http;
mod logging;
mod metrics;
mod options;
mod page;
mod patient;
mod status;
mod systemd;
mod terminal;

pub use http::{HttpError, serve};
pub use logging::{Repeated, escaped, init_logging};
pub use metrics::{Metrics, begin_at_zero, follow};
pub use options::{HttpOptions, ListenAddress, LogFormat, LogOptions};
pub use status::{Housekeeping, Positions, Problem, Role, ShownSetting, SlotFacts, State, Status};
pub use systemd::Supervisor;
pub use terminal::{answer, remark, say};
