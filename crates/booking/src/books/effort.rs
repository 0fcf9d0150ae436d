//! Cost of changes, counted rather than timed.

use std::cell::Cell;

use crate::word::Step;

/// Number of steps that were looked at to judge reservations: their own and those of others.
///
/// What reads the steps of a reservation for that counts them here. A test can then hold the cost of a change to a bound,
/// on a machine of any speed.
#[derive(Debug, Default)]
pub(super) struct Effort(Cell<u64>);

impl Effort {
    /// Counts steps.
    pub(super) fn add(&self, steps: &[Step]) {
        self.0.set(self.0.get().saturating_add(steps.len() as u64));
    }

    /// Returns the number of them all.
    pub(super) const fn steps(&self) -> u64 {
        self.0.get()
    }
}
