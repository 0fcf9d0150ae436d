//! Random numbers: correlation IDs and seeds, which differ after each restart.

use lighthaul_io::crypto::identity::random_octets;

/// Returns a random number, such as a correlation ID.
pub(crate) fn random_u128() -> u128 {
    u128::from_ne_bytes(random_octets())
}

/// Returns a random seed.
pub(crate) fn random_seed() -> u64 {
    u64::from_ne_bytes(random_octets())
}
