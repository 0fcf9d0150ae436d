//! See `lighthaul_fuzz::io::extras`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::io::extras(octets));
