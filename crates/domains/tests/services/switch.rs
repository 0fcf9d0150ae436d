//! Devices of a domain with a switch that speaks TL1, which loses its cross-connects.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_circuit::driver::Driver;
use lighthaul_circuit::tl1::{SwitchConfig, Tl1};
use lighthaul_domains::devices::SegmentCircuit;
use lighthaul_domains::{DeviceFault, Devices, ParallelDevices};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_stargate::{CorrelationId, DomainId, Key, PortId, RateChange, Segment};
use lighthaul_testkit::allowance;

use crate::emulator::{Emulator, Patch, Vendor};
use crate::replies::Fault;
use crate::site::Folder;

/// Switch with two channels of 10 Gb/s, and the devices of its domain.
struct Site {
    switch: Emulator,
    devices: ParallelDevices,
    _folder: Folder,
}

const SEGMENT: Segment = Segment {
    ingress: PortId(1),
    egress: PortId(2),
};

impl Site {
    /// Starts with a path that has both channels.
    fn start(name: &str) -> Self {
        let folder = Folder::new(name);
        let switch = Emulator::start(Vendor::Calient);
        let login = folder.0.join("login");
        fs::write(&login, "ada\nsecret\n").unwrap();
        let text = format!(
            "address = \"{}\"\ndialect = \"calient\"\ndirection = \"two-way\"\nlogin = \"{}\"\nrecords = \"{}\"\n\
             channel_rate = \"10Gb/s\"\nreconfiguration = \"10ms\"\ntimeout = \"20s\"\nlist_timeout = \"20s\"\n\
             [interfaces]\nwan = [[\"1.1.1\", \"2.1.1\"], [\"1.1.2\", \"2.1.2\"]]\n",
            switch.address(),
            login.display(),
            folder.0.display(),
        );
        let settings = folder.0.join("switch.toml");
        fs::write(&settings, text).unwrap();
        let config = SwitchConfig::read(&settings).unwrap();
        let drivers = Tl1::open_all(Clock::start(), &config).unwrap();
        let drivers = drivers.into_iter().map(|(interface, driver)| {
            let driver: Box<dyn Driver> = Box::new(driver);
            (interface, driver)
        });
        let circuit = SegmentCircuit {
            interface: "wan".to_owned(),
            flow: "all".parse().unwrap(),
        };
        let circuits = BTreeMap::from([(SEGMENT, circuit)]);
        let mut devices = ParallelDevices::start(drivers.collect(), &circuits, &[]).unwrap();
        assert_eq!(devices.reset(Instant::ZERO, &[path()]), []);
        let mut site = Self {
            switch,
            devices,
            _folder: folder,
        };
        site.wait_for_light();
        site
    }

    /// Waits until the switch has both cross-connects of the path.
    fn wait_for_light(&mut self) {
        let clock = Clock::start();
        while self.switch.ours() != both() {
            assert_eq!(self.devices.apply(Instant::ZERO, &[]), []);
            let waited = clock.now().since(Instant::ZERO);
            assert!(waited < allowance(60), "{:?}", self.switch.patches());
            pause(Duration::from_millis(20));
        }
    }

    /// Inspects the switch until there is a fault, which takes two minutes: a switch that restarts needs time.
    fn wait_for_fault(&mut self) -> Vec<DeviceFault> {
        let clock = Clock::start();
        loop {
            self.devices.inspect();
            let faults = self.devices.apply(Instant::ZERO, &[]);
            if !faults.is_empty() {
                return faults;
            }
            let waited = clock.now().since(Instant::ZERO);
            assert!(waited < allowance(300), "there is no fault");
            pause(Duration::from_secs(1));
        }
    }
}

/// Returns a path of 20 Gb/s for an hour.
fn path() -> RateChange {
    let key = Key {
        source: DomainId(1),
        id: CorrelationId(7),
        attempt: 0,
        leg: 0,
    };
    RateChange {
        circuit: (key, 0),
        segment: SEGMENT,
        route: 0,
        rate: Some(Rate::from_mbps(20_000)),
        left: Duration::from_hours(1),
    }
}

fn patch(nth: u32) -> Patch {
    (format!("1.1.{nth}"), format!("2.1.{nth}"), true)
}

fn both() -> BTreeSet<Patch> {
    [patch(1), patch(2)].into()
}

#[test]
fn cross_connect_that_another_client_deletes_is_made_again() {
    let mut site = Site::start("switch-cut");
    site.switch.cut(&patch(2));
    site.devices.inspect();
    site.wait_for_light();
}

#[test]
fn switch_without_cross_connects_after_its_restart_gets_them_back() {
    let mut site = Site::start("switch-restart");
    site.switch.set_patches(BTreeSet::new());
    // the connection ends, and the switch takes no other one for a while
    site.switch.set_down(true);
    site.switch.misbehave("RTRV", Fault::Hangup(false));
    site.devices.inspect();
    let clock = Clock::start();
    while site.switch.has_faults() {
        assert!(clock.now().since(Instant::ZERO) < allowance(60));
        pause(Duration::from_millis(20));
    }
    site.switch.set_down(false);
    // an inspection may have ended before the switch was up
    let clock = Clock::start();
    while site.switch.ours() != both() {
        site.devices.inspect();
        assert_eq!(site.devices.apply(Instant::ZERO, &[]), []);
        assert!(clock.now().since(Instant::ZERO) < allowance(60));
        pause(Duration::from_millis(20));
    }
}

#[test]
fn path_whose_ports_another_client_has_taken_is_a_fault() {
    let mut site = Site::start("switch-taken");
    site.switch.cut(&patch(1));
    let other = ("1.1.1".to_owned(), "2.1.9".to_owned(), true);
    assert!(site.switch.make_foreign(&other));
    let faults = site.wait_for_fault();
    assert_eq!(faults[0].circuit, path().circuit);
    assert!(faults[0].why.contains("2.1.9"), "{faults:?}");
    assert_eq!(site.switch.foreign(), [other].into());
}
