//! Stream of a control connection.
//!
//! [`Stream`] sends and receives frames with one number. [`Stream::receive`] waits; [`Stream::try_receive`] does not,
//! and the stream's descriptor tells poll(2) when to call it. Call [`Stream::woken`] after each such wait. All
//! streams of a connection share its outgoing queue, so check for room before sending bodies.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;

use super::frame::{Frame, HEADER};
use super::queues::{Closer, Queues, Shared, UNREAD};
use crate::crypto::cipher::TAG_LEN;
use crate::error::Error;
use crate::host::clock::Clock;
use crate::host::interrupt;
use crate::host::wait::{Waker, Watch, wait};

/// Interval at which a waiting thread checks for a signal that another thread has received.
const LISTEN: Duration = Duration::from_millis(100);

/// Maximum number of octets of a head that a body follows.
const HEAD_MAX: usize = 255;

/// Stream of a control connection, which sends and receives frames.
#[derive(Debug)]
pub struct Stream {
    pub(super) shared: Arc<Shared>,
    pub(super) _closer: Arc<Closer>,
    pub(super) number: u16,
    pub(super) waker: Waker,
}

impl Stream {
    /// Resets the stream's descriptor; call this function after each wait on the descriptor.
    pub fn woken(&self) {
        self.waker.drain();
        self.waker.lower();
        let queues = self.shared.lock();
        let incoming = queues.incoming.get(&self.number);
        if queues.ended.is_some() || incoming.is_some_and(|i| !i.frames.is_empty()) {
            self.waker.raise();
        }
    }

    /// Returns the peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.shared.peer
    }

    /// Returns the stream's number.
    pub const fn number(&self) -> u16 {
        self.number
    }

    /// Returns true if the outgoing queue can take a frame. Otherwise the descriptor becomes readable when it can.
    pub fn has_room(&self) -> bool {
        let queues = self.shared.lock();
        queues.outgoing_bytes <= queues.outgoing_max() || queues.ended.is_some()
    }

    /// Waits at most `timeout` until a message may be queued, even if packets fill the queue.
    /// Returns true if a message may be queued, or the connection has ended.
    pub fn wait_for_room(&self, timeout: Duration) -> bool {
        let is_full = |q: &mut Queues| q.outgoing_bytes > q.messages_max() && q.ended.is_none();
        let queues = self.shared.lock();
        let waited = self
            .shared
            .room
            .wait_timeout_while(queues, timeout, is_full);
        let (mut queues, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !is_full(&mut queues)
    }

    /// Queues `frame`, even beyond the queue's limit: check [`Stream::has_room`] or [`Stream::wait_for_room`] first.
    /// Fails if the connection has ended. A peer that leaves more than twice the limit unread ends it.
    pub fn send(&self, frame: &Frame) -> Result<(), Error> {
        let (head, body) = frame.octets.split_at(frame.head_len);
        self.send_parts(frame.datagram, [head, body], body.is_empty())
    }

    /// Queues a frame of a head and a body. With `whole`, the peer treats both together as the head.
    pub(crate) fn send_parts(
        &self,
        datagram: bool,
        [head, body]: [&[u8]; 2],
        whole: bool,
    ) -> Result<(), Error> {
        let len = head.len() + body.len();
        let mut octets = Vec::with_capacity(HEADER + len + TAG_LEN);
        octets.extend_from_slice(&(len as u32).to_be_bytes());
        octets.extend_from_slice(&self.number.to_be_bytes());
        octets.push(u8::from(datagram) | (u8::from(whole) << 1));
        octets.push(if whole { 0 } else { head_octet(head.len()) });
        octets.extend_from_slice(head);
        octets.extend_from_slice(body);
        let shared = &self.shared;
        let mut queues = shared.lock();
        if let Some(end) = &queues.ended {
            return Err(end.error());
        }
        if queues.outgoing_bytes > queues.unread_max() {
            // the thread of the connection ends it, also for all other users
            queues.unread = true;
            drop(queues);
            shared.waker.raise();
            let text = format!("the connection to {} was lost: {UNREAD}", shared.peer);
            return Err(Error::Network(text));
        }
        queues.outgoing_bytes += octets.len();
        queues.outgoing.push_back(octets);
        drop(queues);
        shared.waker.raise();
        Ok(())
    }

    /// Returns the next frame, or `None` if none has arrived. Fails after the last frame of an ended connection.
    pub fn try_receive(&self) -> Result<Option<Frame>, Error> {
        if !self.waker.is_up() {
            return Ok(None);
        }
        let mut queues = self.shared.lock();
        let incoming = queues.incoming.get_mut(&self.number);
        let frames = incoming.map(|incoming| &mut incoming.frames);
        let (frame, more) = frames.map_or((None, false), |f| (f.pop_front(), !f.is_empty()));
        // The waker stays up while there are frames, or an error to report.
        if !more && queues.ended.is_none() {
            self.waker.lower();
        }
        let Some(frame) = frame else {
            return match &queues.ended {
                Some(end) => Err(end.error()),
                None => Ok(None),
            };
        };
        let enough = queues.incoming_max() / 2;
        let was_full = queues.incoming_bytes > enough;
        queues.incoming_bytes -= frame.cost();
        let resume = was_full && queues.incoming_bytes <= enough;
        drop(queues);
        if resume {
            self.shared.waker.raise();
        }
        Ok(Some(frame))
    }

    /// Waits for the next frame until `deadline` of `clock`. Fails on a timeout, an interrupt or the connection's end.
    pub fn receive(&self, clock: Clock, deadline: Instant) -> Result<Frame, Error> {
        loop {
            if let Some(frame) = self.try_receive()? {
                return Ok(frame);
            }
            if clock.now() >= deadline {
                return Err(Error::TimedOut(
                    "the peer did not answer before the deadline".into(),
                ));
            }
            let failed = |error| Error::world("cannot wait for the peer", error);
            interrupt::check()?;
            let until = deadline.min(clock.now() + LISTEN);
            wait(clock, &mut [Watch::read(self.as_raw_fd())], until).map_err(failed)?;
            self.woken();
        }
    }
}

/// Returns the length of a head that a body follows, in the encoding of the header. Panics above 255 octets.
fn head_octet(len: usize) -> u8 {
    assert!(
        len <= HEAD_MAX,
        "a head of {len} octets before a body is too long"
    );
    len as u8
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.waker.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_of_a_head_before_a_body_fits_in_an_octet() {
        assert_eq!([0, 1, 255].map(head_octet), [0, 1, 255]);
    }

    #[test]
    #[should_panic(expected = "256 octets")]
    fn longer_head_before_a_body_is_not_sent() {
        head_octet(256);
    }
}
