//! What an issuer signed: JSON Web Tokens (RFC 7519) in compact form (RFC 7515), as OIDC and WLCG users have them.
//!
//! Three algorithms are known and each key is good for one of them, so that no token picks how it is checked. Whatever is not
//! signed by a key of the issuer, for one of the audiences that we answer to, and now, lets nobody in.
//!
//! - [`issuer`]: whose signatures count, and what they let somebody do; [`invalid`]: why not;
//!   `signed`: what is signed

pub mod invalid;
pub mod issuer;

mod signed;
#[cfg(test)]
mod tests;

pub use invalid::Invalid;
pub use issuer::Issuer;
pub(crate) use signed::{is_one, key_id};
