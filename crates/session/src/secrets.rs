//! Secrets of a session that both ends derive from its TLS connection.
//!
//! ```text
//! TLS exporter (RFC 5705) --> probe: number, a key for each direction
//!                         --> data:  number, a key for each direction --> keys of each object
//!                         --> join:  number, secret: proof of further connections
//! ```
//!
//! [`Secrets`] never leave the process, except the proof in [`Join`], on an encrypted connection.
//! An object's number must not be used twice, since its packet numbers begin at zero again.

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

/// Keys of the datagrams of one object, and their connection number.
#[derive(Debug)]
pub struct LaneKeys {
    /// Connection number in every datagram.
    pub connection: u64,
    /// Key that encrypts the datagrams of this side.
    pub seal: Key,
    /// Key that decrypts the datagrams of the peer.
    pub open: Key,
}

impl Secrets {
    /// Derives the secrets of this side from the TLS connection's keying material for each context
    /// (RFC 5705).
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

    /// Returns the side of this host.
    pub const fn side(&self) -> Side {
        self.side
    }

    /// Returns the cipher that both sides use for datagrams.
    pub const fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Sets the cipher for datagrams; both sides must set the same.
    pub const fn set_cipher(&mut self, cipher: Cipher) {
        self.cipher = cipher;
    }

    /// Returns the connection number of probes.
    pub const fn probe_connection(&self) -> u64 {
        self.probe.connection
    }

    /// Returns the connection number of data.
    pub const fn data_connection(&self) -> u64 {
        self.data.connection
    }

    /// Returns the proof of connection `number`.
    pub const fn join(&self, number: u8) -> Join {
        Join {
            number,
            ..self.join
        }
    }

    /// Creates a prober. At most one may be created, since its packet numbers start again, and one more for
    /// counting ([`Prober::for_counting`]).
    pub fn prober(&self) -> Prober {
        let keys = self.keys(&self.probe, self.cipher);
        Prober::new(keys.connection, self.data.connection, keys.seal, keys.open)
    }

    /// Returns the keys for the datagrams of object `number`. Each number may be used only once,
    /// since packet numbers start again.
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

/// Maximum number of connections that join a session.
pub const JOINS_MAX: u8 = 32;

/// Proof that a connection belongs to a session, in its first message. Both ends derive it from the
/// session's first connection, where no third party can read it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// Number of the session.
    pub session: u64,
    /// Secret of the session.
    pub secret: [u8; 32],
    /// Number of the connection, from 0.
    pub number: u8,
}

impl Join {
    /// Returns true if `other` proves the same session. The time does not depend on `other`.
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
