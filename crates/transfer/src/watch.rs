//! What somebody who watches a transfer gets to see.

use std::time::Duration;

use lighthaul_files::digest;
use lighthaul_files::hash::Hashed;
use lighthaul_files::manifest::PATH_SHOWN_MAX;
use lighthaul_files::options::Planned;
use lighthaul_io::control::bounded;
use lighthaul_session::error::Code;
use lighthaul_session::offer::Offer;
use lighthaul_session::protocol::Protocol;
use lighthaul_session::sentence;
use lighthaul_session::session::Session;
use lighthaul_session::topic::ITEMS_MAX;
use serde::{Deserialize, Serialize};

use crate::message::Failure;

/// Something worth telling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Sight {
    /// The path is known and the blast begins.
    Started(Start),
    /// How far it is, about twenty times a second.
    Moving(Motion),
    /// A round of the protocol began.
    Round {
        /// Its number, from 1.
        number: u16,
        /// Packets that it sends.
        packets: u64,
    },
    /// Datagrams do not pass, so the stream carries the data.
    Diverted(#[serde(deserialize_with = "sentence::read")] String),
    /// What moves the data where the path was to decide, and why.
    Chosen(
        #[serde(deserialize_with = "sentence::read")] String,
        #[serde(deserialize_with = "sentence::read")] String,
    ),
    /// Something that was left out.
    Warning(#[serde(deserialize_with = "sentence::read")] String),
    /// A file has these hashes.
    Hashed(Hashed),
    /// A dry run came to this.
    Planned(Planned),
    /// The target had something at these paths that the source does not have, and it was removed.
    Removed(
        #[serde(deserialize_with = "bounded::rows::<ITEMS_MAX, PATH_SHOWN_MAX, _>")] Vec<Vec<u8>>,
    ),
    /// Something cannot be copied or removed.
    Failed(Failed),
}

/// What is known when the blast begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The protocol's name.
    #[serde(deserialize_with = "sentence::read")]
    pub protocol: String,
    /// Rate on the wire, in bits a second; nothing if the stream decides.
    pub rate_bps: Option<u64>,
    /// Bytes of a file in each datagram.
    pub packet_len: u32,
    /// The cipher, or "plain".
    #[serde(deserialize_with = "sentence::read")]
    pub cipher: String,
    /// The digest by which both sides compare what was moved, or "none".
    #[serde(deserialize_with = "sentence::read")]
    pub digest: String,
    /// How long it took to get this far.
    pub start_up: Duration,
}

/// How far a transfer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Motion {
    /// Bytes that have arrived.
    pub done: u64,
    /// Bytes that are to arrive, as far as is known.
    pub total: u64,
    /// The round.
    pub round: u16,
    /// Packets sent, those sent again included.
    pub sent: u64,
    /// Packets sent again.
    pub resent: u64,
    /// Receptions that the receiver's full socket buffer dropped.
    pub buffer_drops: u64,
    /// Datagrams of somebody else, or not genuine.
    pub foreign: u64,
    /// The receiver asked the sender to wait for its disk.
    pub held: bool,
    /// Entries that this transfer has put in place.
    pub published: u64,
}

/// What came of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Files, folders and links that are in place.
    pub entries: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// Entries among them that were in place before.
    pub unchanged: u64,
    /// From the first word to the last.
    pub elapsed: Duration,
    /// From the first byte of the blast to the verdict.
    pub moving: Duration,
    /// How it ended.
    pub motion: Motion,
    /// What is not in place.
    #[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")]
    pub failures: Vec<Failed>,
}

/// An entry that is not in place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Its path, empty if it is about more than one.
    #[serde(deserialize_with = "bounded::list::<PATH_SHOWN_MAX, _, _>")]
    pub path: Vec<u8>,
    /// The exit code.
    pub code: u8,
    /// The sentence.
    #[serde(deserialize_with = "sentence::read_reason")]
    pub why: String,
}

impl From<Failure> for Failed {
    /// A peer's number that is no exit code is a fault of the peer.
    fn from(failure: Failure) -> Self {
        Self {
            path: failure.path,
            code: Code::from_number(failure.code) as u8,
            why: failure.why,
        }
    }
}

/// Tells an onlooker how the object is about to move; `start_up` is how long it took to find out.
pub fn announce(
    session: &Session,
    (asked, offer): (Option<Protocol>, &Offer),
    (plain, digest): (bool, digest::Kind),
    start_up: Duration,
    watcher: Watcher<'_>,
) {
    let diverted = !offer.udp && asked.is_some_and(Protocol::is_datagrams);
    if diverted {
        watcher(Sight::Diverted(
            "no UDP datagram arrived, so TCP carries the data".into(),
        ));
    }
    watcher(Sight::Started(Start {
        rate_bps: offer.udp.then_some(offer.rate_bps),
        protocol: offer.protocol.to_string(),
        packet_len: offer.packet_len,
        cipher: if plain {
            "plain"
        } else {
            session.secrets.cipher().name()
        }
        .to_owned(),
        digest: digest.name().to_owned(),
        start_up,
    }));
}

/// Looks on.
pub type Watcher<'a> = &'a mut dyn FnMut(Sight);
