//! Restart of a domain from its records.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use lighthaul_base::Instant;

use super::machine::Domain;
use super::reservation::{Reservation, Stage};
use crate::config::Config;
use crate::key::{Key, Segment};
use crate::outbox::Output;
use crate::record::{Record, StoredReservation, StoredStage};
use crate::refusal::Refusal;
use crate::resources::Resources;
use crate::topology::Topology;

impl<R: Resources> Domain<R> {
    /// Returns the domain in the state of its records. `resources` must not contain its bookings yet.
    ///
    /// Requests that were not decided are aborted. Committed ones are programmed again.
    pub fn restore(
        (config, topology, resources): (Config, Topology, R),
        seed: u64,
        records: impl IntoIterator<Item = Record>,
        now: Instant,
    ) -> Self {
        let mut stored = BTreeMap::new();
        for record in records {
            record.apply(&mut stored);
        }
        let mut domain = Self::new(config, topology, resources, seed);
        domain.keep_only_committed(now, &stored);
        // committed bookings first: held ones may have expired
        let is_committed = |one: &StoredReservation| one.stage == StoredStage::Committed;
        let (first, rest): (BTreeMap<Key, _>, BTreeMap<Key, _>) =
            stored.into_iter().partition(|(_, one)| is_committed(one));
        for (_, stored) in first.into_iter().chain(rest) {
            domain.restore_one(now, stored);
        }
        domain.resources.add_guards();
        domain.resources.note_restart(now);
        domain
    }

    /// Removes vectors from the devices that no committed reservation has.
    fn keep_only_committed(&mut self, now: Instant, stored: &BTreeMap<Key, StoredReservation>) {
        let running = stored
            .values()
            .filter(|one| one.stage == StoredStage::Committed && now < one.vector.end())
            .flat_map(|one| one.kept().map(|(nth, _)| (one.key, nth)));
        let circuits = running.collect();
        self.outbox.push(Output::KeepOnly { circuits });
    }

    fn restore_one(&mut self, now: Instant, stored: StoredReservation) {
        let (stage, is_source) = match stored.stage {
            StoredStage::Holding => (Stage::Holding, stored.upstream.is_none()),
            StoredStage::Committed => (Stage::Committed, stored.upstream.is_none()),
            StoredStage::Closing => (Stage::Closing, stored.upstream.is_none()),
        };
        let mut reservation = Reservation::new(stored, stage);
        reservation.may_be_committed = true;
        reservation.refusal = Refusal::Restarted;
        match stage {
            Stage::Committed => self.restore_committed(now, &mut reservation),
            Stage::Closing => {
                // the parent may not know of the end
                let is_current = now < reservation.stored.vector.end();
                reservation.is_notifying = is_current && !is_source;
                self.ask_children(now, &mut reservation);
                reservation.check_closed(now);
            }
            Stage::Holding | Stage::Held | Stage::Committing | Stage::Closed => {
                if is_source {
                    self.close(now, &mut reservation, Refusal::Restarted);
                } else if now >= reservation.stored.hold_till {
                    self.close(now, &mut reservation, Refusal::Expired);
                } else if let Err(refusal) = self.hold_again(now, &reservation) {
                    self.close(now, &mut reservation, refusal);
                } else {
                    self.enter(now, &mut reservation, Stage::Holding);
                    self.check_held(now, &mut reservation);
                }
            }
        }
        self.keep(reservation);
    }

    fn restore_committed(&mut self, now: Instant, reservation: &mut Reservation) {
        let stored = &reservation.stored;
        let (end, key) = (stored.vector.end(), stored.key);
        let steps = stored.vector.steps();
        reservation.ranges_done = steps.partition_point(|step| step.till <= now);
        if now < end {
            if let Err(refusal) = self.hold_again(now, reservation)
                && !self.hold_one_leg(now, reservation, refusal)
            {
                self.close(now, reservation, refusal);
                return;
            }
            self.resources.commit(now, key);
            self.program(reservation);
            if reservation.stored.upstream.is_none() {
                self.report_committed(reservation);
            }
        }
        // compares with the neighbors at once
        reservation.retry_at = now;
        self.committed_timeout(now, reservation);
    }

