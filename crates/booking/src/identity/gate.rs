//! Who is let in, by what they show.

use super::jwks::Keys;
use super::jwt::{self, Invalid, Issuer};
use super::tokens::Tokens;
use crate::books::Who;

/// The ways in.
#[derive(Debug)]
pub struct Gate {
    /// A file of secrets.
    pub tokens: Option<Tokens>,
    /// An issuer of signed tokens, and its keys.
    pub issuer: Option<(Issuer, Keys)>,
}

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Nothing was shown.
    #[error(
        "nothing says who asks: show a token, in LIGHTHAUL_SCHEDULER_TOKEN or in a file (--token-file, with cp --scheduler-token); over HTTP as Authorization: Bearer TOKEN"
    )]
    Nobody,
    /// What was shown is not known.
    #[error("the token is not known here, or has expired: ask an operator for one")]
    Unknown,
    /// What was shown does not count.
    #[error("{0}")]
    Invalid(#[from] Invalid),
    /// What was shown cannot be judged yet.
    #[error(
        "the keys of the issuer cannot be had yet, so that its tokens cannot be checked: ask again in a few seconds, when it is tried again"
    )]
    Away,
}

impl Gate {
    /// Who shows `authorization`, the header of that name, at `now`, in seconds since 1970. It may take as long as the issuer
    /// takes to say its keys.
    pub fn judge(&self, authorization: Option<&str>, now: u64) -> Result<Who, Denied> {
        let token = authorization.and_then(|header| {
            let (scheme, token) = header.trim().split_once(' ')?;
            scheme
                .eq_ignore_ascii_case("bearer")
                .then_some(token.trim())
        });
        let token = token.ok_or(Denied::Nobody)?;
        if token.len() > TOKEN_MAX {
            return Err(Denied::Unknown);
        }
        match &self.issuer {
            Some((issuer, keys)) if jwt::is_one(token) => {
                let kid = jwt::key_id(token);
                let keys = keys.at(now, kid.as_deref()).ok_or(Denied::Away)?;
                Ok(issuer.judge(token, &keys, now)?)
            }
            _ => {
                let bearer = self
                    .tokens
                    .as_ref()
                    .and_then(|tokens| tokens.bearer(token, now));
                bearer.ok_or(Denied::Unknown)
            }
        }
    }
}

/// The longest token: those of WLCG have some 1500 octets.
const TOKEN_MAX: usize = 16 << 10;
