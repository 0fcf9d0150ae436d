//! Devices behind the drivers of `lighthaul-circuit`.
//!
//! A request between domains names ports, not packets. So each pair of ports has one circuit, with the flow of its
//! configuration. The rate of the circuit is the sum of all reservations there:
//!
//! ```text
//! reservation 1: 12 -> 100  300 Mb/s \
//!                                     +-- circuit 12 -> 100 of interface eth1: 500 Mb/s
//! reservation 2: 12 -> 100  200 Mb/s /
//! ```
//!
//! Decreases and removals come before increases. The changes of each kind are one call of the driver of an interface. An
//! increase that needs their capacity, or that of a link, waits for its guard time, and is made by a later call. A
//! failed change is tried again with the next call. Each device is inspected every 30 seconds, after other changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_circuit::driver::Driver;
use lighthaul_io::host::clock::Clock;
use lighthaul_stargate::{Key, RateChange, Segment};
use tracing::warn;

use super::asked::AskedChanges;
use super::change_fault::ChangeFault;
use super::contract::{Carried, DeviceFault, Devices};
use super::inspections::Inspections;
use super::interfaces::{Changed, Interfaces, NewRate, Time};
use super::link_book::{LONG_WAIT, LinkBook};
use super::segment_circuit::SegmentCircuit;
use super::shared_link::{RouteRates, sum_of};
use super::wanted::{Wanted, last_ends};

/// Devices behind drivers, one for each interface.
#[derive(Debug)]
pub(super) struct DrivenDevices {
    pub(super) interfaces: Interfaces,
    wanted: BTreeMap<(Key, u8), Wanted>,
    /// Circuits whose last change failed, and the reasons.
    pub(super) failed: Faults,
    /// Circuits whose increase waits for a guard time, a link, or the first reading of the device, with the start of the wait.
    pub(super) waiting: BTreeMap<Segment, Instant>,
    /// Reservations that asked for changes which are not made yet.
    asked: AskedChanges,
    links: LinkBook,
    /// Circuits whose increase waits for capacity of a link; true once the wait was logged.
    waiting_for_link: BTreeMap<Segment, bool>,
    inspections: Inspections,
    next_change: Option<Instant>,
    clock: Clock,
    /// True once the caller waits for the end of the present call.
    is_stopping: Arc<AtomicBool>,
}

impl DrivenDevices {
    /// Returns devices with the given drivers, one for each interface. Reservations of a pair of ports without a
    /// circuit fail when they start.
    pub(super) fn new(
        drivers: BTreeMap<String, Box<dyn Driver>>,
        circuits: BTreeMap<Segment, SegmentCircuit>,
    ) -> Self {
        Self {
            interfaces: Interfaces::new(drivers, circuits),
            wanted: BTreeMap::new(),
            failed: Faults::new(),
            waiting: BTreeMap::new(),
            asked: AskedChanges::default(),
            links: LinkBook::default(),
            waiting_for_link: BTreeMap::new(),
            inspections: Inspections::default(),
            next_change: None,
            clock: Clock::start(),
            is_stopping: Arc::default(),
        }
    }

    /// Returns the same devices; their circuits share links with circuits of other devices, by a common clock.
    pub(super) fn with_links(self, links: LinkBook, clock: Clock) -> Self {
        Self {
            links,
            clock,
            ..self
        }
    }

