//! Reservations, changes and interfaces for the tests of devices.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_circuit::driver::{Capabilities, CountedBytes, Driver};
use lighthaul_circuit::sim_device::{FaultModel, SimDevice};
use lighthaul_io::host::clock::Clock;
use lighthaul_stargate::{CorrelationId, DomainId, Key, PortId, RateChange, Segment};

pub(in crate::devices) use lighthaul_testkit::logged;

use crate::devices::driven::DrivenDevices;
use crate::devices::link_book::LinkBook;
use crate::devices::segment_circuit::{SegmentCircuit, id_of};
use crate::devices::{DeviceFault, SharedLink};

pub(crate) const fn key(id: u128) -> Key {
    Key {
        source: DomainId(1),
        id: CorrelationId(id),
        attempt: 0,
        leg: 0,
    }
}

pub(in crate::devices) const fn segment(ingress: u32, egress: u32) -> Segment {
    Segment {
        ingress: PortId(ingress),
        egress: PortId(egress),
    }
}

/// Returns the change of a reservation to a rate, or to no rate.
pub(in crate::devices) fn change(id: u128, segment: Segment, mbps: u64) -> RateChange {
    RateChange {
        circuit: (key(id), 0),
        segment,
        route: 0,
        rate: Rate::from_bps(mbps * 1_000_000),
        left: Duration::from_hours(1),
    }
}

/// Returns a link of 100 Mb/s.
pub(in crate::devices) fn link(name: &str, routes: &[(Segment, u8)]) -> SharedLink {
    SharedLink {
        name: name.to_owned(),
        capacity: Rate::from_mbps(100),
        routes: routes.iter().copied().collect(),
    }
}

/// A device of 1 Gb/s without guard time.
pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    rate_min: Rate::from_mbps(1),
    rate_max: Rate::from_mbps(1000),
    granularity: Rate::from_mbps(1),
    reconfiguration: Duration::ZERO,
    settling: Duration::ZERO,
    entries_max: 8,
    counted: CountedBytes::IP,
    timer_max: None,
};

/// Device without faults.
pub(in crate::devices) const CALM: FaultModel = FaultModel {
    latency_max: Duration::ZERO,
    fail_ppb: 0,
};

/// Returns a device of 1 Gb/s with this guard time.
pub(in crate::devices) fn sim_device(guard: Duration) -> SimDevice {
    let capabilities = Capabilities {
        reconfiguration: guard,
        ..CAPABILITIES
    };
    SimDevice::new(capabilities, CALM, 1)
}

/// Interface of 1 Gb/s with circuits, whose device can be seen.
pub(in crate::devices) struct Interface {
    pub(in crate::devices) device: SimDevice,
    pub(in crate::devices) devices: DrivenDevices,
}

impl Interface {
    pub(in crate::devices) fn new(links: &LinkBook, segments: &[Segment], guard: Duration) -> Self {
        let device = sim_device(guard);
        let driver: Box<dyn Driver> = Box::new(device.clone());
        let name = format!("eth{}", segments[0].ingress.0);
        let circuit = |one: &Segment| {
            let about = SegmentCircuit {
                interface: name.clone(),
                flow: format!("udp {}", one.ingress.0).parse().unwrap(),
            };
            (*one, about)
        };
        let circuits: BTreeMap<Segment, SegmentCircuit> = segments.iter().map(circuit).collect();
        let devices = DrivenDevices::new([(name, driver)].into(), circuits);
        let devices = devices.with_links(links.clone(), Clock::start());
        Self { device, devices }
    }

    /// Starts with these reservations, and with what the device has.
    pub(in crate::devices) fn reset(
        &mut self,
        millis: u64,
        rates: &[RateChange],
    ) -> Vec<DeviceFault> {
        let now = Instant::ZERO + Duration::from_millis(millis);
        self.devices.reset_at(&|| now, rates)
    }

    pub(in crate::devices) fn apply(
        &mut self,
        millis: u64,
        changes: &[RateChange],
    ) -> Vec<DeviceFault> {
        let now = Instant::ZERO + Duration::from_millis(millis);
        self.devices.apply_at(&|| now, changes)
    }

    /// Returns the rate of a circuit at the device in Mb/s.
    pub(in crate::devices) fn mbps(&self, segment: Segment) -> u64 {
        let circuits = self.device.circuits();
        let rate = circuits.get(&id_of(segment)).and_then(|one| one.rate);
        rate.map_or(0, |rate| rate.as_bps() / MBPS)
    }
}

/// Returns the rates of the paths in Mb/s.
pub(in crate::devices) fn carried(interface: &Interface) -> Vec<(u128, Option<u64>)> {
    let carried = interface.devices.carried_now();
    let paths = carried.into_iter();
    let paths = paths.map(|((key, _), bps)| (key.id.0, bps.map(|bps| bps / MBPS)));
    paths.collect()
}

const MBPS: u64 = 1_000_000;
