//! Circuits without a rate, which their devices still have.
//!
//! Circuits that end together are closed in one call of their driver, so that the changes that need their capacity wait
//! for one commit only. They are removed one by one when no change is due.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_stargate::Segment;
use tracing::warn;

/// Closed circuits, which take no packets.
#[derive(Debug, Default)]
pub(super) struct ClosedCircuits {
    due: BTreeSet<Segment>,
    /// Circuits that could not be removed, with the reasons.
    failed: BTreeMap<Segment, String>,
}

impl ClosedCircuits {
    /// Adds a circuit.
    pub(super) fn add(&mut self, segment: Segment) {
        self.due.insert(segment);
    }

    /// Forgets a circuit that has a rate again, or was removed.
    pub(super) fn forget(&mut self, segment: Segment) {
        self.due.remove(&segment);
        self.failed.remove(&segment);
    }

    /// Returns true if the devices have no closed circuit.
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty() && self.failed.is_empty()
    }

    /// Returns true if a circuit waits for its first removal.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Returns the next circuit to remove: a new one before those that failed.
    pub(super) fn take(&mut self) -> Option<Segment> {
        let next = self.due.pop_first();
        next.or_else(|| self.failed.keys().next().copied())
    }

    /// Notes a failed removal, which is repeated later. A repeated reason is logged once.
    pub(super) fn note_failure(&mut self, segment: Segment, why: String) {
        if self.failed.get(&segment) != Some(&why) {
            let (ingress, egress) = (segment.ingress.0, segment.egress.0);
            warn!(
                ingress,
                egress, why, "a closed circuit cannot be removed; the service tries again"
            );
        }
        self.failed.insert(segment, why);
    }
}
