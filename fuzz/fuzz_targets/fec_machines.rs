//! See `lighthaul_fuzz::fec::machines`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::fec::machines(octets));
