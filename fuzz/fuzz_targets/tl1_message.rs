//! See `lighthaul_fuzz::circuit::tl1`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::circuit::tl1(octets));
