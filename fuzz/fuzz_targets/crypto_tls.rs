//! See `lighthaul_fuzz::io::record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::io::record(octets));
