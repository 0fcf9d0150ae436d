//! Parts and claims of a signed token. The checks are in `identity::checks`.

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::token_error::TokenError;

/// Token in compact form (RFC 7515, section 3.1). Its claims are not yet decoded.
#[derive(Debug)]
pub(crate) struct SignedToken<'a> {
    pub(crate) head: Head,
    /// Text that the signature covers.
    pub(crate) signed: &'a str,
    pub(crate) signature: Vec<u8>,
    claims: &'a str,
}

impl<'a> SignedToken<'a> {
    /// Returns true if `token` has the form of a JSON Web Token.
    pub(crate) fn has_form(token: &str) -> bool {
        token.bytes().filter(|octet| *octet == b'.').count() == 2
    }

    /// Splits a token into its parts, and decodes its head and its signature.
    pub(crate) fn parse(token: &'a str) -> Result<Self, TokenError> {
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Form)?;
        let (head, claims) = signed.split_once('.').ok_or(TokenError::Form)?;
        Ok(Self {
            head: part(head)?,
            signed,
            signature: decoded(signature)?,
            claims,
        })
    }

    /// Decodes the claims as any JSON.
    pub(crate) fn claims_value(&self) -> Result<Value, TokenError> {
        part(self.claims)
    }

    /// Decodes the claims. Fails if one occurs twice or has another type.
    pub(crate) fn claims(&self) -> Result<Claims, TokenError> {
        serde_json::from_slice(&decoded(self.claims)?).map_err(|_| TokenError::Claims)
    }
}

fn part<T: DeserializeOwned>(text: &str) -> Result<T, TokenError> {
    serde_json::from_slice(&decoded(text)?).map_err(|_| TokenError::Form)
}

fn decoded(text: &str) -> Result<Vec<u8>, TokenError> {
    let octets = BASE64URL_NOPAD.decode(text.as_bytes());
    octets.map_err(|_| TokenError::Form)
}

/// Head of a token (RFC 7515, section 4.1). Keys and addresses of keys in it are ignored.
#[derive(Debug, Deserialize)]
pub(crate) struct Head {
    pub(crate) alg: String,
    pub(crate) kid: Option<String>,
    pub(crate) crit: Option<Value>,
}

/// Claims of a token (RFC 7519, section 4.1; WLCG Common JWT Profiles 1.2). A claim of another type
/// makes the token invalid.
#[derive(Debug, Deserialize)]
pub(crate) struct Claims {
    pub(crate) iss: String,
    pub(crate) sub: String,
    pub(crate) aud: Words,
    pub(crate) exp: u64,
    pub(crate) nbf: Option<u64>,
    pub(crate) iat: Option<u64>,
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
    pub(crate) fn has(&self, wanted: &str) -> bool {
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
pub(crate) enum Words {
    One(String),
    Some(Vec<String>),
}

impl Default for Words {
    fn default() -> Self {
        Self::Some(Vec::new())
    }
}

impl Words {
    pub(crate) fn all(&self) -> Vec<String> {
        match self {
            Self::One(word) => vec![word.clone()],
            Self::Some(words) => words.clone(),
        }
    }
}
