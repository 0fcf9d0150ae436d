//! Agent of a domain's devices: whole vectors in, rate changes out.
//!
//! The agent needs no message until the vectors end (VBLS paper, section 3.4). At every boundary decreases come before
//! increases, so a link is never over its capacity, not even between two changes. After its vector a circuit has a
//! rate of zero, even if all neighbors are lost.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

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
    /// Number of its route among those between its border points.
    pub route: u8,
    /// New rate; `None` ends the circuit.
    pub rate: Option<Rate>,
    /// Time until the vector ends this rate. A change may update this time only.
    pub left: Duration,
}

/// Vectors of all circuits, and the rates that the devices have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agent {
    circuits: BTreeMap<(Key, u8), Circuit>,
    /// Circuits by the time of their next change, so that circuits without a due change cost nothing.
    due: BTreeSet<(Instant, (Key, u8))>,
    /// Time of the last changes.
    last: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Circuit {
    segment: Segment,
    route: u8,
    vector: Option<Trc>,
    rate: Option<Rate>,
    /// End of this rate.
    till: Instant,
    /// Time of the next change.
    due: Instant,
}

impl Agent {
    /// Adds a circuit on a route between the border points of its segment, or replaces its vector.
    pub fn program(&mut self, id: (Key, u8), (segment, route): (Segment, u8), vector: Trc) {
        let known = self.circuits.remove(&id);
        if let Some(known) = &known {
            self.due.remove(&(known.due, id));
        }
        let (rate, till) = known.map_or((None, Instant::ZERO), |known| (known.rate, known.till));
        let vector = Some(vector);
        let due = Instant::ZERO;
        let circuit = Circuit {
            segment,
            route,
            vector,
            rate,
            till,
            due,
        };
        self.circuits.insert(id, circuit);
        self.due.insert((due, id));
    }

    /// Ends a circuit with the next changes.
    pub fn unprogram(&mut self, id: (Key, u8)) {
        if let Some(circuit) = self.circuits.get_mut(&id) {
            circuit.vector = None;
            self.due.remove(&(circuit.due, id));
            circuit.due = Instant::ZERO;
            self.due.insert((circuit.due, id));
        }
    }

    /// Ends all circuits except `circuits` with the next changes.
    pub fn keep_only(&mut self, circuits: &[(Key, u8)]) {
        let others = self.circuits.keys().filter(|id| !circuits.contains(id));
        let others: Vec<_> = others.copied().collect();
        for id in others {
            self.unprogram(id);
        }
    }

    /// Returns the changes that are due, decreases first, and removes circuits that have ended.
    pub fn changes(&mut self, now: Instant) -> Vec<RateChange> {
        if now < self.last {
            // the clock was set back: earlier ranges apply again
            self.due = self
                .circuits
                .keys()
                .map(|id| (Instant::ZERO, *id))
                .collect();
        }
        self.last = now;
        let mut changes = Vec::new();
        while let Some((_, id)) = self.due.first().filter(|(due, _)| *due <= now).copied() {
            self.due.pop_first();
            let Some(circuit) = self.circuits.get_mut(&id) else {
                continue;
            };
            let vector = circuit.vector.as_ref();
            let rate = vector.and_then(|vector| vector.rate_at(now));
            let next = vector.and_then(|vector| vector.next_change(now));
            let till = next.unwrap_or(now);
            if rate != circuit.rate || (rate.is_some() && till != circuit.till) {
                let change = RateChange {
                    circuit: id,
                    segment: circuit.segment,
                    route: circuit.route,
                    rate,
                    left: till.since(now),
                };
                changes.push((rate > circuit.rate, change));
                (circuit.rate, circuit.till) = (rate, till);
            }
            match next {
                Some(next) => {
                    circuit.due = next;
                    self.due.insert((next, id));
                }
                None => drop(self.circuits.remove(&id)),
            }
        }
        changes.sort_by_key(|(is_increase, change)| (*is_increase, change.circuit));
        changes.into_iter().map(|(_, change)| change).collect()
    }

