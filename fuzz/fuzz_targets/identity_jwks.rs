//! See `lighthaul_fuzz::booking::key_set`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::booking::key_set(octets));
