//! See `lighthaul_fuzz::scheduler::asked`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::scheduler::asked(octets));
