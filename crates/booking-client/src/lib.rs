//! Floor 4: client of the scheduler.
//!
//! - [`client`]: client of the REST interface; [`json`]: its JSON types
//! - [`https`]: HTTP client with its own check of certificates

pub mod client;
pub mod https;
pub mod json;
