//! See `lighthaul_fuzz::remote::greeting`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::remote::greeting(octets));
