//! See `lighthaul_fuzz::launch::program`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::launch::program(octets));
