//! Drivers of interfaces, and the circuits that their devices have.
//!
//! [`Interfaces`] knows the rates at the devices, their timers, and the capacity that they may still use: of decreases
//! whose guard times have not ended, of changes that have failed, and of circuits from before the start. It does not know
//! why a circuit has its rate: that is in `driven`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::driver::{Change, Driver};
use lighthaul_circuit::flow::Flow;
use lighthaul_circuit::timer::Timer;
use lighthaul_stargate::{Key, Segment};
use tracing::warn;

use super::cleaning::{Cleaning, OldCircuits, clean_one};
use super::guard_times::GuardTimes;
use super::inspections::{Reading, Readings};
use super::link_book::LinkBook;
use super::segment_circuit::SegmentCircuit;
use super::wanted::Wanted;

/// Drivers by their interfaces, and the circuits at their devices.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    pub(super) drivers: BTreeMap<String, Box<dyn Driver>>,
    pub(super) circuits: BTreeMap<Segment, Circuit>,
    /// Rates of the circuits at the devices.
    present: BTreeMap<Segment, Rate>,
    /// Timers of these circuits, if the devices have timers.
    timers: BTreeMap<Segment, Timer>,
    /// Highest rates in b/s that devices may have set for circuits although the changes failed.
    uncertain: BTreeMap<Segment, u64>,
    cleaning: Cleaning,
    guards: GuardTimes,
}

impl Interfaces {
    pub(super) fn new(
        drivers: BTreeMap<String, Box<dyn Driver>>,
        circuits: BTreeMap<Segment, SegmentCircuit>,
    ) -> Self {
        let circuit =
            |(segment, about): (Segment, SegmentCircuit)| (segment, about.circuit(segment));
        Self {
            drivers,
            circuits: circuits.into_iter().map(circuit).collect(),
            ..Self::default()
        }
    }

    /// Forgets all circuits. They are read from the devices by the next calls of [`Self::clean`].
    pub(super) fn forget(&mut self) {
        self.present.clear();
        self.timers.clear();
        self.cleaning = Cleaning::of(self.drivers.keys().cloned());
    }

    /// Returns true if the devices have no circuit.
    pub(super) fn is_empty(&self) -> bool {
        self.present.is_empty() && self.uncertain.is_empty() && self.cleaning.is_clean()
    }

    /// Returns the rate of a circuit at its device in b/s; zero if there is none.
    pub(super) fn present_bps(&self, segment: Segment) -> u64 {
        self.present.get(&segment).map_or(0, |rate| rate.as_bps())
    }

    /// Returns the guard time of the device of a circuit.
    pub(super) fn guard_of(&self, segment: Segment) -> Duration {
        let circuit = self.circuits.get(&segment);
        let driver = circuit.and_then(|circuit| self.drivers.get(&circuit.interface));
        driver.map_or(Duration::ZERO, |driver| driver.capabilities().guard())
    }

    /// Returns the circuits whose timers must be renewed. Devices without timers need no ends of circuits.
    pub(super) fn expiring(
        &self,
        now: Instant,
        ends: impl FnOnce() -> BTreeMap<Segment, Instant>,
    ) -> BTreeSet<Segment> {
        if self.timers.is_empty() {
            return BTreeSet::new();
        }
        let ends = ends();
        let end = |segment: &Segment| ends.get(segment).copied().unwrap_or(Instant::ZERO);
        let timers = self.timers.iter();
        let expiring = timers.filter(|(segment, timer)| timer.renew_at(end(segment)) <= now);
        expiring.map(|(segment, _)| *segment).collect()
    }

    /// Renews the timer of a circuit that keeps its rate until `till`. Retries later after a failure. If all retries fail,
    /// the device closes the circuit.
    pub(super) fn renew(&mut self, now: Instant, segment: Segment, till: Instant) {
        let bps = self.present_bps(segment);
        if bps == 0 {
            self.timers.remove(&segment);
            return;
        }
        let timer = self.timers.get(&segment).copied();
        if let Some(timer) = timer
            && let Err(why) = self.set(now, segment, bps, till)
        {
            let (ingress, egress) = (segment.ingress.0, segment.egress.0);
            warn!(
                ingress,
                egress, why, "a device did not renew the timer of a circuit"
            );
            self.timers.insert(segment, timer.retried(now));
        }
    }

    /// Sets the rate of a circuit, whose last reservation ends at `till`, and starts a guard time for the capacity that
    /// this frees.
    pub(super) fn change(
        &mut self,
        now: Time<'_>,
        segment: Segment,
        bps: u64,
        till: Instant,
    ) -> Result<(), String> {
        let present = self.present_bps(segment);
        let uncertain = self.uncertain.remove(&segment).unwrap_or(0);
        let highest = present.max(uncertain);
        let changed = self.set(now(), segment, bps, till);
        if changed.is_ok() {
            let guard = self.guard_of(segment);
            if let Some(circuit) = self.circuits.get(&segment) {
                let freed = self.guards.of(&circuit.interface);
                freed.change(now(), Some(segment), [highest, bps], guard);
            }
        } else {
            self.uncertain.insert(segment, highest.max(bps));
        }
        changed
    }

