//! Tests of tokens.
//!
//! - `verification`: tokens that are valid, and others; `attacks`: known attacks
//! - `signer`: keys and tokens

mod attacks;
mod signer;
mod verification;
