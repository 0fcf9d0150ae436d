//! Cheap probe of a path for monitors: round trips, loss, and from time to time packet size and rate.
//!
//! Every probe takes [`ROUND_TRIPS`] round trips and sends [`DATAGRAMS`] short datagrams in a second. A full probe also
//! explores the path with datagrams of several lengths, and sends one train. [`Depth::bytes`] bounds what a probe
//! sends and receives, headers included.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_io::net::probe::{COUNTED_LEN, LENGTHS};
use lighthaul_io::net::udp::header_len;

use crate::checkup::ask::clock;
use crate::checkup::count;
use crate::checkup::message::{Message, unexpected};
use crate::error::Error;
use crate::path::explore;
use crate::role::Role;
use crate::session::Session;

pub use crate::checkup::count::DATAGRAMS;

/// Round trips of a probe.
pub const ROUND_TRIPS: usize = 10;

/// Depth of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Round trips and loss.
    Brief,
    /// Also the packet size and the rate.
    Full,
}

impl Depth {
    /// Returns the most bytes that a probe sends and receives, with the handshake and all headers.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Brief => BRIEF_BYTES,
            Self::Full => FULL_BYTES,
        }
    }
}

/// Result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathProbe {
    /// Round-trip times in the order of measurement.
    pub rtts: Vec<Duration>,
    /// Shortest round-trip time.
    pub rtt_min: Duration,
    /// Mean round-trip time.
    pub rtt_mean: Duration,
    /// Longest round-trip time.
    pub rtt_max: Duration,
    /// Mean difference of consecutive round-trip times (RFC 3393).
    pub jitter: Duration,
    /// Datagrams that were sent to the peer.
    pub sent: u16,
    /// Datagrams that did not arrive.
    pub lost: u16,
    /// Result of a full probe.
    pub capacity: Option<PathCapacity>,
}

/// Packet size and rate of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathCapacity {
    /// Length of the longest packet that passes, with its IP header; zero if no datagram passes.
    pub mtu: u32,
    /// Rate at which a train of datagrams arrived, if it arrived.
    pub rate: Option<Rate>,
}

/// Probes the path to a peer that accepted a checkup.
pub fn probe(session: &Session, depth: Depth) -> Result<PathProbe, Error> {
    let mut trips = Vec::new();
    for _ in 0..ROUND_TRIPS {
        trips.push(clock(session, PATIENCE)?.0);
    }
    let arrived = count::ask(session)?;
    let capacity = match depth {
        Depth::Brief => None,
        Depth::Full => Some(capacity(session)?),
    };
    session.say(&Message::End)?;
    let Message::End = session.hear_for(PATIENCE)? else {
        return Err(unexpected());
    };
    let RoundTrips {
        shortest,
        mean,
        longest,
        jitter,
    } = RoundTrips::of(&trips);
    Ok(PathProbe {
        rtts: trips,
        rtt_min: shortest,
        rtt_mean: mean,
        rtt_max: longest,
        jitter,
        sent: DATAGRAMS,
        lost: DATAGRAMS.saturating_sub(arrived),
        capacity,
    })
}

fn capacity(session: &Session) -> Result<PathCapacity, Error> {
    session.say(&Message::Explore)?;
    let dialog = session.dialog();
    let mut path = explore(&dialog, &Role::Client(true), true, 1)?;
    let Message::Facts(_) = session.hear_for(PATIENCE)? else {
        return Err(unexpected());
    };
    let passes = path.datagram_len > 0;
    let header = header_len(session.peer_address());
    Ok(PathCapacity {
        mtu: if passes {
            path.datagram_len as u32 + header
        } else {
            0
        },
        rate: path.measure_briefly(&dialog)?,
    })
}

/// Statistics of round-trip times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RoundTrips {
    shortest: Duration,
    mean: Duration,
    longest: Duration,
    jitter: Duration,
}

impl RoundTrips {
    fn of(trips: &[Duration]) -> Self {
        let mean = |sum: Duration, count: usize| sum / u32::try_from(count.max(1)).unwrap_or(1);
        let differences = trips.windows(2).map(|pair| pair[0].abs_diff(pair[1]));
        Self {
            shortest: trips.iter().min().copied().unwrap_or_default(),
            mean: mean(trips.iter().sum(), trips.len()),
            longest: trips.iter().max().copied().unwrap_or_default(),
            jitter: mean(differences.sum(), trips.len().saturating_sub(1)),
        }
    }
}

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of octets of the headers of a datagram: IPv6, UDP and the link.
const HEADERS_MAX: u64 = 40 + 8 + 18;
/// Maximum number of octets of the handshake and all messages, with their headers.
const MESSAGES_MAX: u64 = 20 << 10;
const BRIEF_BYTES: u64 = MESSAGES_MAX + DATAGRAMS as u64 * (COUNTED_LEN as u64 + HEADERS_MAX);
/// Octets of all lengths that are explored once, twice each.
const PINGS_BYTES: u64 = {
    let (mut nth, mut sum) = (0, 0);
    while nth < LENGTHS.len() {
        sum += 2 * (LENGTHS[nth] as u64 + HEADERS_MAX);
        nth += 1;
    }
    sum
};
/// Maximum number of repetitions of the pings of both sides, if no answer comes during the longest wait.
const PINGS_MAX: u64 = 20;
/// Octets of a train of the longest datagrams.
const TRAIN_BYTES: u64 = 96 * (LENGTHS[LENGTHS.len() - 1] as u64 + HEADERS_MAX);
const FULL_BYTES: u64 = BRIEF_BYTES + PINGS_MAX * PINGS_BYTES + TRAIN_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_the_mean_difference_of_neighbors() {
        let trips = [10, 14, 11, 11].map(Duration::from_millis);
        let found = RoundTrips::of(&trips);
        assert_eq!(found.shortest, Duration::from_millis(10));
        assert_eq!(found.mean, Duration::from_micros(11_500));
        assert_eq!(found.longest, Duration::from_millis(14));
        assert_eq!(found.jitter, Duration::from_millis(7) / 3);
    }

    #[test]
    fn jitter_needs_two_round_trip_times() {
        assert_eq!(RoundTrips::of(&[]), RoundTrips::default());
        let one = RoundTrips::of(&[Duration::from_millis(3)]);
        assert_eq!((one.mean, one.jitter), (one.shortest, Duration::ZERO));
    }

    #[test]
    fn probes_have_a_bounded_size() {
        assert!(Depth::Brief.bytes() <= 34_000, "{}", Depth::Brief.bytes());
        assert!(Depth::Full.bytes() <= 2_000_000, "{}", Depth::Full.bytes());
    }
}
