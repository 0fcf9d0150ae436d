//! Digests of files, computed from pieces as they arrive.
//!
//! The default has 128 bits: CRC-64/NVME and CRC-64/XZ of the same bytes. CRCs of pieces combine in
//! any order. A hash would have to read the file again after packets were lost and sent again.
//!
//! The two polynomials have no common factor, so both CRCs together miss an error as rarely as one
//! CRC of 128 bits. Encryption protects against forgery, and so does BLAKE3, which users can
//! choose. Other tools have each half: S3 the first, `xz` the second.

use std::{fmt, io};

use crc_fast::{CrcAlgorithm, checksum};
use serde::{Deserialize, Serialize};

use crate::object::Span;

/// Kinds of digests that a transfer compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DigestKind {
    /// CRC-64/NVME and CRC-64/XZ.
    #[default]
    Crc128,
    /// BLAKE3, 256 bits.
    Blake3,
    /// No digest, so that no comparison takes place.
    None,
}

impl DigestKind {
    /// Returns the name on the command line and in events.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc128 => "crc128",
            Self::Blake3 => "blake3",
            Self::None => "none",
        }
    }

    /// Returns the same kind, or the default instead of `None`.
    #[must_use]
    pub fn or_default(self) -> Self {
        if self == Self::None {
            Self::default()
        } else {
            self
        }
    }
}

/// Digest of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Digest {
    /// CRC-64/NVME and CRC-64/XZ.
    Crc128(u64, u64),
    /// BLAKE3.
    Blake3([u8; 32]),
    /// No digest was computed.
    None,
}

impl Digest {
    /// Returns the kind of the digest.
    pub const fn kind(self) -> DigestKind {
        match self {
            Self::Crc128(..) => DigestKind::Crc128,
            Self::Blake3(_) => DigestKind::Blake3,
            Self::None => DigestKind::None,
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crc128(nvme, xz) => write!(f, "crc128:{nvme:016x}{xz:016x}"),
            Self::None => write!(f, "none"),
            Self::Blake3(octets) => {
                write!(f, "blake3:{}", blake3::Hash::from_bytes(*octets).to_hex())
            }
        }
    }
}

/// Computation of the digest of a file of known size, from pieces in any order, each byte once.
#[derive(Clone, Debug)]
pub struct Digester {
    size: u64,
    seen: u64,
    partial: PartialDigest,
}

#[derive(Clone, Debug)]
enum PartialDigest {
    Crc128(u64, u64),
    /// Hasher and the offset up to which it has hashed. The offset never grows again after a piece
    /// out of order.
    Blake3(Box<blake3::Hasher>, u64),
    None,
}

impl Digester {
    /// Starts the digest of a file of `size` bytes.
    pub fn new(kind: DigestKind, size: u64) -> Self {
        let partial = match kind {
            DigestKind::Crc128 => PartialDigest::Crc128(0, 0),
            DigestKind::Blake3 => PartialDigest::Blake3(Box::default(), 0),
            DigestKind::None => PartialDigest::None,
        };
        Self {
            size,
            seen: 0,
            partial,
        }
    }

    /// Adds `bytes`, which begin at `offset` of the file.
    pub fn update(&mut self, offset: u64, bytes: &[u8]) {
        let len = bytes.len() as u64;
        self.seen += len;
        match &mut self.partial {
            PartialDigest::Crc128(nvme, xz) => {
                let after = self.size.saturating_sub(offset + len);
                *nvme ^= shifted(CrcAlgorithm::Crc64Nvme, &NVME, bytes, after);
                *xz ^= shifted(CrcAlgorithm::Crc64Xz, &XZ, bytes, after);
            }
            PartialDigest::Blake3(hasher, next) if *next == offset => {
                hasher.update(bytes);
                *next += len;
            }
            PartialDigest::Blake3(..) | PartialDigest::None => {}
        }
    }

