//! What the path between two hosts can do: whether datagrams pass, how long, and how fast.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_io::crypto::tls::Side;
use lighthaul_io::error::Error as World;
use lighthaul_io::host::pressure::processor_wait;
use lighthaul_io::net::probe::{self, LANES_MAX, LENGTHS, Prober, TrainResult};
use lighthaul_io::net::udp::Udp;

use crate::error::{Code, Error};
use crate::join::Joins;
use crate::message::Message;
use crate::session::Session;

/// Datagrams that came to a server's shared port for one session.
pub type Arrivals = Receiver<(SocketAddr, Vec<u8>)>;

/// How long datagrams get to arrive before the stream must do.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Probes are sent again this often until something is known.
const AGAIN: Duration = Duration::from_millis(100);
/// How often who waits for probes looks whether any will come.
const LOOK: Duration = Duration::from_millis(20);
/// How long the probes that are sent together may take to arrive.
const VOLLEY: Duration = Duration::from_millis(10);
/// How long a measured train is to take.
const TRAIN_TIME: Duration = Duration::from_millis(25);
const TRAIN_BYTES_MAX: u64 = 16 << 20;
const TRAIN_BYTES_MIN: u64 = 256 << 10;
/// Datagrams of the train that gives a first idea.
const SCOUTS: usize = 96;

/// What is known of a path.
#[derive(Debug)]
pub struct Path {
    /// The sockets, one a lane, if datagrams pass in the direction of the data.
    pub sockets: Vec<Udp>,
    /// The longest datagram that passes, without its UDP header.
    pub datagram_len: usize,
    /// The longest that passes both ways; zero if none does.
    pub both_ways_len: usize,
    /// Of a million datagrams in trains, how many did not arrive, as far as is known.
    pub lost_ppm: u32,
    /// In which part of the time somebody waits for a processor of the peer's, in percent.
    pub waited: u8,
    prober: Prober,
}

/// How our side of a session comes by a socket.
#[derive(Debug)]
pub enum Door<'a> {
    /// We call: any port will do. Without datagrams if `false`.
    Caller(bool),
    /// We were called: probes come in by the shared port.
    Called(&'a Arrivals, &'a Joins),
}

/// What the peer says has reached it: the longest datagram, and the lanes; and how its processors are wanted.
type Reached = (usize, u8, u8);

/// Finds out what passes, by at most `lanes` lanes; `sending` says which direction the data will take.
pub fn explore(
    session: &Session,
    door: &Door<'_>,
    sending: bool,
    lanes: usize,
) -> Result<Path, Error> {
    let mut prober = session.secrets.prober();
    if lanes == 0 {
        // both sides know that no datagram is wanted
        return Ok(Path {
            sockets: Vec::new(),
            datagram_len: 0,
            both_ways_len: 0,
            lost_ppm: 0,
            waited: 0,
            prober,
        });
    }
    let deadline = session.clock.now() + PATIENCE;
    let mut theirs: Option<Reached> = None;
    let (sockets, first) = match door {
        Door::Caller(false) => (Vec::new(), 0),
        Door::Caller(true) => (call(session, lanes)?, 0),
        Door::Called(arrivals, _) => answer(session, arrivals, &prober, (deadline, &mut theirs))?,
    };
    let ours = mask(&sockets);
    let reached = |len| Message::Reached(len, ours, processor_wait());
    let mut arrived = 0;
    while let Some((_, udp)) = sockets.first() {
        let now = session.clock.now();
        if now >= deadline || arrived > 0 && theirs.is_some() {
            break;
        }
        if arrived == 0 || session.secrets.side() == Side::Client && theirs.is_none() {
            prober.ping(udp).map_err(probing)?;
            for (lane, udp) in &sockets[1..] {
                prober.announce(udp, *lane).map_err(probing)?;
            }
        }
        let until = deadline.min(now + AGAIN);
        if arrived == 0 {
            arrived = prober
                .receive_pings(udp, session.clock, until)
                .map_err(probing)?;
            arrived = arrived.max(first);
            if arrived > 0 {
                prober.ping(udp).map_err(probing)?;
                session.say(&reached(arrived as u16))?;
            }
        }
        if theirs.is_none() {
            let patience = if arrived > 0 {
                until.since(session.clock.now())
            } else {
                Duration::ZERO
            };
            theirs = hear_reached(session, patience)?;
        }
    }
    if arrived == 0 {
        session.say(&reached(0))?;
    }
    let (theirs, lanes, waited) = match theirs {
        Some(theirs) => theirs,
        None => hear_reached(session, PATIENCE * 2)?.unwrap_or_default(),
    };
    let datagram_len = if sending { theirs } else { arrived };
    let common = ours & lanes;
    let common = if datagram_len > 0 { common } else { 0 };
    Ok(Path {
        sockets: of_lanes(sockets, common),
        datagram_len,
        both_ways_len: theirs.min(arrived),
        lost_ppm: 0,
        waited,
        prober,
    })
}

/// The sockets of the lanes that have a bit.
fn of_lanes(sockets: Vec<(u8, Udp)>, mask: u8) -> Vec<Udp> {
    let kept = sockets
        .into_iter()
        .filter(|(lane, _)| mask >> lane & 1 == 1);
    kept.map(|(_, udp)| udp).collect()
}

