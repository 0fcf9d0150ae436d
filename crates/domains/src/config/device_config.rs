//! Devices of a domain, and the circuits at them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_circuit::driver::Driver;
use lighthaul_circuit::exec::Exec;
use lighthaul_circuit::exec::config::Config as ExecConfig;
use lighthaul_circuit::linux::Shaper;
use lighthaul_io::host::clock::Clock;
use lighthaul_stargate::{PortId, Segment};

use super::fault::ConfigFault;
use super::network::Network;
use super::tables::{CircuitTable, DeviceTable};
use crate::devices::{DrivenDevices, SegmentCircuit};
use crate::error::Error;

/// Devices by their interfaces, and circuits by their ports.
#[derive(Clone, Debug, Default)]
pub struct DeviceConfig {
    /// Driver of each interface.
    pub drivers: BTreeMap<String, DriverConfig>,
    /// Circuit of each pair of ports.
    pub circuits: BTreeMap<Segment, SegmentCircuit>,
}

/// Driver of one interface.
#[derive(Clone, Debug)]
pub enum DriverConfig {
    /// Interface of this host with its capacity, which Linux shapes.
    Linux(Rate),
    /// Program with the protocol of `lighthaul_circuit::exec`.
    Exec(ExecConfig),
}

impl DeviceConfig {
    pub(super) fn new(
        devices: &[DeviceTable],
        circuits: &[CircuitTable],
        network: &Network,
    ) -> Result<Self, ConfigFault> {
        let mut config = Self::default();
        for table in devices {
            let interface = table.interface.clone();
            let driver = driver(table)?;
            if config.drivers.insert(interface.clone(), driver).is_some() {
                return Err(ConfigFault::SameInterface(interface));
            }
        }
        for table in circuits {
            config.add(table, network)?;
        }
        Ok(config)
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
    pub fn open(&self) -> Result<DrivenDevices, Error> {
        let drivers = self.drivers.iter().map(|(interface, config)| {
            let opened = match config {
                DriverConfig::Linux(capacity) => {
                    Shaper::open(interface, *capacity).map(|one| Box::new(one) as Box<dyn Driver>)
                }
                DriverConfig::Exec(config) => Exec::open(Clock::start(), config.clone())
                    .map(|one| Box::new(one) as Box<dyn Driver>),
            };
            let opened = opened.map_err(|why| Error::Device {
                interface: interface.clone(),
                why: why.to_string(),
            })?;
            Ok((interface.clone(), opened))
        });
        let drivers = drivers.collect::<Result<_, Error>>()?;
        Ok(DrivenDevices::new(drivers, self.circuits.clone()))
    }
}

fn driver(table: &DeviceTable) -> Result<DriverConfig, ConfigFault> {
    match (table.capacity, &table.program) {
        (Some(capacity), None) => Ok(DriverConfig::Linux(capacity)),
        (None, Some(program)) => Ok(DriverConfig::Exec(ExecConfig {
            program: PathBuf::from(program),
            arguments: table.arguments.clone(),
            limit: table.limit.map_or(LIMIT_DEFAULT, |limit| limit.0),
        })),
        (None, None) | (Some(_), Some(_)) => Err(ConfigFault::Device(table.interface.clone())),
    }
}

/// Default time limit of a program.
const LIMIT_DEFAULT: Duration = Duration::from_secs(10);
