//! Credentials of a client whose key is not listed.

use std::fmt;

use lighthaul_io::control::bounded;
use serde::{Deserialize, Serialize};

/// Credential that a client presents before its request.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Credential {
    /// Secret token that admits its bearer.
    Token(#[serde(deserialize_with = "bounded::text::<TOKEN_MAX, _>")] String),
    /// Statement that an authority signed for the client's key.
    Statement(#[serde(deserialize_with = "bounded::list::<STATEMENT_MAX, _, _>")] Vec<u8>),
}

/// Octets of the longest token that is accepted.
const TOKEN_MAX: usize = 256;
/// Octets of the longest statement that is accepted.
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
