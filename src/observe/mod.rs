//! What can be seen from outside: logs, metrics, probes, status.

mod http;
mod logging;
mod metrics;
mod options;
mod status;

pub use http::{HttpError, serve};
pub use logging::{Repeated, escaped, init_logging};
pub use metrics::Metrics;
pub use options::{HttpOptions, LogFormat, LogOptions};
pub use status::{Positions, Problem, SlotFacts, State, Status};
