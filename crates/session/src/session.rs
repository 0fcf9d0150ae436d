//! A connection whose two ends know each other, before any file is spoken of.

use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
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
use crate::message::{Hello, Message};
use crate::secrets::Secrets;
use crate::topic::{MESSAGE_MAX, Topic, senseless};

/// The stream of the messages of all topics.
const TALK: u16 = 0;
/// The stream of the first lane; the others' follow. A topic has those between.
pub const LANES: u16 = 2;
/// How long the peer may take for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the peer may take to hear that we stop.
const FAREWELL: Duration = Duration::from_secs(2);
/// How often who waits looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Frames that are looked at in a row.
const LOOKS_MAX: usize = 16;

/// An authenticated connection.
#[derive(Debug)]
pub struct Session {
    /// Opens further streams.
    pub control: Control,
    /// Carries the messages of all topics.
    pub stream: Stream,
    /// What datagrams are sealed and marked with.
    pub secrets: Secrets,
    /// Who the peer proved to be.
    pub peer: Fingerprint,
    /// The time.
    pub clock: Clock,
    /// The round-trip time, as TCP saw it during the handshake.
    pub rtt: Duration,
    /// How others end it.
    pub halt: Arc<Halt>,
    /// What we called with, so that further connections can be made; nothing if we were called.
    identity: Option<Identity>,
    /// How we called, if not at the address where the connection ends.
    call: Option<Arc<dyn Call>>,
    /// Why the peer fails, once it has said so.
    told: Mutex<Option<Error>>,
    /// When the peer was last heard, in nanoseconds of the clock.
    heard_at: AtomicU64,
    /// The peer's counter of its work.
    told_work: AtomicU64,
}

/// How a peer is called, the first time and for further connections.
pub trait Call: fmt::Debug + Send + Sync {
    /// A connection to it, with the limits of a handshake ([`tcp::with_handshake_timeouts`]).
    fn call(&self) -> Result<TcpStream, Error>;
}

/// How a session is ended by somebody who is not in it, and why.
#[derive(Debug, Default)]
pub struct Halt(Mutex<Option<Error>>);

impl Session {
    /// Shakes hands on `tcp`. Whether the peer is welcome is for the caller to decide.
    pub fn start(tcp: TcpStream, side: Side, identity: &Identity) -> Result<Self, Error> {
        Self::begin(tcp, side, identity, false)
    }

    /// Has `call` call the peer, and shakes hands. How far it is the handshake tells: TCP may end before the peer.
    pub fn start_by(call: Arc<dyn Call>, identity: &Identity) -> Result<Self, Error> {
        let tcp = call.call()?;
        let clock = Clock::start();
        let mut session = Self::start(tcp, Side::Client, identity)?;
        session.rtt = session.rtt.max(clock.now().since(Instant::ZERO));
        session.call = Some(call);
        Ok(session)
    }

