//! See `lighthaul_fuzz::lab::description`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::lab::description(octets));
