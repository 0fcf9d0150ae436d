//! Session: a connection of two hosts that know each other's keys.
//!
//! The client connects and the server accepts; both authenticate with TLS. Messages of the session
//! and of its topics travel on stream 0, objects on the streams of the lanes.

use std::any::Any;
use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::control::{Control, Frame, Stream};
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::crypto::tls::{self, Side};
use lighthaul_io::error::Error as World;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::net::tcp::{self, round_trip};

use crate::error::{Code, Error};
use crate::fault::{Fault, PeerFault};
use crate::halt::Halt;
use crate::message::{Hello, Message};
use crate::secrets::{JOINS_MAX, Secrets};
use crate::topic::{MESSAGE_MAX, Topic, malformed};

/// Stream of the messages of all topics.
const MESSAGE_STREAM: u16 = 0;
/// Stream of the first lane; the streams of the other lanes follow. A topic uses the streams below.
pub const LANES: u16 = 3;
/// Longest wait for an answer.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait until the peer has received the last message.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest wait for further connections over a route that needs no time of its own.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest round-trip time that a client may report.
const RTT_MAX: Duration = Duration::from_secs(10);
/// Interval at which a waiting side checks whether the session is halted.
const HALT_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of frames that are read without a pause.
const READS_MAX: usize = 16;

/// Authenticated connection to a peer.
// fields: what both sides derive from one connection, and what was heard on it
#[derive(Debug)]
pub struct Session {
    /// Opens further streams.
    pub control: Control,
    /// Stream of the messages of all topics.
    pub stream: Stream,
    /// Keys and numbers that both ends derived.
    pub secrets: Secrets,
    /// Fingerprint of the peer's key.
    pub peer: Fingerprint,
    /// Clock of the session.
    pub clock: Clock,
    /// Round-trip time that TCP measured during the handshake.
    pub rtt: Duration,
    /// Halt by other threads.
    pub halt: Arc<Halt>,
    /// Identity of the client for further connections; none on the server.
    identity: Option<Identity>,
    /// Route of the client, if it is not a direct connection to the peer's address.
    call: Option<Arc<dyn Call>>,
    /// Error that the peer reported.
    told: Mutex<Option<Error>>,
    /// Time of the last frame of the peer, in nanoseconds of the clock.
    heard_at: AtomicU64,
    /// The peer's counter of its work, as last received.
    told_work: AtomicU64,
    /// True if the server's agreement to a request was neither received nor waited for.
    unheard_welcome: AtomicBool,
    /// Value that the threads and connections of this session keep; see [`Session::keep`].
    kept: Option<Kept>,
}

/// Value that is dropped when the last thread or connection of a session has ended.
pub type Kept = Arc<dyn Any + Send + Sync>;

/// Route to a peer, for the first connection and for further connections.
pub trait Call: fmt::Debug + Send + Sync {
    /// Opens a connection, with the timeouts of a handshake ([`tcp::with_handshake_timeouts`]).
    fn call(&self) -> Result<TcpStream, Error>;

    /// Returns the maximum useful number of further connections, over a path with the given round-trip time.
    fn connections_max(&self, _rtt: Duration) -> u8 {
        JOINS_MAX
    }

    /// Returns true if each connection carries a limited rate, so that all are used from the start.
    fn is_limited(&self) -> bool {
        false
    }

    /// Returns the longest wait for further connections. Later ones are not used.
    fn patience(&self) -> Duration {
        CONNECT_TIMEOUT
    }
}

impl Session {
    /// Performs the handshake on `tcp`. The caller decides whether the peer is admitted.
    pub fn start(tcp: TcpStream, side: Side, identity: &Identity) -> Result<Self, Error> {
        Self::begin(tcp, side, identity, false)
    }

    /// Connects by `call`, and performs the handshake. Its duration bounds the round-trip time from
    /// below, since a proxy may end the TCP connection.
    pub fn start_by(call: Arc<dyn Call>, identity: &Identity) -> Result<Self, Error> {
        let tcp = call.call()?;
        let clock = Clock::start();
        let mut session = Self::start(tcp, Side::Client, identity)?;
        session.rtt = session.rtt.max(clock.now().since(Instant::ZERO));
        session.call = Some(call);
        Ok(session)
    }

    /// Performs the handshake as a server. Little is stored for an unknown client until
    /// [`Control::authorize`] admits it.
    pub fn meet(tcp: TcpStream, identity: &Identity) -> Result<Self, Error> {
        Self::begin(tcp, Side::Server, identity, true)
    }

    fn begin(
        mut tcp: TcpStream,
        side: Side,
        identity: &Identity,
        wary: bool,
    ) -> Result<Self, Error> {
        let tls = tls::handshake(&mut tcp, side, identity)?;
        let peer = tls::peer(&tls)?;
        let secrets = Secrets::derive(side, |context| tls::export(&tls, context))?;
        let rtt = round_trip(&tcp).unwrap_or_default();
        let control = if wary {
            Control::start_unauthorized(tcp, tls)?
        } else {
            Control::start(tcp, tls)?
        };
        let stream = control.open(MESSAGE_STREAM)?;
        Ok(Self {
            control,
            stream,
            secrets,
            peer,
            clock: Clock::start(),
            rtt,
            halt: Arc::default(),
            identity: (side == Side::Client).then(|| identity.clone()),
            call: None,
            told: Mutex::default(),
            heard_at: AtomicU64::new(0),
            told_work: AtomicU64::new(0),
            unheard_welcome: AtomicBool::new(false),
            kept: None,
        })
    }

