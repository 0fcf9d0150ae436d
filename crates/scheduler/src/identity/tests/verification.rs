//! Tests of the verifier: valid tokens, and tokens that it must refuse.
//!
//! A `Signer` has a fresh Ed25519 key, and signs a head and claims that tests change one by one.
//! Times are relative to the fixed `NOW`, so no test depends on the clock. The tokens for RS256 are
//! constants, because their private keys were deleted. No test uses the network except for a
//! refused connection. Attacks are in `attacks`.

use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::KeyPair;
use serde_json::{Value, json};

use super::signer::{
    NOW, RSA_KEY, Signer, authenticate, claims, ec_key, ec_pair, encode, head, issuer, verify, with,
};
use crate::identity::jwk::Jwk;
use crate::identity::jwt::TokenError;
use crate::identity::jwt::signed_token::SignedToken;
use crate::identity::{AuthError, Authenticator, Keys};
use lighthaul_booking_client::role::Role;

#[test]
fn signed_token_gives_its_highest_role() {
    let signer = Signer::new();
    let keys = [Signer::new().key("k"), signer.key("k")];
    for (claims, role) in [
        (claims(), Role::User),
        (
            with("scope", json!("lighthaul.book:/a lighthaul.admin:/")),
            Role::Admin,
        ),
        (
            with("wlcg.groups", json!(["/cms", "/cms/netops"])),
            Role::Operator,
        ),
        (with("groups", json!(["/cms/netops"])), Role::Operator),
        (with("aud", json!(["other", "lighthaul"])), Role::User),
        (with("scp", json!(["lighthaul.admin"])), Role::Admin),
    ] {
        let who = verify(&signer.sign(&head(), &claims), &keys).unwrap();
        assert_eq!(
            (who.name.as_str(), who.role),
            ("ada@issuer.example", role),
            "{claims}"
        );
    }
}

#[test]
fn forged_expired_or_foreign_token_is_refused() {
    let (signer, other) = (Signer::new(), Signer::new());
    let keys = [signer.key("k")];
    let judge = |token: &str| verify(token, &keys).unwrap_err();
    let signed = |claims: &Value| signer.sign(&head(), claims);
    assert_eq!(
        judge(&other.sign(&head(), &claims())),
        TokenError::Signature
    );
    let (one, two) = (signed(&claims()), signed(&with("sub", json!("root"))));
    let parts = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
    let mixed = format!("{}.{}.{}", parts(&one)[0], parts(&two)[1], parts(&one)[2]);
    assert_eq!(judge(&mixed), TokenError::Signature);
    assert_eq!(
        judge(&signed(&with("exp", json!(NOW - 60)))),
        TokenError::Expired
    );
    assert_eq!(
        judge(&signed(&with("nbf", json!(NOW + 61)))),
        TokenError::Early
    );
    assert!(matches!(
        judge(&signed(&with("iss", json!("https://evil.example/")))),
        TokenError::Issuer(_)
    ));
    assert!(matches!(
        judge(&signed(&with("aud", json!("storage")))),
        TokenError::Audience(_)
    ));
    assert!(matches!(
        judge(&signed(&with("scope", json!("openid")))),
        TokenError::Scope(_)
    ));
    // a claim of a wrong type does not count as absent
    assert_eq!(
        judge(&signed(&with("nbf", json!("never")))),
        TokenError::Claims
    );
    for name in ["iss", "sub", "aud", "exp"] {
        let why = judge(&signed(&with(name, Value::Null)));
        assert_eq!(why, TokenError::Lacks(name));
        assert!(why.to_string().contains(name), "{why}");
    }
    let sub = with("sub", json!("ada\u{1b}[31m"));
    assert_eq!(judge(&signed(&sub)), TokenError::Name);
    for (token, keys, why) in [
        ("a.b.c", 1, TokenError::Form),
        ("", 1, TokenError::Form),
        ("..", 1, TokenError::Form),
        (one.as_str(), 0, TokenError::Signature),
    ] {
        let judged = verify(token, &[signer.key("k")][..keys]);
        assert_eq!(judged, Err(why), "{token}");
    }
}

