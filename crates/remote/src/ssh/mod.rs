//! Hosts that ssh logs in to.
//!
//! - [`start`]: a daemon that ssh starts; `error`: faults
pub mod start;

mod error;
