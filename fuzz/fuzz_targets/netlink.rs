//! See `lighthaul_fuzz::circuit::netlink`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::circuit::netlink(octets));
