//! See `lighthaul_fuzz::circuit::answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::circuit::answer(octets));
