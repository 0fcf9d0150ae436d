//! Checksums of whole files, by which a copy finds equal files without sending them (`--checksum`).
//!
//! Files have BLAKE3, which each side computes. Object stores know other checksums of their objects, and the side with
//! the file computes the same kind.

use std::io;

use crc_fast::CrcAlgorithm;
use md5::Digest as _;
use serde::{Deserialize, Serialize};

/// Checksum of the whole content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContentSum {
    /// BLAKE3.
    Blake3([u8; 32]),
    /// CRC-64/NVME.
    Crc64Nvme(u64),
    /// SHA-256 (FIPS 180-4).
    Sha256([u8; 32]),
    /// MD5 (RFC 1321).
    Md5([u8; 16]),
}

/// Computation of a checksum.
enum Running {
    Blake3(Box<blake3::Hasher>),
    Crc64Nvme(crc_fast::Digest),
    Sha256(ring::digest::Context),
    Md5(md5::Md5),
}

impl ContentSum {
    /// Computes BLAKE3 of the `size` bytes that `read` reads. Fails with `UnexpectedEof` if there are fewer.
    pub fn blake3(
        size: u64,
        read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<Self> {
        Running::Blake3(Box::default()).all(size, read)
    }

    /// Computes the same kind of checksum of the `size` bytes that `read` reads. Fails with `UnexpectedEof` if there are
    /// fewer.
    pub fn same_kind_of(
        self,
        size: u64,
        read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<Self> {
        let running = match self {
            Self::Blake3(_) => Running::Blake3(Box::default()),
            Self::Crc64Nvme(_) => {
                Running::Crc64Nvme(crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme))
            }
            Self::Sha256(_) => Running::Sha256(ring::digest::Context::new(&ring::digest::SHA256)),
            Self::Md5(_) => Running::Md5(md5::Md5::new()),
        };
        running.all(size, read)
    }

    /// Returns true if both are of the same kind.
    pub fn is_comparable(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// Returns the reason why a file with this checksum on both sides is kept.
    pub const fn equal(self) -> &'static str {
        match self {
            Self::Blake3(_) => "the same digest",
            Self::Crc64Nvme(_) => "the same CRC-64/NVME",
            Self::Sha256(_) => "the same SHA-256",
            Self::Md5(_) => "the same MD5",
        }
    }

    /// Returns the reason why a file with another checksum of this kind is replaced.
    pub const fn different(self) -> &'static str {
        match self {
            Self::Blake3(_) => "different digest",
            Self::Crc64Nvme(_) => "different CRC-64/NVME",
            Self::Sha256(_) => "different SHA-256",
            Self::Md5(_) => "different MD5",
        }
    }
}

impl Running {
    fn all(
        mut self,
        size: u64,
        mut read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<ContentSum> {
        let mut buffer = vec![0; size.min(1 << 20) as usize];
        let mut at = 0;
        while at < size {
            let len = (size - at).min(buffer.len() as u64) as usize;
            if read(at, &mut buffer[..len])? < len {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.update(&buffer[..len]);
            at += len as u64;
        }
        Ok(self.finish())
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Blake3(hasher) => {
                hasher.update(bytes);
            }
            Self::Crc64Nvme(digest) => digest.update(bytes),
            Self::Sha256(context) => context.update(bytes),
            Self::Md5(hasher) => hasher.update(bytes),
        }
    }

    fn finish(self) -> ContentSum {
        match self {
            Self::Blake3(hasher) => ContentSum::Blake3(*hasher.finalize().as_bytes()),
            Self::Crc64Nvme(digest) => ContentSum::Crc64Nvme(digest.finalize()),
            Self::Sha256(context) => {
                let mut octets = [0; 32];
                octets.copy_from_slice(context.finish().as_ref());
                ContentSum::Sha256(octets)
            }
            Self::Md5(hasher) => ContentSum::Md5(hasher.finalize().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use lighthaul_base::to_hex;

    use super::*;

    #[test]
    fn checksums_are_those_of_other_programs() {
        let bytes = b"123456789";
        let read = |at: u64, buffer: &mut [u8]| {
            let rest = &bytes[at as usize..];
            let len = rest.len().min(buffer.len());
            buffer[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        };
        let of = |kind: ContentSum| kind.same_kind_of(9, read).unwrap();
        // the check value of the catalog of parametrised CRC algorithms
        assert_eq!(
            of(ContentSum::Crc64Nvme(0)),
            ContentSum::Crc64Nvme(0xae8b_1486_0a79_9888)
        );
        let ContentSum::Md5(md5) = of(ContentSum::Md5([0; 16])) else {
            panic!("another kind");
        };
        assert_eq!(to_hex(&md5), "25f9e794323b453885f5181f1b624d0b");
        let ContentSum::Sha256(sha256) = of(ContentSum::Sha256([0; 32])) else {
            panic!("another kind");
        };
        assert_eq!(
            to_hex(&sha256),
            "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"
        );
        let blake3 = of(ContentSum::Blake3([0; 32]));
        assert_eq!(blake3, ContentSum::Blake3(*blake3::hash(bytes).as_bytes()));
        assert_eq!(ContentSum::blake3(9, read).unwrap(), blake3);
        let short = ContentSum::blake3(10, read).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
    }
}
