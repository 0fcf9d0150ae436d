//! Failed changes of circuits.

use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_circuit::error::{Cause, Error, ProgramFault};

/// Failed change of a circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangeFault {
    /// Reason, as a sentence.
    pub(super) why: String,
    /// True if the device did not answer, or this host failed. The device may have made the change, and a repetition may
    /// succeed.
    pub(super) may_pass: bool,
    /// Number of attempts in a row that failed. A program that is not started yet made none.
    pub(super) attempts: u32,
    /// Earliest time of the next attempt.
    pub(super) retry_at: Instant,
}

impl ChangeFault {
    /// Returns the fault of a change that cannot be made.
    pub(super) const fn refused(why: String) -> Self {
        Self {
            why,
            may_pass: false,
            attempts: 1,
            retry_at: Instant::ZERO,
        }
    }

    /// Notes the attempts before this one at `now`. Repeated failures have growing pauses: a change may be fatal to the
    /// program of its device, which other changes need.
    pub(super) fn note_earlier(&mut self, now: Instant, before: Option<&Self>) {
        let before = before.map_or(0, |before| before.attempts);
        self.attempts = self.attempts.saturating_add(before);
        if self.is_stubborn() {
            let pause = PAUSE_MIN * (1 << (self.attempts - ATTEMPTS_MIN).min(5));
            self.retry_at = now + pause;
        }
    }

    /// Returns true if the change has failed again when it was tried alone. Other changes come first.
    pub(super) const fn is_stubborn(&self) -> bool {
        self.may_pass && self.attempts >= ATTEMPTS_MIN
    }

    /// Returns true if the log names the fault of `before` already.
    pub(super) fn repeats(&self, before: &Self) -> bool {
        self.why == before.why || self.may_pass && before.may_pass
    }
}

impl From<Error> for ChangeFault {
    fn from(error: Error) -> Self {
        let is_resting = matches!(
            &error,
            Error::Program {
                fault: ProgramFault::Resting { .. },
                ..
            }
        );
        Self {
            why: error.to_string(),
            may_pass: matches!(error.cause(), Cause::NoAnswer | Cause::Host),
            attempts: u32::from(!is_resting),
            retry_at: Instant::ZERO,
        }
    }
}

/// Number of attempts after which a change has failed alone: the first one may have failed by another change of its call.
const ATTEMPTS_MIN: u32 = 2;
/// First pause between two attempts; the longest one is 32 times as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);
