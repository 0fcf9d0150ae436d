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
//! Decreases and removals come before increases. The changes of each kind are one call of the driver of an interface. An increase that needs their capacity waits for the guard time of its
//! interface, and is made by a later call. So does one that needs capacity of a link that other circuits
//! use. A circuit whose change failed is tried again with the next call, and so is a
//! device that could not be cleaned after the start. Each device is inspected every 30 seconds, after the changes of
//! its time.

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
    interfaces: Interfaces,
    wanted: BTreeMap<(Key, u8), Wanted>,
    /// Circuits whose last change failed, and the reasons.
    failed: BTreeMap<Segment, String>,
    /// Circuits whose increase waits for a guard time or a link, with the start of the wait.
    waiting: BTreeMap<Segment, Instant>,
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
            let bps = sum_of(rates);
            self.interfaces.present_bps(**segment) == bps && bps > 0 && !failed.contains(*segment)
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
    fn expiring(&self, now: Instant) -> BTreeSet<Segment> {
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
        if !self.inspections.is_due(now(), self.next_change) || self.is_stopping() {
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
            let guard = self.interfaces.guard_of(one.segment);
            let longest = self.links.longest_wait(one.segment).max(guard + STUCK_WAIT);
            if one.since.is_none_or(|since| now.since(since) < longest) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::SharedLink;
    use crate::devices::segment_circuit::id_of;
    use crate::devices::tests::example::{change, logged, segment};
    use lighthaul_base::Rate;
    use lighthaul_circuit::circuit::{Circuit, CircuitId};
    use lighthaul_circuit::driver::{Capabilities, CountedBytes, InstalledCircuit};
    use lighthaul_circuit::sim_device::{FaultModel, SimDevice, SimFault};

    const IN: Segment = segment(1, 2);
    const OUT: Segment = segment(2, 1);
    const CALM: FaultModel = FaultModel {
        latency_max: Duration::ZERO,
        fail_ppb: 0,
    };

    /// Returns a device of 1 Gb/s with both directions, and its driver.
    fn devices() -> (DrivenDevices, SimDevice) {
        with_guard(Duration::ZERO)
    }

    fn sim_device(guard: Duration) -> SimDevice {
        let capabilities = Capabilities {
            rate_min: Rate::from_mbps(1),
            rate_max: Rate::from_mbps(1000),
            granularity: Rate::from_mbps(1),
            reconfiguration: guard,
            settling: Duration::ZERO,
            entries_max: 8,
            counted: CountedBytes::IP,
            timer_max: None,
        };
        SimDevice::new(capabilities, CALM, 1)
    }

    fn with_guard(guard: Duration) -> (DrivenDevices, SimDevice) {
        let device = sim_device(guard);
        (with_driver(&device), device)
    }

    fn with_driver(device: &SimDevice) -> DrivenDevices {
        let circuit = |port: u16| SegmentCircuit {
            interface: "eth1".to_owned(),
            flow: format!("udp 10.0.0.2 {port}").parse().unwrap(),
        };
        let driver: Box<dyn Driver> = Box::new(device.clone());
        let drivers = [("eth1".to_owned(), driver)].into();
        let circuits = [(IN, circuit(1)), (OUT, circuit(2))].into();
        DrivenDevices::new(drivers, circuits)
    }

    fn rates(device: &SimDevice) -> Vec<(u64, u64)> {
        let circuits = device.circuits();
        let rate = |(id, one): (&CircuitId, &InstalledCircuit)| {
            (id.0, one.rate.map_or(0, |rate| rate.as_bps() / 1_000_000))
        };
        circuits.iter().map(rate).collect()
    }

    #[test]
    fn circuit_of_a_pair_of_ports_has_the_sum_of_its_reservations() {
        let (mut devices, device) = devices();
        let (one, two) = (id_of(IN).0, id_of(OUT).0);
        let at = Instant::ZERO;
        let first = [change(1, IN, 300), change(2, IN, 200), change(3, OUT, 100)];
        assert_eq!(devices.apply(at, &first), []);
        assert_eq!(rates(&device), [(one, 500), (two, 100)]);
        // the increase fits only after the decrease, although its pair of ports comes first
        let second = [change(3, OUT, 0), change(1, IN, 800)];
        assert_eq!(devices.apply(at, &second), []);
        assert_eq!(rates(&device), [(one, 1000)]);
        assert_eq!(devices.apply(at, &[change(1, IN, 0), change(2, IN, 0)]), []);
        assert_eq!(rates(&device), []);
    }

    #[test]
    fn timer_of_a_circuit_ends_after_its_last_reservation() {
        let device = SimDevice::new(
            Capabilities {
                timer_max: Some(Duration::from_hours(9)),
                ..sim_device(Duration::ZERO).capabilities()
            },
            CALM,
            1,
        );
        let mut devices = with_driver(&device);
        let left = |seconds, change: RateChange| RateChange {
            left: Duration::from_secs(seconds),
            ..change
        };
        let mut apply = |millis: u64, changes: &[RateChange]| {
            assert_eq!(devices.apply_at(&|| at(millis), changes), []);
            device.timer(id_of(IN)).map(|timer| timer.as_secs())
        };
        let begun = [left(100, change(1, IN, 300)), left(40, change(2, IN, 200))];
        assert_eq!(apply(0, &begun), Some(105));
        // the first reservation is longer now, so the timer is renewed after half of its time
        assert_eq!(apply(10_000, &[left(190, change(1, IN, 300))]), Some(105));
        assert_eq!(apply(52_499, &[]), Some(105));
        assert_eq!(apply(52_500, &[]), Some(152));
        assert_eq!(apply(60_000, &[change(2, IN, 0)]), Some(145));
        assert_eq!(apply(60_000, &[change(1, IN, 0)]), None);
    }

    #[test]
    fn timer_of_a_circuit_is_renewed_while_its_increase_waits() {
        let device = SimDevice::new(
            Capabilities {
                timer_max: Some(Duration::from_mins(1)),
                ..sim_device(Duration::ZERO).capabilities()
            },
            CALM,
            1,
        );
        // another interface has so much of the link that the increase waits
        let link = SharedLink {
            name: "a-b".to_owned(),
            capacity: Rate::from_mbps(1000),
            routes: [(IN, 0), (OUT, 0)].into(),
        };
        let links = LinkBook::new(&[link]);
        assert!(links.take(at(0), OUT, &[(0, 600_000_000)].into()));
        let mut devices = with_driver(&device).with_links(links, Clock::start());
        let long = |change: RateChange| RateChange {
            left: Duration::from_mins(9),
            ..change
        };
        devices.apply_at(&|| at(0), &[long(change(1, IN, 300))]);
        devices.apply_at(&|| at(1000), &[long(change(2, IN, 200))]);
        for second in 1..200 {
            let now = at(second * 1000);
            devices.apply_at(&|| now, &[]);
            assert_eq!(rates(&device), [(id_of(IN).0, 300)]);
            assert_eq!(devices.expiring(now), BTreeSet::new(), "{second}");
        }
    }

    #[test]
    fn change_that_fails_is_reported_and_tried_again() {
        let (mut devices, device) = devices();
        let at = Instant::ZERO;
        let mut model = FaultModel {
            latency_max: Duration::ZERO,
            fail_ppb: 1_000_000_000,
        };
        assert_eq!(devices.apply(at, &[change(1, IN, 300)]), []);
        device.set_fault_model(model);
        let failed = devices.apply(at, &[change(1, IN, 0), change(2, OUT, 100)]);
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!(failed[0].circuit, change(2, OUT, 100).circuit);
        assert_eq!(rates(&device), [(id_of(IN).0, 300)]);
        model.fail_ppb = 0;
        device.set_fault_model(model);
        assert_eq!(devices.apply(at, &[change(2, OUT, 0)]), []);
        assert_eq!(rates(&device), []);
        let unknown = devices.apply(at, &[change(4, segment(7, 8), 1)]);
        assert!(unknown[0].why.contains("[[circuit]]"), "{unknown:?}");
        let excess = devices.apply(at, &[change(5, IN, 2000)]);
        assert!(excess[0].why.contains("channel"), "{excess:?}");
    }

    #[test]
    fn rate_is_set_again_after_a_lost_answer() {
        let (mut devices, device) = devices();
        let (at, id) = (Instant::ZERO, id_of(IN).0);
        assert_eq!(devices.apply(at, &[change(1, IN, 300)]), []);
        device.fail_change(Some(SimFault::AnswerLost), 0);
        assert_eq!(devices.apply(at, &[change(1, IN, 600)]).len(), 1);
        assert_eq!(rates(&device), [(id, 600)]);
        assert_eq!(devices.apply(at, &[change(1, IN, 300)]), []);
        assert_eq!(rates(&device), [(id, 300)]);
    }

    #[test]
    fn start_removes_circuits_without_present_traffic() {
        let (mut devices, device) = devices();
        let installed = |segment, mbps: u64| InstalledCircuit {
            id: id_of(segment),
            flow: None,
            rate: Rate::from_bps(mbps * 1_000_000),
        };
        for old in [
            installed(IN, 700),
            installed(OUT, 10),
            installed(segment(5, 6), 1),
        ] {
            device.install(old);
        }
        let present = [change(1, IN, 400)];
        assert_eq!(devices.reset(Instant::ZERO, &present), []);
        assert_eq!(rates(&device), [(id_of(IN).0, 400)]);
    }

    #[test]
    fn removals_that_fail_at_the_start_are_repeated() {
        let (mut devices, device) = devices();
        let mut model = FaultModel {
            latency_max: Duration::ZERO,
            fail_ppb: 1_000_000_000,
        };
        device.install(InstalledCircuit {
            id: id_of(OUT),
            flow: None,
            rate: Some(Rate::from_mbps(700)),
        });
        device.set_fault_model(model);
        let at = Instant::ZERO;
        assert_eq!(devices.reset(at, &[]), []);
        assert_eq!(rates(&device), [(id_of(OUT).0, 700)]);
        model.fail_ppb = 0;
        device.set_fault_model(model);
        assert_eq!(devices.apply(at, &[]), []);
        assert_eq!(rates(&device), []);
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn increase_waits_for_the_guard_time_of_the_needed_capacity() {
        let (mut devices, device) = with_guard(Duration::from_millis(200));
        let (one, two) = (id_of(IN).0, id_of(OUT).0);
        let mut apply = |millis: u64, changes: &[RateChange]| {
            let faults = devices.apply_at(&|| at(millis), changes);
            assert_eq!(faults, []);
            (rates(&device), devices.next_end())
        };
        let begun = [change(1, IN, 600), change(2, OUT, 200)];
        assert_eq!(apply(0, &begun), (vec![(one, 600), (two, 200)], None));
        // 200 Mb/s were free all the time, and are not enough for both
        let second = [change(1, IN, 500), change(2, OUT, 400)];
        let waiting = (vec![(one, 500), (two, 200)], Some(at(1200)));
        assert_eq!(
            apply(1000, &[change(3, OUT, 0), change(1, IN, 500)]).1,
            None
        );
        assert_eq!(apply(1000, &[change(2, OUT, 450)]), waiting);
        assert_eq!(apply(1199, &[]), waiting);
        assert_eq!(apply(1200, &[]), (vec![(one, 500), (two, 450)], None));
        assert_eq!(
            apply(2000, &[change(2, OUT, 300)]).0,
            [(one, 500), (two, 300)]
        );
        // what is free carries the increase at once
        assert_eq!(
            apply(2001, &[change(1, IN, 550)]),
            (vec![(one, 550), (two, 300)], None)
        );
        assert_eq!(apply(3000, &second).0, [(one, 500), (two, 400)]);
        assert_eq!(apply(3100, &[change(1, IN, 0)]).0, [(two, 400)]);
        let removed = |end: u64| (vec![(two, 400)], Some(at(end)));
        assert_eq!(apply(3150, &[change(2, OUT, 900)]), removed(3200));
        assert_eq!(apply(3200, &[]), removed(3300));
        assert_eq!(apply(3300, &[]), (vec![(two, 900)], None));
    }

    #[test]
    fn guard_time_of_one_interface_delays_no_other_interface() {
        let (mut devices, slow) = with_guard(Duration::from_secs(9));
        let fast = sim_device(Duration::from_millis(5));
        devices
            .interfaces
            .drivers
            .insert("eth2".to_owned(), Box::new(fast.clone()));
        let others = [segment(3, 4), segment(4, 3)];
        for other in others {
            let circuit = Circuit {
                id: id_of(other),
                interface: "eth2".to_owned(),
                ..devices.interfaces.circuits[&OUT].clone()
            };
            devices.interfaces.circuits.insert(other, circuit);
        }
        let mut apply = |millis: u64, changes: &[RateChange]| {
            assert_eq!(devices.apply_at(&|| at(millis), changes), []);
            devices.next_end()
        };
        let begun = [change(1, IN, 1000), change(2, others[0], 1000)];
        assert_eq!(apply(0, &begun), None);
        let ends = [change(1, IN, 0), change(2, others[0], 400)];
        assert_eq!(apply(100, &ends), None);
        let next = [change(3, OUT, 1000), change(4, others[1], 600)];
        assert_eq!(apply(101, &next), Some(at(105)));
        assert_eq!(apply(105, &[]), Some(at(9100)));
        assert_eq!(
            rates(&fast),
            [(id_of(others[0]).0, 400), (id_of(others[1]).0, 600)]
        );
        assert_eq!(rates(&slow), []);
        assert_eq!(apply(9100, &[]), None);
        assert_eq!(rates(&slow), [(id_of(OUT).0, 1000)]);
    }

    #[test]
    fn circuit_reuses_its_freed_capacity_within_the_guard_time() {
        let (devices, device) = with_guard(Duration::from_secs(9));
        let link = SharedLink {
            name: "a-b".to_owned(),
            capacity: Rate::from_mbps(1000),
            routes: [(IN, 0), (OUT, 0)].into(),
        };
        let mut devices = devices.with_links(LinkBook::new(&[link]), Clock::start());
        let mut apply = |millis: u64, changes: &[RateChange]| {
            assert_eq!(devices.apply_at(&|| at(millis), changes), []);
            (rates(&device), devices.next_end())
        };
        let (one, two) = (id_of(IN).0, id_of(OUT).0);
        apply(0, &[change(1, IN, 600)]);
        assert_eq!(apply(100, &[change(1, IN, 200)]).0, [(one, 200)]);
        // the other circuit needs what the first one may still use
        let waiting = [change(2, OUT, 500)];
        assert_eq!(apply(200, &waiting), (vec![(one, 200)], Some(at(9100))));
        let again = vec![(one, 500)];
        assert_eq!(apply(300, &[change(1, IN, 500)]).0, again);
        assert_eq!(apply(9099, &[]), (again, Some(at(9100))));
        assert_eq!(apply(9100, &[]), (vec![(one, 500), (two, 500)], None));
    }

    #[test]
    fn long_wait_for_a_link_is_logged_once_with_its_name() {
        let (devices, _device) = devices();
        let link = SharedLink {
            name: "a-b".to_owned(),
            capacity: Rate::from_mbps(100),
            routes: [(IN, 0), (OUT, 0)].into(),
        };
        // another interface has the whole link
        let links = LinkBook::new(&[link]);
        assert!(links.take(at(0), IN, &[(0, 100_000_000)].into()));
        let mut devices = devices.with_links(links, Clock::start());
        let lines = logged("an increase waits", || {
            assert_eq!(devices.apply_at(&|| at(10), &[change(1, OUT, 50)]), []);
            devices.apply_at(&|| at(5009), &[]);
        });
        assert_eq!(lines.len(), 0, "{lines:?}");
        let lines = logged("an increase waits", || {
            for millis in [5010, 6000, 60_000] {
                devices.apply_at(&|| at(millis), &[]);
            }
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("link=\"a-b\""), "{lines:?}");
    }

    #[test]
    fn repeated_fault_of_a_change_is_logged_once() {
        let (mut devices, device) = devices();
        let apply = |devices: &mut DrivenDevices, millis: u64| {
            device.fail_change(Some(SimFault::Refused), 0);
            devices.apply_at(&|| at(millis), &[change(1, IN, 10 + millis)])
        };
        let lines = logged("a device did not change a circuit", || {
            for millis in 0..3 {
                assert_eq!(apply(&mut devices, millis).len(), 1);
            }
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
    }

    #[test]
    fn decrease_that_fails_delays_no_increase_of_free_capacity() {
        let (mut devices, device) = with_guard(Duration::from_millis(200));
        let (one, two) = (id_of(IN).0, id_of(OUT).0);
        assert_eq!(devices.apply_at(&|| at(0), &[change(1, IN, 600)]), []);
        device.fail_change(Some(SimFault::Refused), 0);
        let changes = [change(1, IN, 300), change(2, OUT, 400)];
        let faults = devices.apply_at(&|| at(100), &changes);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(rates(&device), [(one, 600), (two, 400)]);
        assert_eq!(devices.next_end(), None);
    }

    #[test]
    fn failed_increase_blocks_only_its_own_capacity() {
        let (mut devices, device) = with_guard(Duration::from_millis(200));
        let mut apply = |millis: u64, changes: &[RateChange]| {
            let faults = devices.apply_at(&|| at(millis), changes);
            (faults.len(), devices.next_end())
        };
        // the device may have set the rate before its answer was lost
        device.fail_change(Some(SimFault::AnswerLost), 0);
        assert_eq!(apply(0, &[change(1, IN, 600)]), (1, None));
        assert_eq!(apply(100, &[change(1, IN, 0)]), (0, None));
        assert_eq!(apply(101, &[change(2, OUT, 400)]), (0, None));
        assert_eq!(rates(&device), [(id_of(OUT).0, 400)]);
        // what it may still use waits for a guard time after the removal
        let more = [change(3, OUT, 1)];
        assert_eq!(apply(102, &more), (0, Some(at(300))));
        assert_eq!(rates(&device), [(id_of(OUT).0, 400)]);
        assert_eq!(apply(300, &[]), (0, None));
        assert_eq!(rates(&device), [(id_of(OUT).0, 401)]);
    }

    #[test]
    fn failed_decrease_keeps_its_capacity_of_its_interface() {
        let (mut devices, device) = devices();
        let (one, two) = (id_of(IN).0, id_of(OUT).0);
        assert_eq!(devices.apply_at(&|| at(0), &[change(1, IN, 800)]), []);
        device.fail_change(Some(SimFault::Refused), 0);
        let next = [change(1, IN, 200), change(2, OUT, 600)];
        let faults = devices.apply_at(&|| at(10), &next);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].circuit, next[0].circuit);
        assert_eq!(rates(&device), [(one, 800)]);
        assert!(!devices.is_empty());
        // the next call makes both
        assert_eq!(devices.apply_at(&|| at(1000), &[]), []);
        assert_eq!(rates(&device), [(one, 200), (two, 600)]);
    }

    #[test]
    fn increase_whose_answer_was_lost_counts_until_its_removal() {
        let (mut devices, device) = devices();
        let (one, two) = (id_of(IN).0, id_of(OUT).0);
        assert_eq!(devices.apply_at(&|| at(0), &[change(1, IN, 100)]), []);
        device.fail_change(Some(SimFault::AnswerLost), 0);
        assert_eq!(devices.apply_at(&|| at(10), &[change(1, IN, 600)]).len(), 1);
        device.fail_removals(1);
        let next = [change(1, IN, 0), change(2, OUT, 401), change(3, OUT, 99)];
        assert_eq!(devices.apply_at(&|| at(20), &next), []);
        assert_eq!(rates(&device), [(one, 600)]);
        assert_eq!(devices.apply_at(&|| at(1020), &[]), []);
        assert_eq!(rates(&device), [(two, 500)]);
        // what both may use fits
        device.fail_change(Some(SimFault::AnswerLost), 0);
        assert_eq!(
            devices.apply_at(&|| at(1030), &[change(1, IN, 300)]).len(),
            1
        );
        device.fail_removals(1);
        let next = [change(1, IN, 0), change(2, OUT, 601)];
        assert_eq!(devices.apply_at(&|| at(1040), &next), []);
        assert_eq!(rates(&device), [(one, 300), (two, 700)]);
    }

    #[test]
    fn increase_is_repeated_after_a_lost_answer_although_the_device_may_have_it() {
        let (mut devices, device) = devices();
        assert_eq!(devices.apply_at(&|| at(0), &[change(1, IN, 100)]), []);
        device.fail_change(Some(SimFault::AnswerLost), 0);
        let faults = devices.apply_at(&|| at(10), &[change(1, IN, 900)]);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(devices.apply_at(&|| at(20), &[change(2, OUT, 100)]), []);
        let expected = [(id_of(IN).0, 900), (id_of(OUT).0, 100)];
        assert_eq!(rates(&device), expected);
        assert_eq!(devices.next_end(), None);
        assert!(devices.failed.is_empty() && devices.waiting.is_empty());
    }

    #[test]
    fn smaller_increase_after_a_failed_increase_may_free_capacity() {
        let (mut devices, device) = with_guard(Duration::from_millis(200));
        let mut apply = |millis: u64, changes: &[RateChange]| {
            let faults = devices.apply_at(&|| at(millis), changes);
            (faults.len(), devices.next_end())
        };
        assert_eq!(apply(0, &[change(1, IN, 300)]), (0, None));
        device.fail_change(Some(SimFault::AnswerLost), 0);
        assert_eq!(apply(10, &[change(2, IN, 600)]), (1, None));
        // more than the rate that is known, and less than the one that the device may have
        assert_eq!(apply(20, &[change(2, IN, 200)]), (0, None));
        assert_eq!(apply(30, &[change(3, OUT, 101)]), (0, Some(at(220))));
        assert_eq!(apply(220, &[]), (0, None));
    }

    #[test]
    fn increase_that_fails_after_its_guard_time_is_reported() {
        let (mut devices, device) = with_guard(Duration::from_millis(200));
        let mut apply =
            |millis: u64, changes: &[RateChange]| devices.apply_at(&|| at(millis), changes);
        assert_eq!(apply(0, &[change(1, IN, 1000)]), []);
        assert_eq!(apply(10, &[change(1, IN, 0), change(2, OUT, 700)]), []);
        device.fail_change(Some(SimFault::Refused), 0);
        let faults = apply(210, &[]);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].circuit, change(2, OUT, 700).circuit);
    }

    #[test]
    fn device_is_empty_once_its_last_circuit_was_removed() {
        let (mut devices, device) = devices();
        device.install(InstalledCircuit {
            id: id_of(OUT),
            flow: None,
            rate: Some(Rate::from_mbps(10)),
        });
        device.fail_removals(1);
        assert_eq!(devices.reset(at(0), &[]), []);
        assert!(!devices.is_empty(), "an old circuit is left");
        assert_eq!(devices.apply(at(0), &[]), []);
        assert!(devices.is_empty());
        assert_eq!(devices.apply(at(0), &[change(1, IN, 300)]), []);
        assert!(!devices.is_empty());
        device.fail_removals(1);
        devices.apply(at(0), &[change(1, IN, 0)]);
        assert!(!devices.is_empty(), "a removal has failed");
        devices.apply(at(0), &[]);
        assert!(devices.is_empty());
        device.fail_change(Some(SimFault::AnswerLost), 0);
        assert_eq!(devices.apply(at(0), &[change(1, IN, 300)]).len(), 1);
        assert!(!devices.is_empty(), "the device may have the rate");
    }
}
