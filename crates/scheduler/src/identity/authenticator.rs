//! Authentication by bearer tokens. The checks are in `checks`.

use lighthaul_booking::books::Principal;
use lighthaul_booking_client::role::Role;

use super::checks;
use super::jwks::Keys;
use super::jwt::signed_token::SignedToken;
use super::jwt::{Issuer, TokenError};
use super::tokens::Tokens;

/// Sources of valid tokens.
#[derive(Debug)]
pub struct Authenticator {
    /// File of secret tokens.
    pub tokens: Option<Tokens>,
    /// Issuer of signed tokens, and its keys.
    pub issuer: Option<(Issuer, Keys)>,
}

/// Standing of a client that shows no token now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Some token of it has this role.
    Has(Role),
    /// No token of it is valid any more.
    Gone,
    /// The file of tokens cannot be read now.
    Unknown,
}

/// Reason for which a client is not authenticated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The request has no token.
    #[error(
        "no token given: set LIGHTHAUL_SCHEDULER_TOKEN or give a file (--token-file, with cp --scheduler-token); over HTTP send Authorization: Bearer TOKEN"
    )]
    NoToken,
    /// The token is not listed, or has expired.
    #[error("the token is unknown or has expired: ask an operator for a new one")]
    UnknownToken,
    /// The signed token is not valid.
    #[error("{0}")]
    InvalidToken(#[from] TokenError),
    /// The keys of the issuer are not available yet.
    #[error(
        "cannot check the token: the keys of the issuer are not available yet; try again in a few seconds"
    )]
    KeysUnavailable,
}

impl Authenticator {
    /// Returns the standing of the client `name` at `now`, in seconds since 1970. Clients of an issuer count as users,
    /// since only their tokens have their roles.
    pub(crate) fn standing(&self, name: &str, now: u64) -> Standing {
        if let Some((_, issuer)) = name.rsplit_once('@') {
            let known = self.issuer.as_ref();
            let is_known = known.is_some_and(|(known, _)| known.short_name() == issuer);
            return if is_known {
                Standing::Has(Role::User)
            } else {
                Standing::Gone
            };
        }
        let Some(tokens) = &self.tokens else {
            return Standing::Gone;
        };
        match checks::listed_role(tokens, name, now) {
            Ok(Some(role)) => Standing::Has(role),
            Ok(None) => Standing::Gone,
            Err(_) => Standing::Unknown,
        }
    }

    /// Returns the client of an `Authorization` header, at `now` in seconds since 1970. Blocks while the keys of the
    /// issuer are fetched.
    pub fn authenticate(
        &self,
        authorization: Option<&str>,
        now: u64,
    ) -> Result<Principal, AuthError> {
        let token = authorization.and_then(|header| {
            let (scheme, token) = header.trim().split_once(' ')?;
            scheme
                .eq_ignore_ascii_case("bearer")
                .then_some(token.trim())
        });
        let token = token.ok_or(AuthError::NoToken)?;
        if checks::is_too_long(token) {
            return Err(AuthError::UnknownToken);
        }
        match &self.issuer {
            Some((issuer, keys)) if SignedToken::has_form(token) => {
                let token = SignedToken::parse(token)?;
                let keys = keys
                    .at(now, token.head.kid.as_deref())
                    .ok_or(AuthError::KeysUnavailable)?;
                Ok(checks::client(&token, issuer, &keys, now)?)
            }
            _ => {
                let bearer = self
                    .tokens
                    .as_ref()
                    .and_then(|tokens| checks::bearer(tokens, token, now));
                bearer.ok_or(AuthError::UnknownToken)
            }
        }
    }
}
