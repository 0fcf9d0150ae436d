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
//! Decreases and removals come before increases, with the guard time of the device between them. A circuit whose change
//! failed is tried again with the next call, and so is a device that could not be cleaned after the start.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lighthaul_base::trc::{Step, Trc};
use lighthaul_base::{Instant, Rate};
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::driver::{Capabilities, Change, Driver};
use lighthaul_circuit::flow::Flow;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_stargate::{Key, RateChange, Segment};
use tracing::warn;

use super::contract::{DeviceFault, Devices};

/// Circuit of a pair of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentCircuit {
    /// Interface of the device, or port of a switch.
    pub interface: String,
    /// Packets of the circuit.
    pub flow: Flow,
}

/// Devices behind drivers, one for each interface.
#[derive(Debug)]
pub struct DrivenDevices {
    drivers: BTreeMap<String, Box<dyn Driver>>,
    circuits: BTreeMap<Segment, Circuit>,
    /// Rates of the reservations.
    wanted: BTreeMap<(Key, u8), (Segment, Rate)>,
    /// Rates of the circuits at the devices.
    present: BTreeMap<Segment, Rate>,
    /// Circuits whose last change failed, and the reasons.
    failed: BTreeMap<Segment, String>,
    /// Interfaces that may still have circuits from before the start, and the reasons.
    unclean: BTreeMap<String, String>,
    clock: Clock,
    /// End of the guard time of the last decrease.
    guard_till: Instant,
}

impl DrivenDevices {
    /// Returns devices with these drivers by their interfaces. Reservations of a pair of ports without a circuit fail
    /// when they start.
    pub fn new(
        drivers: BTreeMap<String, Box<dyn Driver>>,
        circuits: BTreeMap<Segment, SegmentCircuit>,
    ) -> Self {
        let circuit = |(segment, about): (Segment, SegmentCircuit)| {
            let circuit = Circuit {
                id: id_of(segment),
                interface: about.interface,
                flow: about.flow,
                // drivers receive each rate at its time, and do not read the vector
                trc: unread(),
            };
            (segment, circuit)
        };
        Self {
            drivers,
            circuits: circuits.into_iter().map(circuit).collect(),
            wanted: BTreeMap::new(),
            present: BTreeMap::new(),
            failed: BTreeMap::new(),
            unclean: BTreeMap::new(),
            clock: Clock::start(),
            guard_till: Instant::ZERO,
        }
    }

    /// Returns what the devices can do, by their interfaces.
    pub fn capabilities(&self) -> BTreeMap<String, Capabilities> {
        let drivers = self.drivers.iter();
        drivers
            .map(|(interface, driver)| (interface.clone(), driver.capabilities()))
            .collect()
    }

    /// Notes the rates of reservations, and returns the circuits to change.
    fn take(&mut self, changes: &[RateChange]) -> BTreeSet<Segment> {
        let mut touched: BTreeSet<Segment> = self.failed.keys().copied().collect();
        for change in changes {
            touched.insert(change.segment);
            match change.rate {
                Some(rate) => self.wanted.insert(change.circuit, (change.segment, rate)),
                None => self.wanted.remove(&change.circuit),
            };
        }
        touched
    }

    /// Returns the sum of the rates of the reservations of these circuits.
    fn sums(&self, touched: &BTreeSet<Segment>) -> BTreeMap<Segment, u64> {
        let mut sums: BTreeMap<Segment, u64> = touched.iter().map(|one| (*one, 0)).collect();
        for (segment, rate) in self.wanted.values() {
            if let Some(sum) = sums.get_mut(segment) {
                *sum = sum.saturating_add(rate.as_bps());
            }
        }
        sums
    }

