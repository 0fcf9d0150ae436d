//! A session that goes on to a further gateway: its two halves, each on a link of its own, and what lies between them.

use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use socket2::{Domain, Socket, Type};

use crate::capture::handshake::{Handshake, Progress};
use crate::capture::refusal::Refusal;
use crate::word::{self, NOWHERE};

/// What the two halves know of each other besides the bytes that cross between them.
#[derive(Debug, Default)]
pub struct Bond {
    /// One of them ended before its time.
    broken: AtomicBool,
    /// The digests of what either has been told, by which half: the one that came, and the one that goes on.
    came: Ended,
    goes: Ended,
}

#[derive(Debug, Default)]
struct Ended {
    is: AtomicBool,
    digest: AtomicU64,
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The one whose session came from another gateway.
    Came,
    /// The one whose session goes on.
    Goes,
}

/// One half's hold on the other.
#[derive(Clone, Debug)]
pub struct Tie {
    bond: Arc<Bond>,
    half: Half,
}

/// Two halves: a socket and a tie for each.
pub(crate) fn tie() -> io::Result<[(Socket, Tie); 2]> {
    let (came, goes) = Socket::pair(Domain::UNIX, Type::STREAM, None)?;
    let bond = Arc::<Bond>::default();
    let half = |socket: Socket, half| {
        socket.set_nonblocking(true)?;
        let bond = Arc::clone(&bond);
        Ok::<_, io::Error>((socket, Tie { bond, half }))
    };
    Ok([half(came, Half::Came)?, half(goes, Half::Goes)?])
}

impl Tie {
    /// This half ends before its time; the other is to follow it.
    pub(crate) fn sever(&self) {
        self.bond.broken.store(true, Relaxed);
    }

    /// All that this half says to the other has this digest, as the far end took it.
    pub(crate) fn finish(&self, digest: u64) {
        let ended = self.of(self.half);
        ended.digest.store(digest, Relaxed);
        ended.is.store(true, Relaxed);
    }

    /// Whether the other half ended as it should, with what was heard of it.
    pub(crate) fn agrees(&self, digest: u64) -> bool {
        let other = match self.half {
            Half::Came => Half::Goes,
            Half::Goes => Half::Came,
        };
        let ended = self.of(other);
        !self.bond.broken.load(Relaxed)
            && ended.is.load(Relaxed)
            && ended.digest.load(Relaxed) == digest
    }

    fn of(&self, half: Half) -> &Ended {
        match half {
            Half::Came => &self.bond.came,
            Half::Goes => &self.bond.goes,
        }
    }
}

/// How the half that came hears from the one that goes on what became of the target: a length, and a word.
#[derive(Debug)]
pub(crate) struct Onward;

impl Handshake for Onward {
    fn take(&mut self, _octets: &[u8]) -> Progress {
        Progress::More { reply: Vec::new() }
    }

    fn answer(&self, outcome: Result<SocketAddr, Refusal>) -> Vec<u8> {
        let (accepted, word) = match outcome {
            Ok(from) => (1, word::encode_reached(from)),
            Err(why) => (0, word::encode_refusal(why)),
        };
        let mut octets = vec![accepted, word.len() as u8];
        octets.extend(word);
        octets
    }
}

/// Reads what [`Onward`] says, as it comes.
#[derive(Debug, Default)]
pub(crate) struct Preface(Vec<u8>);

impl Preface {
    /// Reads on; answers what became of the target once that is known.
    pub(crate) fn read(&mut self, socket: &mut Socket) -> Option<Result<SocketAddr, Refusal>> {
        loop {
            let wanted = match self.0.get(1) {
                None => 2 - self.0.len(),
                Some(len) => 2 + usize::from(*len) - self.0.len(),
            };
            if wanted == 0 {
                let word = &self.0[2..];
                return Some(match self.0[0] {
                    1 => Ok(word::decode_reached(word).unwrap_or(NOWHERE)),
                    _ => Err(word::decode_refusal(word)),
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
    fn what_became_of_the_target_comes_before_its_bytes() {
        for outcome in [Ok("192.0.2.1:7".parse().unwrap()), Err(Refusal::Refused)] {
            let [(mut came, _), (mut goes, _)] = tie().unwrap();
            let mut preface = Preface::default();
            assert_eq!(preface.read(&mut came), None);
            let octets = Onward.answer(outcome);
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
    fn halves_agree_only_on_a_proper_end_with_the_same_bytes() {
        let [(_, came), (_, goes)] = tie().unwrap();
        assert!(!goes.agrees(7), "it has not ended");
        came.finish(7);
        assert!(goes.agrees(7) && !goes.agrees(8));
        assert!(!came.agrees(7), "the other direction has not");
        came.sever();
        assert!(!goes.agrees(7));
    }
}
