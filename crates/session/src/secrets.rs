//! What both ends of a session derive from its TLS connection: keys, numbers, and the proof of further connections.

use std::fmt;

use lighthaul_io::crypto::cipher::Cipher;
use lighthaul_io::crypto::seal::{Key, derive};
use lighthaul_io::crypto::tls::Side;
use lighthaul_io::error::Error as World;
use lighthaul_io::net::probe::Prober;
use serde::{Deserialize, Serialize};

use crate::error::Error;

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

impl Secrets {
    /// Derives them with the keying material that a connection has for each context, and of which we are this side.
    pub(crate) fn derive(
        side: Side,
        export: impl Fn(&[u8]) -> Result<[u8; 32], World>,
    ) -> Result<Self, Error> {
        let pair = |name: &str| -> Result<Pair, Error> {
            let export = |part: &str| export(format!("{name} {part}").as_bytes());
            let number = export("connection")?;
            Ok(Pair {
                connection: number
                    .first_chunk()
                    .map_or(0, |octets| u64::from_be_bytes(*octets)),
                client: export("client to server")?,
                server: export("server to client")?,
            })
        };
        Ok(Self {
            side,
            cipher: Cipher::Aes128Gcm,
            probe: pair("probe")?,
            data: pair("data")?,
            join: Join {
                session: pair("join")?.connection,
                secret: export(b"join")?,
                number: 0,
            },
        })
    }

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

/// The most connections that join a session.
pub const JOINS_MAX: u8 = 32;

/// What a connection says first that belongs to a session: both of its ends derive it from the first
/// connection, where nobody else sees it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// Which session.
    pub session: u64,
    /// The proof.
    pub secret: [u8; 32],
    /// Which of its connections, from 0.
    pub number: u8,
}

impl Join {
    /// Whether `other` is about the same session; takes as long whatever it says.
    pub fn proves(&self, other: &Self) -> bool {
        let pairs = self.secret.iter().zip(&other.secret);
        let differ = pairs.fold(0, |sum, (ours, theirs)| sum | (ours ^ theirs));
        differ == 0 && self.session == other.session && other.number < JOINS_MAX
    }
}

impl fmt::Debug for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Join({}, secret)", self.number)
    }
}
