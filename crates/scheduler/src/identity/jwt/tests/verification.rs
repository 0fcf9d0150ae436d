//! Tokens that are valid, and others.

use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::KeyPair;
use serde_json::{Value, json};

use super::signer::{NOW, RSA_KEY, Signer, claims, ec_key, ec_pair, encode, head, issuer, with};
use crate::identity::jwks::Jwk;
use crate::identity::jwt::{TokenError, is_jwt, key_id};
use lighthaul_booking::books::Role;

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
        let who = issuer()
            .verify(&signer.sign(&head(), &claims), &keys, NOW)
            .unwrap();
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
    let judge = |token: &str| issuer().verify(token, &keys, NOW).unwrap_err();
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
        let judged = issuer().verify(token, &[signer.key("k")][..keys], NOW);
        assert_eq!(judged, Err(why), "{token}");
    }
}

#[test]
fn signed_token_is_recognized_and_names_its_key() {
    let token = Signer::new().sign(&head(), &claims());
    assert_eq!(key_id(&token).as_deref(), Some("k"));
    assert!(is_jwt(&token));
    for secret in ["", "secret", "a.b", "a.b.c.d"] {
        assert!(!is_jwt(secret), "{secret}");
    }
}

#[test]
fn clock_difference_of_a_minute_is_tolerated() {
    let signer = Signer::new();
    let judge =
        |claims: &Value| issuer().verify(&signer.sign(&head(), claims), &[signer.key("k")], NOW);
    assert!(judge(&with("exp", json!(NOW - 59))).is_ok());
    assert!(judge(&with("nbf", json!(NOW + 60))).is_ok());
}

#[test]
fn token_cannot_select_its_verification() {
    let signer = Signer::new();
    let judge =
        |head: Value, key: Jwk| issuer().verify(&signer.sign(&head, &claims()), &[key], NOW);
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
    for kid in [json!(0), json!(["k"]), json!({"k": "k"}), Value::Null] {
        let token = signer.sign(&json!({"alg": "EdDSA", "kid": kid}), &claims());
        assert_eq!(key_id(&token), None, "{kid}");
    }
}

#[test]
fn huge_token_is_refused_without_reading_it() {
    let signer = Signer::new();
    let huge = signer.sign(&head(), &with("pad", json!("x".repeat(20 << 10))));
    let set = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": encode(signer.0.public_key().as_ref())}]});
    let authenticate = |token: &str| {
        let keys = crate::identity::Keys::fixed(set.to_string().as_bytes()).unwrap();
        let authenticate = crate::identity::Authenticator {
            tokens: None,
            issuer: Some((issuer(), keys)),
        };
        authenticate.authenticate(Some(&format!("Bearer {token}")), NOW)
    };
    assert_eq!(
        authenticate(&huge),
        Err(crate::identity::AuthError::UnknownToken)
    );
    let fits = signer.sign(
        &json!({"alg": "EdDSA"}),
        &with("pad", json!("x".repeat(4 << 10))),
    );
    assert!(authenticate(&fits).is_ok());
}

proptest! {
    #[test]
    fn arbitrary_text_is_refused_without_panic(head in ".{0,40}", claims in ".{0,40}", signature in ".{0,40}") {
        let keys = [Signer::new().key("k")];
        let encode = |text: &str| encode(text.as_bytes());
        let token = format!("{}.{}.{}", encode(&head), encode(&claims), encode(&signature));
        for token in [token, format!("{head}.{claims}.{signature}"), head] {
            prop_assert!(issuer().verify(&token, &keys, NOW).is_err());
            prop_assert!(key_id(&token).is_none());
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
    assert_eq!(
        issuer().verify(&token, &[key], NOW).unwrap().role,
        Role::User
    );
}

/// Token in the format of the WLCG issuers. Its private key has been deleted.
#[test]
fn token_of_wlcg_signed_with_rs256_is_valid() {
    let key = json!({"kty": "RSA", "alg": "RS256", "kid": "r", "e": "AQAB", "n": RSA_KEY});
    let key: Jwk = serde_json::from_value(key).unwrap();
    let who = issuer()
        .verify(RSA_TOKEN, std::slice::from_ref(&key), NOW)
        .unwrap();
    assert_eq!(
        (who.name.as_str(), who.role),
        ("ada@issuer.example", Role::Operator)
    );
    let forged = RSA_TOKEN.replace("SZSvowl0dU6y", "SZSvowl0dU6z");
    assert_eq!(
        issuer().verify(&forged, &[key], NOW),
        Err(TokenError::Signature)
    );
}

const RSA_TOKEN: &str = "eyJhbGciOiAiUlMyNTYiLCAia2lkIjogInIiLCAidHlwIjogIkpXVCJ9.eyJpc3MiOiAiaHR0cHM6Ly9pc3N1ZXIuZXhhbXBsZS8\
     iLCAic3ViIjogImFkYSIsICJhdWQiOiAiaHR0cHM6Ly93bGNnLmNlcm4uY2gvand0L3YxL2FueSIsICJleHAiOiA0MDAwMDAwMDA\
     wLCAid2xjZy52ZXIiOiAiMS4wIiwgInNjb3BlIjogInN0b3JhZ2UucmVhZDovZGF0YSBsaWdodGhhdWwuYm9vazovIiwgIndsY2c\
     uZ3JvdXBzIjogWyIvY21zL25ldG9wcyJdfQ.SZSvowl0dU6y6hhNthPAGjBInLl79G8c90UZbUslmfhAEEAZWn9bzXdlOjYTXyt3\
     3C7D4H69bjryU5r-MqQTuk3kSmerUv-z43cNh7A915TS3IHW0I7uwrbP_LB_gZxe3U6prfoQCpe0bT6IcRzCjonTLYnNNfO1buef\
     9AslZBFC4tCJVg47whxLiCkmnIeddqSJ8OlGXDHYktlcyqh-Kd_Bpo7flbUwog7lSYZ9XqW_4f8zI6A1q5MA_11ickkL1hCzXEpy\
     xPlXqxJQoY7A-8d6kmCqQ8TjafU7vYK7wqs8y5z2e_25mvLygB9eWsCkaHPilQ1pjEqOU5kv_VUPvw";
