//! Measurement of a path with probe datagrams: the largest size that arrives, and the rate of a train.
//!
//! [`Prober`] sends and receives probes on the socket of a lane, before data move. Probes are encrypted, and others are
//! ignored. Datagrams of the transfer itself are recognized by their connection number and left in the socket.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use lighthaul_base::{Head, Instant};

use crate::crypto::cipher::TAG_LEN;
use crate::crypto::seal::Key;
use crate::host::clock::Clock;
use crate::host::wait::{Watch, wait};
use crate::net::train::{CONNECTION_LEN, Train};
use crate::net::udp::{Udp, header_len};

/// Datagram lengths to try, in octets of UDP payload: from the IPv6 minimum to jumbo frames, with common tunnels.
pub const LENGTHS: [usize; 7] = [1232, 1372, 1432, 1452, 1472, 8952, 8972];
/// Limit of lanes between two hosts.
pub const LANES_MAX: usize = 8;
/// Time without datagrams after which a train has ended.
const QUIET: Duration = Duration::from_millis(25);
const HEAD_LEN: usize = 8;
/// Divisor: loss of up to 1 in this number counts as random loss; more counts as drops of a full queue.
const LOSS_SHARE_MAX: u64 = 50;
/// Octets of a probe in front of its body.
const PREFIX_LEN: usize = CONNECTION_LEN + HEAD_LEN;
/// Octets of a ping's body in front of its challenge.
const CHALLENGE_AT: usize = 3;
const PING: u8 = 0;
const MEMBER: u8 = 1;
const LAST: u8 = 2;
const COUNTED: u8 = 3;
/// Octets of a datagram that the peer counts.
pub const COUNTED_LEN: usize = 64;
/// Octets of datagrams after which the rest is left for the next look.
const WAITING_MAX: usize = 1 << 20;
/// Packet numbers of counted datagrams are larger, and numbers of pings and trains are smaller.
const COUNTED_FROM: u64 = 1 << 32;

/// Number of lengths, which are pinged twice.
const PINGS: u64 = LENGTHS.len() as u64;

/// Random octets that a server sends to the source of a client's probes. The client returns them on its connection, and
/// so proves that it receives what is sent there.
pub type Challenge = [u8; 16];

/// Part of the pings of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PingPart {
    /// Repetition of the first pings.
    SecondHalf,
    /// Any other.
    Usual,
}

/// Sender and receiver of probes on one socket.
#[derive(Debug)]
pub struct Prober {
    connection: u64,
    /// Connection number of the data. Datagrams with it, or with the next numbers, are left in the socket.
    data: u64,
    seal: Key,
    open: Key,
    counter: u64,
    /// Number of trains sent.
    trains: u8,
    /// Number of the last train received.
    heard: Cell<u8>,
    /// Receive buffer.
    buffer: RefCell<Vec<u8>>,
}

/// Authentic probe.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// Number of the train; for a ping, number of the lane.
    train: u8,
    len: usize,
    number: u64,
    kind: u8,
    challenge: Option<Challenge>,
}

/// Pings that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pings {
    /// Length of the longest; zero without any.
    pub longest: usize,
    /// Challenge in one of them, if the peer is a server.
    pub challenge: Option<Challenge>,
}

/// Result of waiting for a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainResult {
    /// Neither a train nor data arrived in time.
    Nothing,
    /// A train arrived.
    Train(Arrival),
    /// Data arrived: the transfer has begun.
    Data,
}

/// Measurement of a train at its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Octets received after the first reception, headers included, plus an estimate for a few lost datagrams.
    pub bytes: u64,
    /// Time from the first reception to the last.
    pub time: Duration,
}

impl Prober {
    /// Creates a prober for datagrams with the number `connection`. It leaves datagrams with the number `data`.
    pub fn new(connection: u64, data: u64, seal: Key, open: Key) -> Self {
        Self {
            connection,
            data,
            seal,
            open,
            counter: 0,
            trains: 0,
            heard: Cell::new(0),
            buffer: RefCell::new(vec![0; 1 << 16]),
        }
    }

