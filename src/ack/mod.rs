//! Which position may be confirmed, and which records are outstanding.
//!
//! Records are numbered in the order in which the pipeline made them ([`Ticket`]). The [`Window`]
//! keeps each one until it and every earlier one are acknowledged; the [`AckTracker`] turns "all
//! tickets before N are released" into the LSN that PostgreSQL may be told.

mod ticket;
mod tracker;
mod window;

pub use ticket::Ticket;
pub use tracker::{AckTracker, Committed, ConfirmedCommit};
pub use window::{Limits, Outcome, Resend, Window};
