//! See `lighthaul_fuzz::token::wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::token::wire(octets));