    /// The same as the side that was called, by whom it does not know: little of what the caller says
    /// is kept until it is let in with [`Control::authorize`].
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
        let stream = control.open(TALK)?;
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
        })
    }

    /// Calls the peer once more, with the same key and as it was called before.
    pub fn call_again(&self) -> Result<impl FnOnce() -> Result<Self, Error> + use<>, Error> {
        let identity = self.identity.clone();
        let identity =
            identity.ok_or_else(|| Error::new(Code::Protocol, "only who called can call again"))?;
        let (address, peer, call) = (self.peer_address(), self.peer, self.call.clone());
        Ok(move || {
            let tcp = match call {
                Some(call) => call.call()?,
                None => tcp::connect(&address.ip().to_string(), address.port())?,
            };
            let session = Self::start(tcp, Side::Client, &identity)?;
            if session.peer == peer {
                return Ok(session);
            }
            let text = "somebody else answered a further connection";
            Err(Error::new(Code::Permission, text))
        })
    }

    /// Says `message`.
    pub fn say<M: Topic>(&self, message: &M) -> Result<(), Error> {
        let octets = message.encode();
        if octets.len() > MESSAGE_MAX {
            // lists are sent in parts, so that this is what somebody wrote
            return Err(too_much());
        }
        Ok(self.stream.send(&Frame::message(octets))?)
    }

    /// Says `hello`, which asks for something of topic `M`. Fails if the peer would refuse it as too long.
    pub fn ask<M: Topic>(&self, hello: Hello) -> Result<(), Error> {
        let request = hello.request::<M>();
        let message = Message::Hello(hello);
        if request.is_err() || Message::decode(&message.encode()).is_err() {
            return Err(too_much());
        }
        self.say(&message)
    }

    /// Tells the peer why we stop.
    pub fn tell(&self, error: &Error) -> Result<(), Error> {
        self.say(&Message::Failed {
            code: error.code as u8,
            why: error.text.clone(),
        })
    }

    /// What the peer has said about topic `M`, if anything; its failure is ours.
    pub fn heard<M: Topic>(&self) -> Result<Option<M>, Error> {
        // a peer that says that it is there more often is heard the next time
        for _ in 0..LOOKS_MAX {
            let Some(frame) = self.stream.try_receive()? else {
                break;
            };
            if let Some(message) = self.understand(&frame)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Whether it was the peer that said why it fails, rather than us who found out.
    pub fn was_told(&self) -> bool {
        self.told().is_some()
    }

    /// Waits for what the peer says next, which must be about topic `M`.
    pub fn hear<M: Topic>(&self) -> Result<M, Error> {
        self.hear_for(PATIENCE)
    }

    /// Waits for what the peer says next, and decodes it if `may` agrees to its length.
    pub fn hear_if<M: Topic>(
        &self,
        may: impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<M, Error> {
        self.hear_within(PATIENCE, may)
    }

    /// Waits at most `patience` for what the peer says next, unless the session is halted.
    pub fn hear_for<M: Topic>(&self, patience: Duration) -> Result<M, Error> {
        self.hear_within(patience, |_| Ok(()))
    }

    fn hear_within<M: Topic>(
        &self,
        patience: Duration,
        mut may: impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<M, Error> {
        let deadline = self.clock.now() + patience;
        loop {
            self.halt.check()?;
            let until = deadline.min(self.clock.now() + LOOK);
            let frame = match self.stream.receive(self.clock, until) {
                Err(World::TimedOut(_)) if until < deadline => continue,
                frame => frame?,
            };
            may(frame.octets.len())?;
            if let Some(message) = self.understand(&frame)? {
                return Ok(message);
            }
            if self.clock.now() > deadline {
                let text = "the peer did not answer before the deadline";
                return Err(Error::new(Code::TimedOut, text));
            }
        }
    }

    /// When the peer was last heard, whatever it said.
    pub fn heard_at(&self) -> Instant {
        Instant::ZERO + Duration::from_nanos(self.heard_at.load(Relaxed))
    }

    /// The last value of the peer's counter of its work ([`Message::Alive`]).
    pub fn told_work(&self) -> u64 {
        self.told_work.load(Relaxed)
    }

    /// The message in `frame`; nothing if that only says that the peer is there.
    fn understand<M: Topic>(&self, frame: &Frame) -> Result<Option<M>, Error> {
        match self.look(frame)? {
            Some(Message::Alive { .. }) => return Ok(None),
            // a busy host sees a train in two parts, and tells of both
            Some(Message::Train { .. }) if M::NUMBER != Message::NUMBER => return Ok(None),
            None if frame.octets.first() == Some(&M::NUMBER) => {}
            Some(_) if M::NUMBER == Message::NUMBER => {}
            // what says who calls and what for is all that another version can have sent
            None if M::NUMBER == Message::NUMBER => return Err(senseless()),
            _ => return Err(Error::new(Code::Protocol, "the peer spoke out of turn")),
        }
        M::decode(&frame.octets).map(Some)
    }

    /// The session's own message in `frame`, if it is one. Fails if it is the peer's failure.
    fn look(&self, frame: &Frame) -> Result<Option<Message>, Error> {
        let now = self.clock.now().since(Instant::ZERO);
        let nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.heard_at.store(nanos, Relaxed);
        if frame.octets.first() != Some(&Message::NUMBER) {
            return Ok(None);
        }
        let message = Message::decode(&frame.octets)?;
        if let Message::Failed { code, why } = message {
            let error = Error::new(Code::from_number(code), why);
            self.told().get_or_insert_with(|| error.clone());
            return Err(error);
        }
        if let Message::Alive { work } = message {
            self.told_work.store(work, Relaxed);
        }
        Ok(Some(message))
    }

    /// `error`, unless the peer said what it comes from.
    pub fn blame(&self, error: Error) -> Error {
        if let Err(why) = self.halt.check() {
            return why;
        }
        if error.code != Code::Network {
            return error;
        }
        // what it said may not have been looked at yet
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

    /// Tells the peer why we stop, and gives it a moment to hear it: to close while something of the
    /// peer's lies unread would be to take back what was said.
    pub fn give_up(&self, error: &Error) {
        self.give_up_within(error, FAREWELL);
    }

    /// The same, where the peer gets at most `patience` to hear it, and again to go.
    pub fn give_up_within(&self, error: &Error, patience: Duration) {
        self.tell(error).ok();
        self.control.flush(patience);
        let deadline = self.clock.now() + patience;
        // even of a session that is halted, whose peer fails too once it has heard
        while let Ok(frame) = self.stream.receive(self.clock, deadline) {
            if self.look(&frame).is_err() {
                break;
            }
        }
    }

    /// The address of the peer's control port.
    pub fn peer_address(&self) -> SocketAddr {
        self.control.peer()
    }
}

impl Halt {
    /// Ends the session, for this reason unless there was one before.
    pub fn stop(&self, error: Error) {
        let mut why = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        why.get_or_insert(error);
    }

    /// Fails if somebody has ended the session.
    pub fn check(&self) -> Result<(), Error> {
        let why = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone().map_or(Ok(()), Err)
    }
}

fn too_much() -> Error {
    let text = "that is too much for one request: name fewer places or rules at a time";
    Error::new(Code::Usage, text)
}
