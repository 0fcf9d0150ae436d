//! The side of a checkup that wants to know.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::net::udp::header_len;

use crate::checkup::answer::{hear, out_of_turn, say};
use crate::checkup::back;
use crate::checkup::word::{Facts, Word};
use crate::error::Error;
use crate::path::{Door, explore};
use crate::session::Session;

/// What came of a checkup.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkup {
    /// What it is like here.
    pub here: Facts,
    /// What it is like there.
    pub there: Facts,
    /// Datagrams pass from there to here.
    pub comes_back: bool,
    /// The shortest round trip that was seen.
    pub rtt: Duration,
    /// By how much the clock there is ahead, in nanoseconds, give or take half a round trip.
    pub ahead_nanos: i64,
    /// How fast datagrams arrive there, if they do.
    pub rate: Option<Rate>,
    /// Octets of IP and UDP headers on each datagram.
    pub header_len: u32,
}

/// Looks at the path to a peer that agreed to a checkup, with datagrams if any can pass there.
pub fn ask(session: &Session, udp: bool) -> Result<Checkup, Error> {
    let (rtt, ahead_nanos) = clocks(session)?;
    say(session, Word::Explore)?;
    let mut path = explore(session, &Door::Caller(udp), true, 1)?;
    let here = Facts::of(session.control.local(), path.datagram_len);
    let Word::Facts(there) = hear(session)? else {
        return Err(out_of_turn());
    };
    let rate = if there.datagram_len > 0 {
        path.measure(session)?
    } else {
        None
    };
    let is_answered = there.datagram_len > 0;
    let comes_back = is_answered || udp && here.datagram_len == 0 && back::hear(session, rtt)?;
    say(session, Word::End)?;
    let Word::End = hear(session)? else {
        return Err(out_of_turn());
    };
    Ok(Checkup {
        here,
        there,
        comes_back,
        rtt,
        ahead_nanos,
        rate,
        header_len: header_len(session.peer_address()),
    })
}

/// The shortest round trip of a few, and by how much the clock there is ahead (RFC 5905, section 8).
fn clocks(session: &Session) -> Result<(Duration, i64), Error> {
    let mut best = (Duration::MAX, 0);
    for _ in 0..ROUND_TRIPS {
        let before = session.clock.now();
        let ours = unix_nanos();
        say(session, Word::Time(0))?;
        let Word::Time(theirs) = hear(session)? else {
            return Err(out_of_turn());
        };
        let rtt = session.clock.now().since(before);
        if rtt < best.0 {
            let half = i64::try_from(rtt.as_nanos() / 2).unwrap_or(i64::MAX);
            best = (
                rtt,
                theirs.wrapping_sub(ours).cast_signed().saturating_sub(half),
            );
        }
    }
    Ok(best)
}

const ROUND_TRIPS: usize = 5;
