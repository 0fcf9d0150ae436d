//! See `lighthaul_fuzz::booking::asked`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::booking::asked(octets));
