//! Exploration of the path between two hosts: the longest datagram, the rate, the loss.
//!
//! [`explore`] exchanges probes of several lengths in both directions, and both sides report the longest that arrived.
//! Then the sender of the data measures the rate by trains of datagrams ([`Path::measure`]), which the receiver reports
//! ([`Path::listen`]). If no datagram passes, [`Path`] has no sockets and the stream carries the data.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_io::crypto::tls::Side;
use lighthaul_io::error::Error as World;
use lighthaul_io::net::probe::{self, Challenge, LANES_MAX, LENGTHS, Prober, TrainResult};
use lighthaul_io::net::udp::Udp;

use crate::dialog::Dialog;
use crate::error::{Code, Error};
use crate::fault::{Fault, PeerFault};
use crate::message::Message;
use crate::probe_sources::ProbeSources;
use crate::processor_wait::processor_wait;
use crate::role::{Arrivals, Role};
use crate::session::Session;
use crate::topic::Topic;

/// Longest wait for the message that follows an exploration directly.
pub const LISTEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait until the peer explores, too.
const READY_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest wait for datagrams before the stream must carry the data.
const DATAGRAM_TIMEOUT: Duration = Duration::from_millis(1500);
/// Interval at which probes are sent again.
const RESEND_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which a side that waits for probes checks whether any will come.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Longest wait for a train before a message is looked for.
const TICK: Duration = Duration::from_millis(20);
/// Time without datagrams after which one keeps the path open.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// Longest time between the arrivals of probes that are sent together.
const PROBE_SPREAD: Duration = Duration::from_millis(10);
/// Duration of a measured train.
const TRAIN_TIME: Duration = Duration::from_millis(25);
/// Longest wait for the report of a train.
const TRAIN_TIMEOUT: Duration = Duration::from_secs(5);
const TRAIN_BYTES_MAX: u64 = 16 << 20;
const TRAIN_BYTES_MIN: u64 = 256 << 10;
/// Datagrams of the first, short train.
const FIRST_TRAIN_LEN: usize = 96;

/// Measured properties of a path, with the sockets for it.
#[derive(Debug)]
pub struct Path {
    /// Sockets, one for each lane, if datagrams pass in the direction of the data.
    pub sockets: Vec<Udp>,
    /// Length of the longest datagram that passes, without its UDP header.
    pub datagram_len: usize,
    /// Length of the longest datagram that passes both ways; zero if no datagram passes.
    pub both_ways_len: usize,
    /// Lost datagrams of measured trains, in parts per million.
    pub lost_ppm: u32,
    /// Percentage of time in which processes wait for a processor of the peer's host.
    pub waited: u8,
    /// True if the peer has not proven that it receives at these sockets, which then send no trains.
    is_unproven: bool,
    /// Time at which the path was last kept open.
    used: Instant,
    prober: Prober,
}

/// Report of the peer.
#[derive(Clone, Debug, Default)]
struct Reached {
    /// Length of the longest datagram that arrived.
    len: usize,
    lanes: u8,
    /// Time spent waiting for its processors, in percent.
    waited: u8,
    /// Challenges that arrived, for each lane.
    proofs: Vec<Challenge>,
}

/// Explores the path with at most `lanes` lanes. `sending` is true on the side that sends the data.
pub fn explore(
    dialog: &Dialog<'_>,
    role: &Role,
    sending: bool,
    lanes: usize,
) -> Result<Path, Error> {
    let session = dialog.session;
    let prober = session.secrets.prober();
    if lanes == 0 {
        // both sides know that no datagram is wanted
        return Ok(Path::none(session));
    }
    dialog.say(&Message::Exploring)?;
    let explored = match role {
        Role::Client(false) => Explored::without_datagrams(dialog, prober)?,
        Role::Client(true) => explore_as_client(dialog, prober, lanes)?,
        Role::Server(arrivals, _) => explore_as_server(dialog, prober, arrivals, sending)?,
    };
    let Explored {
        sockets,
        prober,
        arrived,
        peer,
    } = explored;
    let datagram_len = if sending { peer.len } else { arrived };
    let common = mask(&sockets) & peer.lanes;
    // the path is measured by the first lane, so without it there are no others
    let is_usable = datagram_len > 0 && common & 1 == 1;
    Ok(Path {
        sockets: of_lanes(sockets, if is_usable { common } else { 0 }),
        datagram_len,
        both_ways_len: peer.len.min(arrived),
        lost_ppm: 0,
        waited: peer.waited,
        is_unproven: matches!(role, Role::Server(..)) && peer.len == 0,
        used: session.clock.now(),
        prober,
    })
}

