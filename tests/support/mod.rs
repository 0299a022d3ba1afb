//! What several tests share.

pub mod golden;
pub mod pgoutput_builder;
pub mod pgoutput_encoder;