/// A bit for each lane.
fn mask(sockets: &[(u8, Udp)]) -> u8 {
    sockets.iter().fold(0, |mask, (lane, _)| mask | 1 << lane)
}

impl Path {
    /// Measures, with the peer in [`Path::listen`], how fast datagrams arrive there.
    pub fn measure(&mut self, session: &Session) -> Result<Option<Rate>, Error> {
        let Some(udp) = self.sockets.first() else {
            return Ok(None);
        };
        let mut rate = None;
        let mut count = SCOUTS;
        for _ in 0..2 {
            self.prober
                .train(udp, count, self.datagram_len)
                .map_err(probing)?;
            let Message::Train(bytes, nanos) = session.hear_for(Duration::from_secs(5))? else {
                return Err(Error::new(
                    Code::Protocol,
                    "the peer did not measure the path",
                ));
            };
            // the first to arrive only starts the clock
            let sent = (count.saturating_sub(1) * self.datagram_len) as u64;
            let lost = u128::from(sent.saturating_sub(bytes)) * 1_000_000;
            self.lost_ppm = (lost / u128::from(sent.max(1))) as u32;
            if bytes > 0 && nanos > 0 {
                rate = Some(Rate::of(bytes, Duration::from_nanos(nanos)));
            }
            let bytes = rate.map_or(0, |rate| rate.bytes_in(TRAIN_TIME));
            let bytes = bytes.clamp(TRAIN_BYTES_MIN, TRAIN_BYTES_MAX);
            count = (bytes / self.datagram_len as u64) as usize;
        }
        Ok(rate)
    }

    /// Reports trains to the peer until it says something else, which is the answer.
    pub fn listen(&mut self, session: &Session) -> Result<Message, Error> {
        let give_up = session.clock.now() + Duration::from_secs(30);
        while let Some(udp) = self.sockets.first() {
            if let Some(message) = session.heard()? {
                return Ok(message);
            }
            let now = session.clock.now();
            if now >= give_up {
                break;
            }
            let until = now + Duration::from_millis(20);
            let heard = self
                .prober
                .receive_train(udp, session.clock, until)
                .map_err(probing)?;
            match heard {
                TrainResult::Nothing => {}
                TrainResult::Data => break,
                TrainResult::Train(arrival) => {
                    let nanos = u64::try_from(arrival.time.as_nanos()).unwrap_or(u64::MAX);
                    session.say(&Message::Train(arrival.bytes, nanos))?;
                }
            }
        }
        session.hear()
    }
}

fn call(session: &Session, lanes: usize) -> Result<Vec<(u8, Udp)>, Error> {
    let peer = session.peer_address();
    let mut local = session.control.local();
    local.set_port(0);
    (0..lanes.min(LANES_MAX) as u8)
        .map(|lane| Ok((lane, probe::connect(local, peer).map_err(probing)?)))
        .collect()
}

/// Waits for genuine probes on the shared port, and answers their sender from sockets of our own, one
/// a lane. Also tells how long the longest of them was. A caller who says meanwhile that nothing reached it
/// sends nothing, or has given up.
fn answer(
    session: &Session,
    arrivals: &Arrivals,
    prober: &Prober,
    (deadline, theirs): (Instant, &mut Option<Reached>),
) -> Result<(Vec<(u8, Udp)>, usize), Error> {
    let mut found = BTreeMap::new();
    let mut longest = 0;
    let mut until = deadline;
    loop {
        let look_at = until.min(session.clock.now() + LOOK);
        let (from, mut octets) = match arrivals.recv_timeout(session.clock.until(look_at)) {
            Ok(arrival) => arrival,
            Err(RecvTimeoutError::Timeout) if look_at < until => {
                *theirs = hear_reached(session, Duration::ZERO)?;
                if theirs.is_some() {
                    break;
                }
                continue;
            }
            Err(_) => break,
        };
        let Some((len, lane)) = prober.recognize(&mut octets) else {
            continue;
        };
        if usize::from(lane) >= LANES_MAX {
            continue;
        }
        if lane == 0 {
            longest = longest.max(len);
        }
        if found.is_empty() {
            until = session.clock.now() + VOLLEY;
        }
        found.insert(lane, from);
    }
    // the path was measured by the first lane, so without it there are no others
    if !found.contains_key(&0) {
        found.clear();
    }
    let connect = |(lane, from)| {
        let udp = probe::connect(session.control.local(), from).map_err(probing)?;
        Ok((lane, udp))
    };
    let sockets = found
        .into_iter()
        .map(connect)
        .collect::<Result<_, Error>>()?;
    Ok((sockets, longest))
}

fn hear_reached(session: &Session, patience: Duration) -> Result<Option<Reached>, Error> {
    match session.hear_for(patience) {
        Ok(Message::Reached(len, lanes, waited)) if len == 0 || LENGTHS.contains(&len.into()) => {
            Ok(Some((usize::from(len), lanes, waited)))
        }
        Ok(_) => Err(Error::new(
            Code::Protocol,
            "the peer skipped looking at the path",
        )),
        Err(error) if error.code == Code::TimedOut => Ok(None),
        Err(error) => Err(error),
    }
}

fn probing(error: std::io::Error) -> Error {
    World::world("looking at the path", error).into()
}
