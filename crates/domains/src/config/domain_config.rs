//! Checked configuration of a domain.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::config_fault::fault_in;
use lighthaul_calendar::{Calendar, Owner};
use lighthaul_circuit::driver::Capabilities;
use lighthaul_domain_links::Neighbor;
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_stargate::{
    CalendarResources, Config, DomainId, DomainLink, Policy, PortId, Timing, Topology,
};

use super::device_config::DeviceConfig;
use super::device_limits;
use super::fault::ConfigFault;
use super::network::Network;
use super::tables::{
    ConfigTable, DomainLinkTable, EndpointTable, KeyTable, NeighborTable, TimingTable,
};
use crate::control::endpoint::{Endpoint, is_name};
use crate::error::Error;

/// Configuration of the service of one domain.
#[derive(Clone, Debug)]
pub struct DomainConfig {
    /// Name, for people.
    pub name: String,
    /// Address for neighbors.
    pub listen: SocketAddr,
    /// File of the private key.
    pub key: PathBuf,
    /// `SQLite` file of the reservations.
    pub store: PathBuf,
    /// Own number, policies of the neighbors, and timers.
    pub machine: Config,
    /// Neighbors.
    pub neighbors: BTreeMap<DomainId, Neighbor>,
    /// Published links between domains.
    pub topology: Topology,
    /// End points by their names.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// Network inside this domain.
    pub network: Network,
    /// Devices and their circuits.
    pub devices: DeviceConfig,
    /// Maximum number of requests of local callers that wait for their outcome.
    pub requests_max: usize,
    /// True to start although the clock is far beyond the last run, and paths are forgotten.
    pub accepts_clock: bool,
}

impl DomainConfig {
    /// Reads a configuration file. Relative paths in it start at its directory.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = read_text(path)?;
        Self::parse(&text, folder_of(path)).map_err(|why| Error::Config {
            path: path.to_owned(),
            why,
        })
    }

    /// Parses and checks a configuration. Relative paths in it start at `folder`.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, ConfigFault> {
        if text.len() as u64 > BYTES_MAX {
            return Err(ConfigFault::Length(BYTES_MAX));
        }
        let table: ConfigTable = toml::from_str(text)
            .map_err(|why| ConfigFault::Toml(fault_in(text, why.span(), why.message())))?;
        let me = DomainId(table.domain);
        let (neighbors, policies) = neighbors(me, &table.neighbor)?;
        let timing = timing(&table.timing)?;
        let is_short = |policy: &Policy| policy.uncommitted_per_hour < timing.hold_max;
        if let Some((id, _)) = policies.iter().find(|(_, policy)| is_short(policy)) {
            return Err(ConfigFault::Uncommitted(id.0));
        }
        let network = Network::new(&table.port, &table.link)?;
        let topology = published(me, &table.domain_link, &network, &neighbors)?;
        let mut devices = DeviceConfig::new((&table.device, folder), &table.circuit, &network)?;
        devices.give_up(table.given_up)?;
        let machine = Config {
            me,
            neighbors: policies,
            timing,
            paths_max: positive("paths_max", table.paths_max, PATHS_DEFAULT)?,
            rounds_max: table.rounds_max.unwrap_or(ROUNDS_DEFAULT),
        };
        Ok(Self {
            name: table.name,
            listen: table.listen,
            key: folder.join(table.key),
            store: folder.join(table.store),
            machine,
            neighbors,
            topology,
            endpoints: endpoints(&table.endpoint)?,
            network,
            devices,
            requests_max: positive("requests_max", table.requests_max, REQUESTS_DEFAULT)?,
            accepts_clock: false,
        })
    }

    /// Limits the network to the capacity of the devices at its interfaces, so that no more is offered.
    pub fn add_limits(
        &mut self,
        capabilities: &BTreeMap<String, Capabilities>,
    ) -> Result<(), ConfigFault> {
        device_limits::add(&mut self.network, &self.devices.circuits, capabilities)
    }

    /// Returns the number of this domain.
    pub const fn me(&self) -> DomainId {
        self.machine.me
    }

    /// Returns the calendar of this domain without bookings.
    pub fn resources(&self) -> CalendarResources {
        let horizons = self.machine.neighbors.values().map(|policy| policy.horizon);
        let usual = lighthaul_calendar::Config::default();
        let config = lighthaul_calendar::Config {
            horizon: horizons.fold(usual.horizon, Duration::max),
            ..usual
        };
        let calendar = Calendar::new(self.network.topology.clone(), config);
        let calendar = calendar.expect("horizons were checked with the neighbors");
        CalendarResources::new(calendar, self.network.ports.clone(), Owner(0), 1)
    }
}

/// Returns the key of a domain, which is generated if missing. Of the configuration only `key` is needed.
pub fn read_key(path: &Path) -> Result<Fingerprint, Error> {
    let fault = |why| Error::Config {
        path: path.to_owned(),
        why,
    };
    let text = read_text(path)?;
    let table: KeyTable = toml::from_str(&text).map_err(|why| {
        fault(ConfigFault::Toml(fault_in(
            &text,
            why.span(),
            why.message(),
        )))
    })?;
    let file = folder_of(path).join(table.key);
    let identity = Identity::load_or_generate(&file);
    let identity = identity.map_err(|why| Error::Key {
        path: file,
        why: why.to_string(),
    })?;
    Ok(Fingerprint::of_public(&identity.public()))
}

fn read_text(path: &Path) -> Result<String, Error> {
    #[expect(clippy::disallowed_methods, reason = "a configuration file")]
    let file = File::open(path);
    let mut text = String::new();
    let read = file.and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|why| Error::ReadConfig {
        path: path.to_owned(),
        why: why.to_string(),
    })?;
    Ok(text)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| Path::new(""))
}

