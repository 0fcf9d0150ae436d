//! See `lighthaul_fuzz::scheduler::key_set`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::scheduler::key_set(octets));
