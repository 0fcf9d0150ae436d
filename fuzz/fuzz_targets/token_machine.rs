//! See `lighthaul_fuzz::token::machine`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::token::machine(octets));
