#![no_main]

#[allow(dead_code)]
#[path = "../../support/fuzz_entry.rs"]
mod fuzz_entry;
#[path = "../../support/pgoutput_encoder.rs"]
mod pgoutput_encoder;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_entry::pgoutput(bytes));
