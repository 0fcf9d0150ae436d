//! See `lighthaul_fuzz::rbudp::machines`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::rbudp::machines(octets));
