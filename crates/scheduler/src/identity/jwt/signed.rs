//! Signatures and claims of tokens.

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::token_error::TokenError;
use crate::identity::jwks::Jwk;

/// Returns true if `token` has the form of a JSON Web Token.
pub(crate) fn is_jwt(token: &str) -> bool {
    token.bytes().filter(|octet| *octet == b'.').count() == 2
}

/// Returns the name of the key that signed a token.
pub(crate) fn key_id(token: &str) -> Option<String> {
    let head: Head = part(token.split('.').next()?).ok()?;
    head.kid
}

/// Returns the claims of a token that one of `keys` has signed.
pub(super) fn verify(token: &str, keys: &[Jwk]) -> Result<Claims, TokenError> {
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Form)?;
    let (head, claims) = signed.split_once('.').ok_or(TokenError::Form)?;
    let head: Head = part(head)?;
    // critical extensions are not supported (RFC 7515, section 4.1.11)
    if head.crit.is_some() {
        return Err(TokenError::Algorithm("an extension".to_owned()));
    }
    if !ALGORITHMS.contains(&head.alg.as_str()) {
        return Err(TokenError::Algorithm(head.alg.chars().take(32).collect()));
    }
    let signature = BASE64URL_NOPAD.decode(signature.as_bytes());
    let signature = signature.map_err(|_| TokenError::Form)?;
    let named = keys
        .iter()
        .filter(|key| head.kid.is_none() || key.kid == head.kid);
    let mut fitting = named.filter(|key| key.algorithm() == Some(head.alg.as_str()));
    if fitting.any(|key| key.has_signed(signed.as_bytes(), &signature)) {
        read(&decoded(claims)?)
    } else {
        Err(TokenError::Signature)
    }
}

/// Reads the claims. Fails if one is missing or occurs twice, because readers disagree about which
/// of two counts.
fn read(octets: &[u8]) -> Result<Claims, TokenError> {
    let claims: serde_json::Value = serde_json::from_slice(octets).map_err(|_| TokenError::Form)?;
    let is_there = |name: &&str| claims.get(*name).is_some_and(|value| !value.is_null());
    if let Some(lacks) = REQUIRED.into_iter().find(|name| !is_there(name)) {
        return Err(TokenError::Lacks(lacks));
    }
    serde_json::from_slice(octets).map_err(|_| TokenError::Claims)
}

fn part<T: DeserializeOwned>(text: &str) -> Result<T, TokenError> {
    serde_json::from_slice(&decoded(text)?).map_err(|_| TokenError::Form)
}

fn decoded(text: &str) -> Result<Vec<u8>, TokenError> {
    let octets = BASE64URL_NOPAD.decode(text.as_bytes());
    octets.map_err(|_| TokenError::Form)
}

#[derive(Debug, Deserialize)]
struct Head {
    alg: String,
    kid: Option<String>,
    crit: Option<serde_json::Value>,
}

/// Claims of a token (RFC 7519, section 4.1; WLCG Common JWT Profiles 1.2). A claim of another type
/// makes the token invalid.
#[derive(Debug, Deserialize)]
pub(super) struct Claims {
    pub(super) iss: String,
    pub(super) sub: String,
    pub(super) aud: Words,
    pub(super) exp: u64,
    pub(super) nbf: Option<u64>,
    pub(super) iat: Option<u64>,
    #[serde(default)]
    scope: Words,
    #[serde(default)]
    scp: Words,
    #[serde(default)]
    groups: Words,
    #[serde(default, rename = "wlcg.groups")]
    wlcg_groups: Words,
}

impl Claims {
    /// Returns true if the token has a scope, with or without a path, or a group.
    pub(super) fn has(&self, wanted: &str) -> bool {
        let scopes = self
            .scope
            .all()
            .into_iter()
            .flat_map(|scope| split(&scope))
            .chain(self.scp.all());
        let mut scopes = scopes.map(|scope| scope.split(':').next().unwrap_or_default().to_owned());
        scopes.any(|scope| scope == wanted)
            || self.groups.all().iter().any(|group| group == wanted)
            || self.wlcg_groups.all().iter().any(|group| group == wanted)
    }
}

fn split(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// One word or a list of words.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Words {
    One(String),
    Some(Vec<String>),
}

impl Default for Words {
    fn default() -> Self {
        Self::Some(Vec::new())
    }
}

impl Words {
    pub(super) fn all(&self) -> Vec<String> {
        match self {
            Self::One(word) => vec![word.clone()],
            Self::Some(words) => words.clone(),
        }
    }
}

const REQUIRED: [&str; 4] = ["iss", "sub", "aud", "exp"];
const ALGORITHMS: [&str; 3] = ["RS256", "ES256", "EdDSA"];
