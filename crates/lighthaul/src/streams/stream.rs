//! Streams: messages or objects that reach a program on another host while they are produced.
//!
//! ```text
//! Stream::send -> socket -> thread of the stream -> daemon -> pipe or file
//! pipe or file -> daemon -> thread of the stream -> socket -> Stream::receive
//! ```
//!
//! The daemon reads or writes the pipe. The other program opens that pipe, or has a stream of its own in the opposite
//! direction. [`Client::run_stream`] carries a pipe or file of this host instead of single messages.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_io::host::clock::Clock;
use lighthaul_remote::error::Fault as RemoteFault;
use lighthaul_remote::place::Place;
use lighthaul_remote::reach::{Reached, agreed, reach};
use lighthaul_session::error::Error;
use lighthaul_session::message::Hello;
use lighthaul_session::role::Role;
use lighthaul_stream::frames::Frames;
use lighthaul_stream::message::{Message, Report, StreamKind, StreamRequest as Wanted};
use lighthaul_stream::objects::plan;
use lighthaul_stream::run::{Settings, receive, send};

use crate::client::Client;
use crate::fault::Fault;
use crate::streams::request::{Direction, StreamRequest};
use crate::streams::timed_lock::TimedLock;
use crate::task::Task;

/// Running stream of messages, in one direction. Threads can share it.
///
/// It is also a future, which is ready at the end and needs no async runtime. Dropping this value cancels the stream.
#[derive(Debug)]
#[must_use = "a stream that is dropped is cancelled"]
pub struct Stream {
    request: StreamRequest,
    task: Task<StreamSummary>,
    socket: UnixStream,
    /// True after a message that must be the last. Whole messages go into the socket one after the other.
    sending: Mutex<bool>,
    receiving: TimedLock<Incoming>,
}

/// Result of a wait for a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// Message.
    Message(Vec<u8>),
    /// The stream has ended.
    End,
    /// No message has arrived within the time.
    Pending,
}

/// Result of a stream.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StreamSummary {
    /// Statistics of both sides.
    pub report: Report,
    /// Round-trip time of the path.
    pub rtt: Duration,
}

/// Event of a stream.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StreamEvent {
    /// Plan for objects.
    Planned {
        /// Objects per payload.
        objects: u32,
        /// Rate on the wire.
        rate: Rate,
        /// Round-trip time of the path.
        rtt: Duration,
    },
    /// Description of a route that is not direct.
    Routed(String),
}

impl Client {
    /// Opens a stream to send or receive messages. A new thread connects, so the first message can be sent at once.
    /// [`Stream::send`] and [`Stream::receive`] report a failure to connect.
    pub fn stream(&self, request: StreamRequest) -> Result<Stream, Error> {
        request.on_wire()?;
        let (ours, theirs) = UnixStream::pair().map_err(Fault::Socket)?;
        // a program that does not read must not block the thread of the stream
        theirs.set_nonblocking(true).map_err(Fault::Socket)?;
        let ended = theirs.try_clone().map_err(Fault::Socket)?;
        let receiving = ours.try_clone().map_err(Fault::Socket)?;
        let (client, carried) = (self.clone(), request.clone());
        let task = Task::start("stream", move |cancellation| {
            let end = LocalEnd {
                file: OwnedFd::from(theirs).into(),
                frames: Frames::Prefixed,
            };
            let result = cancellation.cover(|| client.carry(&carried, end, &mut |_| {}));
            // a child process may have copies of the socket, which closing it would leave open
            ended.shutdown(Shutdown::Both).ok();
            result
        })?;
        Ok(Stream {
            request,
            task,
            socket: ours,
            sending: Mutex::default(),
            receiving: TimedLock::new(Incoming::new(receiving)),
        })
    }

    /// Carries a stream between `file` and another host in the calling thread. The pipe or file is framed like that of
    /// the other host. Returns when the source has ended, or the work of this thread is cancelled.
    pub fn run_stream(
        &self,
        request: &StreamRequest,
        file: File,
        observer: &mut dyn FnMut(StreamEvent),
    ) -> Result<StreamSummary, Error> {
        let frames = request.frames;
        let end = LocalEnd { file, frames };
        Cancellation::current().cover(|| self.carry(request, end, observer))
    }

