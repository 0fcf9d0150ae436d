//! Trusted issuer of signed tokens, and the roles that its tokens give.

use lighthaul_booking::books::{Principal, Role};

use super::signed::{Claims, verify};
use super::token_error::TokenError;
use crate::identity::jwks::Jwk;

/// Trusted issuer of signed tokens, and the roles that its tokens give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Name in the claim `iss` (exact match).
    pub name: String,
    /// Names of this service in the claim `aud`.
    pub audiences: Vec<String>,
    /// Scope or group that users need, if any.
    pub users: Option<String>,
    /// Scope or group of operators.
    pub operators: Option<String>,
    /// Scope or group of administrators.
    pub admins: Option<String>,
}

impl Issuer {
    /// Returns the client of a token that one of `keys` has signed, and that is valid at `now`, in
    /// seconds since 1970.
    pub(crate) fn verify(
        &self,
        token: &str,
        keys: &[Jwk],
        now: u64,
    ) -> Result<Principal, TokenError> {
        let claims: Claims = verify(token, keys)?;
        if claims.iss != self.name {
            return Err(TokenError::Issuer(claims.iss));
        }
        if !claims
            .aud
            .all()
            .iter()
            .any(|aud| self.audiences.contains(aud))
        {
            return Err(TokenError::Audience(self.audiences.join(" or ")));
        }
        if now >= claims.exp.saturating_add(SKEW) {
            return Err(TokenError::Expired);
        }
        let begins = claims.nbf.unwrap_or(0).max(claims.iat.unwrap_or(0));
        if now.saturating_add(SKEW) < begins {
            return Err(TokenError::Early);
        }
        if claims.sub.chars().any(char::is_control) {
            return Err(TokenError::Name);
        }
        Ok(Principal {
            role: self.role(&claims)?,
            name: format!("{}@{}", claims.sub, self.short_name()),
        })
    }

    fn role(&self, claims: &Claims) -> Result<Role, TokenError> {
        let has = |wanted: &Option<String>| wanted.as_ref().is_some_and(|word| claims.has(word));
        match &self.users {
            _ if has(&self.admins) => Ok(Role::Admin),
            _ if has(&self.operators) => Ok(Role::Operator),
            Some(scope) if !claims.has(scope) => Err(TokenError::Scope(scope.clone())),
            _ => Ok(Role::User),
        }
    }

    /// Returns the name of the issuer without `https://`, for the names of clients.
    fn short_name(&self) -> &str {
        let name = self.name.strip_prefix("https://").unwrap_or(&self.name);
        name.trim_end_matches('/')
    }
}

/// Tolerated difference between the clocks of issuer and host, in seconds.
const SKEW: u64 = 60;
