//! See `lighthaul_fuzz::vbtp::trc`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::vbtp::trc(octets));
