//! See `lighthaul_fuzz::transfer::stage_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::transfer::stage_log(octets));
