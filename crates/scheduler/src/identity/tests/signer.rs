//! Keys, tokens and issuer of the tests.

use data_encoding::BASE64URL_NOPAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use lighthaul_booking::books::Principal;

use crate::identity::checks;
use crate::identity::jwk::Jwk;
use crate::identity::jwt::signed_token::SignedToken;
use crate::identity::jwt::{Issuer, TokenError};
use crate::identity::{AuthError, Authenticator, Keys};

pub(super) const NOW: u64 = 2_000_000_000;

pub(super) fn issuer() -> Issuer {
    Issuer {
        name: "https://issuer.example/".to_owned(),
        audiences: vec![
            "lighthaul".to_owned(),
            "https://wlcg.cern.ch/jwt/v1/any".to_owned(),
        ],
        users: Some("lighthaul.book".to_owned()),
        operators: Some("/cms/netops".to_owned()),
        admins: Some("lighthaul.admin".to_owned()),
    }
}

/// Checks a token of [`issuer`] at [`NOW`].
pub(super) fn verify(token: &str, keys: &[Jwk]) -> Result<Principal, TokenError> {
    checks::client(&SignedToken::parse(token)?, &issuer(), keys, NOW)
}

/// Authenticates a client by a token of [`issuer`] at [`NOW`]. The issuer has a set of keys.
#[expect(clippy::unwrap_in_result, reason = "the test fails, not the client")]
pub(super) fn authenticate(token: &str, set: &Value) -> Result<Principal, AuthError> {
    let keys = Keys::fixed(set.to_string().as_bytes()).unwrap();
    let authenticator = Authenticator {
        tokens: None,
        issuer: Some((issuer(), keys)),
    };
    authenticator.authenticate(Some(&format!("Bearer {token}")), NOW)
}

pub(super) fn claims() -> Value {
    json!({"iss": "https://issuer.example/", "sub": "ada", "aud": "lighthaul", "exp": NOW + 60,
           "scope": "openid lighthaul.book"})
}

pub(super) fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

pub(super) fn encode(part: &[u8]) -> String {
    BASE64URL_NOPAD.encode(part)
}

/// Key pair that signs tokens.
pub(super) struct Signer(pub(super) Ed25519KeyPair);

impl Signer {
    pub(super) fn new() -> Self {
        let octets = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self(Ed25519KeyPair::from_pkcs8(octets.as_ref()).unwrap())
    }

    pub(super) fn key(&self, kid: &str) -> Jwk {
        serde_json::from_value(self.jwk(kid)).unwrap()
    }

    pub(super) fn jwk(&self, kid: &str) -> Value {
        let x = encode(self.0.public_key().as_ref());
        json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "use": "sig", "x": x})
    }

    pub(super) fn sign(&self, head: &Value, claims: &Value) -> String {
        let signed = format!(
            "{}.{}",
            encode(head.to_string().as_bytes()),
            encode(claims.to_string().as_bytes())
        );
        let signature = encode(self.0.sign(signed.as_bytes()).as_ref());
        format!("{signed}.{signature}")
    }
}

pub(super) fn head() -> Value {
    json!({"alg": "EdDSA", "kid": "k"})
}

/// Returns a new P-256 key pair, and its public point.
pub(super) fn ec_pair() -> (EcdsaKeyPair, Vec<u8>) {
    let random = SystemRandom::new();
    let octets = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, octets.as_ref(), &random)
        .unwrap();
    let point = pair.public_key().as_ref().to_vec();
    (pair, point)
}

pub(super) fn ec_key(kid: &str, point: &[u8]) -> Value {
    let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
    json!({"kty": "EC", "crv": "P-256", "kid": kid, "x": x, "y": y})
}

pub(super) const RSA_KEY: &str = "n7BElcga3vpPVSzJ8hZoGUW_4gsvrGd9n8q5R12IirnaGXVMOkynZtTTHc2mpQYwv27cdIjZCNPUHZ47Ai5xtk7FVpOztWV24I6L\
     c4GnMpAuX4Hg5czCq96r9Y7Kksjv2oe-2lNjUevW8eGr3O-2l6_-7o1fczJlcEpjsrEnXxxEMm5prNgMGBJuq0NJyvE5AFf3bKcg\
     fjfR9K5X-yZfyJakyNH72X9bx0Z0A9GCW1b7bxqHT56-8q5VXzDLebWIUqf30Ngi1E4g8WEFvJamyY5KTuHiYDJKU2Y-mrz1xj7W\
     -73LZYxWd_O1mFVZKanIRPTdPObNaPRpi1XegCgLNQ";
