//! Checks of tokens, in the order of execution.
//!
//! No other file accepts a token: the parsers of `tokens`, `jwk` and `jwt` only read, and `jwks`
//! only fetches.
//!
//! 1. Length of each token, before it is parsed.
//! 2. Secret tokens: listed, not denied, not expired.
//! 3. Signed tokens: algorithm, key, signature, required claims, issuer, audience, time, subject,
//!    role.

use std::io;

use lighthaul_booking::books::Principal;
use lighthaul_booking_client::role::Role;
use lighthaul_io::crypto::identity::Fingerprint;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};

use super::jwk::Jwk;
use super::jwt::signed_token::{Claims, Head, SignedToken};
use super::jwt::{Issuer, TokenError};
use super::tokens::Tokens;

/// Returns true if `token` is longer than any valid one.
pub(super) fn is_too_long(token: &str) -> bool {
    token.len() > TOKEN_MAX
}

/// Returns the bearer of a secret token at `now`, in seconds since 1970. Returns `None` for each
/// token while the file of tokens cannot be read.
pub(super) fn bearer(tokens: &Tokens, token: &str, now: u64) -> Option<Principal> {
    let shown = Fingerprint::of_token(token);
    let list = tokens.list().ok()?;
    // compares with every line, so that the time reveals nothing
    let is_denied = list.denied.iter().filter(|token| token.is(shown)).count() > 0;
    let found = list.entries.iter().filter(|entry| entry.token.is(shown));
    let found = found.filter(|entry| entry.expires.is_none_or(|end| now < end));
    let principal = found.map(|entry| entry.bearer.clone()).next_back();
    principal.filter(|_| !is_denied)
}

/// Returns the highest role of the secret tokens of `name` that are valid at `now`, or none if it has no such token. Fails
/// while the file of tokens cannot be read.
pub(super) fn listed_role(tokens: &Tokens, name: &str, now: u64) -> io::Result<Option<Role>> {
    let list = tokens.list()?;
    let valid = list.entries.iter().filter(|entry| {
        entry.bearer.name == name
            && entry.expires.is_none_or(|end| now < end)
            && !list.denied.contains(&entry.token)
    });
    Ok(valid.map(|entry| entry.bearer.role).max())
}

/// Returns the client of a token that one of `keys` has signed, and that is valid at `now`, in seconds since 1970. The
/// claims are not read before the signature is checked.
pub(super) fn client(
    token: &SignedToken<'_>,
    issuer: &Issuer,
    keys: &[Jwk],
    now: u64,
) -> Result<Principal, TokenError> {
    check_head(&token.head)?;
    check_signature(token, keys)?;
    check_required(token)?;
    let claims = token.claims()?;
    check_source(&claims, issuer)?;
    check_time(&claims, now)?;
    check_subject(&claims)?;
    let role = role(&claims, issuer)?;
    let name = format!("{}@{}", claims.sub, issuer.short_name());
    Ok(Principal::new(name, role))
}

/// Refuses unknown algorithms. Critical extensions are not supported (RFC 7515, section 4.1.11).
fn check_head(head: &Head) -> Result<(), TokenError> {
    if head.crit.is_some() {
        return Err(TokenError::Algorithm("an extension".to_owned()));
    }
    if !ALGORITHMS.contains(&head.alg.as_str()) {
        return Err(TokenError::Algorithm(head.alg.chars().take(32).collect()));
    }
    Ok(())
}

/// Requires a signature by one of the keys with the name and the algorithm of the head.
fn check_signature(token: &SignedToken<'_>, keys: &[Jwk]) -> Result<(), TokenError> {
    let head = &token.head;
    let named = keys
        .iter()
        .filter(|key| head.kid.is_none() || key.kid == head.kid);
    let mut fitting = named.filter(|key| algorithm(key) == Some(head.alg.as_str()));
    let is_signed = fitting.any(|key| has_signed(key, token).is_some());
    is_signed.then_some(()).ok_or(TokenError::Signature)
}

