//! Asking side of a checkup.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::net::udp::header_len;

use crate::checkup::message::{HostFacts, Message, unexpected};
use crate::checkup::reverse;
use crate::error::Error;
use crate::path::explore;
use crate::role::Role;
use crate::session::{ANSWER_TIMEOUT, Session};

/// Result of a checkup.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkup {
    /// Facts of this host.
    pub here: HostFacts,
    /// Facts of the peer's host.
    pub there: HostFacts,
    /// True if datagrams pass from the peer to this host.
    pub is_reverse_open: bool,
    /// Shortest round-trip time that was measured.
    pub rtt: Duration,
    /// Nanoseconds by which the peer's clock is ahead, accurate to half a round trip.
    pub ahead_nanos: i64,
    /// Rate at which datagrams arrive at the peer, or none if no datagram arrives.
    pub rate: Option<Rate>,
    /// Octets of the IP and UDP headers of each datagram.
    pub header_len: u32,
}

/// Checks the path to a peer that accepted a checkup, with datagrams if `udp` is true.
pub fn ask(session: &Session, udp: bool) -> Result<Checkup, Error> {
    let (rtt, ahead_nanos) = clocks(session)?;
    session.say(&Message::Explore)?;
    let mut path = explore(&session.dialog(), &Role::Client(udp), true, 1)?;
    let here = HostFacts::of(session.control.local(), path.datagram_len);
    let Message::Facts(there) = session.hear()? else {
        return Err(unexpected());
    };
    let rate = if there.datagram_len > 0 {
        path.measure(&session.dialog())?
    } else {
        None
    };
    let is_answered = there.datagram_len > 0;
    let is_reverse_open =
        is_answered || udp && here.datagram_len == 0 && reverse::receive(session, rtt)?;
    session.say(&Message::End)?;
    let Message::End = session.hear()? else {
        return Err(unexpected());
    };
    Ok(Checkup {
        here,
        there,
        is_reverse_open,
        rtt,
        ahead_nanos,
        rate,
        header_len: header_len(session.peer_address()),
    })
}

/// Returns the shortest of a few round-trip times, and the clock offset of the peer in nanoseconds
/// (RFC 5905, section 8).
fn clocks(session: &Session) -> Result<(Duration, i64), Error> {
    let mut best = (Duration::MAX, 0);
    for _ in 0..ROUND_TRIPS {
        let found = clock(session, ANSWER_TIMEOUT)?;
        if found.0 < best.0 {
            best = found;
        }
    }
    Ok(best)
}

/// Returns one round-trip time, and the clock offset derived from it. Waits at most `patience`.
pub(super) fn clock(session: &Session, patience: Duration) -> Result<(Duration, i64), Error> {
    let before = session.clock.now();
    let ours = unix_nanos();
    session.say(&Message::Time { nanos: 0 })?;
    let Message::Time { nanos: theirs } = session.hear_for(patience)? else {
        return Err(unexpected());
    };
    let rtt = session.clock.now().since(before);
    let half = i64::try_from(rtt.as_nanos() / 2).unwrap_or(i64::MAX);
    let ahead = theirs.wrapping_sub(ours).cast_signed().saturating_sub(half);
    Ok((rtt, ahead))
}

const ROUND_TRIPS: usize = 5;
