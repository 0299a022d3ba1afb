//! Debezium's outbox Event Router: a change in, a record or the reason for none out.

mod record;

pub use record::{Header, Record};
