//! Connection to one neighbor, and the messages that wait for it.
//!
//! A message leaves at once if the neighbor has greeted and the connection has room. Otherwise it waits: the oldest
//! messages are dropped beyond [`WAITING_MAX`] and [`WAITING_BYTES_MAX`], and all that have waited for [`STALE`]. The
//! machine repeats them.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::control::{Control, Frame, QueueLimit, Stream};
use lighthaul_io::host::wait::Waker;
use lighthaul_stargate::DomainId;

use crate::greeting::greeting;
use crate::link_fault::LinkFault;

/// Link to one neighbor.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) me: DomainId,
    pub(crate) neighbor: DomainId,
    state: Mutex<LinkState>,
    /// Raised when the thread of the link has something to do.
    pub(crate) wake: Waker,
}

/// State that the threads of a link share.
#[derive(Debug, Default)]
struct LinkState {
    connection: Option<Connection>,
    waiting: Waiting,
    /// Number of the last connection.
    last: u64,
    /// Time at which the present call began.
    calling: Option<Instant>,
    /// Connection of the present call.
    called: Option<TcpStream>,
    /// Time of the next call.
    call_at: Instant,
    status: LinkStatus,
}

/// Connection that is in use.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// Sequence number.
    pub(crate) number: u64,
    pub(crate) stream: Arc<Stream>,
    control: Control,
    opened_by: DomainId,
    /// True once the neighbor has greeted.
    pub(crate) is_greeted: bool,
}

/// Status of the link to one neighbor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStatus {
    /// True if the neighbor has authenticated and greeted.
    pub is_connected: bool,
    /// Number of connections since the start.
    pub connections: u64,
    /// Messages to the neighbor.
    pub sent: u64,
    /// Messages from the neighbor.
    pub received: u64,
    /// Messages to the neighbor that were dropped while there was no connection or no room.
    pub dropped: u64,
    /// Time in nanoseconds by which the clock of the neighbor was ahead of this clock at its last message, without the
    /// delay of the message; none before a message.
    pub clock_offset_ns: Option<i64>,
    /// Last fault of the link.
    pub fault: Option<LinkFault>,
}

impl Link {
    pub(crate) fn new(me: DomainId, neighbor: DomainId) -> std::io::Result<Self> {
        Ok(Self {
            me,
            neighbor,
            state: Mutex::default(),
            wake: Waker::new()?,
        })
    }

    /// Takes a connection with the neighbor into use, unless another connection is kept. Returns true if it is used.
    pub(crate) fn offer(&self, control: &Control, opened_by: DomainId) -> bool {
        let mut state = self.state();
        if let Some(present) = &state.connection {
            let is_other = present.opened_by != opened_by;
            let is_kept = present.opened_by < opened_by && !present.control.has_ended();
            if is_other && is_kept {
                return false;
            }
        }
        control.limit_queues(QueueLimit::Least);
        control.limit_silence(SILENCE_MAX);
        let Ok(stream) = control.open(STREAM) else {
            return false;
        };
        let frame = Frame::message(greeting(self.me, self.neighbor));
        if stream.send(&frame).is_err() {
            return false;
        }
        state.last += 1;
        state.status.connections += 1;
        state.status.is_connected = false;
        state.connection = Some(Connection {
            number: state.last,
            stream: Arc::new(stream),
            control: control.clone(),
            opened_by,
            is_greeted: false,
        });
        drop(state);
        self.wake.raise();
        true
    }

    /// Sends a message, or keeps it for a while without a connection or without room in its queue.
    pub(crate) fn send(&self, octets: Vec<u8>, now: Instant) {
        let mut state = self.state();
        let dropped = state.waiting.push(now, octets);
        state.status.dropped += dropped;
        state.flush(now);
        let has_rest = !state.waiting.messages.is_empty();
        drop(state);
        if has_rest {
            self.wake.raise();
        }
    }

    /// Sends queued messages, as far as the connection has room. Before its greeting, a neighbor gets no message.
    pub(crate) fn flush(&self, now: Instant) {
        self.state().flush(now);
    }

