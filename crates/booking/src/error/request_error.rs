//! Requests that can never be granted.

use lighthaul_booking_client::json::Timestamp;

/// Name of a link that is not in the topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the topology has no link {0}: name one of its links (GET /v1/links)")]
pub struct UnknownLink(pub String);

/// Fault of a request that no scheduler state would grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Neither or both of size and holding time are given.
    #[error("give size (--size) or hold (--hold), not both")]
    Amount,
    /// The new amount is of another type than the reservation, whose type is given here.
    #[error("the reservation was made with a {0}: give its new {0}, and nothing else")]
    OtherAmount(&'static str),
    /// The margin exceeds the maximum.
    #[error("the margin of {percent} % is too high: give at most {most}")]
    Margin {
        /// Margin of the request.
        percent: u8,
        /// Maximum margin in percent.
        most: u8,
    },
    /// The rate of this name is zero.
    #[error("{0} is zero: omit it, or give a rate in bits a second")]
    ZeroRate(&'static str),
    /// Neither or both of hosts and path are given.
    #[error("give either from and to, or path with the names of links")]
    Route,
    /// The path has no links.
    #[error("the path has no links: name its links in order, or give from and to instead")]
    EmptyPath,
    /// The links are not consecutive or have no common channel.
    #[error(
        "the links {} are not a path: each must start where the previous one ends, and their channels need a common multiple",
        .0.join(", ")
    )]
    NotAPath(Vec<String>),
    /// The topology has no link of this name.
    #[error(transparent)]
    UnknownLink(#[from] UnknownLink),
    /// The topology has no node of this name.
    #[error("the topology has no host or switch {0}: name one of its nodes (GET /v1/topology)")]
    UnknownNode(String),
    /// The scheduler has no devices.
    #[error("this scheduler provisions no circuits; omit flow (--interface)")]
    NoCircuits,
    /// The interface has no device.
    #[error("no circuits are provisioned at {interface}, only at: {}", .known.join(", "))]
    NoDevice {
        /// Interface of the request.
        interface: String,
        /// Interfaces with a device.
        known: Vec<String>,
    },
    /// The path does not cross the given interface, or path and interface have no common rate.
    #[error(
        "no link of the path starts or ends at interface {0} with a rate that both support; name a path that crosses it, or another interface"
    )]
    InterfaceOffPath(String),
    /// The idempotency key is empty or longer than the given maximum.
    #[error("an idempotency key has 1 to {0} bytes: give a shorter one, such as a UUID")]
    KeyLength(usize),
    /// The outage is in the past.
    #[error("the outage ends at {till}, which has passed: give an end after {}", .now.second_after())]
    OutagePassed {
        /// End of the outage.
        till: Timestamp,
        /// Current time.
        now: Timestamp,
    },
    /// The outage ends before it starts.
    #[error("the outage ends at {till}, before its start at {from}: give an end after the start")]
    OutageOrder {
        /// Start of the outage.
        from: Timestamp,
        /// End of the outage.
        till: Timestamp,
    },
    /// The range of time ends before it starts.
    #[error("the range of time ends before it starts: set `till` to a time later than `from`")]
    RangeOrder,
    /// The range of time starts in the past.
    #[error("the calendar has no past times: ask for times from {0} on")]
    RangePassed(Timestamp),
    /// The range of time has more steps than the given maximum.
    #[error("the range of time has more than {0} steps: ask for a shorter one")]
    RangeSteps(usize),
}
