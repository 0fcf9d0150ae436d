//! Sources of a client's probes, which a server must prove before it sends much there (RFC 9000, section 8).
//!
//! ```text
//! client                                                 server
//!   | pings, on each lane ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~> |  notes their sources
//!   | <~~~~~~~~~~~~ pings with 16 random octets per source |  at most 3 times as many octets as came from there
//!   | Reached, with the random octets of each lane ------> |  sends trains and data to these sources only
//! ```
//!
//! A probe has the key of its session, but its source may be another host: the client may have forged the address, and an
//! observer may have sent the probe again. So a lane can have several sources, until the client returns the challenge
//! of one of them. This takes no round trip of its own, since the server waits for the client's report in any case.

use std::io;
use std::net::SocketAddr;

use lighthaul_io::crypto::identity::random_octets;
use lighthaul_io::net::probe::{self, Challenge, LANES_MAX, PingPart, Prober};
use lighthaul_io::net::udp::Udp;

use crate::error::Error;
use crate::fault::PeerFault;

/// Sources of one lane that are noted.
const SOURCES_MAX: usize = 4;
/// Octets that may be sent to an unproven source, for each octet from it (RFC 9000, section 8.1).
const AMPLIFICATION_MAX: usize = 3;

/// Sources of a session's probes, in the order of their arrival.
#[derive(Debug)]
pub(crate) struct ProbeSources {
    local: SocketAddr,
    sources: Vec<Source>,
}

#[derive(Debug)]
struct Source {
    lane: u8,
    from: SocketAddr,
    /// Socket that is connected to the source.
    udp: Option<Udp>,
    challenge: Challenge,
    /// Length of the longest probe that arrived from it.
    longest: usize,
    /// Octets that may be sent to it before it is proven.
    credit: usize,
    /// True if a probe arrived after the last challenge.
    is_due: bool,
}

impl Source {
    fn count(&mut self, octets: usize) {
        self.credit = self.credit.saturating_add(octets * AMPLIFICATION_MAX);
        self.is_due |= octets > 0;
    }
}

impl ProbeSources {
    /// Creates an empty list for a server at `local`.
    pub(crate) const fn new(local: SocketAddr) -> Self {
        Self {
            local,
            sources: Vec::new(),
        }
    }

    /// Notes the source of the probe in `octets`, if it is authentic. Returns true for a probe of the first lane.
    pub(crate) fn note(&mut self, prober: &Prober, from: SocketAddr, octets: &mut [u8]) -> bool {
        let Some((len, lane, part)) = prober.recognize(octets) else {
            return false;
        };
        if usize::from(lane) >= LANES_MAX {
            return false;
        }
        if lane == 0 && part == PingPart::SecondHalf && !self.has_lane(0) {
            // the first half came too early, and the client repeats both soon
            return false;
        }
        let known = self
            .sources
            .iter()
            .position(|one| (one.lane, one.from) == (lane, from));
        let at = known.unwrap_or(self.sources.len());
        if known.is_none() {
            if self.of_lane(lane).count() >= SOURCES_MAX {
                return false;
            }
            self.sources.push(Source {
                lane,
                from,
                udp: None,
                challenge: random_octets(),
                longest: 0,
                credit: 0,
                is_due: true,
            });
        }
        let source = &mut self.sources[at];
        source.longest = source.longest.max(len);
        source.count(len);
        lane == 0
    }

    /// Counts the probes that have arrived at the sockets since.
    pub(crate) fn listen(&mut self, prober: &Prober) -> io::Result<()> {
        for source in &mut self.sources {
            if let Some(udp) = &source.udp {
                source.count(prober.waiting_octets(udp)?);
            }
        }
        Ok(())
    }

    /// Sends its challenge to each source from which probes arrived since the last time, as far as its credit goes.
    pub(crate) fn challenge(&mut self, prober: &mut Prober) -> io::Result<()> {
        for source in self.sources.iter_mut().filter(|source| source.is_due) {
            source.is_due = false;
            if source.udp.is_none() {
                source.udp = Some(probe::connect(self.local, source.from)?);
            }
            let Some(udp) = &source.udp else { continue };
            let (lane, challenge) = (source.lane, &source.challenge);
            source.credit =
                prober.challenge(udp, (lane, challenge), source.longest, source.credit)?;
        }
        Ok(())
    }

    /// Returns a bit for each lane that has a source.
    pub(crate) fn lanes(&self) -> u8 {
        self.sources
            .iter()
            .fold(0, |mask, source| mask | 1 << source.lane)
    }

    /// Returns the length of the longest probe of the first lane that arrived from each of its sources, or 0.
    pub(crate) fn longest(&self) -> usize {
        self.of_lane(0)
            .map(|source| source.longest)
            .min()
            .unwrap_or(0)
    }

    /// Returns the sockets of the lanes of `lanes`, to the sources whose challenges `proofs` has, in the order of lanes.
    pub(crate) fn proven(self, lanes: u8, proofs: &[Challenge]) -> Result<Vec<(u8, Udp)>, Error> {
        let mut sources = self.sources;
        let mut proofs = proofs.iter();
        let mut proven = Vec::new();
        for lane in (0..LANES_MAX as u8).filter(|lane| lanes >> lane & 1 == 1) {
            let proof = proofs.next();
            let at = sources
                .iter()
                .position(|source| source.lane == lane && Some(&source.challenge) == proof);
            let udp = at.and_then(|at| sources.swap_remove(at).udp);
            let udp = udp.ok_or(PeerFault::Invalid("a challenge that was not sent to it"))?;
            proven.push((lane, udp));
        }
        Ok(proven)
    }

    /// Returns the sockets to the first source of each lane, which may only receive.
    pub(crate) fn unproven(self) -> Vec<(u8, Udp)> {
        let mut first: Vec<(u8, Udp)> = Vec::new();
        for source in self.sources {
            let is_known = first.iter().any(|(lane, _)| *lane == source.lane);
            if let Some(udp) = source.udp.filter(|_| !is_known) {
                first.push((source.lane, udp));
            }
        }
        first.sort_by_key(|(lane, _)| *lane);
        first
    }

    fn has_lane(&self, lane: u8) -> bool {
        self.of_lane(lane).next().is_some()
    }

    fn of_lane(&self, lane: u8) -> impl Iterator<Item = &Source> {
        self.sources
            .iter()
            .filter(move |source| source.lane == lane)
    }
}