    /// Returns the digest of the `size` bytes that `read` reads. Fails with `UnexpectedEof` if
    /// there are fewer.
    pub fn compute(
        kind: DigestKind,
        size: u64,
        read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<Digest> {
        Self::compute_ranges(kind, &[(0, size)], read)
    }

    /// Returns the digest of the bytes that `read` reads in `ranges`, one after the other. Fails with `UnexpectedEof`
    /// if there are fewer.
    pub fn compute_ranges(
        kind: DigestKind,
        ranges: &[Span],
        mut read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<Digest> {
        let size: u64 = ranges.iter().map(|(from, till)| till - from).sum();
        let mut digester = Self::new(kind, size);
        let mut buffer = vec![0; size.min(1 << 20) as usize];
        for (from, till) in ranges {
            let mut at = *from;
            while at < *till {
                let part = (till - at).min(buffer.len() as u64) as usize;
                if read(at, &mut buffer[..part])? < part {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                digester.update(digester.seen, &buffer[..part]);
                at += part as u64;
            }
        }
        digester
            .finish()
            .ok_or_else(|| io::Error::other("bytes were read out of order"))
    }

    /// Returns true if all bytes were added.
    pub const fn is_whole(&self) -> bool {
        self.seen == self.size
    }

    /// Returns the digest, or none if pieces came out of order for this kind, so that the file must be read again.
    pub fn finish(&self) -> Option<Digest> {
        match &self.partial {
            PartialDigest::Crc128(nvme, xz) => Some(Digest::Crc128(*nvme, *xz)),
            PartialDigest::None => Some(Digest::None),
            PartialDigest::Blake3(hasher, next) => {
                (*next == self.size).then(|| Digest::Blake3(*hasher.finalize().as_bytes()))
            }
        }
    }
}

/// Returns the contribution of `bytes` to the checksum of a file in which `after` more bytes follow.
fn shifted(algorithm: CrcAlgorithm, shift: &Shift, bytes: &[u8], after: u64) -> u64 {
    shift.past(checksum(algorithm, bytes), after)
}

/// Shift of a CRC past bytes that follow, as if they were zero: a product modulo its polynomial.
///
/// The library's own function takes a hundred microseconds for each piece, and every lost packet
/// makes one.
struct Shift {
    polynomial: u64,
    /// x to the power 2^k, for each k.
    powers: [u64; 64],
}

/// The polynomial 1, with the highest power in the lowest bit, as in all CRCs here.
const ONE: u64 = 1 << 63;
static NVME: Shift = Shift::new(0x9a6c_9329_ac4b_c9b5);
static XZ: Shift = Shift::new(0xc96c_5795_d787_0f42);

impl Shift {
    const fn new(polynomial: u64) -> Self {
        let mut shift = Self {
            polynomial,
            powers: [ONE >> 1; 64],
        };
        let mut k = 1;
        while k < 64 {
            let root = shift.powers[k - 1];
            shift.powers[k] = shift.product(root, root);
            k += 1;
        }
        shift
    }

    const fn product(&self, a: u64, mut b: u64) -> u64 {
        let mut product = 0;
        let mut a = a;
        while a != 0 {
            if a & ONE != 0 {
                product ^= b;
            }
            a <<= 1;
            b = (b >> 1) ^ if b & 1 == 1 { self.polynomial } else { 0 };
        }
        product
    }

    const fn past(&self, sum: u64, bytes: u64) -> u64 {
        let mut sum = sum;
        let (mut left, mut k) = (bytes, 3);
        while left != 0 {
            if left & 1 == 1 {
                sum = self.product(self.powers[k], sum);
            }
            left >>= 1;
            k += 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_in_any_order_make_the_same_digest(
            bytes in proptest::collection::vec(any::<u8>(), 0..5000),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
            seed: u64,
        ) {
            let size = bytes.len() as u64;
            let mut ends: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
            ends.extend([0, bytes.len()]);
            ends.sort_unstable();
            let mut pieces: Vec<_> = ends.windows(2).map(|w| w[0]..w[1]).collect();
            let mut rng = lighthaul_base::Rng::new(seed);
            for i in (1..pieces.len()).rev() {
                pieces.swap(i, rng.below(i as u64 + 1) as usize);
            }
            let mut digester = Digester::new(DigestKind::Crc128, size);
            for piece in pieces {
                digester.update(piece.start as u64, &bytes[piece]);
            }
            prop_assert!(digester.is_whole());
            let nvme = checksum(CrcAlgorithm::Crc64Nvme, &bytes);
            let xz = checksum(CrcAlgorithm::Crc64Xz, &bytes);
            prop_assert_eq!(digester.finish(), Some(Digest::Crc128(nvme, xz)));
        }
    }

    #[test]
    fn digest_kinds_have_the_names_of_the_command_line() {
        for (kind, name, digest) in [
            (DigestKind::Crc128, "crc128", Digest::Crc128(1, 2)),
            (DigestKind::Blake3, "blake3", Digest::Blake3([1; 32])),
            (DigestKind::None, "none", Digest::None),
        ] {
            assert_eq!((kind.name(), digest.kind()), (name, kind));
            assert!(digest.to_string().starts_with(name));
        }
        let or_default =
            [DigestKind::Crc128, DigestKind::Blake3, DigestKind::None].map(DigestKind::or_default);
        assert_eq!(
            or_default,
            [DigestKind::Crc128, DigestKind::Blake3, DigestKind::Crc128]
        );
    }

    #[test]
    fn file_is_read_once_in_order_and_never_past_its_size() {
        const BUFFER: usize = 1 << 20;
        let bytes: Vec<u8> = (0..=BUFFER).map(|at| (at % 251) as u8).collect();
        for len in [0, 1, 1000, BUFFER, BUFFER + 1] {
            for kind in [DigestKind::Crc128, DigestKind::Blake3, DigestKind::None] {
                let mut digester = Digester::new(kind, len as u64);
                digester.update(0, &bytes[..len]);
                let mut at = 0;
                let read = |from: u64, buffer: &mut [u8]| {
                    assert_eq!(from as usize, at);
                    at += buffer.len();
                    buffer.copy_from_slice(&bytes[from as usize..at]);
                    Ok(buffer.len())
                };
                let digest = Digester::compute(kind, len as u64, read).unwrap();
                assert_eq!((Some(digest), at), (digester.finish(), len));
            }
        }
        let hash = *blake3::hash(&bytes).as_bytes();
        let read = |from: u64, buffer: &mut [u8]| {
            buffer.copy_from_slice(&bytes[from as usize..][..buffer.len()]);
            Ok(buffer.len())
        };
        let digest = Digester::compute(DigestKind::Blake3, bytes.len() as u64, read);
        assert_eq!(digest.unwrap(), Digest::Blake3(hash));
    }

    #[test]
    fn digest_of_ranges_equals_the_digest_of_the_concatenated_bytes() {
        let bytes: Vec<u8> = (0..200).collect();
        let read = |at: u64, buffer: &mut [u8]| {
            buffer.copy_from_slice(&bytes[at as usize..][..buffer.len()]);
            Ok(buffer.len())
        };
        let joined = [&bytes[10..50], &bytes[90..91], &bytes[100..200]].concat();
        for kind in [DigestKind::Crc128, DigestKind::Blake3] {
            let ranges = [(10, 50), (90, 91), (100, 200)];
            let digest = Digester::compute_ranges(kind, &ranges, read).unwrap();
            let mut whole = Digester::new(kind, joined.len() as u64);
            whole.update(0, &joined);
            assert_eq!(Some(digest), whole.finish());
        }
    }

    #[test]
    fn truncated_file_has_no_digest() {
        let short = |_, buffer: &mut [u8]| Ok(buffer.len() - 1);
        let error = Digester::compute(DigestKind::Crc128, 10, short).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn digests_match_other_tools() {
        let mut digester = Digester::new(DigestKind::Crc128, 9);
        digester.update(0, b"123456789");
        // check values of the CRC catalog
        assert_eq!(
            digester.finish(),
            Some(Digest::Crc128(0xae8b_1486_0a79_9888, 0x995d_c9bb_df19_39fa))
        );
    }

    #[test]
    fn blake3_has_no_digest_for_pieces_out_of_order() {
        let mut digester = Digester::new(DigestKind::Blake3, 4);
        digester.update(2, b"cd");
        assert!(!digester.is_whole());
        digester.update(0, b"ab");
        assert!(digester.is_whole());
        assert_eq!(digester.finish(), None);
    }
}
