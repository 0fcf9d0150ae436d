//! Answers of object stores.

/// Reads octets as each kind of answer.
pub fn answer(octets: &[u8]) {
    lighthaul_buckets::answers::read(octets);
}
