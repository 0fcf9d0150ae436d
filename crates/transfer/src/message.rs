//! What the two sides of a transfer say to each other on the first stream.

use lighthaul_base::Malformed;
use serde::{Deserialize, Serialize};

use crate::digest::Kind;
use crate::measure::{Ask, Measured};
use crate::source::Report;

/// The version of everything below; both sides must speak the same.
pub const VERSION: u16 = 1;
/// The longest message that is taken.
pub const MESSAGE_MAX: usize = 1 << 20;

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The client says what it wants.
    Hello(Hello),
    /// The server agrees.
    Welcome,
    /// Datagrams of at most so many octets arrive here; zero if none do.
    Reached(u16),
    /// A train arrived here: so many octets in so many nanoseconds.
    Train(u64, u64),
    /// The object: its length, the length of a packet, and the rate it will be sent at.
    Offer(Offer),
    /// Some entries of the manifest, packed.
    Manifest(Vec<u8>),
    /// That was the whole manifest.
    ManifestEnd,
    /// How the receiver is doing.
    Progress(Progress),
    /// What the sender says of files it has read, by their number in the manifest.
    Reports(Vec<(u64, Report)>),
    /// That was the last report.
    ReportsEnd,
    /// All is published but these: number in the manifest, exit code, reason.
    Verdict(Vec<(u64, u8, String)>),
    /// What came of a measurement.
    Measured(Measured),
    /// It cannot go on: exit code and reason.
    Failed(u8, String),
}

/// What the client wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub version: u16,
    /// What the server is to do.
    pub request: Request,
    /// Datagrams are not to be encrypted.
    pub plain: bool,
    /// The digest of each file.
    pub digest: Kind,
    /// Bytes must be on disk before a name appears.
    pub sync: bool,
    /// The rate in bits a second, if somebody asked for one.
    pub rate_bps: Option<u64>,
}

/// What a server is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Take files in.
    Receive(Target),
    /// Send the files at these paths.
    Send(Vec<Vec<u8>>),
    /// Take part in a measurement.
    Probe(Ask),
}

/// Where files go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The path somebody wrote.
    pub path: Vec<u8>,
    /// It is a folder that sources go into, rather than the name that the one source gets.
    pub into: bool,
}

/// The object that is about to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Bytes of the object.
    pub object_len: u64,
    /// Bytes of each packet but the last.
    pub packet_len: u32,
    /// The rate in bits a second on the wire.
    pub rate_bps: u64,
    /// How long the receiver waits for stragglers at the end of a round, in microseconds.
    pub settle_us: u32,
    /// Entries are named after their source.
    pub named: bool,
    /// Datagrams come over UDP, not on the stream.
    pub udp: bool,
    /// Files, folders and links.
    pub entries: u64,
    /// Bytes of all files.
    pub file_bytes: u64,
}

/// How the receiver is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Packets it has.
    pub packets: u64,
    /// Packets that came twice.
    pub duplicates: u64,
    /// Genuine datagrams it saw.
    pub datagrams: u64,
    /// Receptions that its full receive buffer dropped.
    pub buffer_drops: u64,
    /// Datagrams of somebody else or not genuine.
    pub foreign: u64,
}

impl Message {
    /// Its octets.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// The message in `octets`.
    pub fn decode(octets: &[u8]) -> Result<Self, Malformed> {
        if octets.len() > MESSAGE_MAX {
            return Err(Malformed);
        }
        match postcard::take_from_bytes(octets) {
            Ok((message, [])) => Ok(message),
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_survive_the_wire() {
        for message in [
            Message::Welcome,
            Message::Train(5, 7),
            Message::Reports(vec![(3, Report::Failed("why".into()))]),
            Message::Verdict(vec![(1, 12, "no".into())]),
        ] {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    proptest! {
        #[test]
        fn any_octets_decode_without_panic(octets: Vec<u8>) {
            if let Ok(message) = Message::decode(&octets) {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
            }
        }
    }
}
