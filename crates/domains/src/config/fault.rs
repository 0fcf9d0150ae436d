//! Faults of a configuration.

use lighthaul_calendar::topology::TopologyError;

/// Fault of a configuration, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigFault {
    /// The text is not TOML, has an unknown key, or has a value of the wrong form.
    #[error("{0}")]
    Toml(String),
    /// File that is too long.
    #[error("it is longer than {0} bytes; remove what it does not need")]
    Length(u64),
    /// Faulty nodes or links.
    #[error("{0}")]
    Network(#[from] TopologyError),
    /// Number that is used twice.
    #[error("{table} {number} is defined twice; give each one a number of its own")]
    Duplicate {
        /// Table.
        table: &'static str,
        /// Number.
        number: u32,
    },
    /// Domain that is its own neighbor.
    #[error("neighbor {0} is this domain; remove its [[neighbor]], or correct domain")]
    OwnNeighbor(u32),
    /// Key of two neighbors.
    #[error(
        "neighbors {0} and {1} have the same key; set each key to the one that its operator names"
    )]
    SharedKey(u32, u32),
    /// More neighbors than a service has threads for.
    #[error("it has {0} neighbors (maximum {1}); divide the domain")]
    Neighbors(usize, usize),
    /// Published link of this domain without a port.
    #[error(
        "domain link {0} ends in this domain, which has no such port; add a [[port]] with number = {0}"
    )]
    NoPort(u32),
    /// Published link of this domain to a domain that is no neighbor.
    #[error(
        "domain link {port} leads to domain {domain}, which is no neighbor; add a [[neighbor]] with domain = {domain}"
    )]
    NoNeighbor {
        /// Port.
        port: u32,
        /// Number of the domain.
        domain: u32,
    },
    /// Published link from a domain to itself.
    #[error("domain link {0} starts and ends in the same domain; correct from or to")]
    LinkLoop(u32),
    /// Timers that make no progress.
    #[error(
        "[timing] is out of range; query, hold, retry and refresh must not be zero, retry must not exceed retry_max, \
         hold and decide together must not exceed hold_max, and linger must be at least twice clock_tolerance"
    )]
    Timing,
    /// Name that an end point cannot have.
    #[error(
        "\"{0}\" cannot name an end point; begin with a letter, use letters, digits, - _ and ., and no action of `lighthaul path`"
    )]
    EndpointName(String),
    /// Name of two end points.
    #[error("end point {0} is defined twice; give each one a name of its own")]
    SameEndpoint(String),
    /// Device without a driver, or with several.
    #[error(
        "device {0} needs one of capacity (an interface that Linux shapes), switch (a switch that speaks TL1) and \
         program (a driver)"
    )]
    Device(String),
    /// Two devices at one interface.
    #[error("device {0} is defined twice; give each interface one device")]
    SameInterface(String),
    /// Device that is given up, and configured nevertheless.
    #[error("device {0} has a [[device]], and is in given_up; remove it from one of them")]
    GivenUp(String),
    /// Two circuits with the same ports.
    #[error("the circuit from port {0} to port {1} is defined twice; remove one of them")]
    SameCircuit(u32, u32),
    /// Circuit from or to a port that does not exist.
    #[error("a circuit uses port {0}, which is not defined; add a [[port]] with number = {0}")]
    CircuitPort(u32),
    /// Circuit at an interface without a device.
    #[error("a circuit uses interface {0}, which has no device; add a [[device]] with it")]
    CircuitInterface(String),
    /// More circuits at an interface than its device can have.
    #[error(
        "interface {interface} has {count} circuits, and its device can have {max}; remove some, or use another device"
    )]
    Circuits {
        /// Name of the interface.
        interface: String,
        /// Configured circuits.
        count: usize,
        /// Maximum number of circuits of the device.
        max: usize,
    },
    /// Interface whose ports have circuits at other interfaces, in both directions.
    #[error(
        "circuits at interface {0} share their ports with circuits at other interfaces; let all circuits that leave by a \
         port, or all that enter by it, have the same interface"
    )]
    MixedPorts(String),
    /// Circuits with packets in common at one interface.
    #[error("two circuits at interface {0} have packets in common; give them different flows")]
    Overlap(String),
    /// Limit of zero.
    #[error("{0} is zero; use at least 1")]
    Zero(&'static str),
    /// Limit that one hold can use up.
    #[error(
        "uncommitted_per_hour of neighbor {0} is shorter than the longest hold; use at least hold_max of [timing]"
    )]
    Uncommitted(u32),
    /// Horizon beyond that of a calendar.
    #[error("the horizon of neighbor {0} is out of range; use at most ten years")]
    Horizon(u32),
}
