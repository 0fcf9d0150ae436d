//! Authenticated encryption of datagrams: AES-128-GCM where the CPU has it, else ChaCha20-Poly1305.

use std::fmt;

use ring::hkdf::{HKDF_SHA256, Prk};

use crate::aead::{Aead, NONCE_LEN};

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
}

/// Seals or opens the datagrams of one direction of one lane.
pub struct Key {
    aead: Aead,
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
        Self {
            aead: Aead::new(cipher, secret),
        }
    }

    /// Encrypts `body` in place; answers the tag. `number` must never come twice.
    pub fn seal(&self, number: u64, head: &[u8], body: &mut [u8]) -> [u8; TAG_LEN] {
        self.aead.seal(nonce(number), head, body)
    }

    /// Decrypts `sealed`, a body and its tag, in place; nothing if it is not what was sealed.
    pub fn open<'a>(&self, number: u64, head: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (body, tag) = sealed.split_last_chunk_mut::<TAG_LEN>()?;
        self.aead
            .open(nonce(number), head, body, *tag)
            .then_some(body)
    }

    /// Decrypts `body` in place against a tag that lies elsewhere; answers whether it is genuine.
    pub fn open_apart(&self, number: u64, head: &[u8], body: &mut [u8], tag: &[u8]) -> bool {
        tag.try_into()
            .is_ok_and(|tag| self.aead.open(nonce(number), head, body, tag))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

fn nonce(number: u64) -> [u8; NONCE_LEN] {
    let mut octets = [0; NONCE_LEN];
    octets[NONCE_LEN - 8..].copy_from_slice(&number.to_be_bytes());
    octets
}
