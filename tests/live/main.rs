//! Tests against real PostgreSQL and real Kafka, through the built binary. They fail when a server
//! cannot be had.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../support/live/mod.rs"]
mod support;

mod article;
mod blocked;
mod check;
mod clock;
mod conformance;
mod consumer_state;
mod consumers;
mod dead_letters;
mod delivery;
mod failover;
mod faults;
mod fresh;
mod housekeeping;
mod journal;
mod kill_points;
mod lost;
mod network;
mod oncall;
mod preflight;
mod replay;
mod security;
mod setup;
mod slots;
mod snapshot;
mod source;
mod stops;
mod switch;
mod types;
mod walk;
