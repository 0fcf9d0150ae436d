//! Numbers of reservations of each neighbor, so that a check of its quota looks at none of them.

use alloc::collections::BTreeMap;

use super::reservation::Reservation;
use crate::key::DomainId;

/// Numbers of reservations of each neighbor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// All that are remembered, and those of them that take capacity.
    counts: BTreeMap<DomainId, (usize, usize)>,
}

impl Usage {
    /// Counts a reservation.
    pub(crate) fn enter(&mut self, reservation: &Reservation) {
        if let Some(upstream) = reservation.stored.upstream {
            let (all, held) = self.counts.entry(upstream).or_default();
            *all += 1;
            *held += usize::from(reservation.is_held());
        }
    }

    /// Counts a reservation no longer. It must be as it was counted.
    pub(crate) fn leave(&mut self, reservation: &Reservation) {
        let Some(upstream) = reservation.stored.upstream else {
            return;
        };
        if let Some((all, held)) = self.counts.get_mut(&upstream) {
            *all -= 1;
            *held -= usize::from(reservation.is_held());
            if *all == 0 {
                self.counts.remove(&upstream);
            }
        }
    }

    /// Returns the number of reservations of a neighbor that are remembered, and of those that take capacity.
    pub(crate) fn of(&self, neighbor: DomainId) -> (usize, usize) {
        self.counts.get(&neighbor).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use lighthaul_base::Instant;

    use super::*;
    use crate::domain::reservation::Stage;
    use crate::key::{CorrelationId, Key};
    use crate::record::{StoredReservation, StoredStage};

    fn reservation(id: u128, upstream: Option<u32>, stage: Stage) -> Reservation {
        let stored = StoredReservation {
            key: Key {
                source: DomainId(9),
                id: CorrelationId(id),
                attempt: 0,
                leg: 0,
            },
            upstream: upstream.map(DomainId),
            segments: Vec::new(),
            children: Vec::new(),
            trace: Vec::new(),
            vector: "0s-2s 100kb/s".parse().unwrap(),
            guard: core::time::Duration::ZERO,
            hold_till: Instant::ZERO,
            decide_till: Instant::ZERO,
            stage: StoredStage::Holding,
            lost: None,
        };
        Reservation::new(stored, stage)
    }

    #[test]
    fn reservations_are_counted_for_the_neighbor_that_asked() {
        let mut usage = Usage::default();
        let mut held = reservation(1, Some(2), Stage::Held);
        let closed = reservation(2, Some(2), Stage::Closed);
        usage.enter(&held);
        usage.enter(&closed);
        usage.enter(&reservation(3, None, Stage::Committed));
        usage.enter(&reservation(4, Some(3), Stage::Committed));
        assert_eq!(usage.of(DomainId(2)), (2, 1));
        assert_eq!(usage.of(DomainId(3)), (1, 1));
        assert_eq!(usage.of(DomainId(9)), (0, 0));
        usage.leave(&held);
        held.enter(Stage::Closing);
        usage.enter(&held);
        assert_eq!(usage.of(DomainId(2)), (2, 0));
        usage.leave(&held);
        usage.leave(&closed);
        usage.leave(&reservation(4, Some(3), Stage::Committed));
        assert_eq!(usage, Usage::default());
    }
}
