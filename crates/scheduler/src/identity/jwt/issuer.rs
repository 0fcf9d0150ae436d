//! Whose signatures count, and what they let somebody do.

use super::signed::{Claims, verify};
use crate::books::{Role, Who};
use crate::identity::jwks::Jwk;

/// Whose signatures count, and what they let somebody do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// What tokens name as their issuer, word by word.
    pub name: String,
    /// What we are called by tokens that are for us.
    pub audiences: Vec<String>,
    /// The scope or group that a user has to have, if one has to.
    pub users: Option<String>,
    /// The scope or group of operators.
    pub operators: Option<String>,
    /// The scope or group of admins.
    pub admins: Option<String>,
}

/// Why a token lets nobody in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It is no token of three parts.
    #[error("the token is not one of three parts that a dot divides")]
    Form,
    /// It does not say what every token has to.
    #[error("the token lacks the claim {0}: ask the issuer for one that has it")]
    Lacks(&'static str),
    /// It says something that is not what RFC 7519 has.
    #[error("the claims of the token are not as RFC 7519 has them: ask the issuer for another")]
    Claims,
    /// It names its holder in a way that cannot be shown.
    #[error(
        "the token names its holder with letters that cannot be shown: ask the issuer for another"
    )]
    Name,
    /// It is signed in a way that is not known here.
    #[error("the token is signed with {0}: ask the issuer for one with RS256, ES256 or EdDSA")]
    Algorithm(String),
    /// No key of the issuer made its signature.
    #[error("no key of the issuer has signed the token: ask the issuer for a new one")]
    Signature,
    /// It is of somebody else.
    #[error("the token is from {0}, whose word does not count here")]
    Issuer(String),
    /// It is for somebody else.
    #[error("the token is not for this service: ask the issuer for one for {0}")]
    Audience(String),
    /// It is over.
    #[error("the token has expired: ask the issuer for a new one")]
    Expired,
    /// It does not hold yet.
    #[error("the token does not hold yet: check the clocks of this host and the issuer")]
    Early,
    /// It gives no right to anything here.
    #[error("the token has not the scope {0}: ask the issuer for one that has")]
    Scope(String),
}

impl Issuer {
    /// Who a token is of, if a key of `keys` has signed it and it holds at `now`, in seconds since 1970.
    pub(crate) fn judge(&self, token: &str, keys: &[Jwk], now: u64) -> Result<Who, Invalid> {
        let claims: Claims = verify(token, keys)?;
        if claims.iss != self.name {
            return Err(Invalid::Issuer(claims.iss));
        }
        if !claims
            .aud
            .all()
            .iter()
            .any(|aud| self.audiences.contains(aud))
        {
            return Err(Invalid::Audience(self.audiences.join(" or ")));
        }
        if now >= claims.exp.saturating_add(SKEW) {
            return Err(Invalid::Expired);
        }
        let begins = claims.nbf.unwrap_or(0).max(claims.iat.unwrap_or(0));
        if now.saturating_add(SKEW) < begins {
            return Err(Invalid::Early);
        }
        if claims.sub.chars().any(char::is_control) {
            return Err(Invalid::Name);
        }
        Ok(Who {
            role: self.role(&claims)?,
            name: format!("{}@{}", claims.sub, self.short_name()),
        })
    }

    fn role(&self, claims: &Claims) -> Result<Role, Invalid> {
        let has = |wanted: &Option<String>| wanted.as_ref().is_some_and(|word| claims.has(word));
        match &self.users {
            _ if has(&self.admins) => Ok(Role::Admin),
            _ if has(&self.operators) => Ok(Role::Operator),
            Some(scope) if !claims.has(scope) => Err(Invalid::Scope(scope.clone())),
            _ => Ok(Role::User),
        }
    }

    /// The issuer without what every issuer has in front, for the names of those it vouches for.
    fn short_name(&self) -> &str {
        let name = self.name.strip_prefix("https://").unwrap_or(&self.name);
        name.trim_end_matches('/')
    }
}

/// How much the clocks of issuer and host may differ, in seconds.
const SKEW: u64 = 60;
