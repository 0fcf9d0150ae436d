//! Who a host is: an Ed25519 key, known to others by its fingerprint.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;

use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;

/// A host's or a user's private key.
#[derive(Clone)]
pub struct Identity {
    pkcs8: Vec<u8>,
}

impl Identity {
    /// A new key that nobody has seen.
    pub fn generate() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        Self {
            pkcs8: document
                .expect("the system has randomness")
                .as_ref()
                .to_vec(),
        }
    }

    /// The key kept at `path`, made there (readable by its owner alone) if there is none.
    pub fn load_or_generate(path: &Path) -> io::Result<Self> {
        match fs::read(path) {
            Ok(pkcs8) => {
                Ed25519KeyPair::from_pkcs8_maybe_unchecked(&pkcs8).map_err(|_| {
                    io::Error::new(io::ErrorKind::InvalidData, "this is no Ed25519 key")
                })?;
                Ok(Self { pkcs8 })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::generate().keep(path),
            Err(error) => Err(error),
        }
    }

    fn keep(self, path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(&self.pkcs8)?;
        Ok(self)
    }

    pub(crate) fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(secret)")
    }
}

/// SHA-256 of a public key (its `SubjectPublicKeyInfo`, RFC 7250), as people compare it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(crate) fn of(public_key: &[u8]) -> Self {
        let mut octets = [0; 32];
        octets.copy_from_slice(digest::digest(&digest::SHA256, public_key).as_ref());
        Self(octets)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:")?;
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What was wrong with a fingerprint that somebody wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is sha256: and 64 hexadecimal digits")]
pub struct NotAFingerprint;

impl FromStr for Fingerprint {
    type Err = NotAFingerprint;

    fn from_str(text: &str) -> Result<Self, NotAFingerprint> {
        let digits = text.trim().strip_prefix("sha256:").ok_or(NotAFingerprint)?;
        if digits.len() != 64 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(NotAFingerprint);
        }
        let mut octets = [0; 32];
        for (octet, pair) in octets.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| NotAFingerprint)?;
            *octet = u8::from_str_radix(pair, 16).map_err(|_| NotAFingerprint)?;
        }
        Ok(Self(octets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_survives_print_and_parse() {
        let print = Fingerprint::of(b"key");
        assert_eq!(print.to_string().parse(), Ok(print));
        for text in ["", "sha256:", "sha256:zz", "md5:00"] {
            assert_eq!(text.parse::<Fingerprint>(), Err(NotAFingerprint), "{text}");
        }
    }
}