/// Sockets with the numbers of their lanes.
type LaneSockets = Vec<(u8, Udp)>;

/// Result of one side.
struct Explored {
    /// Sockets of the lanes that this side can use.
    sockets: LaneSockets,
    prober: Prober,
    /// Length of the longest datagram that arrived.
    arrived: usize,
    peer: Reached,
}

impl Explored {
    fn without_datagrams(dialog: &Dialog<'_>, prober: Prober) -> Result<Self, Error> {
        dialog.say(&reached(0, &[], &[]))?;
        let peer = PeerReports::new(dialog).last(dialog)?;
        Ok(Self {
            sockets: Vec::new(),
            prober,
            arrived: 0,
            peer,
        })
    }
}

fn explore_as_client(
    dialog: &Dialog<'_>,
    mut prober: Prober,
    lanes: usize,
) -> Result<Explored, Error> {
    let session = dialog.session;
    let mut peer = PeerReports::new(dialog);
    let mut sockets = call(session, lanes)?;
    let mut arrived = 0;
    let mut ping_at = session.clock.now();
    let mut was_ready = peer.is_ready;
    while let Some((_, udp)) = sockets.first() {
        dialog.check()?;
        let now = session.clock.now();
        if now >= peer.deadline() || arrived > 0 && peer.reached.is_some() {
            break;
        }
        if peer.is_ready && !was_ready {
            // what was sent before may have been dropped
            (was_ready, ping_at) = (true, now);
        }
        if now >= ping_at {
            ping_at = now + RESEND_INTERVAL;
            prober.ping(udp).map_err(explore_error)?;
            for (lane, udp) in &sockets[1..] {
                prober.announce(udp, *lane).map_err(explore_error)?;
            }
        }
        let until = peer.deadline().min(now + CHECK_INTERVAL);
        if arrived == 0 {
            let pings = prober.receive_pings(udp, session.clock, until);
            let pings = pings.map_err(explore_error)?;
            if pings.longest > 0 {
                arrived = pings.longest;
                let proofs;
                (sockets, proofs) = challenged(session, &prober, sockets, pings.challenge)?;
                dialog.say(&reached(arrived, &sockets, &proofs))?;
            }
        }
        let patience = if arrived > 0 {
            until.since(session.clock.now())
        } else {
            Duration::ZERO
        };
        peer.hear(dialog, patience)?;
    }
    if arrived == 0 {
        dialog.say(&reached(0, &sockets, &[]))?;
    }
    Ok(Explored {
        sockets,
        prober,
        arrived,
        peer: peer.last(dialog)?,
    })
}

/// Returns the sockets at which challenges of the server arrive, with the challenges. Those of the lanes after the first
/// arrive at about the same time as `first`, that of the first lane.
fn challenged(
    session: &Session,
    prober: &Prober,
    sockets: LaneSockets,
    first: Option<Challenge>,
) -> Result<(LaneSockets, Vec<Challenge>), Error> {
    let until = session.clock.now() + PROBE_SPREAD;
    let mut both = (Vec::new(), Vec::new());
    for (lane, udp) in sockets {
        let challenge = if lane == 0 {
            first
        } else {
            prober
                .receive_challenge(&udp, session.clock, until)
                .map_err(explore_error)?
        };
        if let Some(challenge) = challenge {
            both.0.push((lane, udp));
            both.1.push(challenge);
        }
    }
    Ok(both)
}

