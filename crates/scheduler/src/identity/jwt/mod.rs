//! JSON Web Tokens (RFC 7519) in compact form (RFC 7515), as OIDC and WLCG use them.
//!
//! Three algorithms are supported, and each key is used with one of them, so that a token cannot
//! select its verification. A token is valid if it is signed by a key of the issuer, is for an
//! audience of this service, and has not expired.
//!
//! - [`issuer`]: trusted issuer, and roles; [`token_error`]: faults; `signed`: signature and claims

pub mod issuer;
pub mod token_error;

mod signed;
#[cfg(test)]
mod tests;

pub use issuer::Issuer;
pub(crate) use signed::{is_jwt, key_id};
pub use token_error::TokenError;
