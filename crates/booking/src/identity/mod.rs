//! Authentication of clients, and their roles.
//!
//! - [`gate`]: authenticates a client by the token of a request; `role`: names of roles
//! - [`tokens`]: file of secret tokens, for small sites
//! - [`jwt`]: tokens signed by an issuer; `jwks`: public keys of the issuer
//! - `limits`: rate limit of requests

pub mod gate;
pub mod jwt;
pub mod tokens;

mod jwks;
pub(crate) mod limits;
mod role;

pub use gate::{Denied, Gate};
pub use jwks::Keys;
pub use jwt::Issuer;
pub use role::NotARole;
