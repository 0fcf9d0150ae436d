//! See `lighthaul_fuzz::vbtp::machines`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::vbtp::machines(octets));