#[test]
fn signed_token_is_recognized_and_names_its_key() {
    let token = Signer::new().sign(&head(), &claims());
    let head = SignedToken::parse(&token).unwrap().head;
    assert_eq!(head.kid.as_deref(), Some("k"));
    assert!(SignedToken::has_form(&token));
    for secret in ["", "secret", "a.b", "a.b.c.d"] {
        assert!(!SignedToken::has_form(secret), "{secret}");
    }
}

#[test]
fn clock_difference_of_a_minute_is_tolerated() {
    let signer = Signer::new();
    let judge = |claims: &Value| verify(&signer.sign(&head(), claims), &[signer.key("k")]);
    assert!(judge(&with("exp", json!(NOW - 59))).is_ok());
    assert!(judge(&with("nbf", json!(NOW + 60))).is_ok());
}

#[test]
fn token_cannot_select_its_verification() {
    let signer = Signer::new();
    let judge = |head: Value, key: Jwk| verify(&signer.sign(&head, &claims()), &[key]);
    for alg in ["none", "HS256", "RS512", "", "eddsa"] {
        let result = judge(json!({"alg": alg}), signer.key("k"));
        assert_eq!(result, Err(TokenError::Algorithm(alg.to_owned())));
    }
    assert_eq!(
        judge(json!({"alg": "ES256"}), signer.key("k")),
        Err(TokenError::Signature)
    );
    assert_eq!(
        judge(json!({"alg": "EdDSA", "kid": "j"}), signer.key("k")),
        Err(TokenError::Signature)
    );
    assert_eq!(
        judge(json!({"alg": "EdDSA", "crit": ["b64"]}), signer.key("k")),
        Err(TokenError::Algorithm("an extension".to_owned()))
    );
    assert!(judge(json!({"alg": "EdDSA"}), signer.key("k")).is_ok());
    let mut key = json!({"kty": "OKP", "crv": "Ed25519", "use": "enc", "x": encode(signer.0.public_key().as_ref())});
    let encrypting = serde_json::from_value(key.clone()).unwrap();
    assert_eq!(
        judge(json!({"alg": "EdDSA"}), encrypting),
        Err(TokenError::Signature)
    );
    key["use"] = json!("sig");
    assert!(
        judge(
            json!({"alg": "EdDSA"}),
            serde_json::from_value(key).unwrap()
        )
        .is_ok()
    );
}

#[test]
fn key_of_an_odd_type_is_not_looked_up() {
    let signer = Signer::new();
    let sign = |kid: Value| signer.sign(&json!({"alg": "EdDSA", "kid": kid}), &claims());
    for kid in [json!(0), json!(["k"]), json!({"k": "k"})] {
        let token = sign(kid.clone());
        assert!(SignedToken::parse(&token).is_err(), "{kid}");
    }
    let token = sign(Value::Null);
    assert_eq!(SignedToken::parse(&token).unwrap().head.kid, None);
}

#[test]
fn token_of_16_kib_is_checked_and_longer_tokens_are_refused() {
    let signer = Signer::new();
    let set = json!({"keys": [signer.jwk("k")]});
    let padded = |len: usize| signer.sign(&head(), &with("pad", json!("x".repeat(len))));
    let fits = (12_000..)
        .take(300)
        .find(|len| padded(*len).len() == 16 << 10);
    let len = fits.unwrap();
    assert!(authenticate(&padded(len), &set).is_ok());
    let refused = authenticate(&padded(len + 1), &set);
    assert_eq!(refused, Err(AuthError::UnknownToken));
}