fn positive(name: &'static str, value: Option<usize>, usual: usize) -> Result<usize, ConfigFault> {
    let value = value.unwrap_or(usual);
    (value > 0).then_some(value).ok_or(ConfigFault::Zero(name))
}

fn timing(table: &TimingTable) -> Result<Timing, ConfigFault> {
    let usual = Timing::default();
    let timing = Timing {
        query: table.query.map_or(usual.query, |time| time.0),
        hold: table.hold.map_or(usual.hold, |time| time.0),
        decide: table.decide.map_or(usual.decide, |time| time.0),
        hold_max: table.hold_max.map_or(usual.hold_max, |time| time.0),
        retry: table.retry.map_or(usual.retry, |time| time.0),
        retry_max: table.retry_max.map_or(usual.retry_max, |time| time.0),
        refresh: table.refresh.map_or(usual.refresh, |time| time.0),
        linger: table.linger.map_or(usual.linger, |time| time.0),
        clock_tolerance: table
            .clock_tolerance
            .map_or(usual.clock_tolerance, |time| time.0),
    };
    timing
        .is_valid()
        .then_some(timing)
        .ok_or(ConfigFault::Timing)
}

type Neighbors = (BTreeMap<DomainId, Neighbor>, BTreeMap<DomainId, Policy>);

fn neighbors(me: DomainId, tables: &[NeighborTable]) -> Result<Neighbors, ConfigFault> {
    if tables.len() > NEIGHBORS_MAX {
        return Err(ConfigFault::Neighbors(tables.len(), NEIGHBORS_MAX));
    }
    let mut keys = BTreeMap::new();
    let (mut neighbors, mut policies) = (BTreeMap::new(), BTreeMap::new());
    for table in tables {
        let (id, number) = (DomainId(table.domain), table.domain);
        if id == me {
            return Err(ConfigFault::OwnNeighbor(number));
        }
        if let Some(other) = keys.insert(table.key, number).filter(|one| *one != number) {
            return Err(ConfigFault::SharedKey(other, number));
        }
        let usual = Policy::default();
        let policy = Policy {
            rate_max: table.rate_max.unwrap_or(usual.rate_max),
            rate_total_max: table.rate_total_max.unwrap_or(usual.rate_total_max),
            reservations_max: table.reservations_max.unwrap_or(usual.reservations_max),
            uncommitted_per_hour: table
                .uncommitted_per_hour
                .map_or(usual.uncommitted_per_hour, |time| time.0),
            horizon: table.horizon.map_or(usual.horizon, |time| time.0),
            transit: table.transit.unwrap_or(usual.transit),
        };
        if policy.horizon > HORIZON_MAX {
            return Err(ConfigFault::Horizon(number));
        }
        policies.insert(id, policy);
        let end = table.expires.map(Duration::from_secs);
        let neighbor = Neighbor {
            name: table.name.clone(),
            address: table.address.clone(),
            key: table.key,
            expires: end.map_or(Instant::NEVER, |end| Instant::ZERO + end),
        };
        if neighbors.insert(id, neighbor).is_some() {
            let table = "neighbor";
            return Err(ConfigFault::Duplicate { table, number });
        }
    }
    Ok((neighbors, policies))
}

fn endpoints(tables: &[EndpointTable]) -> Result<BTreeMap<String, Endpoint>, ConfigFault> {
    let mut endpoints = BTreeMap::new();
    for table in tables {
        let name = table.name.clone();
        if !is_name(&name) {
            return Err(ConfigFault::EndpointName(name));
        }
        let at = Endpoint {
            domain: DomainId(table.domain),
            port: PortId(table.port),
        };
        if endpoints.insert(name.clone(), at).is_some() {
            return Err(ConfigFault::SameEndpoint(name));
        }
    }
    Ok(endpoints)
}

/// Returns the published links; a link of this domain needs a port and a neighbor.
fn published(
    me: DomainId,
    tables: &[DomainLinkTable],
    network: &Network,
    neighbors: &BTreeMap<DomainId, Neighbor>,
) -> Result<Topology, ConfigFault> {
    let mut links = Vec::new();
    let mut seen = BTreeSet::new();
    for table in tables {
        let (from, to, number) = (DomainId(table.from), DomainId(table.to), table.port);
        let port = PortId(number);
        if from == to {
            return Err(ConfigFault::LinkLoop(number));
        }
        if from == me || to == me {
            let other = if from == me { to } else { from };
            if !network.ports.contains_key(&port) {
                return Err(ConfigFault::NoPort(number));
            }
            if !neighbors.contains_key(&other) {
                let (port, domain) = (number, other.0);
                return Err(ConfigFault::NoNeighbor { port, domain });
            }
        }
        let ends = [(from, to), (to, from)];
        for (from, to) in ends.into_iter().take(if table.both { 2 } else { 1 }) {
            if !seen.insert((port, from, to)) {
                let table = "domain link";
                return Err(ConfigFault::Duplicate { table, number });
            }
            links.push(DomainLink {
                port,
                from,
                to,
                cost: table.cost,
            });
        }
    }
    Ok(Topology::new(&links))
}

/// Maximum length of a file in bytes.
const BYTES_MAX: u64 = 16 << 20;
/// Maximum number of neighbors, each of which has a thread and a connection.
pub const NEIGHBORS_MAX: usize = 256;
/// Longest horizon of a calendar.
const HORIZON_MAX: Duration = Duration::from_hours(24 * 3660);
/// Default number of candidate paths.
const PATHS_DEFAULT: usize = 4;
/// Default number of rounds of queries.
const ROUNDS_DEFAULT: u8 = 3;
/// Default maximum number of requests that wait for their outcome.
const REQUESTS_DEFAULT: usize = 1024;
