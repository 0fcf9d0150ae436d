//! Hashes of files for the user: for catalogs, colleagues and checksum files.
//!
//! They are computed in addition to the digest that verifies the transfer, from the bytes of a file
//! in order.

use std::fmt;
use std::str::FromStr;

use crc_fast::CrcAlgorithm;
use lighthaul_base::to_hex;
use lighthaul_io::control::bounded::{self, Text};
use lighthaul_session::error::Error;
use md5::Digest;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::Fault;
use crate::manifest::PATH_MAX;

/// Hash functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HashKind {
    /// MD5 (RFC 1321), which detects accidental changes only.
    Md5,
    /// Adler-32 (RFC 1950).
    Adler32,
    /// CRC-32C (RFC 3385).
    Crc32c,
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// BLAKE3.
    Blake3,
}

/// Hash that the user asks for, with its expected value if known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashRequest {
    /// Hash function.
    pub kind: HashKind,
    /// Expected value, as lower-case hexadecimal digits of full width.
    #[serde(deserialize_with = "bounded::option_text::<DIGITS_MAX, _>")]
    pub expected: Option<String>,
}

/// File of a copy, with its hashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHashes {
    /// Path of the entry.
    #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
    pub path: Vec<u8>,
    /// Size in bytes.
    pub size: u64,
    /// Hashes, as lower-case hexadecimal digits of full width.
    #[serde(deserialize_with = "digits")]
    pub hashes: Vec<(HashKind, String)>,
}

/// Decodes the hashes of a file. Their number and their digits are bounded.
fn digits<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<(HashKind, String)>, D::Error> {
    let hashes: Vec<(HashKind, Text<DIGITS_MAX>)> = bounded::list::<HASHES_MAX, _, _>(from)?;
    Ok(hashes
        .into_iter()
        .map(|(kind, text)| (kind, text.0))
        .collect())
}

/// Digits of the longest hash.
const DIGITS_MAX: usize = 64;
/// Maximum number of hashes in a request: a few times the number of functions.
pub(crate) const HASHES_MAX: usize = 32;

/// Computation of several hashes of one file.
#[derive(Clone, Debug, Default)]
pub struct RunningHashes {
    hashers: Vec<Hasher>,
}

#[derive(Clone)]
enum Hasher {
    Md5(md5::Md5),
    Adler32(simd_adler32::Adler32),
    Crc32c(crc_fast::Digest),
    Sha256(ring::digest::Context),
    Blake3(Box<blake3::Hasher>),
}

impl HashKind {
    /// All hash functions.
    pub const ALL: [Self; 5] = [
        Self::Md5,
        Self::Adler32,
        Self::Crc32c,
        Self::Sha256,
        Self::Blake3,
    ];

    /// Returns the name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Adler32 => "adler32",
            Self::Crc32c => "crc32c",
            Self::Sha256 => "sha256",
            Self::Blake3 => "blake3",
        }
    }

    /// Returns the number of hexadecimal digits, with leading zeros.
    pub const fn digits(self) -> usize {
        match self {
            Self::Adler32 | Self::Crc32c => 8,
            Self::Md5 => 32,
            Self::Sha256 | Self::Blake3 => 64,
        }
    }
}

impl HashRequest {
    /// Parses `md5,adler32` or `adler32=0a1b2c3d`. Leading zeros of values with 8 digits may be
    /// missing, since some catalogs drop them.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, Error> {
        text.split(',').map(Self::from_str).collect()
    }

    /// Fails if the expected value differs from the value in `found`.
    pub fn check(&self, found: &[(HashKind, String)]) -> Result<(), Error> {
        let Some(expected) = &self.expected else {
            return Ok(());
        };
        let name = self.kind.name();
        match found.iter().find(|(kind, _)| *kind == self.kind) {
            Some((_, found)) if found == expected => Ok(()),
            Some((_, found)) => Err(Fault::WrongHash {
                name,
                found: found.clone(),
                expected: expected.clone(),
            }
            .into()),
            None => Err(Fault::NoHash {
                name,
                expected: expected.clone(),
            }
            .into()),
        }
    }
}

impl FileHashes {
    /// Returns true if all values are lower-case digits of the right number, so that output needs no escapes.
    pub fn is_valid(&self) -> bool {
        let is_digit = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
        self.hashes
            .iter()
            .all(|(kind, text)| text.len() == kind.digits() && text.bytes().all(is_digit))
    }
}

impl FromStr for HashRequest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let mut kinds = HashKind::ALL.into_iter();
        let Some(kind) = kinds.find(|kind| name.eq_ignore_ascii_case(kind.name())) else {
            return Err(Fault::UnknownHash {
                name: name.to_owned(),
                all: HashKind::ALL.map(HashKind::name).join(", "),
            }
            .into());
        };
        let expected = value.map(|value| {
            let digits = kind.digits();
            let is_short = value.len() < digits && digits == 8 && !value.is_empty();
            let is_hex = value.bytes().all(|digit| digit.is_ascii_hexdigit());
            if is_hex && (is_short || value.len() == digits) {
                Ok(format!("{:0>digits$}", value.to_ascii_lowercase()))
            } else {
                Err(Fault::HashDigits {
                    value: value.to_owned(),
                    name: name.to_owned(),
                    digits,
                })
            }
        });
        let expected = expected.transpose()?;
        Ok(Self { kind, expected })
    }
}

