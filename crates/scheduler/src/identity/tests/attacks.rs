//! Table of known attacks on signed tokens.
//!
//! Each row is the name of an attack, a token, and the only error that may refuse it. A token that
//! is refused for another reason fails the test, because its real check may be missing. The issuer
//! has valid keys of all supported types, and keys that must not count. Rows at the end must not be
//! taken for signed tokens. Ordinary refusals are in `verification`.

use data_encoding::BASE64URL_NOPAD;
use ring::signature::KeyPair;
use serde_json::{Value, json};

use super::signer::{
    NOW, RSA_KEY, Signer, authenticate, claims, ec_key, ec_pair, encode, head, with,
};
use crate::identity::AuthError;
use crate::identity::jwt::TokenError;

/// Returns the keys of one issuer: Ed25519 "k", P-256 "e" and RSA "r", and keys that must not count: the weak RSA key
/// "w", the shared secret "s", and keys of `other` for encryption, "enc", and for another algorithm, "alg".
fn all_keys(signer: &Signer, other: &Signer, secret: &[u8]) -> Value {
    let (_, point) = ec_pair();
    let (mut encrypts, mut differs) = (other.jwk("enc"), other.jwk("alg"));
    encrypts["use"] = json!("enc");
    differs["alg"] = json!("ES256");
    let rsa =
        |kid: &str, n: &str| json!({"kty": "RSA", "alg": "RS256", "kid": kid, "e": "AQAB", "n": n});
    let shared = json!({"kty": "oct", "kid": "s", "k": encode(secret)});
    json!({"keys": [signer.jwk("k"), ec_key("e", &point), rsa("r", RSA_KEY), rsa("w", WEAK_KEY), shared, encrypts,
                    differs]})
}

/// Signs a head and claims in any form.
fn sign_text(signer: &Signer, head: &str, claims: &str) -> String {
    let signed = format!("{}.{}", encode(head.as_bytes()), encode(claims.as_bytes()));
    let signature = encode(signer.0.sign(signed.as_bytes()).as_ref());
    format!("{signed}.{signature}")
}