    /// Returns true if no circuit has a rate, now or later.
    pub fn is_empty(&self) -> bool {
        self.circuits.is_empty()
    }

    /// Returns the time of the next change: now for a circuit that was removed.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.due.first().map(|(due, _)| now.max(*due))
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
    fn decreases_come_before_increases_and_circuits_end_with_rate_zero() {
        let mut agent = Agent::default();
        let at = |secs: u64| Instant::from_nanos(secs * 1_000_000_000);
        agent.program(
            circuit(1),
            (SEGMENT, 0),
            "0s-2s 100kb/s, 2s-4s 900kb/s".parse().unwrap(),
        );
        agent.program(
            circuit(2),
            (SEGMENT, 0),
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

    #[test]
    fn earlier_ranges_apply_again_after_the_clock_was_set_back() {
        let mut agent = Agent::default();
        let at = |secs: u64| Instant::from_nanos(secs * 1_000_000_000);
        let vector = "1s-2s 100kb/s, 3s-5s 900kb/s".parse().unwrap();
        agent.program(circuit(1), (SEGMENT, 0), vector);
        assert_eq!(rates(&agent.changes(at(0))), vec![]);
        assert_eq!(agent.poll_timeout(at(0)), Some(at(1)));
        assert_eq!(rates(&agent.changes(at(3))), vec![(1, 900_000)]);
        assert_eq!(rates(&agent.changes(at(1))), vec![(1, 100_000)]);
        assert_eq!(rates(&agent.changes(at(2))), vec![(1, 0)]);
        assert_eq!(agent.poll_timeout(at(2)), Some(at(3)));
        assert_eq!(rates(&agent.changes(at(9))), vec![]);
        assert_eq!(
            agent,
            Agent {
                last: at(9),
                ..Agent::default()
            }
        );
    }

    #[test]
    fn changes_match_a_check_of_all_circuits() {
        let mut rng = lighthaul_base::Rng::new(5);
        let (mut agent, mut rates) = (Agent::default(), BTreeMap::new());
        let mut vectors: BTreeMap<(Key, u8), Trc> = BTreeMap::new();
        let at = |nanos: u64| Instant::from_nanos(nanos);
        let mut now = 1000;
        for _ in 0..3000 {
            now = (now + rng.below(40)).saturating_sub(if rng.below(50) == 0 { 300 } else { 0 });
            let id = circuit(u128::from(rng.below(20)));
            match rng.below(4) {
                0 | 1 => {
                    let mut from = now + rng.below(60);
                    let steps = (0..=rng.below(3)).map(|_| {
                        let till = from + 1 + rng.below(50);
                        let rate = Rate::from_bps(1000 * (1 + rng.below(3))).unwrap();
                        let step = lighthaul_base::trc::Step {
                            from: at(from),
                            till: at(till),
                            rate,
                        };
                        from = till + rng.below(2) * 10;
                        step
                    });
                    let vector = Trc::new(steps.collect()).unwrap();
                    agent.program(id, (SEGMENT, 0), vector.clone());
                    vectors.insert(id, vector);
                }
                2 => {
                    agent.unprogram(id);
                    vectors.remove(&id);
                }
                _ => {}
            }
            for change in agent.changes(at(now)) {
                match change.rate {
                    Some(rate) => rates.insert(change.circuit, rate),
                    None => rates.remove(&change.circuit),
                };
            }
            vectors.retain(|_, vector| at(now) < vector.end());
            let expected = vectors
                .iter()
                .filter_map(|(id, vector)| Some((*id, vector.rate_at(at(now))?)));
            assert_eq!(rates, expected.collect());
            assert!(
                agent
                    .poll_timeout(at(now))
                    .is_none_or(|next| next > at(now))
            );
        }
    }
}