/// Answers probes at their sources, and proves these; see [`ProbeSources`].
fn explore_as_server(
    dialog: &Dialog<'_>,
    mut prober: Prober,
    arrivals: &Arrivals,
    sending: bool,
) -> Result<Explored, Error> {
    let session = dialog.session;
    let mut peer = PeerReports::new(dialog);
    let mut sources = gather(dialog, arrivals, &prober, &mut peer)?;
    // the peer measures by the first lane, so without it there are no others
    let arrived = sources.longest();
    let lanes = if arrived > 0 { sources.lanes() } else { 0 };
    sources.challenge(&mut prober).map_err(explore_error)?;
    dialog.say(&report(arrived, lanes, &[]))?;
    while arrived > 0 && peer.reached.is_none() && session.clock.now() < peer.deadline() {
        dialog.check()?;
        let until = peer.deadline().min(session.clock.now() + CHECK_INTERVAL);
        peer.hear(dialog, until.since(session.clock.now()))?;
        // another host may have been faster with copies of the client's probes
        while let Ok((from, mut octets)) = arrivals.try_recv() {
            sources.note(&prober, from, &mut octets);
        }
        sources.listen(&prober).map_err(explore_error)?;
        sources.challenge(&mut prober).map_err(explore_error)?;
    }
    let mut peer = peer.last(dialog)?;
    // a server that only receives needs no proof, and gets none where its pings do not pass
    let sockets = if peer.len == 0 && !sending {
        sources.unproven()
    } else {
        let lanes = if peer.len > 0 { peer.lanes } else { 0 };
        sources.proven(lanes, &peer.proofs)?
    };
    peer.lanes &= lanes;
    Ok(Explored {
        sockets,
        prober,
        arrived,
        peer,
    })
}

/// Reports of the peer while both sides explore.
struct PeerReports {
    /// End of the wait for datagrams. The time counts from the moment at which both sides explore.
    until: Instant,
    is_ready: bool,
    reached: Option<Reached>,
}

impl PeerReports {
    fn new(dialog: &Dialog<'_>) -> Self {
        Self {
            until: dialog.session.clock.now() + READY_TIMEOUT,
            is_ready: false,
            reached: None,
        }
    }

    const fn deadline(&self) -> Instant {
        self.until
    }

