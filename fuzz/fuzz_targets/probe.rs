//! See `lighthaul_fuzz::io::probe`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::io::probe(octets));
