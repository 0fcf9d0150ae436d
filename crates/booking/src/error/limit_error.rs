//! Limits of owners, and conflicts between circuits.
//!
//! [`QuotaError`] is for amounts, [`PolicyError`] for the rules of one owner, and [`OverlapError`]
//! for circuits at one interface. Each message names the limit and the remedy. Times are printed in
//! whole seconds. A time that a client may repeat is rounded to the permitted side. The checks are
//! in `books`, not here.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_base::prefix::Prefix;
use lighthaul_booking_client::json::Timestamp;
use lighthaul_circuit::flow::Flow;

use super::listing::listing;

/// Request above the quota of an owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuotaError {
    /// Number of reservations.
    #[error("{owner} has {most} reservations, the maximum: release or cancel one first")]
    Reservations {
        /// Name of the owner.
        owner: String,
        /// Maximum number of reservations.
        most: usize,
    },
    /// Time without a commit.
    #[error(
        "{owner} has held link {link} for {} s of this hour without a commit, the maximum: commit with the request, or \
         reserve again after {}",
        .most.as_secs(),
        .till.second_after()
    )]
    Uncommitted {
        /// Name of the owner.
        owner: String,
        /// Name of the link.
        link: String,
        /// Maximum time in each hour.
        most: Duration,
        /// End of the hour.
        till: Timestamp,
    },
    /// Bytes in a window.
    #[error(
        "{owner} may book {most} bytes from {} till {}, of which {left} are left: ask for less, or for another time",
        .from.second_before(),
        .till.second_after()
    )]
    Bytes {
        /// Name of the owner.
        owner: String,
        /// Maximum number of bytes in the time of the quota.
        most: u64,
        /// Start of the window.
        from: Timestamp,
        /// End of the window.
        till: Timestamp,
        /// Bytes that can still be booked.
        left: u128,
    },
}

/// Request that the policy of an owner does not permit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Circuit at another interface.
    #[error(
        "the policy of {owner} permits no circuit at {interface}, only at: {}; choose one of these, or ask an operator",
        listing(.permitted)
    )]
    Interface {
        /// Name of the owner.
        owner: String,
        /// Interface of the request.
        interface: String,
        /// Permitted interfaces.
        permitted: Vec<String>,
    },
    /// Circuit, where no destination is permitted.
    #[error(
        "the policy of {owner} permits circuits for no address, so not for \"{packets}\"; omit flow (--interface), or ask an operator to list prefixes for {owner} in the scheduler's --policy"
    )]
    NoPrefixes {
        /// Name of the owner.
        owner: String,
        /// Packets of the request.
        packets: Flow,
    },
    /// Circuit for another destination.
    #[error(
        "the policy of {owner} does not permit packets \"{packets}\", only to: {}; name an address in these as in \"udp {} 5000\", or ask an operator",
        listing(.permitted),
        .permitted[0].address()
    )]
    Packets {
        /// Name of the owner.
        owner: String,
        /// Packets of the request.
        packets: Flow,
        /// Permitted destinations; at least one.
        permitted: Vec<Prefix>,
    },
    /// Another link.
    #[error(
        "the policy of {owner} does not permit link {link}, only: {}; name a path of these, or ask an operator",
        listing(.permitted)
    )]
    Link {
        /// Name of the owner.
        owner: String,
        /// Link of the request.
        link: String,
        /// Permitted links.
        permitted: Vec<String>,
    },
    /// End that is too late.
    #[error(
        "the reservation would end at {}, and the policy of {owner} permits reservations till {}; ask for less or for an earlier start, or ask an operator",
        .end.second_after(),
        .last.second_before()
    )]
    End {
        /// Name of the owner.
        owner: String,
        /// End of the request.
        end: Timestamp,
        /// Latest permitted end.
        last: Timestamp,
    },
    /// Place of a job.
    #[error(
        "the policy of {owner} permits no job to {action} {place}, only: {}; ask an operator to list it for {owner} in the scheduler's --policy",
        listing(.permitted)
    )]
    JobPlace {
        /// Name of the owner.
        owner: String,
        /// Verb, as in "copy from".
        action: &'static str,
        /// Place of the request.
        place: String,
        /// Permitted places.
        permitted: Vec<String>,
    },
    /// Total rate that is too high.
    #[error("{limit}; {}, or ask an operator", remedy(.left.as_ref()))]
    Rate {
        /// Limit of the policy.
        limit: RateRule,
        /// Rate that can still be booked at that time.
        left: Option<Rate>,
    },
}

/// Limit of a policy on the total rate of an owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the policy of {owner} permits {rate} at one time for all of its reservations together")]
pub struct RateRule {
    /// Name of the owner.
    pub owner: String,
    /// Maximum total rate of the owner.
    pub rate: Rate,
}

/// Conflict with the circuits at an interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverlapError {
    /// The device of the interface has its maximum of circuits.
    #[error(
        "interface {interface} supports {most} circuits and all are reserved; omit flow (--interface), or try again when a reservation has ended"
    )]
    InterfaceFull {
        /// Name of the interface.
        interface: String,
        /// Maximum number of circuits.
        most: usize,
    },
    /// Another circuit carries the same packets at that time.
    #[error(
        "reservation {id} carries packets of \"{packets}\" at {interface} from {} till {}; choose other ports or addresses, or {}",
        .from.second_before(),
        .till.second_after(),
        other_time(*.free)
    )]
    Packets {
        /// Number of the other reservation.
        id: u64,
        /// Packets of the request.
        packets: Flow,
        /// Name of the interface.
        interface: String,
        /// Start of the other reservation.
        from: Timestamp,
        /// End of the other reservation.
        till: Timestamp,
        /// First start at which the packets are free, if it is known.
        free: Option<Timestamp>,
    },
}

fn remedy(left: Option<&Rate>) -> String {
    left.map_or_else(
        || "choose another time".to_owned(),
        |left| format!("ask for a highest rate of at most {left}"),
    )
}

fn other_time(free: Option<Timestamp>) -> String {
    free.map_or_else(
        || "another time".to_owned(),
        |free| format!("a start at {}", free.second_after()),
    )
}
