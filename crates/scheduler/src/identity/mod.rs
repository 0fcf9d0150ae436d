//! Authentication of clients.
//!
//! - [`authenticator`]: authenticates a client by the token of a request
//! - `checks`: all checks of tokens, from top to bottom
//! - [`tokens`]: file of secret tokens, for small sites
//! - [`jwt`]: tokens signed by an issuer; `jwk`: one public key; `jwks`: public keys of the issuer
//! - `rate_limiter`: rate limit of requests

pub mod authenticator;
pub mod jwt;
pub mod tokens;

mod checks;
mod jwk;
mod jwks;
pub(crate) mod rate_limiter;
#[cfg(test)]
mod tests;

pub(crate) use authenticator::Standing;
pub use authenticator::{AuthError, Authenticator};
pub use jwks::Keys;
pub use jwt::Issuer;