    /// Sets the rate of a circuit. Returns the reason if that failed.
    fn set(&mut self, segment: Segment, bps: u64) -> Result<(), String> {
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
            return Ok(());
        };
        let fitting = driver.capabilities().fit(rate).ok_or_else(|| {
            format!("the device at {interface} cannot set a rate of {rate}; set channel of the ports to its granularity")
        })?;
        let rate = Some(fitting);
        let mut results = driver.apply(&[Change { circuit, rate }]);
        results
            .pop()
            .unwrap_or(Ok(()))
            .map_err(|why| why.to_string())?;
        self.present.insert(segment, fitting);
        Ok(())
    }

    /// Sets the rates of circuits, decreases first. Returns the circuits that failed, with the reasons.
    fn set_all(&mut self, sums: &BTreeMap<Segment, u64>) -> BTreeMap<Segment, String> {
        let mut faults = BTreeMap::new();
        let present =
            |devices: &Self, segment| devices.present.get(segment).map_or(0, |rate| rate.as_bps());
        // after a lost answer the device may have another rate than the present one here
        let failed: BTreeSet<Segment> = self.failed.keys().copied().collect();
        let (lower, higher): (Vec<_>, Vec<_>) = sums
            .iter()
            .filter(|(segment, bps)| {
                present(self, *segment) != **bps || **bps == 0 || failed.contains(*segment)
            })
            .partition(|(segment, bps)| present(self, *segment) >= **bps);
        for (segment, bps) in lower {
            let is_decrease = present(self, segment) > *bps || failed.contains(segment);
            if let Err(why) = self.set(*segment, *bps) {
                faults.insert(*segment, why);
            }
            if is_decrease {
                self.begin_guard();
            }
        }
        if !higher.is_empty() {
            pause(self.clock.until(self.guard_till));
        }
        for (segment, bps) in higher {
            if let Err(why) = self.set(*segment, *bps) {
                faults.insert(*segment, why);
            }
        }
        faults
    }

    /// Starts the longest guard time of all devices, in which no rate is increased.
    fn begin_guard(&mut self) {
        let guards = self.drivers.values().map(|one| one.capabilities().guard());
        let guard: Duration = guards.max().unwrap_or_default();
        self.guard_till = self.clock.now() + guard;
    }

    /// Removes circuits that drivers have from before the start, unless their pairs of ports carry data on the same
    /// interface with the same flow. Returns those pairs, whose rates may differ from the present ones. Only interfaces
    /// that are not clean yet are looked at.
    fn clean(&mut self) -> BTreeSet<Segment> {
        let (mut kept_all, mut was_changed) = (BTreeSet::new(), false);
        let unclean = std::mem::take(&mut self.unclean);
        let wanted: BTreeSet<Segment> = self.wanted.values().map(|(one, _)| *one).collect();
        for (interface, before) in unclean {
            let Some(driver) = self.drivers.get_mut(&interface) else {
                continue;
            };
            let kept = wanted.iter().filter_map(|segment| {
                let circuit = self.circuits.get(segment)?;
                (circuit.interface == interface).then_some((circuit.id, (*segment, circuit.flow)))
            });
            let kept: BTreeMap<CircuitId, (Segment, Flow)> = kept.collect();
            kept_all.extend(kept.values().map(|(segment, _)| *segment));
            let (rates, has_removed, fault) = clean_one(driver.as_mut(), &kept);
            self.present.extend(rates);
            was_changed |= has_removed;
            let Some(why) = fault.map(|why| why.to_string()) else {
                continue;
            };
            if why != before {
                warn!(
                    interface,
                    why,
                    "cannot remove circuits of an earlier run; the service tries again, or remove them by hand"
                );
            }
            self.unclean.insert(interface, why);
        }
        if was_changed {
            self.begin_guard();
        }
        kept_all
    }
}

/// Removes the other circuits of a device. Returns the rates of those that are kept, whether there were others, and the
/// first fault.
fn clean_one(
    driver: &mut dyn Driver,
    kept: &BTreeMap<CircuitId, (Segment, Flow)>,
) -> (
    Vec<(Segment, Rate)>,
    bool,
    Option<lighthaul_circuit::error::Error>,
) {
    let installed = match driver.inspect() {
        Ok(installed) => installed,
        Err(why) => return (Vec::new(), false, Some(why)),
    };
    let (mut rates, mut has_removed, mut fault) = (Vec::new(), false, None);
    for one in installed {
        match kept.get(&one.id) {
            Some((segment, flow)) if one.flow == Some(*flow) => {
                rates.extend(one.rate.map(|rate| (*segment, rate)));
            }
            _ => {
                has_removed = true;
                let failed = driver.remove(one.id).err();
                fault = fault.or(failed);
            }
        }
    }
    (rates, has_removed, fault)
}

impl Devices for DrivenDevices {
    fn reset(&mut self, at: Instant, rates: &[RateChange]) -> Vec<DeviceFault> {
        self.wanted.clear();
        self.present.clear();
        let all = self.drivers.keys();
        self.unclean = all.map(|one| (one.clone(), String::new())).collect();
        self.apply(at, rates)
    }

