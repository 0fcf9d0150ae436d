//! See `lighthaul_fuzz::buckets::answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::buckets::answer(octets));
