//! Everything that talks to Kafka, through librdkafka.
//!
//! A producer has three threads: one sends in ticket order, one polls for deliveries, one asks for
//! topics. After a failure nothing new is sent until the caller says so: librdkafka delivers what
//! was queued behind a refused batch, so order is the caller's to restore
//! ([`crate::ack::Window::resend`]).

mod admin;
mod asker;
mod batch_limit;
mod check;
mod creation;
mod delivery;
mod error;
mod group;
mod health;
mod inspector;
mod options;
mod producer;
mod properties;
mod publisher;
mod reading;
mod stdout;
mod tail;
mod topic;
mod trial;
mod watched;

pub use check::{Cluster, reach};
pub use creation::{
    TopicCreation, TopicGroup, TopicPattern, TopicPatternError, TopicRules, TopicSettings,
    compacted,
};
pub use delivery::{DeliveryReport, DeliveryReports, Fate};
pub use error::{DeliveryError, DeliveryErrorKind, PublishError, SizeLimit};
pub use group::GroupOffsets;
pub use health::Health;
pub use inspector::{Answer, Inspector, SeenTopic, TopicLimits};
pub use options::{Options, OptionsError};
pub(crate) use properties::{is_property, is_secret};
pub use publisher::Publisher;
pub use reading::{Gone, Offsets, ReadError, Reading, StoredRecord};
pub use tail::{Ends, Tail};
pub use topic::is_valid_name;
pub use trial::Trial;
