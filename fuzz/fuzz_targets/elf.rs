//! See `lighthaul_fuzz::wrap::elf`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::wrap::elf(octets));