    /// Returns a flag that ends a call after the circuit that is being changed.
    pub(super) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_stopping)
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Notes the rates of reservations, and returns the circuits to change.
    fn take(&mut self, now: Instant, changes: &[RateChange]) -> BTreeSet<Segment> {
        let mut touched: BTreeSet<Segment> = self.failed.keys().copied().collect();
        touched.extend(self.waiting.keys());
        touched.extend(self.inspections.take_unrepaired());
        for change in changes {
            touched.insert(change.segment);
            match change.rate {
                Some(rate) => {
                    let wanted = Wanted {
                        segment: change.segment,
                        route: change.route,
                        rate,
                        till: now + change.left,
                    };
                    self.wanted.insert(change.circuit, wanted)
                }
                None => self.wanted.remove(&change.circuit),
            };
        }
        touched
    }

    /// Returns the sums of the rates of the reservations of these circuits, by their routes.
    fn sums(&self, touched: &BTreeSet<Segment>) -> BTreeMap<Segment, RouteRates> {
        let nothing = |one: &Segment| (*one, RouteRates::new());
        let mut sums: BTreeMap<Segment, RouteRates> = touched.iter().map(nothing).collect();
        for wanted in self.wanted.values() {
            if let Some(rates) = sums.get_mut(&wanted.segment) {
                let sum = rates.entry(wanted.route).or_default();
                *sum = sum.saturating_add(wanted.rate.as_bps());
            }
        }
        sums
    }

    /// Sets the rates of circuits, decreases first. Returns the circuits that failed, with the reasons.
    fn set_all(&mut self, now: Time<'_>, sums: &BTreeMap<Segment, RouteRates>) -> Faults {
        let mut faults = Faults::new();
        // after a lost answer the device may have another rate than the present one here
        let failed: BTreeSet<Segment> = self.failed.keys().copied().collect();
        let (equal, others): (Vec<_>, Vec<_>) = sums.iter().partition(|(segment, rates)| {
            let is_equal = self.interfaces.present_bps(**segment) == sum_of(rates);
            is_equal && !failed.contains(*segment)
        });
        let (lower, mut higher): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|(segment, rates)| self.interfaces.present_bps(**segment) >= sum_of(rates));
        // increases count the old rate of a decrease that comes after them
        let is_last = |(segment, _): &Sum<'_>| {
            self.failed
                .get(*segment)
                .is_some_and(ChangeFault::is_stubborn)
        };
        let (last, lower): (Vec<_>, Vec<_>) = lower.into_iter().partition(is_last);
        // a rate that moves to another route of its ports may need capacity of other links
        let mut moved = self.keep(now, equal);
        moved.extend(self.lower(now, lower, &mut faults));
        for (segment, rates) in moved {
            match self.give_up(now, *segment, rates) {
                Ok(()) => higher.push((segment, rates)),
                Err(why) => _ = faults.insert(*segment, why),
            }
        }
        self.raise(now, &higher, &mut faults);
        // a change that is fatal to its program comes after all others
        for (segment, _) in self.lower(now, last, &mut faults) {
            faults.extend(
                self.failed
                    .get(segment)
                    .map(|earlier| (*segment, earlier.clone())),
            );
        }
        self.renew_all(now);
        faults
    }

    /// Renews the timers that would end too early. A circuit whose change waits or has failed keeps its present rate.
    fn renew_all(&mut self, now: Time<'_>) {
        for segment in self.expiring(now()) {
            if self.is_stopping() {
                return;
            }
            let till = self.end_of(segment, now());
            self.interfaces.renew(now(), segment, till);
        }
    }

    /// Returns the circuits whose timers must be renewed.
    pub(super) fn expiring(&self, now: Instant) -> BTreeSet<Segment> {
        self.interfaces.expiring(now, || last_ends(&self.wanted))
    }

    /// Returns the end of the last reservation of a circuit; `now` if there is none.
    fn end_of(&self, segment: Segment, now: Instant) -> Instant {
        let wanted = self.wanted.values().filter(|one| one.segment == segment);
        wanted.map(|one| one.till).max().unwrap_or(now)
    }

    /// Notes the routes of circuits that keep their rates. Returns those that move to a link with too little capacity.
    fn keep<'a>(&mut self, now: Time<'_>, equal: Vec<Sum<'a>>) -> Vec<Sum<'a>> {
        let mut moved = Vec::new();
        for (segment, rates) in equal {
            if !self.links.take(now(), *segment, rates) {
                moved.push((segment, rates));
                continue;
            }
            let guard = self.interfaces.guard_of(*segment);
            self.links.set(now(), *segment, rates, guard);
        }
        moved
    }

    /// Makes decreases. Returns those that move to a link with too little capacity.
    fn lower<'a>(
        &mut self,
        now: Time<'_>,
        lower: Vec<Sum<'a>>,
        faults: &mut Faults,
    ) -> Vec<Sum<'a>> {
        let (mut moved, mut ready) = (Vec::new(), Vec::new());
        for (segment, rates) in lower {
            if self.links.take(now(), *segment, rates) {
                ready.push((segment, rates));
            } else {
                moved.push((segment, rates));
            }
        }
        // what fails counts as present until it has succeeded
        self.change_all(now, &ready, faults);
        moved
    }

    /// Makes increases, or lets them wait for capacity.
    fn raise(&mut self, now: Time<'_>, higher: &[Sum<'_>], faults: &mut Faults) {
        let since = std::mem::take(&mut self.waiting);
        let logged = std::mem::take(&mut self.waiting_for_link);
        let failed = |sum: &Sum<'_>| self.failed.get(sum.0);
        // the capacity of a circuit whose change has failed is uncertain until it is set
        let (again, others): (Vec<_>, Vec<_>) = higher
            .iter()
            .copied()
            .partition(|sum| failed(sum).is_some());
        let is_last = |sum: &Sum<'_>| failed(sum).is_some_and(ChangeFault::is_stubborn);
        let (last, again): (Vec<_>, Vec<_>) = again.into_iter().partition(is_last);
        for part in [again, others, last] {
            let ready = self.ready(now, &part, (&since, &logged), faults);
            self.change_all(now, &ready, faults);
        }
    }

    /// Returns the increases for which there is capacity. The others wait.
    fn ready<'a>(
        &mut self,
        now: Time<'_>,
        higher: &[Sum<'a>],
        (since, logged): (&BTreeMap<Segment, Instant>, &BTreeMap<Segment, bool>),
        faults: &mut Faults,
    ) -> Vec<Sum<'a>> {
        let segments: Vec<Segment> = higher.iter().map(|(segment, _)| **segment).collect();
        let mut used = self.interfaces.used(&segments);
        let mut counted = BTreeSet::new();
        let mut ready = Vec::new();
        for (segment, rates) in higher {
            if self.is_stopping() {
                return Vec::new();
            }
            let more = sum_of(rates).saturating_sub(self.interfaces.present_bps(**segment));
            let begun = since.get(segment).copied().unwrap_or_else(now);
            if self.interfaces.unread(**segment).is_some() {
                // it may carry data at the right rate
                self.waiting.insert(**segment, begun);
                continue;
            }
            let counts = (&mut used, &counted);
            let has_room = self.interfaces.has_room(now, **segment, more, counts);
            if !self.links.take(now(), **segment, rates) {
                let was_logged = logged.get(segment) == Some(&true);
                self.wait_for_link(now(), (**segment, rates), begun, was_logged);
                if let Err(why) = self.give_up(now, **segment, rates) {
                    faults.insert(**segment, why);
                }
            } else if has_room {
                counted.insert(**segment);
                ready.push((*segment, *rates));
            } else {
                self.waiting.insert(**segment, begun);
            }
        }
        ready
    }

    /// Sets a circuit that waits for a link to the rates that its routes keep.
    fn give_up(&mut self, now: Time<'_>, segment: Segment, rates: &RouteRates) -> Changed {
        let kept = self.links.kept(segment, rates);
        let (kept_bps, present_bps) = (sum_of(&kept), self.interfaces.present_bps(segment));
        // a device that has lost the circuit gets back what the links still count
        let is_lost = kept_bps > present_bps && self.inspections.differs(segment);
        if kept_bps < present_bps || is_lost {
            self.change(now, segment, &kept)?;
        }
        Ok(())
    }

    /// Lets an increase wait until another interface has freed capacity of a link. A long wait is logged once.
    fn wait_for_link(
        &mut self,
        now: Instant,
        (segment, rates): (Segment, &RouteRates),
        since: Instant,
        was_logged: bool,
    ) {
        let is_long = now.since(since) >= LONG_WAIT;
        if is_long && !was_logged {
            let (ingress, egress) = (segment.ingress.0, segment.egress.0);
            let link = self.links.full(now, segment, rates).unwrap_or_default();
            warn!(
                ingress,
                egress,
                link,
                "an increase waits for capacity of a link; another circuit there has not made its decrease yet, or the circuits from before the start are not known"
            );
        }
        self.waiting.insert(segment, since);
        self.waiting_for_link.insert(segment, is_long);
    }

    /// Sets the rates of circuits, in as few calls of the drivers as possible, until the devices stop. A change without an
    /// answer may have been at fault for all changes of its call, so each of these is tried alone: first the one with the
    /// fewest attempts, until one has no answer.
    fn change_all(&mut self, now: Time<'_>, sums: &[Sum<'_>], faults: &mut Faults) {
        let attempts = |sum: &Sum<'_>| {
            let failed = self.failed.get(sum.0).filter(|fault| fault.may_pass);
            failed.map_or(0, |fault| fault.attempts)
        };
        let (fresh, mut again): (Vec<_>, Vec<_>) = sums.iter().partition(|sum| attempts(sum) == 0);
        again.sort_by_key(attempts);
        for batch in fresh.chunks(BATCH_MAX) {
            self.change_batch(now, batch, faults);
        }
        let mut is_silent = false;
        for sum in again {
            let earlier = self.failed.get(sum.0);
            if let Some(earlier) = earlier.filter(|one| is_silent || one.retry_at > now()) {
                faults.insert(*sum.0, earlier.clone());
                continue;
            }
            self.change_batch(now, &[sum], faults);
            is_silent = faults.get(sum.0).is_some_and(|fault| fault.may_pass);
        }
    }

    /// Sets the rates of circuits in one call of a driver, unless the devices stop.
    fn change_batch(&mut self, now: Time<'_>, batch: &[Sum<'_>], faults: &mut Faults) {
        if self.is_stopping() {
            return;
        }
        let new = batch.iter().map(|(segment, rates)| NewRate {
            segment: **segment,
            bps: sum_of(rates),
            till: self.end_of(**segment, now()),
        });
        let new: Vec<NewRate> = new.collect();
        // after a failure, the links count the new rates already
        let results = self.interfaces.change(now, &new);
        for ((segment, rates), result) in batch.iter().zip(results) {
            match result {
                Ok(()) => {
                    let guard = self.interfaces.guard_of(**segment);
                    self.links.set(now(), **segment, rates, guard);
                }
                Err(mut fault) => {
                    fault.note_earlier(now(), self.failed.get(*segment));
                    faults.insert(**segment, fault);
                }
            }
        }
    }

    /// Does the same for one circuit.
    fn change(&mut self, now: Time<'_>, segment: Segment, rates: &RouteRates) -> Changed {
        let mut faults = Faults::new();
        self.change_all(now, &[(&segment, rates)], &mut faults);
        faults.remove(&segment).map_or(Ok(()), Err)
    }

    /// Inspects the devices if that is due. Returns the reservations of circuits that could not be repaired.
    fn inspect(&mut self, now: Time<'_>) -> Vec<DeviceFault> {
        let is_busy = self.interfaces.has_closed() || self.is_stopping();
        if is_busy || !self.inspections.is_due(now(), self.next_change) {
            return Vec::new();
        }
        let began = now();
        let readings = self
            .interfaces
            .inspect(now, &self.wanted, &self.links, &self.is_stopping);
        if readings.interfaces.values().any(Option::is_none) {
            self.inspections.note_time(began, now());
        }
        let wanted = self.wanted.values().map(|one| one.segment);
        let wanted: BTreeSet<Segment> = wanted.collect();
        self.inspections.retain(|segment| wanted.contains(segment));
        let lasting = self
            .inspections
            .note(now(), &readings, &self.failed, &self.waiting);
        let lost = self.wanted.iter();
        let lost = lost.filter(|(_, one)| lasting.contains(&one.segment));
        let fault = |(circuit, one): (&(Key, u8), &Wanted)| {
            let (ingress, egress) = (one.segment.ingress.0, one.segment.egress.0);
            let last = self.failed.get(&one.segment);
            let last = last.map_or_else(String::new, |fault| format!(": {}", fault.why));
            DeviceFault {
                circuit: *circuit,
                why: format!(
                    "the device has lost the circuit from port {ingress} to port {egress}, and it could not be set again{last}"
                ),
            }
        };
        lost.map(fault).collect()
    }

    /// Notes the time of the next planned change, if there is one.
    pub(super) const fn note_next_change(&mut self, at: Option<Instant>) {
        self.next_change = at;
    }

    /// Lets the devices be inspected with the next call.
    pub(super) const fn hasten_inspection(&mut self) {
        self.inspections.hasten();
    }

    /// Returns true if an increase waits for capacity of a link.
    pub(super) fn waits_for_link(&self) -> bool {
        !self.waiting_for_link.is_empty()
    }
}

