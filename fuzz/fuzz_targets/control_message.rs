//! See `lighthaul_fuzz::domains::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::domains::message(octets));