    /// Waits for a message of the peer, for at most `patience`, unless the peer's report has arrived.
    fn hear(&mut self, dialog: &Dialog<'_>, patience: Duration) -> Result<(), Error> {
        let until = dialog.session.clock.now() + patience;
        while self.reached.is_none() {
            let patience = until.since(dialog.session.clock.now());
            match dialog.hear_for(patience) {
                Ok(Message::Exploring) => self.be_ready(dialog),
                Ok(Message::Reached {
                    datagram_len: len,
                    lanes,
                    waited,
                    proofs,
                }) if len == 0 || LENGTHS.contains(&len.into()) => {
                    self.reached = Some(Reached {
                        len: len.into(),
                        lanes,
                        waited,
                        proofs,
                    });
                    self.be_ready(dialog);
                }
                Ok(_) => return Err(PeerFault::Unexpected("the report of probes").into()),
                Err(error) if error.code() == Code::TimedOut => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn be_ready(&mut self, dialog: &Dialog<'_>) {
        if !self.is_ready {
            self.is_ready = true;
            self.until = dialog.session.clock.now() + DATAGRAM_TIMEOUT;
        }
    }

    /// Waits for the report of the peer, which may be behind other messages.
    fn last(mut self, dialog: &Dialog<'_>) -> Result<Reached, Error> {
        let patience = if self.is_ready {
            DATAGRAM_TIMEOUT * 2
        } else {
            self.until.since(dialog.session.clock.now())
        };
        self.hear(dialog, patience)?;
        Ok(self.reached.unwrap_or_default())
    }
}

fn reached(datagram_len: usize, sockets: &[(u8, Udp)], proofs: &[Challenge]) -> Message {
    report(datagram_len, mask(sockets), proofs)
}

fn report(datagram_len: usize, lanes: u8, proofs: &[Challenge]) -> Message {
    Message::Reached {
        datagram_len: datagram_len as u16,
        lanes,
        waited: processor_wait(),
        proofs: proofs.to_vec(),
    }
}

/// Returns the sockets of the lanes that have a bit.
fn of_lanes(sockets: Vec<(u8, Udp)>, mask: u8) -> Vec<Udp> {
    let kept = sockets
        .into_iter()
        .filter(|(lane, _)| mask >> lane & 1 == 1);
    kept.map(|(_, udp)| udp).collect()
}

/// Returns a bit for each lane.
fn mask(sockets: &[(u8, Udp)]) -> u8 {
    sockets.iter().fold(0, |mask, (lane, _)| mask | 1 << lane)
}

impl Path {
    /// Returns a path without datagrams.
    pub fn none(session: &Session) -> Self {
        Self {
            sockets: Vec::new(),
            datagram_len: 0,
            both_ways_len: 0,
            lost_ppm: 0,
            waited: 0,
            is_unproven: true,
            used: Instant::ZERO,
            prober: session.secrets.prober(),
        }
    }

    /// Measures the rate at which datagrams arrive at the peer, which must run [`Path::listen`].
    pub fn measure(&mut self, dialog: &Dialog<'_>) -> Result<Option<Rate>, Error> {
        let mut rate = None;
        let mut count = FIRST_TRAIN_LEN;
        for _ in 0..2 {
            let Some(arrived) = self.measure_train(dialog, count)? else {
                return Ok(rate);
            };
            rate = rate_of(arrived).or(rate);
            let bytes = rate.map_or(0, |rate| rate.bytes_in(TRAIN_TIME));
            let bytes = bytes.clamp(TRAIN_BYTES_MIN, TRAIN_BYTES_MAX);
            count = (bytes / self.datagram_len as u64) as usize;
        }
        Ok(rate)
    }

    /// Measures the rate by one short train, which is less accurate than [`Path::measure`]. The peer must run
    /// [`Path::listen`].
    pub fn measure_briefly(&mut self, dialog: &Dialog<'_>) -> Result<Option<Rate>, Error> {
        let arrived = self.measure_train(dialog, FIRST_TRAIN_LEN)?;
        Ok(arrived.and_then(rate_of))
    }

    /// Sends a train of `count` datagrams, and returns the bytes and nanoseconds of its arrival. Returns none without
    /// datagrams, to an address without a proof, or if none of it has arrived.
    fn measure_train(
        &mut self,
        dialog: &Dialog<'_>,
        count: usize,
    ) -> Result<Option<(u64, u64)>, Error> {
        let Some(udp) = self.sockets.first().filter(|_| !self.is_unproven) else {
            return Ok(None);
        };
        self.prober
            .train(udp, count, self.datagram_len)
            .map_err(explore_error)?;
        let (bytes, nanos) = match dialog.hear_for(TRAIN_TIMEOUT) {
            Ok(Message::Train { bytes, nanos }) => (bytes, nanos),
            Err(error) if error.code() == Code::TimedOut => return Ok(None),
            Err(error) => return Err(error),
            Ok(_) => return Err(PeerFault::Unexpected("the measurement of a train").into()),
        };
        // the first datagram only starts the clock
        let sent = (count.saturating_sub(1) * self.datagram_len) as u64;
        let lost = u128::from(sent.saturating_sub(bytes)) * 1_000_000;
        self.lost_ppm = (lost / u128::from(sent.max(1))) as u32;
        Ok(Some((bytes, nanos)))
    }

    /// Reports trains to the peer until a message of topic `M` arrives, and returns that. Waits at most `patience`, or
    /// without a limit until the dialog is halted.
    pub fn listen<M: Topic>(
        &mut self,
        dialog: &Dialog<'_>,
        patience: Option<Duration>,
    ) -> Result<M, Error> {
        let clock = dialog.session.clock;
        let give_up = patience.map_or(Instant::NEVER, |patience| clock.now() + patience);
        loop {
            dialog.check()?;
            let now = clock.now();
            if now >= give_up {
                return Err(Fault::NoAnswer.into());
            }
            let until = now + TICK;
            let Some(udp) = self.sockets.first() else {
                match dialog.hear_for(TICK) {
                    Err(error) if error.code() == Code::TimedOut => continue,
                    said => return said,
                }
            };
            if let Some(message) = dialog.heard()? {
                return Ok(message);
            }
            let heard = self.prober.receive_train(udp, clock, until);
            match heard.map_err(explore_error)? {
                TrainResult::Nothing => self.stay_open(dialog)?,
                // the message precedes them
                TrainResult::Data => return dialog.hear(),
                TrainResult::Train(arrival) => {
                    let nanos = u64::try_from(arrival.time.as_nanos()).unwrap_or(u64::MAX);
                    let bytes = arrival.bytes;
                    dialog.say(&Message::Train { bytes, nanos })?;
                }
            }
        }
    }

    /// Sends a short datagram on each lane of the client from time to time. Firewalls and address translators on the
    /// way then keep the lanes open.
    pub fn stay_open(&mut self, dialog: &Dialog<'_>) -> Result<(), Error> {
        let now = dialog.session.clock.now();
        let is_due = now.since(self.used) >= IDLE_MAX;
        if is_due && dialog.session.secrets.side() == Side::Client {
            self.used = now;
            for (lane, udp) in self.sockets.iter().enumerate() {
                let announced = self.prober.announce(udp, lane as u8);
                announced.map_err(explore_error)?;
            }
        }
        Ok(())
    }
}

/// Returns the rate of a train, from its bytes and nanoseconds.
fn rate_of((bytes, nanos): (u64, u64)) -> Option<Rate> {
    let is_measured = bytes > 0 && nanos > 0;
    is_measured.then(|| Rate::of(bytes, Duration::from_nanos(nanos)))
}

fn call(session: &Session, lanes: usize) -> Result<Vec<(u8, Udp)>, Error> {
    let peer = session.peer_address();
    let mut local = session.control.local();
    local.set_port(0);
    (0..lanes.min(LANES_MAX) as u8)
        .map(|lane| Ok((lane, probe::connect(local, peer).map_err(explore_error)?)))
        .collect()
}

/// Waits for authentic probes on the shared port, and returns their sources. Stops when the client reports that nothing
/// reached it, since it sends nothing or has given up.
fn gather(
    dialog: &Dialog<'_>,
    arrivals: &Arrivals,
    prober: &Prober,
    peer: &mut PeerReports,
) -> Result<ProbeSources, Error> {
    let session = dialog.session;
    let mut sources = ProbeSources::new(session.control.local());
    let mut all_at = None;
    loop {
        dialog.check()?;
        let until = all_at.unwrap_or_else(|| peer.deadline());
        let now = session.clock.now();
        if now >= until {
            break;
        }
        let check_at = until.min(now + CHECK_INTERVAL);
        match arrivals.recv_timeout(session.clock.until(check_at)) {
            Ok((from, mut octets)) => {
                if sources.note(prober, from, &mut octets) {
                    // probes of other lanes may be left of some that came too early
                    all_at.get_or_insert_with(|| session.clock.now() + PROBE_SPREAD);
                }
            }
            Err(RecvTimeoutError::Timeout) if check_at < until => {
                peer.hear(dialog, Duration::ZERO)?;
                if peer.reached.is_some() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    Ok(sources)
}

fn explore_error(error: std::io::Error) -> Error {
    World::world("cannot explore the path", error).into()
}