impl DrivenDevices {
    /// Implements [`Devices::reset`], with a time of another clock.
    pub(super) fn reset_at(&mut self, now: Time<'_>, rates: &[RateChange]) -> Vec<DeviceFault> {
        self.wanted.clear();
        self.interfaces.forget();
        self.waiting.clear();
        self.asked = AskedChanges::default();
        self.inspections.restart(now());
        let faults = self.apply_at(now, rates);
        self.asked.note_start();
        faults
    }

    /// Implements [`Devices::apply`], with a time of another clock.
    pub(super) fn apply_at(&mut self, now: Time<'_>, changes: &[RateChange]) -> Vec<DeviceFault> {
        self.asked.add(now(), changes, &self.wanted);
        let mut touched = self.take(now(), changes);
        touched.extend(self.clean(now));
        let sums = self.sums(&touched);
        let mut faults = self.set_all(now, &sums);
        let mut failed = self.asked.take_failed(now(), &faults);
        // a fault that is repeated at each call is logged once
        for (segment, fault) in &faults {
            let before = self.failed.get(segment);
            if before.is_none_or(|before| !fault.repeats(before)) {
                let (ingress, egress, why) = (segment.ingress.0, segment.egress.0, &fault.why);
                warn!(ingress, egress, why, "a device did not change a circuit");
            }
        }
        // the rate of a circuit that waits after a fault stays unknown
        let unknown = std::mem::take(&mut self.failed).into_iter();
        faults.extend(unknown.filter(|(segment, _)| self.waiting.contains_key(segment)));
        self.failed = faults;
        let (waiting, failing) = (&self.waiting, &self.failed);
        self.asked
            .keep_open(|one| waiting.contains_key(&one) || failing.contains_key(&one));
        failed.extend(self.overdue(now(), &sums));
        if changes.is_empty() && !self.is_stopping() {
            self.interfaces.remove_closed();
        }
        failed.extend(self.inspect(now));
        failed
    }

