//! Interface to the devices of a domain.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_stargate::{Key, RateChange};

/// Circuits of a domain at its devices. A thread of the service calls it at the times of changes.
///
/// Every call returns within a bounded time and can be repeated: a rate that is in force already is no fault.
pub trait Devices: fmt::Debug + Send {
    /// Sets the rates of the listed circuits, and removes every other circuit. It is called once, after a start.
    fn reset(&mut self, at: Instant, rates: &[RateChange]) -> Vec<DeviceFault>;

    /// Changes rates in the given order, in which decreases come first. A circuit without a rate is removed.
    ///
    /// It is called at least every few seconds, with no changes if there are none. Each call repeats what failed
    /// before, and may set circuits again that a device has lost.
    fn apply(&mut self, at: Instant, changes: &[RateChange]) -> Vec<DeviceFault>;

    /// Returns the time until the next call of [`Self::apply`] is due, also if there are no changes then. Increases
    /// wait for the end of a guard time, for example. Returns `None` if no call is due.
    fn next_call(&self) -> Option<Duration> {
        None
    }

    /// Returns the interfaces whose devices have no circuit, and will get none without a further change.
    fn empty(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Notes the time until the next planned change. Inspections wait if they could delay it.
    fn note_next(&mut self, _next: Option<Duration>) {}

    /// Returns the rates that the devices carry now, as lists of circuits. A circuit that is absent carries nothing.
    fn carried(&self) -> Vec<Arc<Carried>> {
        Vec::new()
    }

    /// Returns the number of changes that wait for a device.
    fn waiting(&self) -> usize {
        0
    }
}

/// Rates in b/s that devices carry for the circuits of reservations; `None` if a rate is not known.
pub type Carried = BTreeMap<(Key, u8), Option<u64>>;

/// Change that a device refused, or circuit that it has lost. The path of the circuit is released in all domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFault {
    /// Reservation and index of the segment.
    pub circuit: (Key, u8),
    /// Reason, as a sentence.
    pub why: String,
}
