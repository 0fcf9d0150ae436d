//! Devices of a domain, and the circuits at them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_calendar::LinkId;
use lighthaul_circuit::driver::Driver;
use lighthaul_circuit::error::{self as circuit, Cause, Misuse};
use lighthaul_circuit::exec::Exec;
use lighthaul_circuit::exec::config::Config as ExecConfig;
use lighthaul_circuit::linux::Shaper;
use lighthaul_circuit::tl1::{SwitchConfig, Tl1};
use lighthaul_io::host::clock::Clock;
use lighthaul_stargate::{PortId, Segment};

use super::fault::ConfigFault;
use super::known_devices::KnownDevices;
use super::network::Network;
use super::tables::{CircuitTable, DeviceTable};
use crate::devices::{LateDriver, ParallelDevices, SegmentCircuit, SharedLink};
use crate::error::Error;

/// Devices by interface, and circuits by pair of ports.
#[derive(Clone, Debug, Default)]
pub struct DeviceConfig {
    /// Driver of each interface.
    pub drivers: BTreeMap<String, DriverConfig>,
    /// Circuit of each pair of ports.
    pub circuits: BTreeMap<Segment, SegmentCircuit>,
    /// Devices whose circuits are written off.
    pub given_up: BTreeSet<String>,
    /// Links that several circuits share.
    pub links: Vec<SharedLink>,
    /// Links of each route between the ports of a circuit.
    routes: BTreeMap<Segment, Vec<Vec<LinkId>>>,
}

/// Driver of one interface.
#[derive(Clone, Debug)]
pub enum DriverConfig {
    /// Interface of this host with its capacity, which Linux shapes.
    Linux(Rate),
    /// Program with the protocol of `lighthaul_circuit::exec`.
    Exec(ExecConfig),
    /// File with the settings of a switch that speaks TL1, which has the interface.
    Tl1(PathBuf),
}

impl DeviceConfig {
    pub(super) fn new(
        (devices, folder): (&[DeviceTable], &Path),
        circuits: &[CircuitTable],
        network: &Network,
    ) -> Result<Self, ConfigFault> {
        let mut config = Self::default();
        for table in devices {
            let interface = table.interface.clone();
            let driver = driver(table, folder)?;
            if config.drivers.insert(interface.clone(), driver).is_some() {
                return Err(ConfigFault::SameInterface(interface));
            }
        }
        for table in circuits {
            config.add(table, network)?;
        }
        let segments = config.circuits.keys();
        let routes = segments.map(|segment| (*segment, network.routes_of(*segment)));
        config.routes = routes.collect();
        config.links = config.shared_links(network);
        Ok(config)
    }

    /// Writes off devices, which must not be configured.
    pub(super) fn give_up(&mut self, interfaces: BTreeSet<String>) -> Result<(), ConfigFault> {
        let both = interfaces
            .iter()
            .find(|one| self.drivers.contains_key(*one));
        if let Some(interface) = both {
            return Err(ConfigFault::GivenUp(interface.clone()));
        }
        self.given_up = interfaces;
        Ok(())
    }

    /// Returns the number of a route between the ports of a circuit. Circuits without a device have none.
    pub(crate) fn route_of(&self, segment: Segment, links: &[LinkId]) -> u8 {
        let mut routes = (0..).zip(self.routes.get(&segment).into_iter().flatten());
        let found = routes.find(|(_, route)| *route == links);
        found.map_or(0, |(number, _)| number)
    }

    /// Returns the links that several circuits share.
    fn shared_links(&self, network: &Network) -> Vec<SharedLink> {
        let mut users: BTreeMap<LinkId, BTreeSet<(Segment, u8)>> = BTreeMap::new();
        for (segment, routes) in &self.routes {
            for (number, links) in (0..).zip(routes) {
                for link in links {
                    users.entry(*link).or_default().insert((*segment, number));
                }
            }
        }
        users.retain(|_, routes| {
            let segments: BTreeSet<Segment> = routes.iter().map(|(segment, _)| *segment).collect();
            segments.len() > 1
        });
        let links = network.topology.links();
        let shared = links.filter_map(|(id, link)| {
            Some(SharedLink {
                name: link.name.clone(),
                capacity: link.capacity,
                routes: users.remove(&id)?,
            })
        });
        shared.collect()
    }