    /// Sets the rate and the timer of a circuit. Returns the reason of a failure.
    fn set(
        &mut self,
        now: Instant,
        segment: Segment,
        bps: u64,
        till: Instant,
    ) -> Result<(), String> {
        let circuit = self.circuits.get(&segment).ok_or_else(|| {
            let (ingress, egress) = (segment.ingress.0, segment.egress.0);
            format!(
                "no circuit is configured from port {ingress} to port {egress}; add a [[circuit]] with both"
            )
        })?;
        let interface = &circuit.interface;
        let driver = self.drivers.get_mut(interface).ok_or_else(|| {
            format!("no driver is configured for interface {interface}; add a [[device]] with it")
        })?;
        let Some(rate) = Rate::from_bps(bps) else {
            driver.remove(circuit.id).map_err(|why| why.to_string())?;
            self.present.remove(&segment);
            self.timers.remove(&segment);
            return Ok(());
        };
        let can = driver.capabilities();
        let fitting = can.fit(rate).ok_or_else(|| {
            format!("the device at {interface} cannot set a rate of {rate}; set channel of the ports to its granularity")
        })?;
        let timer = can.timer(till.since(now));
        let change = Change {
            circuit,
            rate: Some(fitting),
            timer,
        };
        let mut results = driver.apply(&[change]);
        results
            .pop()
            .unwrap_or(Ok(()))
            .map_err(|why| why.to_string())?;
        self.present.insert(segment, fitting);
        if let Some(time) = timer {
            self.timers.insert(segment, Timer::set(now, time));
        }
        Ok(())
    }

    /// Returns the capacity in use at the interfaces of these circuits.
    pub(super) fn used(&self, segments: &[Segment]) -> BTreeMap<String, u64> {
        let interface = |segment: &Segment| Some(&self.circuits.get(segment)?.interface);
        let asked = segments.iter().filter_map(interface);
        let mut used: BTreeMap<String, u64> = asked.map(|one| (one.clone(), 0)).collect();
        for (segment, rate) in &self.present {
            if let Some(sum) = interface(segment).and_then(|one| used.get_mut(one)) {
                *sum = sum.saturating_add(rate.as_bps());
            }
        }
        used
    }

    /// Returns true if an increase needs no capacity that other circuits may still use, and counts the increase. Fails
    /// if the device could not be read since the start, as it may have circuits that are not known.
    pub(super) fn has_room(
        &mut self,
        now: Time<'_>,
        segment: Segment,
        more_bps: u64,
        used: &mut BTreeMap<String, u64>,
    ) -> Result<bool, String> {
        let circuit = self.circuits.get(&segment);
        // a circuit without a device fails when it is set
        let Some(interface) = circuit.map(|circuit| &circuit.interface) else {
            return Ok(true);
        };
        let (Some(driver), Some(used)) = (self.drivers.get(interface), used.get_mut(interface))
        else {
            return Ok(true);
        };
        let freed = self
            .guards
            .in_use_beside(now(), interface, (segment, more_bps));
        let freed = freed.saturating_add(self.cleaning.in_use(interface)?);
        let uncertain = self.uncertain_beside(segment, interface);
        let is_known = freed == 0 && uncertain.is_none();
        let sum = used.saturating_add(more_bps);
        let most = driver.capabilities().rate_max.as_bps();
        let other = freed.saturating_add(uncertain.unwrap_or(0));
        let has_room = is_known || sum.saturating_add(other) <= most;
        if has_room {
            *used = sum;
        }
        Ok(has_room)
    }

    /// Returns the capacity that other circuits of an interface may use beyond their present rates, since their last
    /// changes failed; none if no change did.
    fn uncertain_beside(&self, segment: Segment, interface: &str) -> Option<u64> {
        let is_here = |one: &Segment| {
            let circuit = self.circuits.get(one);
            *one != segment && circuit.is_some_and(|circuit| circuit.interface == interface)
        };
        let failed = self.uncertain.iter().filter(|(one, _)| is_here(one));
        let beyond = failed.map(|(one, bps)| bps.saturating_sub(self.present_bps(*one)));
        beyond.reduce(u64::saturating_add)
    }

    /// Returns the end of the next guard time at the interface of a circuit.
    pub(super) fn next_end(&self, segment: Segment) -> Option<Instant> {
        let circuit = self.circuits.get(&segment)?;
        self.guards.next_end(&circuit.interface)
    }

