//! Table of known attacks.

use data_encoding::BASE64URL_NOPAD;
use ring::signature::KeyPair;
use serde_json::{Value, json};

use super::signer::{NOW, RSA_KEY, Signer, claims, ec_key, ec_pair, encode, head, issuer, with};
use crate::identity::jwks::Jwk;
use crate::identity::jwt::TokenError;

/// Keys of one issuer: Ed25519 "k", P-256 "e" and RSA "r".
fn all_keys(signer: &Signer) -> [Jwk; 3] {
    let jwk = |key: Value| serde_json::from_value(key).unwrap();
    let (_, point) = ec_pair();
    let rsa = json!({"kty": "RSA", "alg": "RS256", "kid": "r", "e": "AQAB", "n": RSA_KEY});
    [signer.key("k"), jwk(ec_key("e", &point)), jwk(rsa)]
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
    use TokenError::{Algorithm, Audience, Claims, Early, Expired, Form, Lacks, Signature};
    let (signer, evil) = (Signer::new(), Signer::new());
    let keys = all_keys(&signer);
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
            "a truth as its key",
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
        ("encrypted form", format!("{good}.a.b"), Form),
        (
            "expired",
            signer.sign(&head(), &with("exp", json!(NOW - 60))),
            Expired,
        ),
        (
            "expired before time began",
            signer.sign(&head(), &with("exp", json!(-1))),
            Claims,
        ),
        (
            "no whole second",
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
        ("padded", format!("{good}=="), Form),
        ("more octets behind", format!("{good}AAAA"), Signature),
        ("a blank inside", good.replacen('.', " .", 1), Form),
    ];
    for (attack, token, why) in rows {
        let judged = issuer().verify(&token, &keys, NOW);
        assert_eq!(judged, Err(why), "{attack}");
    }
    assert!(issuer().verify(&good, &keys, NOW).is_ok());
}
