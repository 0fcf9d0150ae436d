//! Conflicts between reservations: equal packets at one interface, and the common limits of one
//! owner.
//!
//! The calendar grants only free capacity of links and interfaces. In addition, two circuits of an
//! interface never carry the same packets at the same time. A device has a maximum number of
//! circuits, and an owner has a maximum rate.

use std::collections::BTreeMap;

use lighthaul_booking_client::json::{FlowAt, Step, Timestamp};
use lighthaul_calendar::Topology;

use super::config::Config;
use super::rate_sum::RateSum;
use super::record::Record;
use super::step_counter::StepCounter;
use super::usage::Usage;
use crate::error::{self, OverlapError, PolicyError};

/// All reservations, with pending moves.
#[derive(Debug)]
pub(super) struct Conflicts<'a> {
    pub(super) config: &'a Config,
    pub(super) records: &'a BTreeMap<u64, Record>,
    pub(super) usage: &'a Usage,
    pub(super) step_counter: &'a StepCounter,
    /// Steps of reservations that were moved but not stored yet.
    pub(super) moved: BTreeMap<u64, Vec<Step>>,
}

/// New or changed reservation to check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    /// Number of the reservation, if assigned.
    pub(super) id: Option<u64>,
    pub(super) owner: &'a str,
    pub(super) flow: Option<&'a FlowAt>,
    pub(super) steps: &'a [Step],
    /// True if the policy of the owner applies.
    pub(super) is_bound: bool,
}

/// Reservation with the same packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conflict {
    id: u64,
    from: Timestamp,
    pub(super) till: Timestamp,
}

impl<'a> Conflicts<'a> {
    /// Returns a view of the given reservations, without pending moves.
    pub(super) const fn new(
        config: &'a Config,
        records: &'a BTreeMap<u64, Record>,
        usage: &'a Usage,
        step_counter: &'a StepCounter,
    ) -> Self {
        Self {
            config,
            records,
            usage,
            step_counter,
            moved: BTreeMap::new(),
        }
    }

    /// Returns the last reservation whose circuit would carry packets of the candidate at the same time.
    pub(super) fn conflict(&self, candidate: &Candidate<'_>) -> Option<Conflict> {
        let flow = candidate.flow?;
        let (from, till) = span(candidate.steps)?;
        let others = self.usage.circuits(&flow.interface);
        let others = others.filter(|id| Some(*id) != candidate.id);
        let conflicts = others.filter_map(|id| {
            let reservation = &self.records.get(&id)?.reservation;
            let packets = reservation.request.flow.as_ref()?.packets;
            let own = self.steps(id)?;
            let (begins, ends) = span(own)?;
            let meet = begins < till && from < ends;
            (meet && packets.overlaps(&flow.packets)).then_some(Conflict {
                id,
                from: begins,
                till: ends,
            })
        });
        conflicts.max_by_key(|conflict| conflict.till)
    }

    /// Refuses a conflict with another circuit or with the rate limit of the owner. The reservation
    /// that the candidate replaces does not count.
    pub(super) fn check(&self, candidate: &Candidate<'_>) -> error::Result<()> {
        if let (Some(conflict), Some(flow)) = (self.conflict(candidate), candidate.flow) {
            return Err(conflict.refusal(flow, None).into());
        }
        Ok(self.check_rate(candidate)?)
    }

    /// Refuses a circuit if its interface has its maximum of circuits.
    pub(super) fn check_room(
        &self,
        topology: &Topology,
        flow: Option<&FlowAt>,
    ) -> Result<(), OverlapError> {
        let Some(interface) = flow.map(|flow| &flow.interface) else {
            return Ok(());
        };
        let limits = topology
            .interface(interface)
            .and_then(|(_, port)| port.limits);
        let most = limits.map_or(0, |limits| limits.circuits_max);
        if self.usage.circuits(interface).count() < most {
            return Ok(());
        }
        Err(OverlapError::InterfaceFull {
            interface: interface.clone(),
            most,
        })
    }

