//! What several tests share.

pub mod fuzz_entry;
pub mod golden;
pub mod mutation;
pub mod pgoutput_builder;
pub mod pgoutput_encoder;
