//! The only room that sees both sides.

mod options;

pub use options::{OnBlocked, Options};
