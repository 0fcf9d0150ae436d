//! Work of changes, as a count that does not depend on the machine.

use std::cell::Cell;

use lighthaul_booking_client::json::Step;

/// Number of steps of reservations that were examined.
///
/// Functions that read steps to check a reservation count them here. Tests can then bound the cost
/// of a change on a machine of any speed.
#[derive(Debug, Default)]
pub(super) struct StepCounter(Cell<u64>);

impl StepCounter {
    /// Adds the number of `steps`.
    pub(super) fn add(&self, steps: &[Step]) {
        self.0.set(self.0.get().saturating_add(steps.len() as u64));
    }

    /// Returns the total.
    pub(super) const fn steps(&self) -> u64 {
        self.0.get()
    }
}
