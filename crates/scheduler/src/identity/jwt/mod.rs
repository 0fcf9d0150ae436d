//! JSON Web Tokens (RFC 7519) in compact form (RFC 7515), for OIDC and WLCG.
//!
//! Three algorithms are supported, and each key is used with one of them. The checks of tokens are
//! in `identity::checks`.
//!
//! - [`issuer`]: trusted issuer, and roles; [`token_error`]: faults
//! - `signed_token`: parts of a token, and its claims

pub mod issuer;
pub mod token_error;

pub(crate) mod signed_token;

pub use issuer::Issuer;
pub use token_error::TokenError;
