//! What happened to an outbox row, from the stream or from a snapshot, and what its columns hold
//! in Kafka Connect's terms.

mod catalog;
mod change;
mod decimal;
mod default;
mod interval;
mod nested;
mod oid;
mod options;
mod plausible;
mod read;
mod schema;
mod temporal;
mod types;
mod value;

pub use catalog::{CatalogColumn, CatalogType, TypeCatalog, TypeKind};
pub use change::{Change, Operation};
pub use decimal::Decimal;
pub use options::{
    BinaryHandling, DecimalHandling, HstoreHandling, IntervalHandling, TimePrecision, TypeOptions,
};
pub use plausible::plausible_text;
pub use read::Source;
pub use schema::{Field, Kind, Schema};
pub use types::ColumnType;
pub use value::{Value, ValueError};

pub(crate) use default::default_value;
pub(crate) use temporal::{civil, iso_microseconds};
pub(crate) use types::DECIMAL;
pub(crate) use value::point_wkb;
