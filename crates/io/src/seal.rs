//! Authenticated encryption of datagrams: AES-128-GCM where the CPU has it, else ChaCha20-Poly1305.

use std::fmt;

use ring::aead::{AES_128_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk};

/// Octets that sealing adds behind every datagram.
pub const TAG_LEN: usize = 16;
/// Octets of secret that a key is made of; the shorter cipher takes the first of them.
pub const SECRET_LEN: usize = 32;

/// Which cipher seals datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES-128-GCM (RFC 5116).
    Aes128Gcm,
    /// ChaCha20-Poly1305 (RFC 8439).
    ChaCha20Poly1305,
}

impl Cipher {
    /// The faster one on this CPU.
    pub fn preferred() -> Self {
        #[cfg(target_arch = "x86_64")]
        let hardware = std::is_x86_feature_detected!("aes");
        #[cfg(target_arch = "aarch64")]
        let hardware = std::arch::is_aarch64_feature_detected!("aes");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let hardware = false;
        if hardware {
            Self::Aes128Gcm
        } else {
            Self::ChaCha20Poly1305
        }
    }

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "AES-128-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Aes128Gcm => &AES_128_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

/// Seals or opens the datagrams of one direction of one lane.
pub struct Key {
    key: LessSafeKey,
}

/// A secret of its own for `number`, made of `secret` (HKDF, RFC 5869).
pub fn derive(secret: &[u8; SECRET_LEN], number: u64) -> [u8; SECRET_LEN] {
    let label = number.to_be_bytes();
    let info = [label.as_slice()];
    let mut derived = [0; SECRET_LEN];
    let filled = Prk::new_less_safe(HKDF_SHA256, secret)
        .expand(&info, HKDF_SHA256)
        .and_then(|okm| okm.fill(&mut derived));
    filled.expect("one hash is as long as a secret");
    derived
}

impl Key {
    /// A key of `secret`, which nothing else may use.
    pub fn new(cipher: Cipher, secret: &[u8; SECRET_LEN]) -> Self {
        let algorithm = cipher.algorithm();
        let key = UnboundKey::new(algorithm, &secret[..algorithm.key_len()]);
        Self {
            key: LessSafeKey::new(key.expect("the secret has the key's length")),
        }
    }

    /// Encrypts `body` in place; answers the tag. `number` must never come twice.
    pub fn seal(&self, number: u64, head: &[u8], body: &mut [u8]) -> [u8; TAG_LEN] {
        let sealed = self
            .key
            .seal_in_place_separate_tag(nonce(number), Aad::from(head), body);
        let tag = sealed.expect("a datagram is shorter than any cipher's limit");
        let mut octets = [0; TAG_LEN];
        octets.copy_from_slice(tag.as_ref());
        octets
    }

    /// Decrypts `sealed`, a body and its tag, in place; nothing if it is not what was sealed.
    pub fn open<'a>(&self, number: u64, head: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        self.key
            .open_in_place(nonce(number), Aad::from(head), sealed)
            .ok()
    }

    /// Decrypts `body` in place against a tag that lies elsewhere; answers whether it is genuine.
    pub fn open_apart(&self, number: u64, head: &[u8], body: &mut [u8], tag: &[u8]) -> bool {
        let Ok(tag) = tag.try_into() else {
            return false;
        };
        let nonce = nonce(number);
        self.key
            .open_in_place_separate_tag(nonce, Aad::from(head), tag, body, 0..)
            .is_ok()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

fn nonce(number: u64) -> Nonce {
    let mut octets = [0; 12];
    octets[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(octets)
}
