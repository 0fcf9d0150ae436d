//! Session that continues to a further gateway: two ends on two links, connected by a socket pair.
//!
//! ```text
//! gateway A ==link==> inbound side | socket pair | outbound side ==link==> gateway C
//! ```
//!
//! For each link, the other side takes the role of a program or a target. An `OnwardHandshake`
//! sends the result of the connection before the bytes, and an `OnwardReply` reads it. A socket
//! pair cannot show a reset or a digest. So each [`RelayEnd`] notes both, and a session ends
//! regularly only if the digests of both links are equal.

use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use lighthaul_capture::handshake::{Handshake, Progress};
use lighthaul_capture::refusal::Refusal;
use socket2::{Domain, Socket, Type};

use crate::messages::{self, UNKNOWN_ADDRESS};

/// State that both sides share, in addition to the socket pair.
#[derive(Debug, Default)]
pub struct RelayState {
    /// True if a side ended too early.
    broken: AtomicBool,
    /// Digests of the bytes that the remote end of each side received.
    inbound: Ended,
    outbound: Ended,
}

#[derive(Debug, Default)]
struct Ended {
    is: AtomicBool,
    digest: AtomicU64,
}

/// Side of a relayed session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Session that came from another gateway.
    Inbound,
    /// Session to the further gateway.
    Outbound,
}

/// One side's access to the shared state.
#[derive(Clone, Debug)]
pub struct RelayEnd {
    state: Arc<RelayState>,
    side: Side,
}

/// Creates a socket and a relay end for each side.
pub(crate) fn relay_pair() -> io::Result<[(Socket, RelayEnd); 2]> {
    let (came, goes) = Socket::pair(Domain::UNIX, Type::STREAM, None)?;
    let state = Arc::<RelayState>::default();
    let side = |socket: Socket, side| {
        socket.set_nonblocking(true)?;
        let state = Arc::clone(&state);
        Ok::<_, io::Error>((socket, RelayEnd { state, side }))
    };
    Ok([side(came, Side::Inbound)?, side(goes, Side::Outbound)?])
}

impl RelayEnd {
    /// Notes that this end stopped too early, so that the other end fails too.
    pub(crate) fn abort(&self) {
        self.state.broken.store(true, Relaxed);
    }

    /// Notes the digest of all bytes from this end, as computed by the remote gateway.
    pub(crate) fn finish(&self, digest: u64) {
        let ended = self.of(self.side);
        ended.digest.store(digest, Relaxed);
        ended.is.store(true, Relaxed);
    }

    /// Returns true if the other end has stopped in an orderly way with the same digest.
    pub(crate) fn matches(&self, digest: u64) -> bool {
        let other = match self.side {
            Side::Inbound => Side::Outbound,
            Side::Outbound => Side::Inbound,
        };
        let ended = self.of(other);
        !self.state.broken.load(Relaxed)
            && ended.is.load(Relaxed)
            && ended.digest.load(Relaxed) == digest
    }

    fn of(&self, side: Side) -> &Ended {
        match side {
            Side::Inbound => &self.state.inbound,
            Side::Outbound => &self.state.outbound,
        }
    }
}

/// Handshake that sends the result of the connection to the inbound side: a length and an encoded result.
#[derive(Debug)]
pub(crate) struct OnwardHandshake;

impl Handshake for OnwardHandshake {
    fn take(&mut self, _octets: &[u8]) -> Progress {
        Progress::More { reply: Vec::new() }
    }

    fn answer(&self, outcome: Result<SocketAddr, Refusal>) -> Vec<u8> {
        let (accepted, word) = match outcome {
            Ok(from) => (1, messages::encode_reached(from)),
            Err(why) => (0, messages::encode_refusal(why)),
        };
        let mut octets = vec![accepted, word.len() as u8];
        octets.extend(word);
        octets
    }
}

/// Reader of the result that [`OnwardHandshake`] sends.
#[derive(Debug, Default)]
pub(crate) struct OnwardReply(Vec<u8>);

impl OnwardReply {
    /// Reads more octets. Returns the result once it is complete.
    pub(crate) fn read(&mut self, socket: &mut Socket) -> Option<Result<SocketAddr, Refusal>> {
        loop {
            let wanted = match self.0.get(1) {
                None => 2 - self.0.len(),
                Some(len) => 2 + usize::from(*len) - self.0.len(),
            };
            if wanted == 0 {
                let word = &self.0[2..];
                return Some(match self.0[0] {
                    1 => Ok(messages::decode_reached(word).unwrap_or(UNKNOWN_ADDRESS)),
                    _ => Err(messages::decode_refusal(word)),
                });
            }
            let mut octets = [0; 64];
            let some = wanted.min(octets.len());
            match socket.read(&mut octets[..some]) {
                Ok(0) => return Some(Err(Refusal::Broken)),
                Ok(count) => self.0.extend(&octets[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Some(Err(Refusal::Broken)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn result_of_the_connection_precedes_the_bytes() {
        for outcome in [Ok("192.0.2.1:7".parse().unwrap()), Err(Refusal::Refused)] {
            let [(mut came, _), (mut goes, _)] = relay_pair().unwrap();
            let mut preface = OnwardReply::default();
            assert_eq!(preface.read(&mut came), None);
            let octets = OnwardHandshake.answer(outcome);
            goes.write_all(&octets[..1]).unwrap();
            assert_eq!(preface.read(&mut came), None);
            goes.write_all(&octets[1..]).unwrap();
            goes.write_all(b"bytes").unwrap();
            assert_eq!(preface.read(&mut came), Some(outcome));
            let mut rest = [0; 8];
            assert_eq!(came.read(&mut rest).unwrap(), 5);
        }
    }

    #[test]
    fn relay_ends_agree_only_on_an_orderly_end_with_equal_bytes() {
        let [(_, came), (_, goes)] = relay_pair().unwrap();
        assert!(!goes.matches(7), "the other side has not ended");
        came.finish(7);
        assert!(goes.matches(7) && !goes.matches(8));
        assert!(!came.matches(7), "the other direction has not");
        came.abort();
        assert!(!goes.matches(7));
    }
}
