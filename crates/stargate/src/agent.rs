//! Agent of a domain's devices: whole vectors in, rate changes out.
//!
//! The agent needs no message until the vectors end (VBLS paper, section 3.4). At every boundary decreases come before
//! increases, so a link is never over its capacity, not even between two changes. After its vector a circuit has a
//! rate of zero, even if all neighbors are lost.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use lighthaul_base::trc::Trc;
use lighthaul_base::{Instant, Rate};

use crate::key::{Key, Segment};

/// Change of the rate of one circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateChange {
    /// Reservation and index of the segment.
    pub circuit: (Key, u8),
    /// Part of the path inside the domain.
    pub segment: Segment,
    /// New rate; `None` carries nothing.
    pub rate: Option<Rate>,
}

/// Vectors of all circuits, and the rates that the devices have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agent {
    circuits: BTreeMap<(Key, u8), Circuit>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Circuit {
    segment: Segment,
    vector: Option<Trc>,
    rate: Option<Rate>,
}

impl Agent {
    /// Adds a circuit, or replaces its vector.
    pub fn program(&mut self, circuit: (Key, u8), segment: Segment, vector: Trc) {
        let rate = self.circuits.get(&circuit).and_then(|known| known.rate);
        let vector = Some(vector);
        let known = Circuit {
            segment,
            vector,
            rate,
        };
        self.circuits.insert(circuit, known);
    }

    /// Ends a circuit with the next changes.
    pub fn unprogram(&mut self, circuit: (Key, u8)) {
        if let Some(circuit) = self.circuits.get_mut(&circuit) {
            circuit.vector = None;
        }
    }

    /// Ends all circuits but these with the next changes.
    pub fn keep_only(&mut self, circuits: &[(Key, u8)]) {
        for (id, circuit) in &mut self.circuits {
            if !circuits.contains(id) {
                circuit.vector = None;
            }
        }
    }

    /// Returns the changes that are due, decreases first, and removes circuits that have ended.
    pub fn changes(&mut self, now: Instant) -> Vec<RateChange> {
        let mut changes = Vec::new();
        for (id, circuit) in &mut self.circuits {
            let vector = circuit.vector.as_ref();
            let rate = vector.and_then(|vector| vector.rate_at(now));
            if rate != circuit.rate {
                let change = RateChange {
                    circuit: *id,
                    segment: circuit.segment,
                    rate,
                };
                changes.push((rate > circuit.rate, change));
                circuit.rate = rate;
            }
        }
        self.circuits.retain(|_, circuit| {
            let vector = circuit.vector.as_ref();
            vector.is_some_and(|vector| now < vector.end())
        });
        changes.sort_by_key(|(is_increase, change)| (*is_increase, change.circuit));
        changes.into_iter().map(|(_, change)| change).collect()
    }

    /// Returns the time of the next change: now for a circuit that was removed.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let next = self.circuits.values().filter_map(|circuit| {
            let Some(vector) = circuit.vector.as_ref() else {
                return Some(now);
            };
            if vector.rate_at(now) == circuit.rate {
                vector.next_change(now)
            } else {
                Some(now)
            }
        });
        next.min()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::key::{CorrelationId, DomainId, PortId};

    fn circuit(id: u128) -> (Key, u8) {
        let key = Key {
            source: DomainId(1),
            id: CorrelationId(id),
            attempt: 0,
            leg: 0,
        };
        (key, 0)
    }

    const SEGMENT: Segment = Segment {
        ingress: PortId(1),
        egress: PortId(2),
    };

    fn rates(changes: &[RateChange]) -> Vec<(u128, u64)> {
        let pair = |change: &RateChange| {
            let rate = change.rate.map_or(0, Rate::as_bps);
            (change.circuit.0.id.0, rate)
        };
        changes.iter().map(pair).collect()
    }

    #[test]
    fn decreases_come_before_increases_and_ends_are_zero() {
        let mut agent = Agent::default();
        let at = |secs: u64| Instant::from_nanos(secs * 1_000_000_000);
        agent.program(
            circuit(1),
            SEGMENT,
            "0s-2s 100kb/s, 2s-4s 900kb/s".parse().unwrap(),
        );
        agent.program(
            circuit(2),
            SEGMENT,
            "0s-2s 900kb/s, 2s-5s 100kb/s".parse().unwrap(),
        );
        assert_eq!(
            rates(&agent.changes(at(0))),
            vec![(1, 100_000), (2, 900_000)]
        );
        assert_eq!(agent.poll_timeout(at(0)), Some(at(2)));
        assert_eq!(
            rates(&agent.changes(at(2))),
            vec![(2, 100_000), (1, 900_000)]
        );
        assert_eq!(rates(&agent.changes(at(4))), vec![(1, 0)]);
        agent.unprogram(circuit(2));
        assert_eq!(agent.poll_timeout(at(4)), Some(at(4)));
        assert_eq!(rates(&agent.changes(at(4))), vec![(2, 0)]);
        assert_eq!(agent.poll_timeout(at(5)), None);
    }
}
