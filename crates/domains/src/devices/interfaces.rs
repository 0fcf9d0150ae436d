//! Drivers of interfaces, and the circuits that their devices have.
//!
//! [`Interfaces`] knows the rates at the devices, their timers, and the capacity that they may still use: of decreases
//! whose guard times have not ended, of changes that have failed, and of circuits from before the start. It does not know
//! why a circuit has its rate: that is in `driven`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_calendar::circuit_timer::Timer;
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::driver::{Change, Driver};
use lighthaul_circuit::error::{Cause, Error};
use lighthaul_circuit::flow::Flow;
use lighthaul_stargate::{Key, Segment};
use tracing::warn;

use super::change_fault::ChangeFault;
use super::cleaning::{Cleaning, OldCircuits, clean_one};
use super::closed_circuits::ClosedCircuits;
use super::guard_times::GuardTimes;
use super::inspections::{Reading, Readings};
use super::link_book::LinkBook;
use super::segment_circuit::SegmentCircuit;
use super::wanted::Wanted;

/// New rate of a circuit.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewRate {
    pub(super) segment: Segment,
    /// Rate in b/s; zero removes the circuit.
    pub(super) bps: u64,
    /// End of its last reservation.
    pub(super) till: Instant,
}

/// Rate and timer of a circuit, as its driver sets them.
#[derive(Clone, Copy, Debug)]
struct Setting {
    segment: Segment,
    rate: Option<Rate>,
    timer: Option<Duration>,
}

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
    closed: ClosedCircuits,
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
        self.closed = ClosedCircuits::default();
        self.cleaning = Cleaning::of(self.drivers.keys().cloned());
    }

    /// Returns true if no circuit from before the start is left.
    pub(super) fn is_clean(&self) -> bool {
        self.cleaning.is_clean()
    }

    /// Returns true if the devices have no circuit.
    pub(super) fn is_empty(&self) -> bool {
        let has_none = self.present.is_empty() && self.uncertain.is_empty();
        has_none && self.closed.is_empty() && self.is_clean()
    }

    /// Returns the rate of a circuit at its device in b/s; zero if there is none.
    pub(super) fn present_bps(&self, segment: Segment) -> u64 {
        self.present.get(&segment).map_or(0, |rate| rate.as_bps())
    }

    /// Returns the interface of a circuit.
    pub(super) fn interface_of(&self, segment: Segment) -> Option<&str> {
        let circuit = self.circuits.get(&segment)?;
        Some(&circuit.interface)
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
        let same = NewRate { segment, bps, till };
        if let Some(timer) = timer
            && let Some(Err(fault)) = self.set(now, &[same]).pop()
        {
            let why = fault.why;
            let (ingress, egress) = (segment.ingress.0, segment.egress.0);
            warn!(
                ingress,
                egress, why, "a device did not renew the timer of a circuit"
            );
            self.timers.insert(segment, timer.retried(now));
        }
    }

    /// Sets the rates of circuits, and starts guard times for the capacity that this frees. The changes of an interface are
    /// one call of its driver.
    pub(super) fn change(&mut self, now: Time<'_>, changes: &[NewRate]) -> Vec<Changed> {
        let highest = changes.iter().map(|one| {
            let uncertain = self.uncertain.remove(&one.segment).unwrap_or(0);
            self.present_bps(one.segment).max(uncertain)
        });
        let highest: Vec<u64> = highest.collect();
        let results = self.set(now(), changes);
        for ((one, highest), result) in changes.iter().zip(highest).zip(&results) {
            if result.is_err() {
                self.uncertain.insert(one.segment, highest.max(one.bps));
                continue;
            }
            let guard = self.guard_of(one.segment);
            if let Some(circuit) = self.circuits.get(&one.segment) {
                let freed = self.guards.of(&circuit.interface);
                freed.change(now(), Some(one.segment), [highest, one.bps], guard);
            }
        }
        results
    }

    /// Sets the rates and the timers of circuits. Returns the reasons of failures.
    fn set(&mut self, now: Instant, changes: &[NewRate]) -> Vec<Changed> {
        let mut calls: BTreeMap<String, Vec<(usize, Setting)>> = BTreeMap::new();
        let mut results = vec![Ok(()); changes.len()];
        for (nth, one) in changes.iter().enumerate() {
            match self.setting(now, one) {
                Ok((interface, setting)) => {
                    let settings = calls.entry(interface).or_default();
                    settings.push((nth, setting));
                }
                Err(why) => results[nth] = Err(ChangeFault::refused(why)),
            }
        }
        for (interface, settings) in calls {
            let (places, settings): (Vec<usize>, Vec<Setting>) = settings.into_iter().unzip();
            let done = self.call(now, &interface, &settings);
            for (nth, result) in places.into_iter().zip(done) {
                results[nth] = result;
            }
        }
        results
    }

    /// Returns the interface of a circuit, and what its driver has to set.
    fn setting(&self, now: Instant, wanted: &NewRate) -> Result<(String, Setting), String> {
        let segment = wanted.segment;
        let circuit = self.circuits.get(&segment).ok_or_else(|| {
            let (ingress, egress) = (segment.ingress.0, segment.egress.0);
            format!(
                "no circuit is configured from port {ingress} to port {egress}; add a [[circuit]] with both"
            )
        })?;
        let interface = &circuit.interface;
        let driver = self.drivers.get(interface).ok_or_else(|| {
            format!("no driver is configured for interface {interface}; add a [[device]] with it")
        })?;
        let can = driver.capabilities();
        let rate = Rate::from_bps(wanted.bps);
        let fitting = rate.map(|rate| {
            can.fit(rate).ok_or_else(|| {
                format!("the device at {interface} cannot set a rate of {rate}; set channel of the ports to its granularity")
            })
        });
        let rate = fitting.transpose()?;
        let timer = rate.and_then(|_| can.timer(wanted.till.since(now)));
        let setting = Setting {
            segment,
            rate,
            timer,
        };
        Ok((interface.clone(), setting))
    }

    /// Gives the settings of an interface to its driver. A circuit that ends beside other changes is only closed: it is
    /// removed by [`Self::remove_closed`].
    fn call(&mut self, now: Instant, interface: &str, settings: &[Setting]) -> Vec<Changed> {
        let Some(driver) = self.drivers.get_mut(interface) else {
            return vec![Err(Error::NoAnswer.into()); settings.len()];
        };
        let is_gone =
            |one: &Setting| one.rate.is_none() && !self.present.contains_key(&one.segment);
        let is_single = settings.iter().filter(|one| !is_gone(one)).count() == 1;
        let is_removed = |one: &Setting| is_gone(one) || is_single && one.rate.is_none();
        let (mut answers, mut silent) = (BTreeMap::new(), None);
        let mut changes = Vec::new();
        for one in settings {
            let Some(circuit) = self.circuits.get(&one.segment) else {
                continue;
            };
            if is_removed(one) {
                // a device that did not answer one removal does not delay the others
                let removed = match &silent {
                    None => driver.remove(circuit.id),
                    Some(why) => Err(Error::clone(why)),
                };
                if removed.is_ok() {
                    self.closed.forget(one.segment);
                }
                let why = removed.as_ref().err();
                silent = why.filter(|why| why.cause() == Cause::NoAnswer).cloned();
                answers.insert(one.segment, removed);
                continue;
            }
            let (rate, timer) = (one.rate, one.timer);
            changes.push((
                one,
                Change {
                    circuit,
                    rate,
                    timer,
                },
            ));
        }
        if !changes.is_empty() {
            let (changed, changes): (Vec<&Setting>, Vec<Change<'_>>) = changes.into_iter().unzip();
            let results = driver.apply(&changes);
            let closed = changed.iter().filter(|one| one.rate.is_none());
            let closed: Vec<Segment> = closed.map(|one| one.segment).collect();
            answers.extend(changed.into_iter().map(|one| one.segment).zip(results));
            for segment in closed {
                if answers.get(&segment).is_some_and(Result::is_ok) {
                    self.closed.add(segment);
                }
            }
        }
        let note = |one: &Setting| {
            let answer = answers.remove(&one.segment).ok_or(Error::NoAnswer);
            answer.flatten().map_err(ChangeFault::from)?;
            self.timers.remove(&one.segment);
            let Some(rate) = one.rate else {
                self.present.remove(&one.segment);
                return Ok(());
            };
            self.closed.forget(one.segment);
            self.present.insert(one.segment, rate);
            if let Some(time) = one.timer {
                self.timers.insert(one.segment, Timer::set(now, time));
            }
            Ok(())
        };
        settings.iter().map(note).collect()
    }

    /// Removes one of the circuits that were closed. Call it when no change is due.
    pub(super) fn remove_closed(&mut self) {
        let Some(segment) = self.closed.take() else {
            return;
        };
        let Some(circuit) = self.circuits.get(&segment) else {
            return;
        };
        let Some(driver) = self.drivers.get_mut(&circuit.interface) else {
            return;
        };
        match driver.remove(circuit.id) {
            Ok(()) => self.closed.forget(segment),
            Err(why) => self.closed.note_failure(segment, why.to_string()),
        }
    }

    /// Returns true if closed circuits wait for their first removal.
    pub(super) fn has_closed(&self) -> bool {
        self.closed.is_due()
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

    /// Returns the reason for which the device of a circuit could not be read since the start; none if it was. It may have
    /// circuits that are not known.
    pub(super) fn unread(&self, segment: Segment) -> Option<&str> {
        self.cleaning.unread(self.interface_of(segment)?)
    }

    /// Returns true if an increase needs no capacity that other circuits may still use, and counts the increase. The
    /// increases of the circuits in `counted` are in `used` already.
    pub(super) fn has_room(
        &mut self,
        now: Time<'_>,
        segment: Segment,
        more_bps: u64,
        (used, counted): (&mut BTreeMap<String, u64>, &BTreeSet<Segment>),
    ) -> bool {
        let circuit = self.circuits.get(&segment);
        // a circuit without a device fails when it is set
        let Some(interface) = circuit.map(|circuit| &circuit.interface) else {
            return true;
        };
        let (Some(driver), Some(used)) = (self.drivers.get(interface), used.get_mut(interface))
        else {
            return true;
        };
        let freed = self
            .guards
            .in_use_beside(now(), interface, (segment, more_bps));
        let freed = freed.saturating_add(self.cleaning.in_use(interface));
        let uncertain = self.uncertain_beside((segment, interface), counted);
        let is_known = freed == 0 && uncertain.is_none();
        let sum = used.saturating_add(more_bps);
        let most = driver.capabilities().rate_max.as_bps();
        let other = freed.saturating_add(uncertain.unwrap_or(0));
        let has_room = is_known || sum.saturating_add(other) <= most;
        if has_room {
            *used = sum;
        }
        has_room
    }

    /// Returns the capacity that other circuits of an interface may use beyond their present rates, since their last
    /// changes failed; none if no change did.
    fn uncertain_beside(
        &self,
        (segment, interface): (Segment, &str),
        counted: &BTreeSet<Segment>,
    ) -> Option<u64> {
        let is_here = |one: &Segment| {
            let circuit = self.circuits.get(one);
            let is_other = *one != segment && !counted.contains(one);
            is_other && circuit.is_some_and(|circuit| circuit.interface == interface)
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
    /// yet are looked at; without time, only those that were not read yet.
    pub(super) fn clean(
        &mut self,
        now: Time<'_>,
        wanted: &BTreeMap<(Key, u8), Wanted>,
        links: &LinkBook,
        (is_stopping, has_time): (&AtomicBool, bool),
    ) -> BTreeSet<Segment> {
        let mut kept_all = BTreeSet::new();
        for interface in self.cleaning.due(has_time) {
            let kept = self.wanted_at(&interface, wanted);
            kept_all.extend(kept.values().map(|(segment, _)| *segment));
            let Some(driver) = self.drivers.get_mut(&interface) else {
                continue;
            };
            let (found, fault) = clean_one(driver.as_mut(), &kept, is_stopping);
            self.cleaning
                .note(&interface, found.as_ref(), fault.as_ref());
            if let Some(found) = found {
                // what the device has lost is set again
                for (segment, _) in kept.values() {
                    if !found.kept.iter().any(|(one, _)| one == segment) {
                        self.present.remove(segment);
                        self.timers.remove(segment);
                    }
                }
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
        let unclean = self.cleaning.due(true);
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
        if found.removed.iter().any(|(_, bps)| *bps > 0) {
            let freed = self.guards.of(interface);
            freed.change(now(), None, [u64::MAX, 0], can.guard());
        }
    }
}

/// Result of a change.
pub(super) type Changed = Result<(), ChangeFault>;

/// Clock of the guard times.
pub(super) type Time<'a> = &'a dyn Fn() -> Instant;
