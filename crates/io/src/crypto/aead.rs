//! AEAD ciphers, from the library that is faster on this CPU: `ring` or `aws-lc-rs`, which produce equal octets.

use aws_lc_rs::aead as aws_lc;
use ring::aead as ring;

use crate::crypto::cipher::{Cipher, TAG_LEN};

/// Length of a nonce, in octets (RFC 5116, section 2.1).
pub(crate) const NONCE_LEN: usize = 12;

/// AEAD key, held by one of the two libraries. Both produce identical ciphertext.
pub(crate) enum Aead {
    /// Faster with AES-NI and with 256-bit VAES.
    Ring(Box<ring::LessSafeKey>),
    /// Faster with 512-bit VAES, which `ring` does not use.
    AwsLc(aws_lc::LessSafeKey),
}

impl Aead {
    pub(crate) fn new(cipher: Cipher, secret: &[u8]) -> Self {
        if cipher == Cipher::Aes128Gcm && has_wide_aes() {
            Self::aws_lc(cipher, secret)
        } else {
            Self::ring(cipher, secret)
        }
    }

    fn ring(cipher: Cipher, secret: &[u8]) -> Self {
        let algorithm = match cipher {
            Cipher::Aes128Gcm => &ring::AES_128_GCM,
            Cipher::ChaCha20Poly1305 => &ring::CHACHA20_POLY1305,
        };
        let key = ring::UnboundKey::new(algorithm, &secret[..algorithm.key_len()]);
        Self::Ring(Box::new(ring::LessSafeKey::new(
            key.expect("the secret has the key's length"),
        )))
    }

    fn aws_lc(cipher: Cipher, secret: &[u8]) -> Self {
        let algorithm = match cipher {
            Cipher::Aes128Gcm => &aws_lc::AES_128_GCM,
            Cipher::ChaCha20Poly1305 => &aws_lc::CHACHA20_POLY1305,
        };
        let key = aws_lc::UnboundKey::new(algorithm, &secret[..algorithm.key_len()]);
        Self::AwsLc(aws_lc::LessSafeKey::new(
            key.expect("the secret has the key's length"),
        ))
    }

    /// Encrypts `body` in place and returns the authentication tag. Authenticates `head` too.
    pub(crate) fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        head: &[u8],
        body: &mut [u8],
    ) -> [u8; TAG_LEN] {
        let mut octets = [0; TAG_LEN];
        match self {
            Self::Ring(key) => {
                let nonce = ring::Nonce::assume_unique_for_key(nonce);
                let tag = key.seal_in_place_separate_tag(nonce, ring::Aad::from(head), body);
                octets.copy_from_slice(tag.expect(SHORT_ENOUGH).as_ref());
            }
            Self::AwsLc(key) => {
                let nonce = aws_lc::Nonce::assume_unique_for_key(nonce);
                let tag = key.seal_in_place_separate_tag(nonce, aws_lc::Aad::from(head), body);
                octets.copy_from_slice(tag.expect(SHORT_ENOUGH).as_ref());
            }
        }
        octets
    }

    /// Decrypts `body` in place. Returns true if `body`, `head` and `tag` are authentic.
    pub(crate) fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        head: &[u8],
        body: &mut [u8],
        tag: [u8; TAG_LEN],
    ) -> bool {
        match self {
            Self::Ring(key) => {
                let nonce = ring::Nonce::assume_unique_for_key(nonce);
                let (head, tag) = (ring::Aad::from(head), tag.into());
                key.open_in_place_separate_tag(nonce, head, tag, body, 0..)
                    .is_ok()
            }
            Self::AwsLc(key) => {
                let nonce = aws_lc::Nonce::assume_unique_for_key(nonce);
                let head = aws_lc::Aad::from(head);
                key.open_in_place_separate_tag(nonce, head, &tag, body)
                    .is_ok()
            }
        }
    }
}

const SHORT_ENOUGH: &str = "a datagram is shorter than any cipher's limit";

/// Reports whether this CPU can run AES on 512-bit vectors.
fn has_wide_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512dq")
            && std::is_x86_feature_detected!("avx512vl")
            && std::is_x86_feature_detected!("vaes")
            && std::is_x86_feature_detected!("vpclmulqdq")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::crypto::seal::SECRET_LEN;

    proptest! {
        /// Hosts with other CPUs understand each other.
        #[test]
        fn both_libraries_open_datagrams_of_each_other(
            secret: [u8; SECRET_LEN],
            nonce: [u8; NONCE_LEN],
            head in prop::collection::vec(any::<u8>(), 0..32),
            body in prop::collection::vec(any::<u8>(), 0..9000),
            is_aes: bool,
        ) {
            let cipher = if is_aes { Cipher::Aes128Gcm } else { Cipher::ChaCha20Poly1305 };
            let keys = [Aead::ring(cipher, &secret), Aead::aws_lc(cipher, &secret)];
            for (from, to) in [(0, 1), (1, 0)] {
                let mut octets = body.clone();
                let tag = keys[from].seal(nonce, &head, &mut octets);
                prop_assert!(keys[to].open(nonce, &head, &mut octets, tag));
                prop_assert_eq!(&octets, &body);

                let tag = keys[from].seal(nonce, &head, &mut octets);
                let mut forged = tag;
                forged[0] ^= 1;
                prop_assert!(!keys[to].open(nonce, &head, &mut octets, forged));
            }
        }
    }
}
