//! See `lighthaul_fuzz::sabul::wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::sabul::wire(octets));