    /// Sends a datagram of each length, twice.
    pub fn ping(&mut self, udp: &Udp) -> io::Result<()> {
        for len in LENGTHS.iter().rev().chain(LENGTHS.iter().rev()) {
            self.send_ping(udp, *len, 0, None)?;
        }
        Ok(())
    }

    /// Sends `challenge` on `lane`, to a source whose longest probe had the length `longest`. Sends at most `credit`
    /// octets, and returns the rest. Pings on the first lane have all lengths.
    pub fn challenge(
        &mut self,
        udp: &Udp,
        (lane, challenge): (u8, &Challenge),
        longest: usize,
        mut credit: usize,
    ) -> io::Result<usize> {
        let all = |longer| {
            let lengths = LENGTHS.iter().rev();
            let lengths = lengths.filter(move |len| (**len > longest) == longer);
            lengths.clone().chain(lengths)
        };
        // longer ones than came may not pass, and leave less for the others
        let others = all(false).chain(all(true)).filter(|_| lane == 0);
        for len in [LENGTHS[0]; 2].iter().chain(others) {
            if let Some(left) = credit.checked_sub(*len) {
                credit = left;
                self.send_ping(udp, *len, lane, Some(challenge))?;
            }
        }
        Ok(credit)
    }

    /// Sends two short datagrams that announce `lane`.
    pub fn announce(&mut self, udp: &Udp, lane: u8) -> io::Result<()> {
        self.send_ping(udp, LENGTHS[0], lane, None)?;
        self.send_ping(udp, LENGTHS[0], lane, None)
    }

    fn send_ping(
        &mut self,
        udp: &Udp,
        len: usize,
        lane: u8,
        challenge: Option<&Challenge>,
    ) -> io::Result<()> {
        let mut body = vec![0; len - PREFIX_LEN - TAG_LEN];
        body[..CHALLENGE_AT].copy_from_slice(&[PING, lane, challenge.is_some().into()]);
        if let Some(challenge) = challenge {
            body[CHALLENGE_AT..][..challenge.len()].copy_from_slice(challenge);
        }
        self.send(udp, &mut Train::new(), &body)
    }

    /// Returns a prober for counted datagrams only. A prober for pings and trains may use the same keys.
    #[must_use]
    pub fn for_counting(self) -> Self {
        Self {
            counter: COUNTED_FROM,
            ..self
        }
    }

    /// Sends one short datagram that the peer counts.
    pub fn send_counted(&mut self, udp: &Udp) -> io::Result<()> {
        let mut body = [0; COUNTED_LEN - PREFIX_LEN - TAG_LEN];
        body[0] = COUNTED;
        self.send(udp, &mut Train::new(), &body)
    }

    /// Returns the number of the counted datagram in `octets`, or `None` if it is not authentic.
    pub fn counted(&self, octets: &mut [u8]) -> Option<u64> {
        let probe = self.open(octets)?;
        (probe.kind == COUNTED).then_some(probe.number)
    }

    /// Sends a train of `count` datagrams of `len` octets as fast as the host can.
    pub fn train(&mut self, udp: &Udp, count: usize, len: usize) -> io::Result<()> {
        self.trains += 1;
        let mut body = vec![0_u8; len - PREFIX_LEN - TAG_LEN];
        let mut train = Train::new();
        let mut left = count;
        while left > 0 {
            while left > 0 && train.admits(HEAD_LEN, body.len(), true) {
                body[..2].copy_from_slice(&[if left == 1 { LAST } else { MEMBER }, self.trains]);
                left -= 1;
                let head = self.head();
                train.push(self.connection, &head, &body, Some(&self.seal));
            }
            train.flush(udp)?;
        }
        Ok(())
    }

    /// Returns the length and the lane of the ping in `octets`, or `None` if it is not an authentic ping. The second
    /// half of the peer's first pings says too little about the longest, if the first half was dropped: use later ones.
    pub fn recognize(&self, octets: &mut [u8]) -> Option<(usize, u8, PingPart)> {
        let part = |number| {
            if (PINGS + 1..=2 * PINGS).contains(&number) {
                PingPart::SecondHalf
            } else {
                PingPart::Usual
            }
        };
        // trains say nothing about lanes, and late ones that were to be counted nothing about lengths
        let probe = self.open(octets).filter(|probe| probe.kind == PING)?;
        Some((probe.len, probe.train, part(probe.number)))
    }