    fn add(&mut self, table: &CircuitTable, network: &Network) -> Result<(), ConfigFault> {
        for port in [table.ingress, table.egress] {
            if !network.ports.contains_key(&PortId(port)) {
                return Err(ConfigFault::CircuitPort(port));
            }
        }
        let interface = table.interface.clone();
        if !self.drivers.contains_key(&interface) {
            return Err(ConfigFault::CircuitInterface(interface));
        }
        let mut others = self.circuits.values();
        if others.any(|other| other.interface == interface && other.flow.overlaps(&table.flow)) {
            return Err(ConfigFault::Overlap(interface));
        }
        let segment = Segment {
            ingress: PortId(table.ingress),
            egress: PortId(table.egress),
        };
        let flow = table.flow;
        let circuit = SegmentCircuit { interface, flow };
        if self.circuits.insert(segment, circuit).is_some() {
            return Err(ConfigFault::SameCircuit(table.ingress, table.egress));
        }
        Ok(())
    }

    /// Opens the drivers. Reservations of a pair of ports without a circuit fail when they start.
    pub fn open(&self) -> Result<ParallelDevices, Error> {
        self.open_known(&KnownDevices::default())
    }

    /// Does the same. A device with known capabilities that cannot be opened is opened later, unless its configuration is
    /// at fault.
    pub fn open_known(&self, known: &KnownDevices) -> Result<ParallelDevices, Error> {
        // a device that does not answer delays no other
        let opened: Vec<_> = thread::scope(|scope| {
            let mut all = Vec::new();
            for (interface, config) in &self.drivers {
                all.push(scope.spawn(move || open_one(interface, config)));
            }
            let ended = all.into_iter().map(thread::ScopedJoinHandle::join);
            ended
                .map(|one| one.unwrap_or(Err(circuit::Error::NoAnswer)))
                .collect()
        });
        let mut drivers = BTreeMap::new();
        for ((interface, config), opened) in self.drivers.iter().zip(opened) {
            let driver: Box<dyn Driver> = match opened {
                Ok(driver) => driver,
                Err(why) => {
                    let can = known
                        .of(interface)
                        .filter(|_| why.cause() != Cause::Request);
                    let Some(can) = can else {
                        return Err(refused(interface, config, &why));
                    };
                    let (name, config) = (interface.clone(), config.clone());
                    let open = Box::new(move || open_one(&name, &config));
                    Box::new(LateDriver::new((interface, can), open, &why))
                }
            };
            drivers.insert(interface.clone(), driver);
        }
        ParallelDevices::start(drivers, &self.circuits, &self.links)
    }
}

/// Opens the driver of an interface.
fn open_one(interface: &str, config: &DriverConfig) -> circuit::Result<Box<dyn Driver>> {
    Ok(match config {
        DriverConfig::Linux(capacity) => Box::new(Shaper::open(interface, *capacity)?),
        DriverConfig::Exec(config) => Box::new(Exec::open(Clock::start(), config.clone())?),
        DriverConfig::Tl1(file) => {
            let config = SwitchConfig::read(file)?;
            Box::new(Tl1::open(Clock::start(), &config, interface)?)
        }
    })
}

/// Returns the error of a device that cannot be opened.
fn refused(interface: &str, config: &DriverConfig, why: &circuit::Error) -> Error {
    let interface = interface.to_owned();
    match (config, why) {
        (DriverConfig::Tl1(file), circuit::Error::Misuse(Misuse::UnknownInterface { .. })) => {
            let file = file.clone();
            Error::NoInterface { interface, file }
        }
        _ => Error::Device {
            interface,
            why: why.to_string(),
        },
    }
}

fn driver(table: &DeviceTable, folder: &Path) -> Result<DriverConfig, ConfigFault> {
    match (table.capacity, &table.program, &table.switch) {
        (Some(capacity), None, None) => Ok(DriverConfig::Linux(capacity)),
        (None, Some(program), None) => Ok(DriverConfig::Exec(ExecConfig {
            program: PathBuf::from(program),
            arguments: table.arguments.clone(),
            limit: table.limit.map_or(LIMIT_DEFAULT, |limit| limit.0),
        })),
        (None, None, Some(switch)) => Ok(DriverConfig::Tl1(folder.join(switch))),
        _ => Err(ConfigFault::Device(table.interface.clone())),
    }
}

/// Default time limit of a program.
const LIMIT_DEFAULT: Duration = Duration::from_secs(10);
