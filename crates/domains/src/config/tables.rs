//! Tables of a configuration file, with values that have units.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use lighthaul_base::{Rate, civil, duration};
use lighthaul_capture::target::Target;
use lighthaul_circuit::flow::Flow;
use lighthaul_io::crypto::identity::Fingerprint;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// File.
// fields: keys of the file
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigTable {
    pub(super) domain: u32,
    pub(super) name: String,
    pub(super) listen: SocketAddr,
    pub(super) key: PathBuf,
    pub(super) store: PathBuf,
    pub(super) paths_max: Option<usize>,
    pub(super) rounds_max: Option<u8>,
    pub(super) requests_max: Option<usize>,
    #[serde(default)]
    pub(super) given_up: BTreeSet<String>,
    #[serde(default)]
    pub(super) timing: TimingTable,
    #[serde(default)]
    pub(super) port: Vec<PortTable>,
    #[serde(default)]
    pub(super) link: Vec<LinkTable>,
    #[serde(default)]
    pub(super) neighbor: Vec<NeighborTable>,
    #[serde(default)]
    pub(super) domain_link: Vec<DomainLinkTable>,
    #[serde(default)]
    pub(super) endpoint: Vec<EndpointTable>,
    #[serde(default)]
    pub(super) device: Vec<DeviceTable>,
    #[serde(default)]
    pub(super) circuit: Vec<CircuitTable>,
}

/// Configuration with the key alone, before the keys of the neighbors are known.
#[derive(Debug, Deserialize)]
pub(super) struct KeyTable {
    pub(super) key: PathBuf,
}

/// Timers; an absent timer has its default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TimingTable {
    pub(super) query: Option<Time>,
    pub(super) hold: Option<Time>,
    pub(super) decide: Option<Time>,
    pub(super) hold_max: Option<Time>,
    pub(super) retry: Option<Time>,
    pub(super) retry_max: Option<Time>,
    pub(super) refresh: Option<Time>,
    pub(super) linger: Option<Time>,
    pub(super) clock_tolerance: Option<Time>,
}

/// Border point or access port.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PortTable {
    pub(super) number: u32,
    pub(super) node: String,
    #[serde(deserialize_with = "rate")]
    pub(super) capacity: Rate,
    #[serde(default, deserialize_with = "optional_rate")]
    pub(super) channel: Option<Rate>,
}

/// Link inside the domain.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkTable {
    pub(super) name: Option<String>,
    pub(super) from: String,
    pub(super) to: String,
    #[serde(deserialize_with = "rate")]
    pub(super) capacity: Rate,
    #[serde(default, deserialize_with = "optional_rate")]
    pub(super) channel: Option<Rate>,
    #[serde(default = "one")]
    pub(super) cost: u32,
    #[serde(default)]
    pub(super) both: bool,
}

/// Neighbor and its limits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NeighborTable {
    pub(super) domain: u32,
    pub(super) name: String,
    #[serde(default, deserialize_with = "address")]
    pub(super) address: Option<Target>,
    #[serde(deserialize_with = "fingerprint")]
    pub(super) key: Fingerprint,
    #[serde(default, deserialize_with = "seconds")]
    pub(super) expires: Option<u64>,
    #[serde(default, deserialize_with = "optional_rate")]
    pub(super) rate_max: Option<Rate>,
    #[serde(default, deserialize_with = "optional_rate")]
    pub(super) rate_total_max: Option<Rate>,
    pub(super) reservations_max: Option<usize>,
    pub(super) uncommitted_per_hour: Option<Time>,
    pub(super) horizon: Option<Time>,
    pub(super) transit: Option<bool>,
}

/// Published link between two domains.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DomainLinkTable {
    pub(super) port: u32,
    pub(super) from: u32,
    pub(super) to: u32,
    #[serde(default = "one")]
    pub(super) cost: u32,
    #[serde(default)]
    pub(super) both: bool,
}

/// Name of an end point.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndpointTable {
    pub(super) name: String,
    pub(super) domain: u32,
    pub(super) port: u32,
}

/// Device of an interface: a program, a switch that speaks TL1, or the shaper of Linux.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceTable {
    pub(super) interface: String,
    #[serde(default, deserialize_with = "optional_rate")]
    pub(super) capacity: Option<Rate>,
    pub(super) program: Option<PathBuf>,
    pub(super) switch: Option<PathBuf>,
    #[serde(default)]
    pub(super) arguments: Vec<String>,
    pub(super) limit: Option<Time>,
}

/// Circuit of a pair of ports.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CircuitTable {
    pub(super) ingress: u32,
    pub(super) egress: u32,
    pub(super) interface: String,
    pub(super) flow: Flow,
}

/// Duration with its unit, such as `5s`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) Duration);

impl<'a> Deserialize<'a> for Time {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        duration::parse(&text).map(Self).map_err(D::Error::custom)
    }
}

fn rate<'a, D: Deserializer<'a>>(from: D) -> Result<Rate, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

fn optional_rate<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Rate>, D::Error> {
    rate(from).map(Some)
}

fn address<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Target>, D::Error> {
    let text = String::deserialize(from)?;
    let target = text.parse().map(Some);
    target.map_err(|_| D::Error::custom(format!("\"{text}\" is no address: use HOST:PORT")))
}

fn fingerprint<'a, D: Deserializer<'a>>(from: D) -> Result<Fingerprint, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

/// Returns the seconds since 1970 of a time with date and UTC offset.
fn seconds<'a, D: Deserializer<'a>>(from: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(from)?;
    let seconds = civil::unix_seconds(&text).map(Some);
    seconds.ok_or_else(|| {
        D::Error::custom(format!(
            "\"{text}\" is no time: use a form such as 2031-05-01T06:00:00Z"
        ))
    })
}

const fn one() -> u32 {
    1
}
