//! Keys, tokens and rights.
//!
//! - [`key`]: `lighthaul key`, `allow`, `deny` and `trust`; [`token`]: `lighthaul token` and `sign`
//! - `rights`: rights and fingerprints on the command line; `scheduler_token`: tokens of schedulers

pub(crate) mod key;
pub(crate) mod token;

mod rights;
#[cfg(feature = "scheduler")]
mod scheduler_token;
