//! Who asks, and what they may do.
//!
//! - [`gate`]: who is let in, by what they show; `role`: roles as people write them
//! - [`tokens`]: a file of secrets, for small sites; [`jwt`]: what an issuer signed; `jwks`: the issuer's keys
//! - `limits`: how often somebody may ask

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
