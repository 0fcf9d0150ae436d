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

use super::contract::{Carried, DeviceFault, Devices};
use super::inspections::Inspections;
use super::interfaces::{Interfaces, NewRate, Time};
use super::link_book::{LONG_WAIT, LinkBook, STUCK_WAIT};
use super::segment_circuit::SegmentCircuit;
use super::shared_link::{RouteRates, sum_of};
use super::wanted::{Wanted, last_ends};

/// Devices behind drivers, one for each interface.
#[derive(Debug)]
pub(super) struct DrivenDevices {
    pub(super) interfaces: Interfaces,
    wanted: BTreeMap<(Key, u8), Wanted>,
    /// Circuits whose last change failed, and the reasons.
    pub(super) failed: BTreeMap<Segment, String>,
    /// Circuits whose increase waits for a guard time or a link, with the start of the wait.
    pub(super) waiting: BTreeMap<Segment, Instant>,
    /// Reservations that asked for the waiting increases.
    waiting_for: BTreeMap<(Key, u8), Asked>,
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
            failed: BTreeMap::new(),
            waiting: BTreeMap::new(),
            waiting_for: BTreeMap::new(),
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
    fn set_all(
        &mut self,
        now: Time<'_>,
        sums: &BTreeMap<Segment, RouteRates>,
    ) -> BTreeMap<Segment, String> {
        let mut faults = BTreeMap::new();
        // after a lost answer the device may have another rate than the present one here
        let failed: BTreeSet<Segment> = self.failed.keys().copied().collect();
        let (equal, others): (Vec<_>, Vec<_>) = sums.iter().partition(|(segment, rates)| {
            let is_equal = self.interfaces.present_bps(**segment) == sum_of(rates);
            is_equal && !failed.contains(*segment)
        });
        let (lower, mut higher): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|(segment, rates)| self.interfaces.present_bps(**segment) >= sum_of(rates));
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
        faults: &mut BTreeMap<Segment, String>,
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
    fn raise(&mut self, now: Time<'_>, higher: &[Sum<'_>], faults: &mut BTreeMap<Segment, String>) {
        let since = std::mem::take(&mut self.waiting);
        let logged = std::mem::take(&mut self.waiting_for_link);
        let is_again = |(segment, _): &Sum<'_>| self.failed.contains_key(*segment);
        // the capacity of a circuit whose change has failed is uncertain until it is set
        let (again, others): (Vec<_>, Vec<_>) = higher.iter().copied().partition(is_again);
        for part in [again, others] {
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
        faults: &mut BTreeMap<Segment, String>,
    ) -> Vec<Sum<'a>> {
        let segments: Vec<Segment> = higher.iter().map(|(segment, _)| **segment).collect();
        let mut used = self.interfaces.used(&segments);
        let mut ready = Vec::new();
        for (segment, rates) in higher {
            if self.is_stopping() {
                return Vec::new();
            }
            let more = sum_of(rates).saturating_sub(self.interfaces.present_bps(**segment));
            let begun = since.get(segment).copied().unwrap_or_else(now);
            let has_room = match self.interfaces.has_room(now, **segment, more, &mut used) {
                Ok(has_room) => has_room,
                Err(why) => {
                    faults.insert(**segment, why);
                    continue;
                }
            };
            if !self.links.take(now(), **segment, rates) {
                let was_logged = logged.get(segment) == Some(&true);
                self.wait_for_link(now(), (**segment, rates), begun, was_logged);
                if let Err(why) = self.give_up(now, **segment, rates) {
                    faults.insert(**segment, why);
                }
            } else if has_room {
                ready.push((*segment, *rates));
            } else {
                self.waiting.insert(**segment, begun);
            }
        }
        ready
    }

    /// Sets a circuit that waits for a link to the rates that its routes keep.
    fn give_up(
        &mut self,
        now: Time<'_>,
        segment: Segment,
        rates: &RouteRates,
    ) -> Result<(), String> {
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

    /// Sets the rates of circuits, in as few calls of the drivers as possible, until the devices stop.
    fn change_all(
        &mut self,
        now: Time<'_>,
        sums: &[Sum<'_>],
        faults: &mut BTreeMap<Segment, String>,
    ) {
        for batch in sums.chunks(BATCH_MAX) {
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
                    Err(why) => _ = faults.insert(**segment, why),
                }
            }
        }
    }

    /// Does the same for one circuit.
    fn change(
        &mut self,
        now: Time<'_>,
        segment: Segment,
        rates: &RouteRates,
    ) -> Result<(), String> {
        let mut faults = BTreeMap::new();
        self.change_all(now, &[(&segment, rates)], &mut faults);
        faults.remove(&segment).map_or(Ok(()), Err)
    }

    /// Inspects the devices if that is due. Returns the reservations of circuits that could not be repaired.
    fn inspect(&mut self, now: Time<'_>) -> Vec<DeviceFault> {
        let is_busy = self.interfaces.has_closed() || self.is_stopping();
        if is_busy || !self.inspections.is_due(now(), self.next_change) {
            return Vec::new();
        }
        let readings = self
            .interfaces
            .inspect(now, &self.wanted, &self.links, &self.is_stopping);
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
            let last = last.map_or_else(String::new, |why| format!(": {why}"));
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
        self.waiting_for.clear();
        self.inspections.restart(now());
        self.apply_at(now, rates)
    }

    /// Implements [`Devices::apply`], with a time of another clock.
    pub(super) fn apply_at(&mut self, now: Time<'_>, changes: &[RateChange]) -> Vec<DeviceFault> {
        let mut asked = self.asked(now(), changes);
        let mut touched = self.take(now(), changes);
        let known = self
            .interfaces
            .clean(now, &self.wanted, &self.links, &self.is_stopping);
        touched.extend(known);
        let sums = self.sums(&touched);
        let mut faults = self.set_all(now, &sums);
        let failed = asked.iter().filter_map(|(circuit, one)| {
            let why = faults.get(&one.segment)?.clone();
            let circuit = *circuit;
            Some(DeviceFault { circuit, why })
        });
        let mut failed: Vec<DeviceFault> = failed.collect();
        // a fault that is repeated at each call is logged once
        let is_new = |(segment, why): &(&Segment, &String)| self.failed.get(segment) != Some(*why);
        for (segment, why) in faults.iter().filter(is_new) {
            let (ingress, egress) = (segment.ingress.0, segment.egress.0);
            warn!(ingress, egress, why, "a device did not change a circuit");
        }
        // the rate of a circuit that waits after a fault stays unknown
        let unknown = std::mem::take(&mut self.failed).into_iter();
        faults.extend(unknown.filter(|(segment, _)| self.waiting.contains_key(segment)));
        self.failed = faults;
        asked.retain(|_, one| self.waiting.contains_key(&one.segment));
        failed.extend(self.overdue(now(), &mut asked, &sums));
        self.waiting_for = asked;
        if changes.is_empty() && !self.is_stopping() {
            self.interfaces.remove_closed();
        }
        failed.extend(self.inspect(now));
        failed
    }

    /// Returns the reservations that ask for changes, by this call or by earlier ones that wait.
    fn asked(&mut self, now: Instant, changes: &[RateChange]) -> BTreeMap<(Key, u8), Asked> {
        let mut asked = std::mem::take(&mut self.waiting_for);
        for change in changes {
            let earlier = asked.remove(&change.circuit);
            let Some(rate) = change.rate else {
                continue;
            };
            let is_increase = self.wanted.get(&change.circuit).is_none_or(|before| {
                let before = (before.segment, before.route, before.rate);
                before.0 != change.segment || before.1 != change.route || before.2 < rate
            });
            let since = earlier.and_then(|one| one.since);
            let one = Asked {
                segment: change.segment,
                since: since.or_else(|| is_increase.then_some(now)),
            };
            asked.insert(change.circuit, one);
        }
        asked
    }

    /// Returns the reservations whose increases wait for too long, each once.
    fn overdue(
        &self,
        now: Instant,
        asked: &mut BTreeMap<(Key, u8), Asked>,
        sums: &BTreeMap<Segment, RouteRates>,
    ) -> Vec<DeviceFault> {
        let mut faults = Vec::new();
        for (circuit, one) in asked {
            let (links, here) = (&self.links, &self.interfaces);
            let at = one.segment;
            let guard = || links.longest_guard(at).max(here.guard_of(at));
            let waited = one.since.map(|since| now.since(since));
            let beyond = waited.and_then(|time| time.checked_sub(STUCK_WAIT));
            if beyond.is_none_or(|beyond| beyond < guard()) {
                continue;
            }
            one.since = None;
            let (ingress, egress) = (one.segment.ingress.0, one.segment.egress.0);
            let waits_for_link = self.waiting_for_link.contains_key(&one.segment);
            let rates = sums.get(&one.segment).filter(|_| waits_for_link);
            let link = rates.and_then(|rates| self.links.full(now, one.segment, rates));
            let place =
                link.map_or_else(|| "its interface".to_owned(), |link| format!("link {link}"));
            let why = format!(
                "the increase from port {ingress} to port {egress} has waited too long for capacity of {place}: \
                 another circuit there has not made its decrease, or a circuit from before the start was not removed"
            );
            let circuit = *circuit;
            faults.push(DeviceFault { circuit, why });
        }
        faults
    }

    /// Returns the rates of the reservations at the devices. What is missing, is missing to the increases that wait.
    pub(super) fn carried_now(&self) -> Carried {
        let mut left: BTreeMap<Segment, u64> = BTreeMap::new();
        let waits = |circuit| self.waiting_for.contains_key(circuit);
        let (last, first): (Vec<_>, Vec<_>) =
            self.wanted.iter().partition(|(circuit, _)| waits(circuit));
        let mut carried = Carried::new();
        for (circuit, one) in first.into_iter().chain(last) {
            let segment = one.segment;
            let interface = self.interfaces.interface_of(segment);
            let is_unread = interface.is_none_or(|interface| self.inspections.is_unread(interface));
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

/// Reservation that asked for a change of a circuit.
#[derive(Clone, Copy, Debug)]
struct Asked {
    segment: Segment,
    /// Start of the wait for more capacity; none if the reservation needs no more, or after a fault was reported.
    since: Option<Instant>,
}

/// Maximum number of changes in one call of a driver. A service that stops waits for one call.
const BATCH_MAX: usize = 64;

/// Circuit, and the rates that it needs.
type Sum<'a> = (&'a Segment, &'a RouteRates);