/// Returns the only algorithm for the key type, so that a token cannot select its verification. Returns `None` if the
/// type is unsupported or the key is for another use.
pub(super) fn algorithm(key: &Jwk) -> Option<&'static str> {
    let algorithm = match (key.kty.as_str(), key.crv.as_deref()) {
        ("RSA", _) => RS256,
        ("EC", Some("P-256")) => ES256,
        ("OKP", Some("Ed25519")) => EDDSA,
        _ => return None,
    };
    let may = key.alg.as_deref().is_none_or(|alg| alg == algorithm);
    let signs = key.usage.as_deref().is_none_or(|usage| usage == "sig");
    (may && signs).then_some(algorithm)
}

/// Returns `Some` if `key` has signed the token.
fn has_signed(key: &Jwk, token: &SignedToken<'_>) -> Option<()> {
    let (message, signature) = (token.signed.as_bytes(), token.signature.as_slice());
    let checked = match algorithm(key)? {
        RS256 => {
            let (n, e) = key.rsa()?;
            RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
        }
        ES256 => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.point()?)
            .verify(message, signature),
        _ => UnparsedPublicKey::new(&ED25519, key.edwards()?).verify(message, signature),
    };
    checked.ok()
}

/// Requires each required claim once. Readers disagree about which of two counts, so
/// [`SignedToken::claims`] refuses a claim that occurs twice.
fn check_required(token: &SignedToken<'_>) -> Result<(), TokenError> {
    let claims = token.claims_value()?;
    let is_there = |name: &&str| claims.get(*name).is_some_and(|value| !value.is_null());
    let lacks = REQUIRED.into_iter().find(|name| !is_there(name));
    lacks.map_or(Ok(()), |name| Err(TokenError::Lacks(name)))
}

/// Requires the issuer by its exact name, and an audience of this service.
fn check_source(claims: &Claims, issuer: &Issuer) -> Result<(), TokenError> {
    if claims.iss != issuer.name {
        return Err(TokenError::Issuer(claims.iss.clone()));
    }
    let is_for_us = |aud: &String| issuer.audiences.contains(aud);
    if !claims.aud.all().iter().any(is_for_us) {
        return Err(TokenError::Audience(issuer.audiences.join(" or ")));
    }
    Ok(())
}

/// Requires a time between begin and end of the validity.
fn check_time(claims: &Claims, now: u64) -> Result<(), TokenError> {
    if now >= claims.exp.saturating_add(SKEW) {
        return Err(TokenError::Expired);
    }
    let begins = claims.nbf.unwrap_or(0).max(claims.iat.unwrap_or(0));
    if now.saturating_add(SKEW) < begins {
        return Err(TokenError::Early);
    }
    Ok(())
}

/// Refuses control characters in the name of the client.
fn check_subject(claims: &Claims) -> Result<(), TokenError> {
    let is_clean = !claims.sub.chars().any(char::is_control);
    is_clean.then_some(()).ok_or(TokenError::Name)
}

/// Returns the highest role that the scopes and groups of the token give.
fn role(claims: &Claims, issuer: &Issuer) -> Result<Role, TokenError> {
    let has = |wanted: &Option<String>| wanted.as_ref().is_some_and(|word| claims.has(word));
    match &issuer.users {
        _ if has(&issuer.admins) => Ok(Role::Admin),
        _ if has(&issuer.operators) => Ok(Role::Operator),
        Some(scope) if !claims.has(scope) => Err(TokenError::Scope(scope.clone())),
        _ => Ok(Role::User),
    }
}

/// Maximum length of a token in bytes. Tokens of WLCG have about 1500.
const TOKEN_MAX: usize = 16 << 10;
/// Tolerated difference between the clocks of issuer and host, in seconds.
const SKEW: u64 = 60;
const REQUIRED: [&str; 4] = ["iss", "sub", "aud", "exp"];
const ALGORITHMS: [&str; 3] = [RS256, ES256, EDDSA];
const RS256: &str = "RS256";
const ES256: &str = "ES256";
const EDDSA: &str = "EdDSA";
