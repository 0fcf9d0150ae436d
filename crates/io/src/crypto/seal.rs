//! Authenticated encryption of datagrams: AES-128-GCM if the CPU supports it, else ChaCha20-Poly1305.
//!
//! A [`Key`] belongs to one direction of one lane. The head of a datagram is authenticated, and its
//! body is also encrypted (AEAD, RFC 5116). The nonce is the datagram's number, 8 octets after 4
//! zeros, so a number must never repeat under one key. [`derive()`] creates independent secrets,
//! for example one for each object. Repeated datagrams are not detected here.

use std::fmt;

use ring::hkdf::{HKDF_SHA256, Prk};

use crate::crypto::aead::{Aead, NONCE_LEN};
use crate::crypto::cipher::{Cipher, TAG_LEN};

/// Length of a key's secret, in octets. AES-128 uses the first 16 of them.
pub const SECRET_LEN: usize = 32;

/// Key that seals or opens the datagrams of one direction of one lane.
pub struct Key {
    aead: Aead,
}

/// Derives an independent secret from `secret` for `number` (HKDF, RFC 5869).
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
    /// Creates a key from `secret`, which must have no other use.
    pub fn new(cipher: Cipher, secret: &[u8; SECRET_LEN]) -> Self {
        Self {
            aead: Aead::new(cipher, secret),
        }
    }

    /// Encrypts `body` in place and returns the tag. The nonce `number` must never be used twice with one key.
    pub fn seal(&self, number: u64, head: &[u8], body: &mut [u8]) -> [u8; TAG_LEN] {
        self.aead.seal(nonce(number), head, body)
    }

    /// Decrypts `sealed`, a body and its tag, in place. Returns `None` if it is not authentic.
    pub fn open<'a>(&self, number: u64, head: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (body, tag) = sealed.split_last_chunk_mut::<TAG_LEN>()?;
        self.aead
            .open(nonce(number), head, body, *tag)
            .then_some(body)
    }

    /// Decrypts `body` in place, with a separate tag. Returns true if it is authentic.
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

#[cfg(test)]
mod tests {
    use ring::aead;

    use super::*;

    const SECRET: [u8; SECRET_LEN] = [7; SECRET_LEN];
    const CIPHERS: [Cipher; 2] = [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305];

    /// The nonce of RFC 5116 and RFC 8439 is the number, big-endian behind zeros.
    #[test]
    fn datagram_is_sealed_according_to_the_standards() {
        for (cipher, algorithm, name) in [
            (Cipher::Aes128Gcm, &aead::AES_128_GCM, "AES-128-GCM"),
            (
                Cipher::ChaCha20Poly1305,
                &aead::CHACHA20_POLY1305,
                "ChaCha20-Poly1305",
            ),
        ] {
            assert_eq!(cipher.name(), name);
            let mut body = *b"a body";
            let number = 0x0102_0304_0506_0708_u64;
            let tag = Key::new(cipher, &SECRET).seal(number, b"head", &mut body);
            let key = aead::UnboundKey::new(algorithm, &SECRET[..algorithm.key_len()]).unwrap();
            let nonce = [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
            let nonce = aead::Nonce::assume_unique_for_key(nonce);
            let mut expected = *b"a body";
            let expected_tag = aead::LessSafeKey::new(key)
                .seal_in_place_separate_tag(nonce, aead::Aad::from(b"head"), &mut expected)
                .unwrap();
            assert_eq!((&body, tag.as_slice()), (&expected, expected_tag.as_ref()));
        }
    }

    #[test]
    fn only_sealed_datagrams_are_opened() {
        for cipher in CIPHERS {
            let key = Key::new(cipher, &SECRET);
            let mut sealed = b"a body".to_vec();
            let tag = key.seal(9, b"head", &mut sealed);
            let body_len = sealed.len();
            sealed.extend(tag);
            let opens = |key: &Key, number, head: &[u8], sealed: &[u8]| {
                let mut together = sealed.to_vec();
                let opened = key.open(number, head, &mut together);
                let opened = opened.map(|body| body.to_vec());
                let at = sealed.len().saturating_sub(TAG_LEN);
                let (body, tag) = sealed.split_at(at);
                let mut body = body.to_vec();
                let apart = key.open_apart(number, head, &mut body, tag);
                assert_eq!(opened.is_some(), apart, "both ways are one");
                assert!(!apart || opened.as_ref() == Some(&body));
                opened
            };
            let opened = opens(&key, 9, b"head", &sealed);
            assert_eq!(opened.as_deref(), Some(&b"a body"[..]));
            assert_eq!(opens(&key, 8, b"head", &sealed), None);
            assert_eq!(opens(&key, 9, b"heap", &sealed), None);
            let other = Key::new(cipher, &[8; SECRET_LEN]);
            assert_eq!(opens(&other, 9, b"head", &sealed), None);
            for at in 0..sealed.len() {
                let mut forged = sealed.clone();
                forged[at] ^= 1;
                assert_eq!(opens(&key, 9, b"head", &forged), None, "octet {at}");
            }
            for len in 0..sealed.len() {
                assert_eq!(opens(&key, 9, b"head", &sealed[..len]), None, "{len}");
            }
            let mut body = sealed[..body_len].to_vec();
            assert!(!key.open_apart(9, b"head", &mut body, &tag[1..]));
        }
    }

    /// The number, big-endian, is the label by which HKDF expands the secret.
    #[test]
    fn each_number_derives_a_separate_secret() {
        let salt = Prk::new_less_safe(HKDF_SHA256, &SECRET);
        for number in [0, 1, u64::MAX] {
            let info = [&number.to_be_bytes()[..]];
            let mut expected = [0; SECRET_LEN];
            let okm = salt.expand(&info, HKDF_SHA256).unwrap();
            okm.fill(&mut expected).unwrap();
            assert_eq!(derive(&SECRET, number), expected);
        }
        assert_ne!(derive(&SECRET, 0), derive(&SECRET, 1));
        assert_ne!(derive(&SECRET, 0), derive(&[8; SECRET_LEN], 0));
    }
}
