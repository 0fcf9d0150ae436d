//! One connection of a session: requests that are sent, and the thread that receives their answers.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lighthaul_io::control::{Control, Frame, Stream};
use lighthaul_io::error::Error as World;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_session::error::{Error, caught};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::topic::Topic;

use crate::client::answer::Answer;
use crate::failure::{Failure, FailureKind};
use crate::message::{Message, STREAM};

/// Longest wait for room in the outgoing queue, and longest sleep of the receiving thread.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Maximum total length, in octets, of an answer without data, such as a list of a million names.
const PARTS_MAX: u64 = 256 << 20;

/// One connection of a session.
#[derive(Debug)]
pub(super) struct Channel {
    /// Number of the channel, unique in this process.
    pub(super) number: u64,
    control: Control,
    stream: Stream,
    state: Mutex<State>,
    /// Bytes of ranges that were requested and have not arrived.
    awaited: AtomicU64,
    /// Messages that have arrived.
    arrived: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Number of the last request.
    last: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// Failure of all requests once the connection is lost.
    lost: Option<Failure>,
}

/// Request with an incomplete answer.
#[derive(Debug)]
struct Waiting {
    answer: Arc<Answer>,
    /// Bytes that the request counts for in [`Channel::awaited`].
    bytes: u64,
    /// Octets of messages that may still come.
    parts: u64,
}

impl Waiting {
    /// Counts the octets of a message. Returns false if the answer is too large.
    const fn count(&mut self, octets: u64) -> bool {
        match self.parts.checked_sub(octets) {
            Some(left) => {
                self.parts = left;
                true
            }
            None => false,
        }
    }
}

impl Channel {
    /// Starts the thread that receives answers on `control`.
    pub(super) fn start(control: Control) -> Result<Arc<Self>, Error> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let stream = control.open(STREAM)?;
        let channel = Arc::new(Self {
            number: NUMBER.fetch_add(1, Relaxed),
            control,
            stream,
            state: Mutex::default(),
            awaited: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
        });
        let receiver = Arc::clone(&channel);
        let thread = thread::Builder::new().name("remote files".into());
        let spawned = thread.spawn(move || {
            if let Err(error) = caught("remote files", || receiver.receive()) {
                receiver.lose(&error);
            }
        });
        spawned.map_err(|error| World::world("cannot start a thread", error))?;
        Ok(channel)
    }

    /// Returns the bytes of ranges that were requested and have not arrived.
    pub(super) fn awaited(&self) -> u64 {
        self.awaited.load(Relaxed)
    }

    /// Returns the number of messages that have arrived, or none if no answer is awaited.
    pub(super) fn progress(&self) -> Option<u64> {
        let is_idle = self.state().waiting.is_empty();
        (!is_idle).then(|| self.arrived.load(Relaxed))
    }

    /// Returns true if the connection is lost or closed.
    pub(super) fn has_ended(&self) -> bool {
        self.state().lost.is_some()
    }

    /// Closes the connection.
    pub(super) fn close(&self) {
        self.control.close();
    }

    /// Sends the request that `make` builds from a new request number. Returns the number and the answer.
    pub(super) fn ask(&self, make: impl FnOnce(u64) -> Message) -> (u64, Arc<Answer>) {
        self.ask_for(0, &[], make)
    }

    /// Sends a request for `len` bytes of a range, or with a body.
    pub(super) fn ask_for(
        &self,
        len: u32,
        body: &[u8],
        make: impl FnOnce(u64) -> Message,
    ) -> (u64, Arc<Answer>) {
        let answer = Arc::new(Answer::with_room(len as usize));
        let mut state = self.state();
        state.last += 1;
        let request = state.last;
        let message = make(request);
        let octets = message.encode();
        if let Some(failure) = &state.lost {
            answer.end(Err(failure.clone()));
            return (request, answer);
        }
        if Message::decode(&octets).is_err() {
            // the server would end the session
            answer.end(Err(too_long()));
            return (request, answer);
        }
        let waiting = Waiting {
            answer: Arc::clone(&answer),
            bytes: len.into(),
            parts: PARTS_MAX,
        };
        self.awaited.fetch_add(len.into(), Relaxed);
        state.waiting.insert(request, waiting);
        drop(state);
        if let Err(error) = self.send(octets, body) {
            self.lose(&error);
        }
        (request, answer)
    }

    /// Sends a message without an answer.
    pub(super) fn say(&self, message: &Message) {
        if !self.has_ended()
            && let Err(error) = self.send(message.encode(), &[])
        {
            self.lose(&error);
        }
    }

    fn send(&self, mut octets: Vec<u8>, body: &[u8]) -> Result<(), Error> {
        // the receiving thread ends the connection of a silent server
        while !self.stream.wait_for_room(WAIT_MAX) {}
        let head_len = octets.len();
        octets.extend_from_slice(body);
        Ok(self.stream.send(&Frame {
            datagram: false,
            head_len,
            octets,
        })?)
    }

    fn receive(&self) -> Result<(), Error> {
        let clock = Clock::start();
        loop {
            while let Some(frame) = self.stream.try_receive()? {
                self.take(&frame)?;
            }
            let watch = Watch::read(self.stream.as_raw_fd());
            let waited = wait(clock, &mut [watch], clock.now() + WAIT_MAX);
            waited.map_err(|error| World::world("cannot wait for the server", error))?;
            self.stream.woken();
        }
    }

    fn take(&self, frame: &Frame) -> Result<(), Error> {
        let (head, body) = frame.octets.split_at(frame.head_len);
        let message = Message::decode(head)?;
        let request = message.answers();
        let request = request.ok_or(PeerFault::Unexpected("an answer"))?;
        let mut state = self.state();
        let waiting = state.waiting.get_mut(&request);
        let waiting = waiting.ok_or(PeerFault::Invalid("an answer to no request"))?;
        self.arrived.fetch_add(1, Relaxed);
        if !waiting.count(head.len() as u64) {
            // the rest of the answer still arrives, and other requests continue
            waiting.answer.end(Err(too_large()));
        }
        let came = (body.len() as u64).min(waiting.bytes);
        if came < body.len() as u64 {
            return Err(PeerFault::Invalid("more bytes than a request is for").into());
        }
        waiting.bytes -= came;
        let answer = Arc::clone(&waiting.answer);
        drop(state);
        self.awaited.fetch_sub(came, Relaxed);
        if answer.add(message, body)
            && let Some(done) = self.state().waiting.remove(&request)
        {
            self.awaited.fetch_sub(done.bytes, Relaxed);
        }
        Ok(())
    }

    /// Fails all requests, since the connection has ended with `error`.
    pub(super) fn lose(&self, error: &Error) {
        let failure = Failure::lost(error);
        let mut state = self.state();
        state.lost.get_or_insert_with(|| failure.clone());
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for waiting in waiting.into_values() {
            self.awaited.fetch_sub(waiting.bytes, Relaxed);
            waiting.answer.end(Err(failure.clone()));
        }
        self.control.close();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_large() -> Failure {
    let text = "the answer has more than 256 MiB; list the directory with `lighthaul ls`, which has no such limit";
    Failure::new(FailureKind::Other, text)
}

fn too_long() -> Failure {
    let text =
        "the path, or another part of the request, is too long; a path has at most 4096 bytes";
    Failure::new(FailureKind::Invalid, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_that_is_too_large_is_found() {
        let mut waiting = Waiting {
            answer: Arc::default(),
            bytes: 0,
            parts: 10,
        };
        assert!(waiting.count(6) && waiting.count(4));
        assert!(!waiting.count(1));
    }
}
