//! See `lighthaul_fuzz::slabs::wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::slabs::wire(octets));