    /// Reports whether data is waiting in `udp`.
    fn sees_data(&self, udp: &Udp) -> io::Result<bool> {
        let first = udp.peek()?.map(u64::from_be_bytes);
        Ok(first.is_some_and(|number| number.wrapping_sub(self.data) < LANES_MAX as u64))
    }

    /// Returns the pings that arrive. Waits until `deadline`, or 10 ms after a probe.
    pub fn receive_pings(&self, udp: &Udp, clock: Clock, deadline: Instant) -> io::Result<Pings> {
        let mut pings = Pings::default();
        let mut until = deadline;
        while clock.now() < until && pings.longest < LENGTHS[LENGTHS.len() - 1] {
            self.receive(udp, clock, until, |probe| {
                pings.longest = pings.longest.max(probe.len);
                pings.challenge = pings.challenge.or(probe.challenge);
            })?;
            if pings.longest > 0 {
                until = until.min(clock.now() + Duration::from_millis(10));
            }
        }
        Ok(pings)
    }

    /// Returns the first challenge that has arrived or arrives until `deadline`.
    pub fn receive_challenge(
        &self,
        udp: &Udp,
        clock: Clock,
        deadline: Instant,
    ) -> io::Result<Option<Challenge>> {
        let mut challenge = None;
        loop {
            let now = clock.now();
            self.receive(udp, clock, deadline, |probe| {
                challenge = challenge.or(probe.challenge);
            })?;
            if challenge.is_some() || now >= deadline {
                return Ok(challenge);
            }
        }
    }

    /// Returns the octets of the pings that wait in `udp`, and removes them. A train, and what came after it, stays: its
    /// sender may be faster than its report on the connection.
    pub fn waiting_octets(&self, udp: &Udp) -> io::Result<usize> {
        let (mut octets, mut all) = (0, 0);
        let mut buffer = self.buffer.borrow_mut();
        // datagrams without a key count, too, so that they cannot keep the caller here
        while all < WAITING_MAX
            && let Some(seen) = udp.peek_into(&mut buffer)?
        {
            all += seen.len.max(1);
            for datagram in buffer[..seen.len].chunks_mut(seen.segment_len) {
                match self.open(datagram) {
                    Some(probe) if probe.kind != PING => return Ok(octets),
                    Some(probe) => octets += probe.len,
                    None => {}
                }
            }
            udp.receive_into(&mut buffer, &mut 0)?;
        }
        Ok(octets)
    }

    /// Waits for a train until `deadline`, and measures it.
    pub fn receive_train(
        &self,
        udp: &Udp,
        clock: Clock,
        deadline: Instant,
    ) -> io::Result<TrainResult> {
        let overhead = u64::from(header_len(udp.local_addr()?));
        let mut first = None;
        let mut arrival = Arrival {
            bytes: 0,
            time: Duration::ZERO,
        };
        let (mut numbers, mut count) = ((u64::MAX, 0), 0);
        let mut until = deadline;
        let (mut last, mut train) = (false, 0);
        while !last && clock.now() < until && !self.sees_data(udp)? {
            let (mut bytes, before) = (0, count);
            self.receive(udp, clock, until, |probe| {
                // Ignore late datagrams of a train that was already measured.
                if probe.kind != PING && probe.train > self.heard.get() {
                    bytes += probe.len as u64 + overhead;
                    count += 1;
                    numbers = (numbers.0.min(probe.number), numbers.1.max(probe.number));
                    last |= probe.kind == LAST;
                    train = probe.train;
                }
            })?;
            if count == before {
                continue;
            }
            let now = clock.now();
            until = now + QUIET;
            match first {
                None => first = Some(now),
                Some(first) => {
                    arrival.bytes += bytes;
                    arrival.time = now.since(first);
                }
            }
        }
        if first.is_none() && self.sees_data(udp)? {
            return Ok(TrainResult::Data);
        }
        self.heard.set(self.heard.get().max(train));
        let sent = numbers.1.saturating_sub(numbers.0) + 1;
        if sent <= count + count / LOSS_SHARE_MAX {
            arrival.bytes = arrival.bytes * sent.max(count) / count.max(1);
        }
        Ok(first.map_or(TrainResult::Nothing, |_| TrainResult::Train(arrival)))
    }

