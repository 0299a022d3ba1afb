//! The outbox tables as the catalog describes them.

mod filter;

pub use filter::{TableFilter, TableFilterError, TableLists};