    fn carry(
        &self,
        request: &StreamRequest,
        end: LocalEnd,
        observer: &mut dyn FnMut(StreamEvent),
    ) -> Result<StreamSummary, Error> {
        if let Place::Here(_) = request.place {
            return Err(RemoteFault::NotRemote.into());
        }
        let wanted = request.on_wire()?;
        let reached = reach(self.route(), &request.place)?;
        let session = &reached.session;
        session.ask::<Message>(Hello {
            plain: request.plain,
            rate_bps: request.rate.map(Rate::as_bps),
            ..Hello::about::<Message>(&wanted)
        })?;
        let carried = agreed(session).and_then(|()| {
            announce(&wanted, &reached, observer)?;
            let is_direct = self.route().gateway.is_none() && reached.through_ssh.is_none();
            let role = Role::Client(request.udp && is_direct);
            let settings = Settings {
                plain: request.plain,
                rate: request.rate,
            };
            let frames = end.frames;
            let here = Wanted { frames, ..wanted };
            if here.to {
                send(session, &role, &here, end.file, settings)
            } else {
                receive(session, &role, &here, end.file, settings)
            }
        });
        if let Err(error) = &carried {
            session.give_up(error);
        }
        Ok(StreamSummary {
            report: carried?,
            rtt: session.rtt,
        })
    }
}

/// Message that arrives. Another call continues it, if a wait ends in its middle.
#[derive(Debug)]
struct Incoming {
    /// Small messages are read together, and large ones straight into their place.
    socket: BufReader<UnixStream>,
    head: [u8; 4],
    /// Bytes after the head; none until the head is complete.
    body: Option<Vec<u8>>,
    /// Number of bytes that the head, or the body, has by now.
    filled: usize,
}

/// Result of one read.
enum Step {
    Message(Vec<u8>),
    End,
    More,
}

impl Incoming {
    fn new(socket: UnixStream) -> Self {
        Self {
            socket: BufReader::with_capacity(BUFFER, socket),
            head: [0; 4],
            body: None,
            filled: 0,
        }
    }

    /// Reads once, and returns the message if it is complete.
    fn step(&mut self) -> io::Result<Step> {
        let place = match &mut self.body {
            Some(body) => &mut body[self.filled..],
            None => &mut self.head[self.filled..],
        };
        if !place.is_empty() {
            match self.socket.read(place)? {
                0 if self.body.is_none() && self.filled == 0 => return Ok(Step::End),
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                read => self.filled += read,
            }
        }
        let len = self.body.as_ref().map_or(self.head.len(), Vec::len);
        if self.filled < len {
            return Ok(Step::More);
        }
        self.filled = 0;
        if let Some(message) = self.body.take() {
            return Ok(Step::Message(message));
        }
        self.body = Some(vec![0; u32::from_be_bytes(self.head) as usize]);
        Ok(Step::More)
    }
}

/// Pipe, file or socket on this host.
struct LocalEnd {
    file: File,
    frames: Frames,
}

fn announce(
    wanted: &Wanted,
    reached: &Reached,
    observer: &mut dyn FnMut(StreamEvent),
) -> Result<(), Error> {
    if let StreamKind::Objects(how) = &wanted.kind {
        let rtt = reached.session.rtt;
        let plan = plan(how, rtt)?;
        let (objects, rate) = (plan.objects, plan.rate);
        observer(StreamEvent::Planned { objects, rate, rtt });
    }
    if let Some(route) = reached.route() {
        observer(StreamEvent::Routed(route));
    }
    Ok(())
}

