//! Events of circuits.
use lighthaul_base::{Instant, Rate};

use crate::circuit::CircuitId;

/// Event of a circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The circuit exists at the device, and takes no packets yet.
    Created(CircuitId),
    /// The rate has changed.
    Changed {
        /// The circuit.
        id: CircuitId,
        /// New rate.
        rate: Option<Rate>,
        /// Time at which the change was due.
        due: Instant,
        /// Time at which the device confirmed the change.
        at: Instant,
    },
    /// The device has the circuit of an earlier agent, at the planned rate.
    Adopted(CircuitId, Option<Rate>),
    /// The circuit was removed as planned.
    Ended(CircuitId, Ending),
    /// The circuit failed. Its remains are removed from the device as soon as possible.
    Failed(CircuitId, String),
    /// The device had another rate or flow than set, and is being corrected.
    Repaired(CircuitId),
    /// A circuit of an earlier agent that is not wanted was removed.
    StaleRemoved(CircuitId),
    /// The device cannot be inspected.
    InspectFailed(String),
    /// The device was inspected after failed inspections.
    Inspected,
    /// The given number of events was dropped because the queue was full.
    Overflow(u64),
}

/// Reason for the planned end of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The vector of the circuit has ended.
    Completed,
    /// The lease of the circuit has expired.
    Expired,
    /// The owner has released the circuit.
    Released,
}
