//! What vouches for a caller whose key nobody has listed.

use std::fmt;

use lighthaul_io::control::bounded;
use serde::{Deserialize, Serialize};

/// What a caller shows before it says what it wants.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Credential {
    /// A secret that whoever bears it was given.
    Token(#[serde(deserialize_with = "bounded::text::<TOKEN_MAX, _>")] String),
    /// What an authority has signed for the caller's key.
    Statement(#[serde(deserialize_with = "bounded::list::<STATEMENT_MAX, _, _>")] Vec<u8>),
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
