//! Device and driver that the suite tests.

use std::collections::BTreeMap;

use lighthaul_base::Rate;

use crate::circuit::CircuitId;
use crate::driver::Driver;
use crate::error::Cause;

/// Circuits of a device and their rates; none for a circuit that takes no packets.
pub type State = BTreeMap<CircuitId, Option<Rate>>;

/// Device with its driver.
pub trait Subject {
    /// Opens the driver, as after a start of the scheduler. An earlier driver is dropped before.
    fn open(&mut self) -> crate::error::Result<Box<dyn Driver>>;

    /// Returns the interface of all circuits.
    fn interface(&self) -> String;

    /// Compares the device with the expected circuits, without the driver. Returns false if that is impossible.
    fn compare(&mut self, expected: &State) -> Result<bool, String>;

    /// Configures the device as another client. Returns false if that is impossible.
    fn make_foreign(&mut self) -> bool;

    /// Returns true if the configuration of the other client is unchanged, and removes it.
    fn take_foreign(&mut self) -> bool;

    /// Returns the party at fault for a change that the device refuses.
    fn refuser(&self) -> Cause {
        Cause::Refused
    }

    /// Injects a fault into a change of a circuit, after `after` other changes. Returns false if that is impossible.
    fn inject(&mut self, fault: Fault, after: usize) -> bool;

    /// Removes the faults that have not struck.
    fn calm(&mut self);
}

/// Fault of a device or of its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device refuses the change.
    Refuse,
    /// The device does not answer, and the change is not made.
    Unreachable,
    /// The device does not answer before the time limit, and does not make the change.
    Silence,
    /// The change is made, and the answer is lost.
    AnswerLost,
    /// The driver or its connection ends before the change.
    Death,
}

impl Fault {
    /// Faults that leave it open if the change was made.
    pub const UNCLEAR: [Self; 4] = [
        Self::Unreachable,
        Self::Silence,
        Self::AnswerLost,
        Self::Death,
    ];
}
