//! A connection whose two ends know each other, before any file is spoken of.

use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::control::{Control, Frame, Stream};
use lighthaul_io::crypto::cipher::Cipher;
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::crypto::seal::{Key, derive};
use lighthaul_io::crypto::tls::{self, Side};
use lighthaul_io::error::Error as World;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::net::probe::Prober;
use lighthaul_io::net::tcp::{self, round_trip};

use crate::error::{Code, Error};
use crate::join::Join;
use crate::message::{MESSAGE_MAX, Message};

/// The stream of [`Message`]s.
const TALK: u16 = 0;
/// The stream of [`crate::message::Listing`]s.
pub const LIST: u16 = 1;
/// The stream of the first lane; the others' follow.
pub const LANES: u16 = 2;
/// How long the peer may take for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the peer may take to hear that we stop.
const FAREWELL: Duration = Duration::from_secs(2);
/// How often who waits looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);

/// An authenticated connection.
#[derive(Debug)]
pub struct Session {
    /// Opens further streams.
    pub control: Control,
    /// Carries [`Message`]s.
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
}

/// How a peer is called, the first time and for further connections.
pub trait Call: fmt::Debug + Send + Sync {
    /// A connection to it, with the limits of a handshake ([`tcp::with_handshake_timeouts`]).
    fn call(&self) -> Result<TcpStream, Error>;
}

/// How a session is ended by somebody who is not in it, and why.
#[derive(Debug, Default)]
pub struct Halt(Mutex<Option<Error>>);

/// Keys and numbers that both ends derive from the TLS connection.
#[derive(Debug)]
pub struct Secrets {
    side: Side,
    cipher: Cipher,
    probe: Pair,
    data: Pair,
    join: Join,
}

#[derive(Debug)]
struct Pair {
    connection: u64,
    client: [u8; 32],
    server: [u8; 32],
}

/// What marks and seals the datagrams of one object.
#[derive(Debug)]
pub struct LaneKeys {
    /// Marks every datagram.
    pub connection: u64,
    /// Seals what we send of it.
    pub seal: Key,
    /// Opens what the peer sends.
    pub open: Key,
}

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
        let pair = |name: &str| -> Result<Pair, Error> {
            let export = |part: &str| tls::export(&tls, format!("{name} {part}").as_bytes());
            let number = export("connection")?;
            Ok(Pair {
                connection: number
                    .first_chunk()
                    .map_or(0, |octets| u64::from_be_bytes(*octets)),
                client: export("client to server")?,
                server: export("server to client")?,
            })
        };
        let secrets = Secrets {
            side,
            cipher: Cipher::Aes128Gcm,
            probe: pair("probe")?,
            data: pair("data")?,
            join: Join {
                session: pair("join")?.connection,
                secret: tls::export(&tls, b"join")?,
                number: 0,
            },
        };
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
    pub fn say(&self, message: &Message) -> Result<(), Error> {
        let octets = message.encode();
        if octets.len() > MESSAGE_MAX {
            // lists are sent in parts, so that this is what somebody wrote
            let text = "that is too much for one request: name fewer places or rules at a time";
            return Err(Error::new(Code::Usage, text));
        }
        Ok(self.stream.send(&Frame::message(octets))?)
    }

    /// What the peer has said, if anything; its failure is ours.
    pub fn heard(&self) -> Result<Option<Message>, Error> {
        let frame = self.stream.try_receive()?;
        frame.map(|frame| self.understand(&frame)).transpose()
    }

    /// Whether it was the peer that said why it fails, rather than us who found out.
    pub fn was_told(&self) -> bool {
        self.told().is_some()
    }

    /// Waits for what the peer says next.
    pub fn hear(&self) -> Result<Message, Error> {
        self.hear_for(PATIENCE)
    }

    /// Waits at most `patience` for what the peer says next, unless the session is halted.
    pub fn hear_for(&self, patience: Duration) -> Result<Message, Error> {
        let deadline = self.clock.now() + patience;
        loop {
            self.halt.check()?;
            let until = deadline.min(self.clock.now() + LOOK);
            match self.stream.receive(self.clock, until) {
                Err(World::TimedOut(_)) if until < deadline => {}
                frame => return self.understand(&frame?),
            }
        }
    }

    fn understand(&self, frame: &Frame) -> Result<Message, Error> {
        match Message::decode(&frame.octets) {
            Ok(Message::Failed(code, text)) => {
                let error = Error::new(Code::from_number(code), text);
                self.told().get_or_insert_with(|| error.clone());
                Err(error)
            }
            Ok(message) => Ok(message),
            Err(_) => Err(Error::new(
                Code::Protocol,
                "the peer sent a message that makes no sense; do both sides run the same version?",
            )),
        }
    }

    /// `error`, unless the peer said what it comes from.
    pub(crate) fn blame(&self, error: Error) -> Error {
        if let Err(why) = self.halt.check() {
            return why;
        }
        if error.code != Code::Network {
            return error;
        }
        // what it said may not have been looked at yet
        while matches!(self.heard(), Ok(Some(_))) {}
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
        let code = error.code as u8;
        self.say(&Message::Failed(code, error.text.clone())).ok();
        self.control.flush(patience);
        let deadline = self.clock.now() + patience;
        // even of a session that is halted, whose peer fails too once it has heard
        while let Ok(frame) = self.stream.receive(self.clock, deadline) {
            if self.understand(&frame).is_err() {
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

impl Secrets {
    /// Which side we are.
    pub const fn side(&self) -> Side {
        self.side
    }

    /// The cipher that both sides use for datagrams.
    pub const fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Uses `cipher` for datagrams from now on; both sides must.
    pub const fn agree(&mut self, cipher: Cipher) {
        self.cipher = cipher;
    }

    /// The number that marks probes.
    pub const fn probe_connection(&self) -> u64 {
        self.probe.connection
    }

    /// The number that marks data.
    pub const fn data_connection(&self) -> u64 {
        self.data.connection
    }

    /// What connection `number` proves itself with.
    pub const fn join(&self, number: u8) -> Join {
        Join {
            number,
            ..self.join
        }
    }

    /// A prober; to be made once, since its packet numbers start anew.
    pub fn prober(&self) -> Prober {
        let keys = self.keys(&self.probe, self.cipher);
        Prober::new(keys.connection, self.data.connection, keys.seal, keys.open)
    }

    /// What marks and seals the datagrams of object `number`; each is sent once only, since the
    /// numbers of its packets start anew.
    pub fn object(&self, number: u64) -> LaneKeys {
        let pair = Pair {
            connection: self.data.connection.wrapping_add(number),
            client: derive(&self.data.client, number),
            server: derive(&self.data.server, number),
        };
        self.keys(&pair, self.cipher)
    }

    fn keys(&self, pair: &Pair, cipher: Cipher) -> LaneKeys {
        let (ours, theirs) = match self.side {
            Side::Client => (&pair.client, &pair.server),
            Side::Server => (&pair.server, &pair.client),
        };
        LaneKeys {
            connection: pair.connection,
            seal: Key::new(cipher, ours),
            open: Key::new(cipher, theirs),
        }
    }
}
