//! See `lighthaul_fuzz::stripe::machines`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::stripe::machines(octets));