    /// Sends an empty frame, which shows that this side is alive.
    pub(crate) fn keep_alive(&self) {
        if let Some(connection) = &self.state().connection {
            // an error also ends the connection
            connection.stream.send(&Frame::message(Vec::new())).ok();
        }
    }

    /// Returns the connection that is in use.
    pub(crate) fn connection(&self) -> Option<Connection> {
        self.state().connection.clone()
    }

    /// Notes that the neighbor has greeted.
    pub(crate) fn greeted(&self, number: u64) {
        let mut state = self.state();
        if let Some(connection) = state.of(number) {
            connection.is_greeted = true;
            state.status.is_connected = true;
            state.status.fault = None;
        }
    }

    /// Counts messages from the neighbor.
    pub(crate) fn count_received(&self, count: u64) {
        self.state().status.received += count;
    }

    /// Notes the time at which the neighbor sent a message that arrived at `now`, both in wall-clock time. Returns the
    /// offset of its clock.
    pub(crate) fn note_clock(&self, sent: Instant, now: Instant) -> i64 {
        let offset = i128::from(sent.as_nanos()) - i128::from(now.as_nanos());
        let offset = i64::try_from(offset).unwrap_or(if offset > 0 { i64::MAX } else { i64::MIN });
        self.state().status.clock_offset_ns = Some(offset);
        offset
    }

    /// Ends a connection, unless another connection has replaced it. Returns true if it was in use.
    pub(crate) fn end(&self, number: u64, fault: LinkFault) -> bool {
        let mut state = self.state();
        if state.of(number).is_none() {
            return false;
        }
        if let Some(connection) = state.connection.take() {
            connection.control.close();
        }
        state.status.is_connected = false;
        state.status.fault = Some(fault);
        true
    }

    /// Closes the connection.
    pub(crate) fn close(&self) {
        if let Some(connection) = self.state().connection.take() {
            connection.control.close();
        }
    }

    /// Begins a call if one is due, and neither a connection nor another call exists. Otherwise returns the time of the
    /// next look. A call that takes too long is ended.
    pub(crate) fn begin_call(&self, now: Instant) -> Result<(), Instant> {
        let mut state = self.state();
        if let Some(since) = state.calling {
            let end = since + CALL_MAX;
            if now < end {
                return Err(end);
            }
            if let Some(tcp) = state.called.take() {
                // the thread of the call then ends
                tcp.shutdown(Shutdown::Both).ok();
            }
            let given_up = end + CALL_MAX;
            if now < given_up {
                return Err(given_up);
            }
            state.calling = None;
        }
        if state.connection.is_some() {
            return Err(Instant::NEVER);
        }
        if now < state.call_at {
            return Err(state.call_at);
        }
        state.calling = Some(now);
        Ok(())
    }

    /// Stores the outbound connection, so that a handshake timeout can close it.
    pub(crate) fn called(&self, tcp: &TcpStream) {
        self.state().called = tcp.try_clone().ok();
    }

    /// Sets the time of the next call.
    pub(crate) fn call_at(&self, at: Instant) {
        self.state().call_at = at;
        self.wake.raise();
    }

    /// Notes the fault of a connection that was refused.
    pub(crate) fn note(&self, fault: LinkFault) {
        let mut state = self.state();
        if state.connection.is_none() {
            state.status.fault = Some(fault);
        }
    }

    /// Notes that a call has ended, with its fault.
    pub(crate) fn end_call(&self, fault: Option<LinkFault>) {
        let mut state = self.state();
        state.calling = None;
        state.called = None;
        if fault.is_some() && state.connection.is_none() {
            state.status.fault = fault;
        }
        drop(state);
        self.wake.raise();
    }

