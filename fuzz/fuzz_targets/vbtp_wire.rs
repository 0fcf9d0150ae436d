//! See `lighthaul_fuzz::vbtp::wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::vbtp::wire(octets));