/// Known attacks on signed tokens (RFC 8725; CVE-2015-9235, CVE-2016-5431, CVE-2018-0114, CVE-2022-21449), and the
/// reason for which each is refused.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn known_attacks_are_refused_for_the_right_reason() {
    use TokenError::{
        Algorithm, Audience, Claims, Early, Expired, Form, Lacks, Name, Scope, Signature,
    };
    let (signer, evil, other) = (Signer::new(), Signer::new(), Signer::new());
    let secret = [7; 32];
    let keys = all_keys(&signer, &other, &secret);
    let public = signer.0.public_key().as_ref();
    let own_key =
        json!({"kty": "OKP", "crv": "Ed25519", "x": encode(evil.0.public_key().as_ref())});
    let unsigned = |head: Value, signature: &[u8]| {
        let part = |value: &Value| encode(value.to_string().as_bytes());
        format!("{}.{}.{}", part(&head), part(&claims()), encode(signature))
    };
    let keyed_by = |head: Value, secret: &[u8]| {
        let token = unsigned(head, b"");
        let signed = token.trim_end_matches('.');
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        let tag = ring::hmac::sign(&key, signed.as_bytes());
        format!("{signed}.{}", encode(tag.as_ref()))
    };
    let keyed = |head: Value| keyed_by(head, public);
    let good = signer.sign(&head(), &claims());
    let begun = |start: &str| {
        let text = claims().to_string().replacen('{', start, 1);
        sign_text(&signer, &head().to_string(), &text)
    };
    let nested = signer.sign(
        &json!({"alg": "EdDSA", "cty": "JWT"}),
        &Value::String(good.clone()),
    );
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let deep_head = format!(r#"{{"alg":"EdDSA","x":{deep}}}"#);
    let algorithm = |name: &str| Algorithm(name.to_owned());
    let audience = || Audience("lighthaul or https://wlcg.cern.ch/jwt/v1/any".to_owned());
    let from = |name: &str| TokenError::Issuer(name.to_owned());
    let eddsa = |kid: Value| json!({"alg": "EdDSA", "kid": kid});
    let head_with = |name: &str, value: Value| {
        let mut head = json!({"alg": "EdDSA"});
        head[name] = value;
        head
    };
    let rsa = BASE64URL_NOPAD.decode(RSA_KEY.as_bytes()).unwrap();
    let rows = [
        (
            "no algorithm",
            unsigned(json!({"alg": "none"}), b""),
            algorithm("none"),
        ),
        (
            "no algorithm, in other letters",
            unsigned(json!({"alg": "nOnE"}), b""),
            algorithm("nOnE"),
        ),
        (
            "no algorithm at all",
            unsigned(json!({"kid": "k"}), b""),
            Form,
        ),
        (
            "several algorithms",
            signer.sign(&json!({"alg": ["EdDSA"]}), &claims()),
            Form,
        ),
        ("no signature", unsigned(head(), b""), Signature),
        (
            "a signature of zeros",
            unsigned(head(), &[0; 64]),
            Signature,
        ),
        (
            "an ES256 signature of zeros",
            unsigned(json!({"alg": "ES256"}), &[0; 64]),
            Signature,
        ),
        (
            "an ES256 signature of zeros, by name",
            unsigned(json!({"alg": "ES256", "kid": "e"}), &[0; 64]),
            Signature,
        ),
        (
            "an RS256 signature of zeros",
            unsigned(json!({"alg": "RS256", "kid": "r"}), &[0; 256]),
            Signature,
        ),
        (
            "the public key as a secret",
            keyed(json!({"alg": "HS256"})),
            algorithm("HS256"),
        ),
        (
            "the public key as a secret, by the issuer's algorithm",
            keyed(head()),
            Signature,
        ),
        (
            "the RSA key as a secret",
            keyed_by(json!({"alg": "HS256", "kid": "r"}), &rsa),
            algorithm("HS256"),
        ),
        (
            "the RSA key as a secret, by its algorithm",
            keyed_by(json!({"alg": "RS256", "kid": "r"}), &rsa),
            Signature,
        ),
        (
            "the Ed25519 key as an RSA key",
            signer.sign(&json!({"alg": "RS256", "kid": "k"}), &claims()),
            Signature,
        ),
        (
            "the Ed25519 key as an EC key",
            signer.sign(&json!({"alg": "ES256", "kid": "k"}), &claims()),
            Signature,
        ),
        (
            "the RSA key as an Ed25519 key",
            signer.sign(&eddsa(json!("r")), &claims()),
            Signature,
        ),
        (
            "the EC key as an Ed25519 key",
            signer.sign(&eddsa(json!("e")), &claims()),
            Signature,
        ),
        (
            "the EC key as an RSA key",
            unsigned(json!({"alg": "RS256", "kid": "e"}), &[1; 64]),
            Signature,
        ),
        (
            "a shared secret among the keys",
            keyed_by(json!({"alg": "HS256", "kid": "s"}), &secret),
            algorithm("HS256"),
        ),
        (
            "a shared secret among the keys, by another algorithm",
            keyed_by(json!({"alg": "RS256", "kid": "s"}), &secret),
            Signature,
        ),
        (
            "another hash for the RSA key",
            unsigned(json!({"alg": "RS512", "kid": "r"}), &[1; 256]),
            algorithm("RS512"),
        ),
        ("a weak RSA key", WEAK_TOKEN.to_owned(), Signature),
        (
            "a key for encryption",
            other.sign(&eddsa(json!("enc")), &claims()),
            Signature,
        ),
        (
            "a key for another algorithm",
            other.sign(&eddsa(json!("alg")), &claims()),
            Signature,
        ),
        (
            "a key of its own in the head",
            evil.sign(&head_with("jwk", own_key), &claims()),
            Signature,
        ),
        (
            "keys at an address of its own",
            evil.sign(&head_with("jku", json!("https://evil.example/")), &claims()),
            Signature,
        ),
        (
            "a certificate of its own",
            evil.sign(&head_with("x5c", json!(["AA"])), &claims()),
            Signature,
        ),
        (
            "a certificate at its address",
            evil.sign(&head_with("x5u", json!("https://e/")), &claims()),
            Signature,
        ),
        (
            "a path as its key",
            evil.sign(&eddsa(json!("../../dev/null")), &claims()),
            Signature,
        ),
        (
            "a query as its key",
            evil.sign(&eddsa(json!("k' OR '1'='1")), &claims()),
            Signature,
        ),
        (
            "no key named",
            evil.sign(&json!({"alg": "EdDSA"}), &claims()),
            Signature,
        ),
        (
            "a number as its key",
            signer.sign(&eddsa(json!(0)), &claims()),
            Form,
        ),
        (
            "a list as its key",
            signer.sign(&eddsa(json!(["k"])), &claims()),
            Form,
        ),
        (
            "an object as its key",
            signer.sign(&eddsa(json!({"k": "k"})), &claims()),
            Form,
        ),
        (
            "a boolean as its key",
            signer.sign(&eddsa(json!(true)), &claims()),
            Form,
        ),
        (
            "two keys",
            sign_text(
                &signer,
                r#"{"alg":"EdDSA","kid":"j","kid":"k"}"#,
                &claims().to_string(),
            ),
            Form,
        ),
        (
            "an extension",
            signer.sign(&head_with("crit", json!(["exp"])), &claims()),
            algorithm("an extension"),
        ),
        (
            "an extension that is empty",
            signer.sign(&head_with("crit", json!([])), &claims()),
            algorithm("an extension"),
        ),
        ("a token in a token", nested, Lacks("iss")),
        (
            "a list of claims",
            sign_text(&signer, &head().to_string(), "[]"),
            Lacks("iss"),
        ),
        ("deep claims", begun(&format!(r#"{{"x":{deep},"#)), Form),
        (
            "a deep head",
            sign_text(&evil, &deep_head, &claims().to_string()),
            Signature,
        ),
        (
            "a deep head alone",
            sign_text(&evil, &deep, &claims().to_string()),
            Form,
        ),
        (
            "expired",
            signer.sign(&head(), &with("exp", json!(NOW - 60))),
            Expired,
        ),
        (
            "expired before 1970",
            signer.sign(&head(), &with("exp", json!(-1))),
            Claims,
        ),
        (
            "an end that is not a whole second",
            signer.sign(&head(), &with("exp", json!(1e300))),
            Claims,
        ),
        (
            "not yet valid",
            signer.sign(&head(), &with("nbf", json!(NOW + 61))),
            Early,
        ),
        (
            "issued in the future",
            signer.sign(&head(), &with("iat", json!(NOW + 61))),
            Early,
        ),
        (
            "for another service",
            signer.sign(&head(), &with("aud", json!("lighthaul2"))),
            audience(),
        ),
        (
            "for no service",
            signer.sign(&head(), &with("aud", json!([]))),
            audience(),
        ),
        (
            "for a number",
            signer.sign(&head(), &with("aud", json!(7))),
            Claims,
        ),
        (
            "from another issuer",
            signer.sign(&head(), &with("iss", json!("https://issuer.example.evil/"))),
            from("https://issuer.example.evil/"),
        ),
        (
            "from an issuer without its slash",
            signer.sign(&head(), &with("iss", json!("https://issuer.example"))),
            from("https://issuer.example"),
        ),
        ("two subjects", begun(r#"{"sub":"root","#), Claims),
        ("two audiences", begun(r#"{"aud":"storage","#), Claims),
        ("two ends", begun(r#"{"exp":9999999999,"#), Claims),
        (
            "a line break in its subject",
            signer.sign(&head(), &with("sub", json!("ada\nroot"))),
            Name,
        ),
        (
            "part of the name of a scope",
            signer.sign(&head(), &with("scope", json!("lighthaul.book2 lighthaul"))),
            Scope("lighthaul.book".to_owned()),
        ),
        ("padded", format!("{good}=="), Form),
        ("other bits in the last character", other_bits(&good), Form),
        ("more octets at the end", format!("{good}AAAA"), Signature),
        ("a space inside", good.replacen('.', " .", 1), Form),
    ];
    for (attack, token, why) in rows {
        let judged = authenticate(&token, &keys);
        assert_eq!(judged, Err(AuthError::InvalidToken(why)), "{attack}");
    }
    // not read as signed tokens
    let parts: Vec<&str> = good.split('.').collect();
    let long = "x".repeat(20 << 10);
    let in_json =
        json!({"protected": parts[0], "payload": parts[1], "signature": parts[2]}).to_string();
    for (attack, token) in [
        ("huge", signer.sign(&head(), &with("pad", json!(long)))),
        (
            "a huge head",
            signer.sign(&head_with("pad", json!(long)), &claims()),
        ),
        ("a huge signature", format!("{good}{long}")),
        ("encrypted form", format!("{good}.a.b")),
        ("JSON form", in_json),
        ("without its signature", parts[..2].join(".")),
    ] {
        let judged = authenticate(&token, &keys);
        assert_eq!(judged, Err(AuthError::UnknownToken), "{attack}");
    }
    assert!(authenticate(&good, &keys).is_ok());
}

/// Changes the unused bits of the last character, which a lax decoder ignores.
fn other_bits(token: &str) -> String {
    let (rest, last) = token.split_at(token.len() - 1);
    let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let at = letters.find(last).unwrap();
    format!("{rest}{}", &letters[at + 1..at + 2])
}

/// RSA key of 1024 bits, and a token that it has signed. Its private half has been deleted.
const WEAK_KEY: &str = "1_8WGiRslNotxZd5cGXvtdqXUzJcF1e8hFuAE9K6UxKo0vnIxSsHL66GpGyxCMMyl2-BfVyruJxDi4lSqvLUjIIeNo5LRv2pu0tR\
     8vBKAtV4mqz1uw08IlbUTgPuAJSN8rSB5Le6IxJd6PbQ2KPS0OnZ6ReRdde9lXu5nqRnlWU";
const WEAK_TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6IncifQ.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlLyIsInN1YiI6ImFkYSIsImF1Z\
     CI6ImxpZ2h0aGF1bCIsImV4cCI6NDAwMDAwMDAwMCwic2NvcGUiOiJsaWdodGhhdWwuYm9vayJ9.OVWl8HFfUmAEjnDdDfh5sAtI\
     evzpcO72wskss3IlQXrTypDXoQNEmBgTOmE5bOKKfl7ylUfyco_AYNvOcabfKTdX9tyXnnEDHSH6tTPQBTTBicMuFZ38xYbD2Vv0\
     LHllkbab4MvkegCGdY27y3ljQ3_PPZwCAQqVYCJw_1O7o3E";