#[test]
fn malformed_token_does_not_fetch_keys() {
    let url = "http://127.0.0.1:1/jwks".to_owned();
    let keys = Keys::new(lighthaul_booking_client::https::fetcher().unwrap(), url);
    let authenticator = Authenticator {
        tokens: None,
        issuer: Some((issuer(), keys)),
    };
    let authenticate = |token: &str| authenticator.authenticate(Some(token), NOW);
    let malformed = authenticate("Bearer a.b.c");
    assert_eq!(malformed, Err(AuthError::InvalidToken(TokenError::Form)));
    let token = format!("Bearer {}", Signer::new().sign(&head(), &claims()));
    assert_eq!(authenticate(&token), Err(AuthError::KeysUnavailable));
}

proptest! {
    #[test]
    fn arbitrary_text_is_refused_without_panic(head in ".{0,40}", claims in ".{0,40}", signature in ".{0,40}") {
        let keys = [Signer::new().key("k")];
        let encode = |text: &str| encode(text.as_bytes());
        let token = format!("{}.{}.{}", encode(&head), encode(&claims), encode(&signature));
        for token in [token, format!("{head}.{claims}.{signature}"), head] {
            prop_assert!(verify(&token, &keys).is_err());
            prop_assert!(SignedToken::parse(&token).is_err());
        }
    }
}

#[test]
fn token_signed_with_es256_is_valid() {
    let (pair, point) = ec_pair();
    let key: Jwk = serde_json::from_value(ec_key("e", &point)).unwrap();
    let head = encode(br#"{"alg":"ES256"}"#);
    let signed = format!("{head}.{}", encode(claims().to_string().as_bytes()));
    let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    let token = format!("{signed}.{}", encode(signature.as_ref()));
    assert_eq!(verify(&token, &[key]).unwrap().role, Role::User);
}

/// Token in the format of the WLCG issuers. Its private key has been deleted.
#[test]
fn token_of_wlcg_signed_with_rs256_is_valid() {
    let key = json!({"kty": "RSA", "alg": "RS256", "kid": "r", "e": "AQAB", "n": RSA_KEY});
    let key: Jwk = serde_json::from_value(key).unwrap();
    let who = verify(RSA_TOKEN, std::slice::from_ref(&key)).unwrap();
    assert_eq!(
        (who.name.as_str(), who.role),
        ("ada@issuer.example", Role::Operator)
    );
    let forged = RSA_TOKEN.replace("SZSvowl0dU6y", "SZSvowl0dU6z");
    assert_eq!(verify(&forged, &[key]), Err(TokenError::Signature));
}

const RSA_TOKEN: &str = "eyJhbGciOiAiUlMyNTYiLCAia2lkIjogInIiLCAidHlwIjogIkpXVCJ9.eyJpc3MiOiAiaHR0cHM6Ly9pc3N1ZXIuZXhhbXBsZS8\
     iLCAic3ViIjogImFkYSIsICJhdWQiOiAiaHR0cHM6Ly93bGNnLmNlcm4uY2gvand0L3YxL2FueSIsICJleHAiOiA0MDAwMDAwMDA\
     wLCAid2xjZy52ZXIiOiAiMS4wIiwgInNjb3BlIjogInN0b3JhZ2UucmVhZDovZGF0YSBsaWdodGhhdWwuYm9vazovIiwgIndsY2c\
     uZ3JvdXBzIjogWyIvY21zL25ldG9wcyJdfQ.SZSvowl0dU6y6hhNthPAGjBInLl79G8c90UZbUslmfhAEEAZWn9bzXdlOjYTXyt3\
     3C7D4H69bjryU5r-MqQTuk3kSmerUv-z43cNh7A915TS3IHW0I7uwrbP_LB_gZxe3U6prfoQCpe0bT6IcRzCjonTLYnNNfO1buef\
     9AslZBFC4tCJVg47whxLiCkmnIeddqSJ8OlGXDHYktlcyqh-Kd_Bpo7flbUwog7lSYZ9XqW_4f8zI6A1q5MA_11ickkL1hCzXEpy\
     xPlXqxJQoY7A-8d6kmCqQ8TjafU7vYK7wqs8y5z2e_25mvLygB9eWsCkaHPilQ1pjEqOU5kv_VUPvw";
