//! Authentication of clients.
//!
//! - [`authenticator`]: authenticates a client by the token of a request
//! - [`tokens`]: file of secret tokens, for small sites
//! - [`jwt`]: tokens signed by an issuer; `jwks`: public keys of the issuer
//! - `rate_limiter`: rate limit of requests

pub mod authenticator;
pub mod jwt;
pub mod tokens;

mod jwks;
pub(crate) mod rate_limiter;

pub use authenticator::{AuthError, Authenticator};
pub use jwks::Keys;
pub use jwt::Issuer;
