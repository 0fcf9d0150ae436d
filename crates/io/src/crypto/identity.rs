//! Identity of a host or user: an Ed25519 key, known to others by its fingerprint.
//!
//! [`Identity`] is the private key (Ed25519, RFC 8032), stored as PKCS#8 (RFC 5958) in a file that only its owner can
//! read. A [`Fingerprint`] is the SHA-256 of a public key or a token; users compare its form `sha256:` with 64
//! digits. Debug output shows no secret. Random octets and bearer tokens also come from here.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use subtle::ConstantTimeEq;

use crate::host::durable;

/// Private key of a host or user.
#[derive(Clone)]
pub struct Identity {
    pkcs8: Vec<u8>,
}

impl Identity {
    /// Generates a new key.
    pub fn generate() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        Self {
            pkcs8: document
                .expect("the system has randomness")
                .as_ref()
                .to_vec(),
        }
    }

    /// Loads the key at `path`, or generates a key that only its owner can read.
    pub fn load_or_generate(path: &Path) -> io::Result<Self> {
        match fs::read(path) {
            Ok(pkcs8) => Self::parse(pkcs8),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::make(path),
            Err(error) => Err(error),
        }
    }

    fn parse(pkcs8: Vec<u8>) -> io::Result<Self> {
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(&pkcs8)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not an Ed25519 key"))?;
        Ok(Self { pkcs8 })
    }

    /// Generates the key at `path`, unless another process has generated it in the meantime.
    fn make(path: &Path) -> io::Result<Self> {
        durable::edit(path, |there| {
            if let Some(pkcs8) = there {
                return Ok((None, Self::parse(pkcs8)?));
            }
            let identity = Self::generate();
            Ok((Some(identity.pkcs8.clone()), identity))
        })
    }

    /// Signs `message` (Ed25519, RFC 8032).
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_LEN] {
        let mut signature = [0; SIGNATURE_LEN];
        signature.copy_from_slice(self.pair().sign(message).as_ref());
        signature
    }

    /// Returns the public key.
    pub fn public(&self) -> [u8; PUBLIC_LEN] {
        let mut public = [0; PUBLIC_LEN];
        public.copy_from_slice(self.pair().public_key().as_ref());
        public
    }

    fn pair(&self) -> Ed25519KeyPair {
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(&self.pkcs8)
            .expect("the key was checked when it was generated or loaded")
    }

    /// Returns the key pair as PKCS#8 (RFC 5958), which includes the secret.
    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(secret)")
    }
}

/// Reports whether `signature` of `message` is valid for the key `public`.
pub fn is_signed(public: &[u8], message: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, public)
        .verify(message, signature)
        .is_ok()
}

/// Length of a public key, in octets.
pub const PUBLIC_LEN: usize = 32;
/// Length of a signature, in octets.
pub const SIGNATURE_LEN: usize = 64;
/// Octets before the key in the `SubjectPublicKeyInfo` of an Ed25519 key (RFC 8410, section 4).
const INFO: [u8; 12] = [48, 42, 48, 5, 6, 3, 43, 101, 112, 3, 33, 0];

/// Returns random octets from the system's secure generator. Panics if it has none.
pub fn random_octets<const N: usize>() -> [u8; N] {
    let mut octets = [0; N];
    SystemRandom::new()
        .fill(&mut octets)
        .expect("the system has randomness");
    octets
}

/// Generates a bearer token with 256 random bits.
pub fn token() -> String {
    format!("lht_{}", HEXLOWER.encode(&random_octets::<32>()))
}

/// SHA-256 of a public key (its `SubjectPublicKeyInfo`, RFC 7250), in the form that users compare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

/// Hexadecimal digits of a fingerprint.
const DIGITS: usize = 64;

impl Fingerprint {
    /// Returns the fingerprint of the Ed25519 key `public`.
    pub fn of_public(public: &[u8; PUBLIC_LEN]) -> Self {
        Self::of(&[INFO.as_slice(), public].concat())
    }

    /// Returns the SHA-256 of a token, which reveals nothing about a random token.
    pub fn of_token(token: &str) -> Self {
        Self::of(token.as_bytes())
    }

    /// Creates a fingerprint from its octets.
    pub const fn from_octets(octets: [u8; 32]) -> Self {
        Self(octets)
    }

    /// Returns the fingerprint's octets.
    pub const fn octets(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the fingerprints that occur in `text`. May return one twice.
    pub fn all_in(text: &str) -> impl Iterator<Item = Self> {
        let runs = text.split(|letter: char| !letter.is_ascii_hexdigit());
        let long = runs.filter(|run| run.len() >= DIGITS);
        let both = long.flat_map(|run| [&run[..DIGITS], &run[run.len() - DIGITS..]]);
        both.filter_map(|digits| format!("sha256:{digits}").parse().ok())
    }

    /// Compares two fingerprints in constant time.
    pub fn is(&self, other: Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// Returns the fingerprint of a public key, given as `SubjectPublicKeyInfo` (RFC 5280, section 4.1).
    pub fn of(public_key: &[u8]) -> Self {
        let mut octets = [0; 32];
        octets.copy_from_slice(digest::digest(&digest::SHA256, public_key).as_ref());
        Self(octets)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Error of a text that is not a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a fingerprint: expected sha256: and 64 hexadecimal digits")]
pub struct NotAFingerprint;

impl FromStr for Fingerprint {
    type Err = NotAFingerprint;

    fn from_str(text: &str) -> Result<Self, NotAFingerprint> {
        let digits = text.trim().strip_prefix("sha256:").ok_or(NotAFingerprint)?;
        let octets = HEXLOWER_PERMISSIVE.decode(digits.as_bytes());
        let octets = octets.ok().and_then(|octets| octets.try_into().ok());
        octets.map(Self).ok_or(NotAFingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_round_trips_through_text() {
        let print = Fingerprint::of(b"key");
        assert_eq!(print.to_string().parse(), Ok(print));
        for text in ["", "sha256:", "sha256:zz", "md5:00"] {
            assert_eq!(text.parse::<Fingerprint>(), Err(NotAFingerprint), "{text}");
        }
    }

    #[test]
    fn public_key_has_the_fingerprint_of_its_tls_key_and_verifies_signatures() {
        let (identity, other) = (Identity::generate(), Identity::generate());
        let shown = crate::crypto::tls::fingerprint(&identity).unwrap();
        assert_eq!(Fingerprint::of_public(&identity.public()), shown);
        assert!(shown.is(Fingerprint::from_octets(*shown.octets())));
        assert!(!shown.is(Fingerprint::of_public(&other.public())));
        let signature = identity.sign(b"words");
        assert!(is_signed(&identity.public(), b"words", &signature));
        assert!(!is_signed(&identity.public(), b"other words", &signature));
        assert!(!is_signed(&other.public(), b"words", &signature));
        assert!(!is_signed(&[], b"words", &[]));
    }

    #[test]
    fn tokens_are_unique() {
        let (one, two) = (token(), token());
        assert!(one.len() == 68 && one.starts_with("lht_") && one != two);
    }
}
