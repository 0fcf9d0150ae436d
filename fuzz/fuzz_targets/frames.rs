//! See `lighthaul_fuzz::stream::frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::stream::frames(octets));
