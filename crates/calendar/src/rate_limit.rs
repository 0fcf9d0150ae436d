//! Limit on the rate of a booking over time.

use crate::capacity::Capacity;

/// Upper bound on a rate over time: a capacity function minus a constant.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit<'a> {
    /// Capacity function.
    pub left: &'a Capacity,
    /// Constant to subtract, in bits a second.
    pub less: u64,
}
