//! See `lighthaul_fuzz::stripe::wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::stripe::wire(octets));
