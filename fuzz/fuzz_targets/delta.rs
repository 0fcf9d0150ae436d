//! See `lighthaul_fuzz::transfer::delta`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::transfer::delta(octets));