impl RunningHashes {
    /// Starts the hashes of `kinds`, each once.
    pub fn new(kinds: &[HashKind]) -> Self {
        let mut kinds = kinds.to_vec();
        kinds.sort_unstable();
        kinds.dedup();
        let hashers = kinds.into_iter().map(Hasher::new).collect();
        Self { hashers }
    }

    /// Returns true if no hash is computed.
    pub fn is_empty(&self) -> bool {
        self.hashers.is_empty()
    }

    /// Adds the next bytes of the file.
    pub fn update(&mut self, bytes: &[u8]) {
        // all functions hash a piece while it is in the cache
        for piece in bytes.chunks(PIECE) {
            for hasher in &mut self.hashers {
                hasher.update(piece);
            }
        }
    }

    /// Returns the hashes as lower-case digits of full width, in the order of their kinds.
    pub fn finish(self) -> Vec<(HashKind, String)> {
        self.hashers.into_iter().map(Hasher::finish).collect()
    }
}

impl Hasher {
    fn new(kind: HashKind) -> Self {
        match kind {
            HashKind::Md5 => Self::Md5(md5::Md5::new()),
            HashKind::Adler32 => Self::Adler32(simd_adler32::Adler32::new()),
            HashKind::Crc32c => Self::Crc32c(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi)),
            HashKind::Sha256 => Self::Sha256(ring::digest::Context::new(&ring::digest::SHA256)),
            HashKind::Blake3 => Self::Blake3(Box::default()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(hasher) => hasher.update(bytes),
            Self::Adler32(hasher) => hasher.write(bytes),
            Self::Crc32c(hasher) => hasher.update(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Blake3(hasher) => {
                hasher.update(bytes);
            }
        }
    }

    fn finish(self) -> (HashKind, String) {
        match self {
            Self::Md5(hasher) => (HashKind::Md5, to_hex(&hasher.finalize())),
            Self::Adler32(hasher) => (HashKind::Adler32, format!("{:08x}", hasher.finish())),
            Self::Crc32c(hasher) => (HashKind::Crc32c, format!("{:08x}", hasher.finalize())),
            Self::Sha256(hasher) => (HashKind::Sha256, to_hex(hasher.finish().as_ref())),
            Self::Blake3(hasher) => (HashKind::Blake3, hasher.finalize().to_hex().to_string()),
        }
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher")
    }
}

/// Bytes that all functions hash before the next bytes.
const PIECE: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use lighthaul_session::error::Code;
    use proptest::prelude::*;

    use super::*;

    fn hash(bytes: &[u8]) -> Vec<String> {
        let mut hashes = RunningHashes::new(&HashKind::ALL);
        hashes.update(bytes);
        hashes.finish().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn hashes_equal_the_values_of_their_standards() {
        assert_eq!(
            hash(b""),
            [
                "d41d8cd98f00b204e9800998ecf8427e",
                "00000001",
                "00000000",
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
            ]
        );
        assert_eq!(
            hash(b"123456789"),
            [
                "25f9e794323b453885f5181f1b624d0b",
                "091e01de",
                "e3069283",
                "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
                "b7d65b48420d1033cb2595293263b6f72eabee20d55e699d0df1973b3c9deed1",
            ]
        );
    }

    #[test]
    fn hash_requests_are_parsed_and_compared() {
        let asked = HashRequest::parse_list("md5,ADLER32=91E01DE").unwrap();
        assert_eq!((asked[0].kind, &asked[0].expected), (HashKind::Md5, &None));
        assert_eq!(asked[1].expected.as_deref(), Some("091e01de"));
        let mut hashes = RunningHashes::new(&[HashKind::Adler32, HashKind::Adler32]);
        hashes.update(b"123456789");
        let found = hashes.finish();
        assert_eq!(found.len(), 1);
        assert_eq!(asked[0].check(&found), Ok(()));
        assert_eq!(asked[1].check(&found), Ok(()));
        let other = HashRequest::parse_list("adler32=1").unwrap();
        assert_eq!(other[0].check(&found).unwrap_err().code(), Code::Integrity);
        assert!(other[0].check(&[]).is_err());
        for text in [
            "",
            "md6",
            "md5=",
            "md5=00",
            "adler32=xyz",
            "adler32=0123456789",
            "md5,",
            "adler32=",
        ] {
            assert_eq!(
                HashRequest::parse_list(text).unwrap_err().code(),
                Code::Usage,
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn hash_of_pieces_equals_the_hash_of_the_whole_file(bytes: Vec<u8>, cut: prop::sample::Index) {
            let (front, back) = bytes.split_at(cut.index(bytes.len() + 1));
            let mut hashes = RunningHashes::new(&HashKind::ALL);
            hashes.update(front);
            hashes.update(back);
            let pieces: Vec<_> = hashes.finish().into_iter().map(|(_, text)| text).collect();
            prop_assert_eq!(pieces, hash(&bytes));
        }
    }
}