    /// Receives once, if datagrams arrive before `until`, and passes their probes to `take`.
    fn receive(
        &self,
        udp: &Udp,
        clock: Clock,
        until: Instant,
        mut take: impl FnMut(Probe),
    ) -> io::Result<()> {
        let mut drops = 0;
        let mut buffer = self.buffer.borrow_mut();
        let Some(received) = udp.receive_into(&mut buffer, &mut drops)? else {
            return wait(clock, &mut [Watch::read(udp.as_raw_fd())], until);
        };
        for datagram in buffer[..received.len].chunks_mut(received.segment_len) {
            if let Some(probe) = self.open(datagram) {
                take(probe);
            }
        }
        Ok(())
    }

    /// Decrypts the probe in `octets`. Returns `None` if it is not authentic.
    fn open(&self, octets: &mut [u8]) -> Option<Probe> {
        let len = octets.len();
        if len <= PREFIX_LEN + TAG_LEN || octets[..CONNECTION_LEN] != self.connection.to_be_bytes()
        {
            return None;
        }
        let (prefix, body) = octets.split_at_mut(PREFIX_LEN);
        let number = crate::net::train::unique(&prefix[CONNECTION_LEN..]);
        let body = self.open.open(number, prefix, body)?;
        let octets = body.get(CHALLENGE_AT..).and_then(|rest| rest.first_chunk());
        let has_challenge = body[0] == PING && body.get(2) == Some(&1);
        Some(Probe {
            len,
            number,
            kind: body[0],
            train: body.get(1).copied().unwrap_or(0),
            challenge: octets.copied().filter(|_| has_challenge),
        })
    }

    fn send(&mut self, udp: &Udp, train: &mut Train, body: &[u8]) -> io::Result<()> {
        let head = self.head();
        train.push(self.connection, &head, body, Some(&self.seal));
        train.flush(udp)?;
        Ok(())
    }

    fn head(&mut self) -> Head {
        self.counter += 1;
        Head::new(&self.counter.to_be_bytes())
    }
}

/// Returns the connection number at the start of a datagram.
pub fn connection_of(octets: &[u8]) -> Option<u64> {
    octets
        .first_chunk()
        .map(|octets| u64::from_be_bytes(*octets))
}

/// Creates a socket bound to `local`, possibly sharing its port, and connected to `peer`.
pub fn connect(local: SocketAddr, peer: SocketAddr) -> io::Result<Udp> {
    let udp = Udp::bind(local)?;
    udp.connect(peer)?;
    Ok(udp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::cipher::Cipher;

    /// A client that has sent its report on the connection sends a train at once, which may overtake it.
    #[test]
    fn count_of_waiting_pings_leaves_a_train() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let [one, other] = [(); 2].map(|()| Udp::bind(any).unwrap());
        one.connect(other.local_addr().unwrap()).unwrap();
        other.connect(one.local_addr().unwrap()).unwrap();
        let [client, server] =
            [1, 2].map(|secret| move || Key::new(Cipher::preferred(), &[secret; 32]));
        let mut prober = Prober::new(7, 9, client(), server());
        let peer = Prober::new(7, 9, server(), client());
        prober.announce(&one, 1).unwrap();
        prober.train(&one, 20, LENGTHS[0]).unwrap();
        let mut octets = 0;
        for _ in 0..3 {
            octets += peer.waiting_octets(&other).unwrap();
        }
        assert!(octets <= 2 * LENGTHS[0], "{octets}");
        let clock = Clock::start();
        let found = peer.receive_train(&other, clock, clock.now() + Duration::from_secs(10));
        assert!(matches!(found.unwrap(), TrainResult::Train(_)));
    }
}