    /// Keeps `value` until this connection and all further ones of the session have ended, with the threads that open
    /// them.
    pub fn keep(&mut self, value: Kept) {
        self.control.attach(Kept::clone(&value));
        self.kept = Some(value);
    }

    /// Returns a function that connects to the peer once more, with the same key and route.
    pub fn call_again(&self) -> Result<impl FnOnce() -> Result<Self, Error> + use<>, Error> {
        let identity = self.identity.clone();
        let identity = identity.ok_or(Fault::NotClient)?;
        let (address, peer, call) = (self.peer_address(), self.peer, self.call.clone());
        let kept = self.kept.clone();
        Ok(move || {
            let tcp = match call {
                Some(call) => call.call()?,
                None => tcp::connect(&address.ip().to_string(), address.port())?,
            };
            let mut session = Self::start(tcp, Side::Client, &identity)?;
            if let Some(kept) = kept {
                session.keep(kept);
            }
            if session.peer == peer {
                return Ok(session);
            }
            Err(Fault::OtherHost.into())
        })
    }

    /// Returns the maximum number of further connections that the client opens, and the longest wait for them.
    pub fn join_limits(&self) -> (u8, Duration) {
        let call = self.call.as_deref();
        call.map_or((JOINS_MAX, CONNECT_TIMEOUT), |call| {
            (call.connections_max(self.rtt), call.patience())
        })
    }

    /// Returns true if each connection carries a limited rate.
    pub fn are_connections_limited(&self) -> bool {
        self.call.as_deref().is_some_and(Call::is_limited)
    }

    /// Takes the round-trip time that the client measured, if it is longer: TCP measures only the way to the last
    /// proxy.
    pub fn learn_rtt(&mut self, micros: u32) {
        let told = Duration::from_micros(micros.into()).min(RTT_MAX);
        self.rtt = self.rtt.max(told);
    }

    /// Sends `message`.
    pub fn say<M: Topic>(&self, message: &M) -> Result<(), Error> {
        Self::say_on(&self.stream, message)
    }

    pub(crate) fn say_on<M: Topic>(stream: &Stream, message: &M) -> Result<(), Error> {
        let octets = message.encode();
        if octets.len() > MESSAGE_MAX {
            // lists are sent in parts, so only texts of the user can be this long
            return Err(Fault::RequestTooLong.into());
        }
        Ok(stream.send(&Frame::message(octets))?)
    }

    /// Sends `hello`, a request of topic `M`. Fails if the peer would reject it as too long.
    pub fn ask<M: Topic>(&self, mut hello: Hello) -> Result<(), Error> {
        hello.rtt_us = u32::try_from(self.rtt.as_micros()).unwrap_or(u32::MAX);
        let request = hello.request::<M>();
        let message = Message::Hello(hello);
        if request.is_err() || Message::decode(&message.encode()).is_err() {
            return Err(Fault::RequestTooLong.into());
        }
        self.say(&message)
    }

    /// Sends `hello` like [`Self::ask`], and assumes that the server agrees: further messages may follow at once. A
    /// refusal is the error of the next message.
    pub fn ask_ahead<M: Topic>(&self, hello: Hello) -> Result<(), Error> {
        self.unheard_welcome.store(true, Relaxed);
        self.ask::<M>(hello)
    }

    /// Returns true if the server has not agreed to a request yet; see [`Self::ask_ahead`].
    pub(crate) fn awaits_welcome(&self) -> bool {
        self.unheard_welcome.load(Relaxed)
    }

    /// Reports `error` to the peer.
    pub fn tell(&self, error: &Error) -> Result<(), Error> {
        self.say(&Message::Failed {
            code: error.code() as u8,
            why: error.text(),
        })
    }

    /// Returns the next message of topic `M` that has arrived, if any. An error that the peer
    /// reports is returned as ours.
    pub fn heard<M: Topic>(&self) -> Result<Option<M>, Error> {
        self.heard_on(&self.stream)
    }