    /// Removes circuits from before the start: see [`Interfaces::clean`].
    fn clean(&mut self, now: Time<'_>) -> BTreeSet<Segment> {
        if self.interfaces.is_clean() {
            return BTreeSet::new();
        }
        let has_time = self.inspections.has_time(now(), self.next_change);
        let (began, stop) = (now(), (&*self.is_stopping, has_time));
        let known = self.interfaces.clean(now, &self.wanted, &self.links, stop);
        if has_time {
            self.inspections.note_time(began, now());
        }
        known
    }

    /// Returns the reservations whose increases wait for too long, each once.
    fn overdue(&mut self, now: Instant, sums: &BTreeMap<Segment, RouteRates>) -> Vec<DeviceFault> {
        let (links, here, waiting) = (&self.links, &self.interfaces, &self.waiting);
        let about = |segment| {
            let guards = (links.longest_guard(segment), here.guard_of(segment));
            let about = (guards.0.max(guards.1), here.unread(segment).is_some());
            waiting.contains_key(&segment).then_some(about)
        };
        let fault = |(circuit, segment): (_, Segment)| {
            let (ingress, egress) = (segment.ingress.0, segment.egress.0);
            let waits_for_link = self.waiting_for_link.contains_key(&segment);
            let rates = sums.get(&segment).filter(|_| waits_for_link);
            let link = rates.and_then(|rates| links.full(now, segment, rates));
            let place =
                link.map_or_else(|| "its interface".to_owned(), |link| format!("link {link}"));
            let why = match here.unread(segment) {
                Some(why) => format!(
                    "the increase from port {ingress} to port {egress} has waited too long for a device that could not \
                     be read since the start: {why}"
                ),
                None => format!(
                    "the increase from port {ingress} to port {egress} has waited too long for capacity of {place}: \
                     another circuit there has not made its decrease, or a circuit from before the start was not removed"
                ),
            };
            DeviceFault { circuit, why }
        };
        let overdue = self.asked.take_overdue(now, about).into_iter();
        overdue.map(fault).collect()
    }

