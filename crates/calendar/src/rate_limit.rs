//! A bound on the rate of a booking over time.

use crate::capacity::Capacity;

/// A highest rate that differs over time: what a capacity function has beyond some of it.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit<'a> {
    /// The capacity function.
    pub left: &'a Capacity,
    /// Bits a second of it that are not there.
    pub less: u64,
}
