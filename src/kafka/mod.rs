//! Everything that talks to Kafka, through librdkafka.
//!
//! One OS thread owns the producer, sends in ticket order and polls for deliveries. After a
//! failure it takes nothing new until it is told to go on: librdkafka delivers what was queued
//! behind a refused batch, so order is the caller's to restore ([`crate::ack::Window::resend`]).

mod check;
mod delivery;
mod error;
mod health;
mod options;
mod producer;
mod properties;
mod publisher;
mod stdout;
mod topic;

pub use check::reach;
pub use delivery::{DeliveryReport, DeliveryReports, Fate};
pub use error::{DeliveryError, DeliveryErrorKind, PublishError};
pub use health::Health;
pub use options::{Options, OptionsError};
pub(crate) use properties::is_secret;
pub use publisher::Publisher;
