//! Decision if a link offers the capacity of a lease, by the data plane of its circuit.
//!
//! ```text
//! closed --active--> open --inactive--> open --inactive for the grace time--> closed
//! ```
//!
//! A circuit that is interrupted for a moment keeps its link, since closing a link moves or fails its transfers. A
//! provider that does not answer changes nothing.

use std::time::Duration;

use lighthaul_base::Instant;

/// Gate of a link, which follows the data plane of a lease.
#[derive(Clone, Debug)]
pub struct LinkGate {
    grace: Duration,
    stage: Stage,
    /// Time since which the circuit carries no packets.
    dark_since: Option<Instant>,
    is_reported: bool,
}

/// Step that the data plane of a lease requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateStep {
    /// Open the link: the circuit carries packets.
    Open,
    /// Close the link: the circuit has carried no packets for the grace time.
    Close,
    /// Report that the circuit has not carried packets for the grace time; the link is closed already.
    Report,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Closed,
    /// The link of an earlier run may be open.
    Unknown,
    Open,
}

impl LinkGate {
    /// Returns the gate of a new lease, whose link is closed.
    pub const fn closed(grace: Duration) -> Self {
        Self::at(Stage::Closed, grace)
    }

    /// Returns the gate of an earlier lease, whose link may be open.
    pub const fn unknown(grace: Duration) -> Self {
        Self::at(Stage::Unknown, grace)
    }

    const fn at(stage: Stage, grace: Duration) -> Self {
        Self {
            grace,
            stage,
            dark_since: None,
            is_reported: false,
        }
    }

    /// Returns true if the link offers capacity, as far as known.
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Returns true if the link may offer capacity.
    pub fn may_be_open(&self) -> bool {
        self.stage != Stage::Closed
    }

    /// Handles an answer of the provider. Returns the step to take. Call [`Self::note_opened`] or [`Self::note_closed`] after
    /// its success. Without a success, a later answer leads to the same step again.
    pub fn handle_answer(&mut self, now: Instant, is_active: bool) -> Option<GateStep> {
        if is_active {
            self.dark_since = None;
            self.is_reported = false;
            if self.stage == Stage::Open {
                return None;
            }
            // a link whose opening fails halfway may be open
            self.stage = Stage::Unknown;
            return Some(GateStep::Open);
        }
        let since = *self.dark_since.get_or_insert(now);
        if now.since(since) < self.grace {
            return None;
        }
        if self.may_be_open() {
            return Some(GateStep::Close);
        }
        let is_new = !std::mem::replace(&mut self.is_reported, true);
        is_new.then_some(GateStep::Report)
    }

    /// Notes that the link was opened.
    pub const fn note_opened(&mut self) {
        self.stage = Stage::Open;
    }

    /// Notes that the link was closed, which the caller reports.
    pub const fn note_closed(&mut self) {
        self.stage = Stage::Closed;
        self.is_reported = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(30);

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    #[test]
    fn link_opens_once_the_circuit_carries_packets() {
        let mut gate = LinkGate::closed(GRACE);
        assert_eq!(gate.handle_answer(at(0), false), None);
        assert!(!gate.may_be_open());
        assert_eq!(gate.handle_answer(at(9), true), Some(GateStep::Open));
        // an opening that has failed is repeated, and the link may be open
        assert!(gate.may_be_open() && !gate.is_open());
        assert_eq!(gate.handle_answer(at(10), true), Some(GateStep::Open));
        gate.note_opened();
        assert_eq!(gate.handle_answer(at(11), true), None);
        assert!(gate.is_open());
    }

    #[test]
    fn link_closes_after_the_grace_time_without_packets_and_opens_again() {
        let mut gate = LinkGate::closed(GRACE);
        gate.handle_answer(at(0), true);
        gate.note_opened();
        assert_eq!(gate.handle_answer(at(100), false), None);
        assert_eq!(gate.handle_answer(at(129), false), None);
        // a short interruption begins the grace time again
        assert_eq!(gate.handle_answer(at(129), true), None);
        assert_eq!(gate.handle_answer(at(130), false), None);
        assert_eq!(gate.handle_answer(at(159), false), None);
        assert_eq!(gate.handle_answer(at(160), false), Some(GateStep::Close));
        assert_eq!(gate.handle_answer(at(161), false), Some(GateStep::Close));
        gate.note_closed();
        assert_eq!(gate.handle_answer(at(170), false), None);
        assert_eq!(gate.handle_answer(at(180), true), Some(GateStep::Open));
    }

    #[test]
    fn link_of_an_earlier_run_closes_if_its_circuit_carries_no_packets() {
        let mut gate = LinkGate::unknown(GRACE);
        assert!(gate.may_be_open());
        assert_eq!(gate.handle_answer(at(0), false), None);
        assert_eq!(gate.handle_answer(at(30), false), Some(GateStep::Close));
        let mut gate = LinkGate::unknown(GRACE);
        assert_eq!(gate.handle_answer(at(0), true), Some(GateStep::Open));
    }

    #[test]
    fn circuit_that_never_carries_packets_is_reported_once() {
        let mut gate = LinkGate::closed(GRACE);
        assert_eq!(gate.handle_answer(at(0), false), None);
        assert_eq!(gate.handle_answer(at(30), false), Some(GateStep::Report));
        assert_eq!(gate.handle_answer(at(60), false), None);
    }
}
