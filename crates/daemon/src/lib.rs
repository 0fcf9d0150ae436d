//! Floor 4: introduces the services to each other.
//!
//! - [`serve`]: the daemon; [`client`]: calling one
//! - [`keys`]: which keys are known
#![expect(clippy::disallowed_methods, reason = "a service lives in the real world")]

pub mod client;
pub mod keys;
pub mod serve;