    /// Holds one leg of a protected path again, and releases the other leg, which has no capacity any more. Returns
    /// false if neither has.
    fn hold_one_leg(
        &mut self,
        now: Instant,
        reservation: &mut Reservation,
        refusal: Refusal,
    ) -> bool {
        let stored = &reservation.stored;
        let legs: Vec<(u8, Segment)> = stored.kept().collect();
        let [one, two] = legs[..] else {
            return false;
        };
        let (key, vector) = (stored.key, stored.vector.clone());
        for ((_, segment), (lost, _)) in [(one, two), (two, one)] {
            let held = self.resources.hold_again(now, key, &[segment], &vector);
            if held.is_ok() {
                self.lose(now, reservation, lost.into(), refusal);
                return true;
            }
        }
        false
    }

    fn hold_again(&mut self, now: Instant, reservation: &Reservation) -> Result<(), Refusal> {
        let stored = &reservation.stored;
        let segments: Vec<Segment> = stored.kept().map(|(_, segment)| segment).collect();
        self.resources
            .hold_again(now, stored.key, &segments, &stored.vector)
    }
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::vec;
    use core::time::Duration;

    use lighthaul_base::Rate;
    use lighthaul_calendar::{Calendar, Limits, Link, Owner};

    use super::*;
    use crate::calendar_resources::CalendarResources;
    use crate::config::Timing;
    use crate::key::{CorrelationId, DomainId, PortId};
    use crate::record::Child;

    /// Returns a link of 100 Mb/s between two ports, whose device has a guard time of two seconds.
    fn resources() -> CalendarResources {
        let names = ["a", "b"].map(ToOwned::to_owned);
        let link = Link {
            name: "a-b".to_owned(),
            from: names[0].clone(),
            to: names[1].clone(),
            capacity: Rate::from_mbps(100),
            channel: Rate::from_mbps(1),
            guard: Duration::ZERO,
            cost: 1,
        };
        let mut inside = lighthaul_calendar::Topology::new(names.to_vec(), vec![link]).unwrap();
        let link = inside.link("a-b").unwrap();
        inside.attach("eth0", &[link]).unwrap();
        let limits = Limits {
            capacity: Rate::from_mbps(100),
            channel: Rate::from_mbps(1),
            least: Rate::from_mbps(1),
            guard: Duration::from_secs(2),
            packet_bytes: 0,
            circuits_max: 9,
        };
        inside.set_limits("eth0", limits).unwrap();
        let node = |name| inside.node(name).unwrap();
        let ports = [(PortId(1), node("a")), (PortId(2), node("b"))].into();
        let calendar = Calendar::new(inside, lighthaul_calendar::Config::default()).unwrap();
        CalendarResources::new(calendar, ports, Owner(0), 1)
    }

    /// Returns a domain after a restart with these committed vectors, whose keys are in this order.
    fn restarted(vectors: &[&str]) -> Domain<CalendarResources> {
        let records = (1..).zip(vectors);
        restarted_with(
            records
                .map(|(id, vector)| Record::Put(stored(id, vector)))
                .collect(),
        )
    }

    fn stored(id: u128, vector: &str) -> StoredReservation {
        StoredReservation {
            key: key(id),
            upstream: None,
            segments: vec![SEGMENT],
            children: Vec::new(),
            trace: Vec::new(),
            vector: vector.parse().unwrap(),
            guard: Duration::ZERO,
            hold_till: Instant::ZERO,
            decide_till: Instant::ZERO,
            stage: StoredStage::Committed,
            lost: None,
        }
    }

