//! See `lighthaul_fuzz::scheduler::answered`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::scheduler::answered(octets));