    pub(crate) fn heard_on<M: Topic>(&self, stream: &Stream) -> Result<Option<M>, Error> {
        // more keepalives than this are read at the next call
        for _ in 0..READS_MAX {
            let Some(frame) = stream.try_receive()? else {
                break;
            };
            if let Some(message) = self.understand(&frame)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Returns true if the peer reported an error.
    pub fn was_told(&self) -> bool {
        self.told().is_some()
    }

    /// Waits for the next message, which must be of topic `M`.
    pub fn hear<M: Topic>(&self) -> Result<M, Error> {
        self.hear_for(ANSWER_TIMEOUT)
    }

    /// Waits for the next message, and decodes it if `may` accepts its length.
    pub fn hear_if<M: Topic>(
        &self,
        may: impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<M, Error> {
        let check = (HALT_CHECK_INTERVAL, || self.halt.check());
        self.hear_on(&self.stream, ANSWER_TIMEOUT, check, may)
    }

    /// Waits at most `patience` for the next message, unless the session is halted.
    pub fn hear_for<M: Topic>(&self, patience: Duration) -> Result<M, Error> {
        let check = (HALT_CHECK_INTERVAL, || self.halt.check());
        self.hear_on(&self.stream, patience, check, |_| Ok(()))
    }

    pub(crate) fn hear_on<M: Topic>(
        &self,
        stream: &Stream,
        patience: Duration,
        (interval, check): (Duration, impl Fn() -> Result<(), Error>),
        mut may: impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<M, Error> {
        let deadline = self.clock.now() + patience;
        loop {
            check()?;
            let until = deadline.min(self.clock.now() + interval);
            let frame = match stream.receive(self.clock, until) {
                Err(World::TimedOut(_)) if until < deadline => continue,
                frame => frame?,
            };
            may(frame.octets.len())?;
            if let Some(message) = self.understand(&frame)? {
                return Ok(message);
            }
            if self.clock.now() > deadline {
                return Err(Fault::NoAnswer.into());
            }
        }
    }

    /// Returns the time at which the last frame of the peer arrived.
    pub fn heard_at(&self) -> Instant {
        Instant::ZERO + Duration::from_nanos(self.heard_at.load(Relaxed))
    }

    /// Returns the last value of the peer's work counter, from [`Message::Keepalive`].
    pub fn told_work(&self) -> u64 {
        self.told_work.load(Relaxed)
    }

    /// The message in `frame`. Returns none for a keepalive.
    fn understand<M: Topic>(&self, frame: &Frame) -> Result<Option<M>, Error> {
        match self.look(frame)? {
            Some(Message::Keepalive { .. }) => return Ok(None),
            Some(Message::Welcome)
                if M::NUMBER != Message::NUMBER && self.unheard_welcome.swap(false, Relaxed) =>
            {
                return Ok(None);
            }
            // a busy host sees a train in two parts, and reports both; a report of probes may be late
            Some(Message::Train { .. } | Message::Reached { .. } | Message::Exploring)
                if M::NUMBER != Message::NUMBER =>
            {
                return Ok(None);
            }
            None if frame.octets.first() == Some(&M::NUMBER) => {}
            Some(_) if M::NUMBER == Message::NUMBER => {}
            // a peer of another version can have sent nothing but a request
            None if M::NUMBER == Message::NUMBER || self.unheard_welcome.load(Relaxed) => {
                return Err(malformed());
            }
            _ => return Err(PeerFault::Unexpected("the next message").into()),
        }
        M::decode(&frame.octets).map(Some)
    }

    /// Returns the session's own message in `frame`, if it is one. Fails if the message reports an
    /// error of the peer.
    fn look(&self, frame: &Frame) -> Result<Option<Message>, Error> {
        let now = self.clock.now().since(Instant::ZERO);
        let nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.heard_at.store(nanos, Relaxed);
        if frame.octets.first() != Some(&Message::NUMBER) {
            return Ok(None);
        }
        let message = Message::decode(&frame.octets)?;
        if let Message::Failed { code, why } = message {
            let error = Error::from(PeerFault::reported(code, why));
            self.told().get_or_insert_with(|| error.clone());
            return Err(error);
        }
        if let Message::Keepalive { work } = message {
            self.told_work.store(work, Relaxed);
        }
        Ok(Some(message))
    }

    /// Returns the cause of `error`: the halt of the session, or an error that the peer reported, if any.
    pub fn blame(&self, error: Error) -> Error {
        if let Err(why) = self.halt.check() {
            return why;
        }
        if error.code() != Code::Network {
            return error;
        }
        // the peer's report may be unread
        while let Ok(Some(frame)) = self.stream.try_receive() {
            if self.look(&frame).is_err() {
                break;
            }
        }
        self.told().clone().unwrap_or(error)
    }

    fn told(&self) -> MutexGuard<'_, Option<Error>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports `error` to the peer, and waits until the peer has received the report. Closing earlier, while messages
    /// of the peer are unread, would discard the report (RFC 2525, section 2.17).
    pub fn give_up(&self, error: &Error) {
        self.give_up_within(error, REPORT_TIMEOUT);
    }

    /// Reports `error` like [`Self::give_up`], but waits at most `patience` for the report to leave, and as long for
    /// the peer.
    pub fn give_up_within(&self, error: &Error, patience: Duration) {
        self.tell(error).ok();
        self.control.flush(patience);
        let deadline = self.clock.now() + patience;
        // a halted session waits too, since the peer closes when it has read the report
        while let Ok(frame) = self.stream.receive(self.clock, deadline) {
            if self.look(&frame).is_err() {
                break;
            }
        }
    }

    /// Returns the address of the peer's control port.
    pub fn peer_address(&self) -> SocketAddr {
        self.control.peer()
    }
}
