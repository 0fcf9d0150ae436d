//! See `lighthaul_fuzz::packing::packing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::packing::packing(octets));