impl Stream {
    /// Sends a message. Waits while the buffer of the stream is full.
    ///
    /// With datagrams, a message must fit in one, about 1,400 bytes. Objects have at most the size in the request.
    pub fn send(&self, message: &[u8]) -> Result<(), Error> {
        self.require(Direction::To)?;
        let len = u32::try_from(message.len()).map_err(|_| Fault::HugeMessage)?;
        let written = {
            let mut is_last = locked(&self.sending);
            *is_last = self.request.check(message, *is_last)?;
            let mut socket = &self.socket;
            let begun = socket.write_all(&len.to_be_bytes());
            begun.and_then(|()| socket.write_all(message))
        };
        written.map_err(|_| self.failure())
    }

    /// Waits for the next message. Returns none at the end of the stream.
    pub fn receive(&self) -> Result<Option<Vec<u8>>, Error> {
        self.require(Direction::From)?;
        let mut turn = self.receiving.lock();
        loop {
            match turn.value.step() {
                Ok(Step::Message(message)) => return Ok(Some(message)),
                Ok(Step::End) => return self.task.wait().map(|_| None),
                Ok(Step::More) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(self.failure()),
            }
        }
    }

    /// Returns another descriptor of the socket of the messages, for programs with an event loop or with buffers of their
    /// own. Each message follows its length in four bytes, big-endian. The other end is closed at the end of the stream.
    ///
    /// A program uses either this socket or [`Stream::send`] and [`Stream::receive`].
    pub fn socket(&self) -> Result<UnixStream, Error> {
        Ok(self.socket.try_clone().map_err(Fault::Socket)?)
    }

    /// Waits for the next message, for `timeout` at most. A message that has arrived is returned even without time.
    pub fn receive_within(&self, timeout: Duration) -> Result<Received, Error> {
        self.require(Direction::From)?;
        let clock = Clock::start();
        let start = clock.now();
        let left = || timeout.saturating_sub(clock.now().since(start));
        // another thread may wait for a message
        let Some(mut turn) = self.receiving.lock_within(left()) else {
            return Ok(Received::Pending);
        };
        loop {
            let limit = left();
            let ended = match self.step_within(&mut turn.value, limit)? {
                Ok(Step::Message(message)) => return Ok(Received::Message(message)),
                Ok(Step::More) => continue,
                Ok(Step::End) => self.task.wait_for(left()).map(|ended| ended.map(drop)),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if is_timeout(&error) && limit.is_zero() => None,
                Err(error) if is_timeout(&error) => continue,
                Err(_) => self.task.wait_for(left()).map(|ended| Err(failure(ended))),
            };
            // the socket may end shortly before the stream
            return ended.map_or(Ok(Received::Pending), |ended| ended.map(|()| Received::End));
        }
    }

    /// Reads once, and waits for bytes for `limit` at most; not at all if that is zero.
    fn step_within(
        &self,
        incoming: &mut Incoming,
        limit: Duration,
    ) -> Result<io::Result<Step>, Fault> {
        if limit.is_zero() {
            let set = |is| self.socket.set_nonblocking(is).map_err(Fault::Socket);
            set(true)?;
            let step = incoming.step();
            return set(false).map(|()| step);
        }
        let set = |limit| self.socket.set_read_timeout(limit).map_err(Fault::Socket);
        set(Some(limit))?;
        let step = incoming.step();
        set(None).map(|()| step)
    }

    /// Ends the input of a stream that sends, so that the stream ends once all messages have arrived.
    pub fn close(&self) {
        let _turn = locked(&self.sending);
        // it fails if the stream has ended
        self.socket.shutdown(Shutdown::Write).ok();
    }

    /// Cancels the stream, also from another thread. It ends with [`Code::Interrupted`](crate::Code::Interrupted).
    pub fn cancel(&self) {
        self.task.cancel();
    }

    /// Returns true if the stream has ended.
    pub fn is_finished(&self) -> bool {
        self.task.result().is_some()
    }

    /// Returns the direction of the stream.
    pub const fn direction(&self) -> Direction {
        self.request.direction
    }

    /// Closes the input, and waits until all messages have arrived. A stream that receives drops messages that were not
    /// received, and ends with its source.
    pub fn finish(&self) -> Result<StreamSummary, Error> {
        if self.request.direction == Direction::From {
            while self.receive()?.is_some() {}
        }
        self.close();
        self.task.wait()
    }