    fn check_rate(&self, candidate: &Candidate<'_>) -> Result<(), PolicyError> {
        let policy = self.config.policy_of(candidate.owner);
        if !candidate.is_bound || policy.rate_max.is_none() {
            return Ok(());
        }
        let rates = self.usage.rates(candidate.owner);
        self.step_counter.add(candidate.steps);
        let (most, beside) = rates.map_or_else(
            || RateSum::default().peak(candidate.steps),
            |rates| rates.peak(candidate.steps),
        );
        policy.check_rate(candidate.owner, most, beside)
    }

    fn steps(&self, id: u64) -> Option<&[Step]> {
        let moved = self.moved.get(&id).map(Vec::as_slice);
        let steps = moved.or_else(|| Some(&self.records.get(&id)?.reservation.steps))?;
        self.step_counter.add(steps);
        Some(steps)
    }
}

impl Conflict {
    /// Returns the error of a conflict. `free` is the first start without a conflict, if it is known.
    pub(super) fn refusal(&self, flow: &FlowAt, free: Option<Timestamp>) -> OverlapError {
        OverlapError::Packets {
            id: self.id,
            packets: flow.packets,
            interface: flow.interface.clone(),
            from: self.from,
            till: self.till,
            free,
        }
    }
}

/// Returns the start and the end of steps.
pub(super) fn span(steps: &[Step]) -> Option<(Timestamp, Timestamp)> {
    Some((steps.first()?.from, steps.last()?.till))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lighthaul_base::Rate;
    use lighthaul_booking_client::json::{NewReservation, Reservation};
    use lighthaul_booking_client::reservation::ReservationState;
    use lighthaul_calendar::Limits;

    use super::*;

    /// Returns steps of 8 b/s.
    fn steps(times: &[(u64, u64)]) -> Vec<Step> {
        let step = |(from, till): &(u64, u64)| Step {
            from: Timestamp(*from),
            till: Timestamp(*till),
            rate_bps: 8,
        };
        times.iter().map(step).collect()
    }

    fn flow(interface: &str, packets: &str) -> FlowAt {
        FlowAt {
            interface: interface.to_owned(),
            packets: packets.parse().unwrap(),
        }
    }

    /// Reservations of ada with circuits at eth1 for TCP packets to 10.0.0.1.
    #[derive(Default)]
    struct Booked {
        config: Config,
        records: BTreeMap<u64, Record>,
        usage: Usage,
        step_counter: StepCounter,
    }

    impl Booked {
        fn new(all: &[(u64, &[(u64, u64)])]) -> Self {
            let mut booked = Self::default();
            for (id, times) in all {
                let reservation = Reservation {
                    id: *id,
                    owner: "ada".to_owned(),
                    state: ReservationState::Reserved,
                    request: NewReservation {
                        flow: Some(flow("eth1", "tcp 10.0.0.1")),
                        ..NewReservation::default()
                    },
                    path: Vec::new(),
                    steps: steps(times),
                    packet_overhead_bytes: 0,
                    promised_end: Timestamp(0),
                    hold_till: None,
                    created: Timestamp(0),
                    changed: Timestamp(0),
                    journal: Vec::new(),
                    failure: None,
                };
                let record = Record::new(reservation, *id, Timestamp(1000));
                booked.usage.add(&booked.config, &record);
                booked.records.insert(*id, record);
            }
            booked
        }

        fn conflicts(&self) -> Conflicts<'_> {
            Conflicts::new(&self.config, &self.records, &self.usage, &self.step_counter)
        }
    }

    fn candidate<'a>(flow: &'a FlowAt, steps: &'a [Step]) -> Candidate<'a> {
        Candidate {
            id: None,
            owner: "ada",
            flow: Some(flow),
            steps,
            is_bound: false,
        }
    }

    #[test]
    fn circuits_conflict_if_packets_and_times_overlap() {
        let booked = Booked::new(&[(1, &[(20, 25), (28, 30)])]);
        let same = flow("eth1", "10.0.0.0/8");
        for (times, conflicts) in [
            (&[(10, 20)][..], false),
            (&[(10, 21)], true),
            (&[(10, 15), (16, 40)], true),
            (&[(22, 24)], true),
            (&[(29, 40)], true),
            (&[(30, 40)], false),
        ] {
            let steps = steps(times);
            let found = booked.conflicts().conflict(&candidate(&same, &steps));
            assert_eq!(found.is_some(), conflicts, "{times:?}");
            let checked = booked.conflicts().check(&candidate(&same, &steps));
            assert_eq!(checked.is_err(), conflicts, "{times:?}");
        }
        let steps = steps(&[(22, 24)]);
        for other in [
            flow("eth2", "tcp 10.0.0.1"),
            flow("eth1", "udp 10.0.0.1"),
            flow("eth1", "tcp 10.0.0.2"),
        ] {
            let found = booked.conflicts().conflict(&candidate(&other, &steps));
            assert!(found.is_none(), "{other:?}");
        }
    }

    #[test]
    fn reservation_does_not_conflict_with_itself() {
        let booked = Booked::new(&[(1, &[(20, 30)])]);
        let (same, steps) = (flow("eth1", "tcp 10.0.0.1"), steps(&[(20, 30)]));
        let own = |id| Candidate {
            id,
            ..candidate(&same, &steps)
        };
        assert!(booked.conflicts().conflict(&own(Some(1))).is_none());
        let found = booked.conflicts().conflict(&own(Some(2))).unwrap();
        assert_eq!((found.from, found.till), (Timestamp(20), Timestamp(30)));
    }

    #[test]
    fn last_of_several_conflicts_is_returned_at_its_new_time() {
        let booked = Booked::new(&[(1, &[(20, 30)]), (2, &[(30, 50)]), (3, &[(50, 60)])]);
        let (same, wanted) = (flow("eth1", "tcp 10.0.0.1"), steps(&[(25, 45)]));
        let mut conflicts = booked.conflicts();
        let found = conflicts.conflict(&candidate(&same, &wanted)).unwrap();
        assert_eq!((found.id, found.till), (2, Timestamp(50)));
        conflicts.moved.insert(2, steps(&[(60, 80)]));
        let found = conflicts.conflict(&candidate(&same, &wanted)).unwrap();
        assert_eq!((found.id, found.till), (1, Timestamp(30)));
    }

    #[test]
    fn circuits_of_an_interface_are_limited() {
        let booked = Booked::new(&[(1, &[(20, 30)]), (2, &[(40, 50)])]);
        let rate = Rate::from_mbps(1000);
        let full = |circuits_max, flow: Option<&FlowAt>| {
            let mut topology = Topology::single_link(rate, rate).unwrap();
            topology.attach("eth1", &[]).unwrap();
            let limits = Limits {
                capacity: rate,
                channel: rate,
                least: rate,
                guard: Duration::ZERO,
                packet_bytes: 0,
                circuits_max,
            };
            topology.set_limits("eth1", limits).unwrap();
            booked.conflicts().check_room(&topology, flow).is_err()
        };
        let own = flow("eth1", "tcp 10.0.0.9");
        let outcomes = [1, 2, 3].map(|most| full(most, Some(&own)));
        assert_eq!(outcomes, [true, true, false]);
        assert!(!full(0, None), "a reservation without a circuit");
        assert!(full(9, Some(&flow("eth7", "tcp"))), "an unknown interface");
    }

    #[test]
    fn rate_limit_applies_only_where_the_policy_does() {
        let mut booked = Booked::new(&[(1, &[(20, 30)])]);
        booked.config.policy.rate_max = Rate::from_bps(15);
        let steps = steps(&[(25, 40)]);
        let check = |is_bound| {
            booked.conflicts().check(&Candidate {
                id: None,
                owner: "ada",
                flow: None,
                steps: &steps,
                is_bound,
            })
        };
        assert!(check(true).is_err());
        assert!(check(false).is_ok());
    }
}
