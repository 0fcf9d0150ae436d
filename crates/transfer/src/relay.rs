//! What is said where somebody has one daemon send to another, and only looks on.
//!
//! The source makes a key for this one copy and says its fingerprint; the target is told to expect the
//! holder of that key, with the rights of who tells it; then the source calls.

use lighthaul_files::list::{NAMES_MAX, Page};
use lighthaul_files::manifest::{PATH_MAX, PLACES_MAX};
use lighthaul_files::options::Options;
use lighthaul_io::control::bounded;
use lighthaul_session::message::Hello;
use lighthaul_session::sentence;
use lighthaul_session::topic::Topic;
use serde::{Deserialize, Serialize};

use crate::message::{self, Target, Way};
use crate::watch::{Failed, Sight, Summary};

/// What the source is to send, and to whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relay {
    /// Where the target listens.
    #[serde(deserialize_with = "sentence::read")]
    pub host: String,
    /// On which port.
    pub port: u16,
    /// The fingerprint of the key that it must show.
    pub key: [u8; 32],
    /// Datagrams may carry the data.
    pub udp: bool,
    /// What is to be sent.
    #[serde(deserialize_with = "bounded::rows::<PLACES_MAX, PATH_MAX, _>")]
    pub paths: Vec<Vec<u8>>,
    /// Where it is to go.
    pub target: Target,
}

/// What a daemon is asked for by a client that only looks on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The source sends files to another daemon, and says how it goes.
    Send {
        /// What, and to whom.
        relay: Relay,
        /// How.
        options: Options,
    },
    /// The target lets the holder of a key in, once, to leave files there.
    Expect {
        /// The key's fingerprint.
        key: [u8; 32],
        /// Where the files go.
        target: Target,
        /// How they are copied.
        options: Options,
    },
}

/// What the client and the two daemons say to each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The source will call with the key of a fingerprint.
    Caller {
        /// The fingerprint.
        key: [u8; 32],
    },
    /// The target expects the source now.
    Expected,
    /// The source sees this.
    Seen(Sight),
    /// This is not in place.
    Failed(Failed),
    /// All is over; what failed was said before.
    Done(Summary),
    /// What goes wrong now was said by the target.
    Theirs,
    /// The source is ready to hear which paths it is to send, seen from its one folder.
    Which,
    /// These; none after the last.
    Take(#[serde(deserialize_with = "bounded::rows::<NAMES_MAX, PATH_MAX, _>")] Page),
}

impl Topic for Message {
    const NUMBER: u8 = 4;
    type Request = Request;
}

/// Returns what the source says to the target, if this is the hello that it was asked with; the same as what the target
/// is told to expect.
pub fn relayed(hello: &Hello, target: Target, options: Options) -> Hello {
    hello.with::<message::Message>(&message::Request {
        way: Way::Receive(target),
        options,
    })
}