    fn apply(&mut self, _at: Instant, changes: &[RateChange]) -> Vec<DeviceFault> {
        let mut touched = self.take(changes);
        touched.extend(self.clean());
        let sums = self.sums(&touched);
        let faults = self.set_all(&sums);
        let changed = changes.iter().filter(|change| change.rate.is_some());
        let failed = changed.filter_map(|change| {
            let why = faults.get(&change.segment)?.clone();
            let circuit = change.circuit;
            Some(DeviceFault { circuit, why })
        });
        let failed: Vec<DeviceFault> = failed.collect();
        // a fault that is repeated at each call is logged once
        let is_new = |(segment, why): &(&Segment, &String)| self.failed.get(segment) != Some(*why);
        for (segment, why) in faults.iter().filter(is_new) {
            let (ingress, egress) = (segment.ingress.0, segment.egress.0);
            warn!(ingress, egress, why, "a device did not change a circuit");
        }
        self.failed = faults;
        failed
    }
}

/// Returns the identifier of a circuit, which stays the same after a restart.
fn id_of(segment: Segment) -> CircuitId {
    CircuitId(u64::from(segment.ingress.0) << 32 | u64::from(segment.egress.0))
}

/// Returns the vector of a circuit whose rates come one by one.
fn unread() -> Trc {
    let step = Step {
        from: Instant::ZERO,
        till: Instant::ZERO + Duration::from_secs(1),
        rate: Rate::from_mbps(1),
    };
    Trc::new(vec![step]).expect("one step is a valid vector")
}

#[cfg(test)]
mod tests {
    use lighthaul_circuit::driver::{Capabilities, CountedBytes, InstalledCircuit};
    use lighthaul_circuit::sim_device::{FaultModel, SimDevice, SimFault};
    use lighthaul_stargate::{CorrelationId, DomainId, PortId};

    use super::*;

    const IN: Segment = segment(1, 2);
    const OUT: Segment = segment(2, 1);

    const fn segment(ingress: u32, egress: u32) -> Segment {
        Segment {
            ingress: PortId(ingress),
            egress: PortId(egress),
        }
    }

    fn change(id: u128, segment: Segment, mbps: u64) -> RateChange {
        let key = Key {
            source: DomainId(1),
            id: CorrelationId(id),
            attempt: 0,
            leg: 0,
        };
        RateChange {
            circuit: (key, 0),
            segment,
            rate: Rate::from_bps(mbps * 1_000_000),
        }
    }

    /// Returns a device of 1 Gb/s with both directions, and its driver.
    fn devices() -> (DrivenDevices, SimDevice) {
        with_guard(Duration::from_millis(1))
    }

    fn with_guard(guard: Duration) -> (DrivenDevices, SimDevice) {
        let capabilities = Capabilities {
            rate_min: Rate::from_mbps(1),
            rate_max: Rate::from_mbps(1000),
            granularity: Rate::from_mbps(1),
            reconfiguration: guard,
            settling: Duration::ZERO,
            entries_max: 8,
            is_hitless: true,
            has_timers: false,
            counted: CountedBytes::IP,
        };
        let model = FaultModel {
            latency_max: Duration::ZERO,
            fail_ppb: 0,
        };
        let device = SimDevice::new(capabilities, model, 1);
        let circuit = |port: u16| SegmentCircuit {
            interface: "eth1".to_owned(),
            flow: format!("udp 10.0.0.2 {port}").parse().unwrap(),
        };
        let driver: Box<dyn Driver> = Box::new(device.clone());
        let drivers = [("eth1".to_owned(), driver)].into();
        let circuits = [(IN, circuit(1)), (OUT, circuit(2))].into();
        (DrivenDevices::new(drivers, circuits), device)
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
        device.fail_change(SimFault::AnswerLost, 0);
        assert_eq!(devices.apply(at, &[change(1, IN, 600)]).len(), 1);
        assert_eq!(rates(&device), [(id, 600)]);
        assert_eq!(devices.apply(at, &[change(1, IN, 300)]), []);
        assert_eq!(rates(&device), [(id, 300)]);
    }

    #[test]
    fn start_removes_circuits_that_carry_nothing_now() {
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

    #[test]
    fn increase_waits_for_the_guard_time_of_an_earlier_decrease_or_removal() {
        let guard = Duration::from_millis(200);
        let (mut devices, device) = with_guard(guard);
        let clock = Clock::start();
        let at = Instant::ZERO;
        let begun = [change(1, IN, 600), change(2, OUT, 200)];
        assert_eq!(devices.apply(at, &begun), []);
        for decrease in [change(1, IN, 300), change(1, IN, 0)] {
            let since = clock.now();
            assert_eq!(devices.apply(at, &[decrease]), []);
            let increase = [change(2, OUT, rates(&device).len() as u64 * 300)];
            assert_eq!(devices.apply(at, &increase), []);
            assert!(clock.now().since(since) >= guard);
            assert_eq!(devices.apply(at, &[change(2, OUT, 100)]), []);
            pause(guard);
        }
    }
}
