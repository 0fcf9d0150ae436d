//! Reasons for which a request, a hold or a commit is refused. They name no link inside a domain.

use core::fmt;

use crate::key::{DomainId, PortId};

/// Reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The capacity is not free.
    NoCapacity,
    /// The border point does not exist in the domain.
    UnknownPort(PortId),
    /// The next domain of the path is not a neighbor.
    UnknownNeighbor(DomainId),
    /// The path visits the given domain twice.
    Loop(DomainId),
    /// The message names another domain or sender.
    Misrouted,
    /// The clock of the sender differs by the given nanoseconds; positive if it is ahead.
    ClockOffset(i64),
    /// The hold ended before it was committed.
    Expired,
    /// The times of a hold are out of order: now, end of the hold, decision, start.
    Times,
    /// The vector ends beyond the horizon of the neighbor.
    Horizon,
    /// The rate is above the limit of the neighbor.
    RateLimit,
    /// The neighbor has too many reservations or queries, or has held too much without a commit.
    Quota,
    /// The neighbor may not use this domain for transit.
    NoTransit,
    /// The message is longer than its limits.
    TooLarge,
    /// The reservation is unknown.
    Unknown,
    /// The domain restarted before the decision.
    Restarted,
    /// Not all domains committed before the decision.
    Undecided,
    /// The other domain aborted or released the reservation.
    Aborted,
    /// The source domain released the reservation.
    Released,
    /// A device failed.
    DeviceFailed,
    /// No path exists with the given exclusions.
    NoPath,
    /// No answer arrived in time.
    NoAnswer,
    /// The transfer cannot end before its deadline.
    MissesDeadline,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::UnknownPort(port) => {
                return write!(
                    f,
                    "border point {} is unknown: compare the [[domain_link]] entries of the domains",
                    port.0
                );
            }
            Self::UnknownNeighbor(domain) => {
                return write!(
                    f,
                    "domain {} is not a neighbor: compare the [[domain_link]] entries of the domains",
                    domain.0
                );
            }
            Self::Loop(domain) => {
                return write!(
                    f,
                    "the path visits domain {} twice: compare the [[domain_link]] entries of the domains",
                    domain.0
                );
            }
            Self::ClockOffset(nanos) => return fmt_offset(f, *nanos),
            Self::NoCapacity => {
                "the capacity is not free: request a lower rate, a later end, or another path"
            }
            Self::Misrouted => {
                "the message names another domain: compare the numbers of the domains"
            }
            Self::Expired => "the hold expired before it was committed: request the path again",
            Self::Times => {
                "the hold must end after now and before the decision and the start: compare the timers of the domains"
            }
            Self::Horizon => {
                "the reservation ends beyond the horizon of this neighbor: request an earlier end"
            }
            Self::RateLimit => {
                "the rate exceeds the limits of this neighbor: request a lower rate, or a later path"
            }
            Self::Quota => {
                "the neighbor has too many reservations or queries, or held too much without a commit: cancel some, or \
                 request the path later"
            }
            Self::NoTransit => {
                "the neighbor may not cross this domain: exclude it, or ask its operator for transit"
            }
            Self::TooLarge => "the message has too many hops or ranges: request a constant rate",
            Self::Unknown => "the reservation is unknown: request the path again",
            Self::Restarted => "the domain restarted before the decision: request the path again",
            Self::Undecided => "not all domains committed in time: request the path again",
            Self::Aborted => "another domain gave the reservation up: request the path again",
            Self::Released => "the source domain released the reservation",
            Self::DeviceFailed => "a device of the path failed: the log of its domain names it",
            Self::NoPath => "no path exists: check the topology and the exclusions",
            Self::NoAnswer => {
                "no domain answered in time: `lighthaul domains` shows links that are down"
            }
            Self::MissesDeadline => {
                "the transfer cannot end before its deadline: request a later end or fewer bytes"
            }
        };
        write!(f, "{text}")
    }
}

impl core::error::Error for Refusal {}

fn fmt_offset(f: &mut fmt::Formatter<'_>, nanos: i64) -> fmt::Result {
    let millis = nanos.unsigned_abs() / 1_000_000;
    let side = if nanos < 0 { "behind" } else { "ahead" };
    write!(
        f,
        "the clock of the neighbor is {}.{:03} s {side}: synchronize both clocks",
        millis / 1000,
        millis % 1000
    )
}
