//! Whose signatures count, and what they let somebody do.

use super::invalid::Invalid;
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