    /// Returns the rates of the reservations at the devices. What is missing, is missing to the increases that wait.
    pub(super) fn carried_now(&self) -> Carried {
        let mut left: BTreeMap<Segment, u64> = BTreeMap::new();
        let waits = |circuit| self.asked.contains(circuit);
        let (last, first): (Vec<_>, Vec<_>) =
            self.wanted.iter().partition(|(circuit, _)| waits(circuit));
        let mut carried = Carried::new();
        for (circuit, one) in first.into_iter().chain(last) {
            let segment = one.segment;
            let interface = self.interfaces.interface_of(segment);
            let is_unread = interface.is_none_or(|interface| self.inspections.is_unread(interface))
                || self.interfaces.unread(segment).is_some();
            if is_unread || self.failed.contains_key(&segment) {
                carried.insert(*circuit, None);
                continue;
            }
            let left = left.entry(segment);
            // a device leaves out the part of a rate below its granularity
            let left = left.or_insert_with(|| self.interfaces.present_bps(segment));
            let rate = one.rate.as_bps();
            let is_whole = rate.saturating_sub(*left) < 1000;
            let bps = if is_whole { rate } else { *left };
            *left = left.saturating_sub(rate);
            carried.insert(*circuit, Some(bps));
        }
        carried
    }

    /// Returns true if the devices have no circuit, and none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.interfaces.is_empty() && self.failed.is_empty() && self.waiting.is_empty()
    }

    /// Returns the end of the next guard time for which an increase waits.
    pub(super) fn next_end(&self) -> Option<Instant> {
        let ends = self.waiting.keys().flat_map(|segment| {
            let end = self.interfaces.next_end(*segment);
            end.into_iter().chain(self.links.next_end(*segment))
        });
        ends.min()
    }
}

impl Devices for DrivenDevices {
    fn reset(&mut self, _at: Instant, rates: &[RateChange]) -> Vec<DeviceFault> {
        let clock = self.clock;
        self.reset_at(&|| clock.now(), rates)
    }

    fn apply(&mut self, _at: Instant, changes: &[RateChange]) -> Vec<DeviceFault> {
        let clock = self.clock;
        self.apply_at(&|| clock.now(), changes)
    }

    fn next_call(&self) -> Option<Duration> {
        if self.inspections.has_unrepaired() || self.interfaces.has_closed() {
            return Some(Duration::ZERO);
        }
        let end = self.next_end();
        end.map(|end| end.since(self.clock.now()))
    }
}

/// Circuits whose changes have failed.
type Faults = BTreeMap<Segment, ChangeFault>;

/// Maximum number of changes in one call of a driver. A service that stops waits for one call.
const BATCH_MAX: usize = 64;

/// Circuit, and the rates that it needs.
type Sum<'a> = (&'a Segment, &'a RouteRates);
