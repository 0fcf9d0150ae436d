//! See `lighthaul_fuzz::domains::path_id`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::domains::path_id(octets));
