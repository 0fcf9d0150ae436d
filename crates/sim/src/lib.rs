//! Floor 2: the virtual world, where a year of transfers passes in a minute and every run of a seed
//! is the same.
//!
//! - [`link`]: one direction of a path, in virtual time here and in real time in the lab
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod link;

pub use link::{Burst, Count, Counters, Link, LinkConfig, Reason, Reorder, Verdict};
