//! See `lighthaul_fuzz::stream::coded`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::stream::coded(octets));
