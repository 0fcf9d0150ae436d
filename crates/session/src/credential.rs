//! What vouches for a caller whose key nobody has listed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a caller shows before it says what it wants.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Credential {
    /// A secret that whoever bears it was given.
    Token(String),
    /// What an authority has signed for the caller's key.
    Statement(Vec<u8>),
}

impl Credential {
    /// Whether it is no longer than one can be.
    pub const fn is_bounded(&self) -> bool {
        match self {
            Self::Token(token) => token.len() <= TOKEN_MAX,
            Self::Statement(octets) => octets.len() <= STATEMENT_MAX,
        }
    }
}

/// The longest token that is looked at.
const TOKEN_MAX: usize = 256;
/// The longest statement that is looked at.
const STATEMENT_MAX: usize = 8 << 10;

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // a token must not reach any log
        f.write_str(match self {
            Self::Token(_) => "Token(secret)",
            Self::Statement(_) => "Statement(..)",
        })
    }
}