    /// Removes circuits from before the start, unless their pairs of ports carry data on the same interface with the
    /// same flow. Returns those pairs, whose rates may differ from the present ones. Only interfaces that are not clean
    /// yet are looked at.
    pub(super) fn clean(
        &mut self,
        now: Time<'_>,
        wanted: &BTreeMap<(Key, u8), Wanted>,
        links: &LinkBook,
        is_stopping: &AtomicBool,
    ) -> BTreeSet<Segment> {
        let mut kept_all = BTreeSet::new();
        for interface in self.cleaning.due() {
            let kept = self.wanted_at(&interface, wanted);
            kept_all.extend(kept.values().map(|(segment, _)| *segment));
            let Some(driver) = self.drivers.get_mut(&interface) else {
                continue;
            };
            let (found, fault) = clean_one(driver.as_mut(), &kept, is_stopping);
            self.cleaning
                .note(&interface, found.as_ref(), fault.as_ref());
            if let Some(found) = found {
                self.take_over(now, &interface, found, links);
            }
        }
        kept_all
    }

    /// Returns the requested circuits of an interface.
    fn wanted_at(
        &self,
        interface: &str,
        wanted: &BTreeMap<(Key, u8), Wanted>,
    ) -> BTreeMap<CircuitId, (Segment, Flow)> {
        let wanted = wanted.values().filter_map(|one| {
            let circuit = self.circuits.get(&one.segment)?;
            let found = (circuit.id, (one.segment, circuit.flow));
            (circuit.interface == interface).then_some(found)
        });
        wanted.collect()
    }

    /// Reads the devices again, and notes the rates that they have. Circuits that are not requested are removed. Devices
    /// that are not clean yet are left out: see [`Self::clean`].
    pub(super) fn inspect(
        &mut self,
        now: Time<'_>,
        wanted: &BTreeMap<(Key, u8), Wanted>,
        links: &LinkBook,
        is_stopping: &AtomicBool,
    ) -> Readings {
        let mut readings = Readings::default();
        let unclean = self.cleaning.due();
        let interfaces: Vec<String> = self.drivers.keys().cloned().collect();
        for interface in interfaces.into_iter().filter(|one| !unclean.contains(one)) {
            let kept = self.wanted_at(&interface, wanted);
            let Some(driver) = self.drivers.get_mut(&interface) else {
                continue;
            };
            let (found, fault) = clean_one(driver.as_mut(), &kept, is_stopping);
            let Some(found) = found else {
                let why = fault.map(|why| why.to_string());
                readings.interfaces.insert(interface, why);
                continue;
            };
            self.cleaning.note(&interface, Some(&found), fault.as_ref());
            readings.interfaces.insert(interface.clone(), None);
            for (segment, _) in kept.values() {
                let rates = found.kept.iter().filter(|(one, _)| one == segment);
                let reading = Reading {
                    set: self.present.get(segment).copied(),
                    found: rates.map(|(_, rate)| *rate).next(),
                };
                readings.circuits.insert(*segment, reading);
            }
            self.correct(now, &interface, found, (links, &readings));
        }
        readings
    }

    /// Notes what an inspection of an interface has found.
    fn correct(
        &mut self,
        now: Time<'_>,
        interface: &str,
        mut found: OldCircuits,
        (links, readings): (&LinkBook, &Readings),
    ) {
        for (segment, reading) in &readings.circuits {
            if reading.found.is_none() {
                self.present.remove(segment);
                self.timers.remove(segment);
            }
        }
        let present = &self.present;
        found
            .kept
            .retain(|(segment, rate)| present.get(segment) != Some(rate));
        let is_as_set = found.kept.is_empty() && found.removed.is_empty() && found.left.is_empty();
        if !is_as_set {
            self.take_over(now, interface, found, links);
        }
    }

    /// Notes the circuits from before the start that the device at an interface had.
    fn take_over(
        &mut self,
        now: Time<'_>,
        interface: &str,
        mut found: OldCircuits,
        links: &LinkBook,
    ) {
        let Some(driver) = self.drivers.get(interface) else {
            return;
        };
        let can = driver.capabilities();
        let kept = found.kept.clone();
        // the routes of circuits that were found before are known
        found
            .kept
            .retain(|(segment, _)| !self.present.contains_key(segment));
        for (segment, rate) in kept {
            self.present.insert(segment, rate);
            if can.timer_max.is_some() {
                // the timer of an earlier service may end at any time
                let expiring = Timer::set(now(), Duration::ZERO);
                self.timers.insert(segment, expiring);
            }
        }
        let known = self.circuits.keys().copied().collect();
        let about = (interface, can.guard());
        links.know(now(), about, &found, &known);
        if !found.removed.is_empty() {
            let freed = self.guards.of(interface);
            freed.change(now(), None, [u64::MAX, 0], can.guard());
        }
    }
}

/// Clock of the guard times.
pub(super) type Time<'a> = &'a dyn Fn() -> Instant;
