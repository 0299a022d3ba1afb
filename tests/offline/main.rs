//! Tests that need no server.
#![allow(clippy::unwrap_used)]

// Each test binary uses a part of it.
#[allow(dead_code, unreachable_pub)]
#[path = "../support/mod.rs"]
mod support;

mod compatibility;
mod configuration;
mod ending;
mod errands;
mod fuzz;
mod handover;
mod messages;
mod metrics;
mod pgoutput_builder;
mod pgoutput_golden;
mod recorded;
mod shipped;
mod simulation;
mod tidy;
mod types;
