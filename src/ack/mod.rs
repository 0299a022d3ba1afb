//! Which position may be confirmed, and which records are outstanding.

mod ticket;

pub use ticket::Ticket;
