//! See `lighthaul_fuzz::transfer::journal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::transfer::journal(octets));
