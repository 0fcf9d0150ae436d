//! See `lighthaul_fuzz::objects::answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::objects::answer(octets));