    /// Returns the status.
    pub(crate) fn status(&self) -> LinkStatus {
        self.state().status.clone()
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LinkState {
    fn of(&mut self, number: u64) -> Option<&mut Connection> {
        self.connection
            .as_mut()
            .filter(|connection| connection.number == number)
    }

    fn flush(&mut self, now: Instant) {
        self.status.dropped += self.waiting.drop_stale(now);
        let Some(connection) = self.connection.as_ref().filter(|one| one.is_greeted) else {
            return;
        };
        while connection.stream.has_room()
            && let Some(octets) = self.waiting.pop()
        {
            match connection.stream.send(&Frame::message(octets)) {
                Ok(()) => self.status.sent += 1,
                Err(_) => self.status.dropped += 1,
            }
        }
    }
}

/// Messages that wait, each with the time since when it waits.
#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
}

impl Waiting {
    /// Adds a message. Returns the number of older messages that were dropped for it.
    fn push(&mut self, now: Instant, octets: Vec<u8>) -> u64 {
        self.bytes += octets.len();
        self.messages.push_back((now, octets));
        let mut dropped = 0;
        while self.messages.len() > WAITING_MAX || self.bytes > WAITING_BYTES_MAX {
            self.pop();
            dropped += 1;
        }
        dropped
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let (_, octets) = self.messages.pop_front()?;
        self.bytes -= octets.len();
        Some(octets)
    }

    /// Drops messages that have waited for too long, and returns their number.
    fn drop_stale(&mut self, now: Instant) -> u64 {
        let mut dropped = 0;
        while let Some((since, _)) = self.messages.front()
            && now.since(*since) > STALE
        {
            self.pop();
            dropped += 1;
        }
        dropped
    }
}

/// Stream of all frames.
const STREAM: u16 = 1;
/// Maximum number of messages that wait for a connection or for room in its queue.
const WAITING_MAX: usize = 4096;
/// Maximum number of octets of waiting messages.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// Time after which a waiting message is dropped.
const STALE: Duration = Duration::from_secs(1);
/// Time for a call, from the first address to the end of the handshake.
const CALL_MAX: Duration = Duration::from_secs(40);
/// Silence of a neighbor after which its connection ends.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Time between two empty frames.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::io::Read;

    use lighthaul_io::net::tcp;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn too_long_call_is_ended_and_another_call_begins() {
        let link = Link::new(DomainId(1), DomainId(2)).unwrap();
        let listener = tcp::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        let near = tcp::connect("127.0.0.1", port).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        assert_eq!(link.begin_call(at(0)), Ok(()));
        link.called(&near);
        let (end, given_up) = (at(40_000), at(80_000));
        assert_eq!(link.begin_call(at(39_999)), Err(end));
        assert_eq!(link.begin_call(end), Err(given_up));
        assert_eq!(far.read(&mut [0]).unwrap(), 0, "the connection is closed");
        assert_eq!(link.begin_call(at(79_999)), Err(given_up));
        assert_eq!(link.begin_call(given_up), Ok(()));
        link.call_at(at(90_000));
        link.end_call(None);
        assert_eq!(link.begin_call(at(89_999)), Err(at(90_000)));
        assert_eq!(link.begin_call(at(90_000)), Ok(()));
    }

    #[test]
    fn oldest_messages_are_dropped_beyond_number_size_and_age() {
        let mut waiting = Waiting::default();
        for nth in 0..WAITING_MAX {
            assert_eq!(waiting.push(at(nth as u64), vec![1; 10]), 0);
        }
        assert_eq!(waiting.push(at(5000), vec![2; 10]), 1);
        assert_eq!(waiting.drop_stale(at(2001)), 1000);
        assert_eq!(waiting.messages.len(), WAITING_MAX - 1000);
        assert_eq!(waiting.bytes, waiting.messages.len() * 10);
        let mut dropped = 0;
        for _ in 0..200 {
            dropped += waiting.push(at(6000), vec![3; 32 << 10]);
        }
        let (count, bytes) = (waiting.messages.len(), waiting.bytes);
        assert_eq!(dropped as usize + count, WAITING_MAX - 1000 + 200);
        assert_eq!((count, bytes), (128, WAITING_BYTES_MAX));
        assert_eq!(waiting.drop_stale(at(9000)), 128);
        assert_eq!((waiting.pop(), waiting.bytes), (None, 0));
    }
}