    fn restarted_with(records: Vec<Record>) -> Domain<CalendarResources> {
        let config = Config {
            me: DomainId(1),
            neighbors: BTreeMap::new(),
            timing: Timing::default(),
            paths_max: 4,
            rounds_max: 3,
        };
        let parts = (config, Topology::default(), resources());
        Domain::restore(parts, 1, records, at(5))
    }

    #[test]
    fn paths_that_were_granted_without_guard_times_are_kept() {
        let (first, second) = ("2s-10s 100Mb/s", "10s-20s 100Mb/s");
        for (vectors, unguarded) in [([first, second], key(1)), ([second, first], key(2))] {
            let domain = restarted(&vectors);
            assert_eq!(domain.resources().unguarded(), [unguarded]);
            let mut stages = domain.reservations().map(Reservation::stage);
            assert!(stages.all(|stage| stage == Stage::Committed), "{vectors:?}");
        }
        // each has the guard time for which there is room
        let apart = restarted(&[first, "12s-20s 100Mb/s"]);
        assert_eq!(apart.resources().unguarded(), []);
        let mut domain = restarted(&[first, "11s-20s 100Mb/s"]);
        let offer = domain.resources_mut().free(SEGMENT, at(5), at(30));
        let offer = offer.unwrap();
        let free: Vec<_> = offer.steps().iter().map(|one| one.from).collect();
        assert_eq!(free, [at(22)]);
    }

    /// Of a path that was released shortly before the restart, no record is left.
    #[test]
    fn new_paths_leave_a_guard_time_after_the_restart() {
        let mut domain = restarted(&["2s-10s 40Mb/s"]);
        let resources = domain.resources_mut();
        let offer = resources.free(SEGMENT, at(5), at(9)).unwrap();
        let first = offer.steps().first().map(|one| (one.from, one.rate));
        assert_eq!(first, Some((at(7), Rate::from_mbps(60))));
        let hold = |resources: &mut CalendarResources, vector: &str| {
            let vector = vector.parse().unwrap();
            resources.hold(at(5), key(9), &[SEGMENT], &vector)
        };
        let early = hold(resources, "6999ms-8s 1Mb/s");
        assert_eq!(early, Err(Refusal::NoCapacity));
        assert_eq!(hold(resources, "7s-8s 1Mb/s"), Ok(()));
    }

    #[test]
    fn source_without_capacity_for_both_legs_keeps_a_single_leg() {
        let legs = |rates: [&str; 2]| {
            let record = |id: u128, segments: usize, vector: &str| {
                let child = |leg| Child {
                    neighbor: DomainId(2),
                    leg,
                    hops: Vec::new(),
                };
                Record::Put(StoredReservation {
                    segments: vec![SEGMENT; segments],
                    children: (0..segments as u8).map(child).collect(),
                    ..stored(id, vector)
                })
            };
            let [protected, other] = rates;
            let records = [record(2, 2, protected), record(1, 1, other)];
            let domain = restarted_with(records.into());
            let found = domain.reservations().map(|one| {
                let lost = one.stored().lost.map(|lost| lost.leg);
                (one.key().id.0, one.stage(), lost)
            });
            found.collect::<Vec<_>>()
        };
        let other = (1, Stage::Committed, None);
        let room = [other, (2, Stage::Committed, None)];
        assert_eq!(legs(["9s-20s 40Mb/s", "9s-20s 20Mb/s"]), room);
        let one = [other, (2, Stage::Committed, Some(1))];
        assert_eq!(legs(["9s-20s 40Mb/s", "9s-20s 30Mb/s"]), one);
        let none = [other, (2, Stage::Closing, None)];
        assert_eq!(legs(["9s-20s 40Mb/s", "9s-20s 70Mb/s"]), none);
    }

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    const fn key(id: u128) -> Key {
        Key {
            source: DomainId(1),
            id: CorrelationId(id),
            attempt: 0,
            leg: 0,
        }
    }

    const SEGMENT: Segment = Segment {
        ingress: PortId(1),
        egress: PortId(2),
    };
}