    /// Waits for the end, for `timeout` at most, without closing the input. Returns none if the stream has not ended.
    pub fn wait_for(&self, timeout: Duration) -> Option<Result<StreamSummary, Error>> {
        self.task.wait_for(timeout)
    }

    /// Returns the failure of a stream whose socket has failed.
    fn failure(&self) -> Error {
        failure(self.task.wait())
    }

    fn require(&self, direction: Direction) -> Result<(), Error> {
        let fits = self.request.direction == direction;
        fits.then_some(())
            .ok_or_else(|| Fault::OtherDirection.into())
    }
}

impl Future for Stream {
    type Output = Result<StreamSummary, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.task.poll(context)
    }
}

impl Future for &Stream {
    type Output = Result<StreamSummary, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.task.poll(context)
    }
}

/// Returns the failure of a stream whose socket has failed, and which has ended like this.
fn failure(ended: Result<StreamSummary, Error>) -> Error {
    ended.err().unwrap_or_else(|| Fault::StreamEnded.into())
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum number of bytes of small messages that are read together.
const BUFFER: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread;

    use lighthaul_stream::message::Report;

    use super::*;

    /// Returns a stream, the socket of its thread, and a sender whose drop ends the stream.
    fn stream() -> (Stream, UnixStream, Sender<()>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (running, end) = channel::<()>();
        let task = Task::start("stream", move |_| {
            end.recv().ok();
            Ok(StreamSummary {
                report: Report::default(),
                rtt: Duration::ZERO,
            })
        });
        let stream = Stream {
            request: StreamRequest::from(Place::parse("lh://far/pipe").unwrap()),
            task: task.unwrap(),
            receiving: TimedLock::new(Incoming::new(ours.try_clone().unwrap())),
            socket: ours,
            sending: Mutex::default(),
        };
        (stream, theirs, running)
    }

    fn message(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
    }

    #[test]
    fn message_that_has_arrived_is_received_without_time() {
        let (stream, mut theirs, running) = stream();
        let now = || stream.receive_within(Duration::ZERO).unwrap();
        assert_eq!(now(), Received::Pending);
        let large = vec![7; 3 * BUFFER];
        theirs.write_all(&message(b"one")).unwrap();
        theirs.write_all(&message(b"")).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| theirs.write_all(&message(&large)).unwrap());
            assert_eq!(now(), Received::Message(b"one".to_vec()));
            assert_eq!(now(), Received::Message(Vec::new()));
            let waited = stream.receive_within(Duration::from_mins(1)).unwrap();
            assert!(waited == Received::Message(large.clone()));
        });
        // the rest of a message may come later
        theirs.write_all(&message(b"two")[..5]).unwrap();
        assert_eq!(now(), Received::Pending);
        theirs.write_all(b"wo").unwrap();
        assert_eq!(now(), Received::Message(b"two".to_vec()));
        // the end needs no time either, nor does a wait for it
        theirs.shutdown(Shutdown::Both).unwrap();
        assert_eq!(now(), Received::Pending);
        drop(running);
        let end = stream.receive_within(Duration::from_mins(1)).unwrap();
        assert_eq!((end, now()), (Received::End, Received::End));
    }

    #[test]
    fn wait_beside_another_receiver_ends_in_time() {
        let (stream, mut theirs, _running) = stream();
        thread::scope(|scope| {
            let first = scope.spawn(|| stream.receive().unwrap());
            while stream.receiving.lock_within(Duration::ZERO).is_some() {
                thread::yield_now();
            }
            for millis in [0, 5] {
                let received = stream.receive_within(Duration::from_millis(millis));
                assert_eq!(received.unwrap(), Received::Pending);
            }
            theirs.write_all(&message(b"one")).unwrap();
            assert_eq!(first.join().unwrap(), Some(b"one".to_vec()));
        });
        theirs.write_all(&message(b"two")).unwrap();
        let next = stream.receive_within(Duration::ZERO).unwrap();
        assert_eq!(next, Received::Message(b"two".to_vec()));
    }
}
