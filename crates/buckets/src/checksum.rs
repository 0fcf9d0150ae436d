//! CRC-64/NVME as S3 has it: of parts, of whole objects, and in base64.

use crc_fast::{CrcAlgorithm, Digest, checksum, checksum_combine};
use data_encoding::BASE64;

/// Checksum of bytes that come one after the other.
#[derive(Debug)]
pub struct Running(Digest);

impl Default for Running {
    fn default() -> Self {
        Self::new()
    }
}

impl Running {
    /// Begins a checksum.
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc64Nvme))
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the checksum of all bytes.
    pub fn finish(self) -> u64 {
        self.0.finalize()
    }
}

/// Returns the checksum of `bytes`.
pub fn of(bytes: &[u8]) -> u64 {
    checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

/// Returns the checksum of bytes with the checksum `before`, and then `len` bytes with `after`.
pub fn combined(before: u64, after: u64, len: u64) -> u64 {
    checksum_combine(CrcAlgorithm::Crc64Nvme, before, after, len)
}

/// Returns the checksum as headers have it.
pub fn encode(crc: u64) -> String {
    BASE64.encode(&crc.to_be_bytes())
}

/// Reads a checksum of a header.
pub fn decode(text: &str) -> Option<u64> {
    let octets = BASE64.decode(text.as_bytes()).ok()?;
    Some(u64::from_be_bytes(octets.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_parts_combine() {
        let bytes = b"some bytes of an object";
        for cut in 0..=bytes.len() {
            let (one, other) = bytes.split_at(cut);
            let whole = combined(of(one), of(other), other.len() as u64);
            assert_eq!(whole, of(bytes), "{cut}");
            let mut running = Running::new();
            running.update(one);
            running.update(other);
            assert_eq!(running.finish(), of(bytes), "{cut}");
        }
        assert_eq!(decode(&encode(of(bytes))), Some(of(bytes)));
        assert_eq!(decode("AAAA"), None);
        // the check value of the catalog of parametrised CRC algorithms
        assert_eq!(of(b"123456789"), 0xae8b_1486_0a79_9888);
    }
}
