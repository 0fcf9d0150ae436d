//! Failed changes of circuits.

use lighthaul_circuit::error::{Cause, Error};

/// Failed change of a circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangeFault {
    /// Reason, as a sentence.
    pub(super) why: String,
    /// True if the device did not answer, or this host failed. The device may have made the change, and a repetition may
    /// succeed.
    pub(super) may_pass: bool,
    /// Number of attempts in a row that failed.
    pub(super) attempts: u32,
}

impl ChangeFault {
    /// Returns the fault of a change that cannot be made.
    pub(super) const fn refused(why: String) -> Self {
        Self {
            why,
            may_pass: false,
            attempts: 1,
        }
    }

    /// Returns true if the log names the fault of `before` already.
    pub(super) fn repeats(&self, before: &Self) -> bool {
        self.why == before.why || self.may_pass && before.may_pass
    }
}

impl From<Error> for ChangeFault {
    fn from(error: Error) -> Self {
        Self {
            why: error.to_string(),
            may_pass: matches!(error.cause(), Cause::NoAnswer | Cause::Host),
            attempts: 1,
        }
    }
}
