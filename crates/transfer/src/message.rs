//! What the two sides of a transfer say to each other on the first stream.

use std::{iter, mem};

use lighthaul_base::Malformed;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::checkup::word::Word;
use crate::credential::Credential;
use crate::digest::{self, Digest};
use crate::files::verb::{Answer, Verb};
use crate::hash::Hashed;
use crate::join::Join;
use crate::list::Page;
use crate::measure::{Ask, Measured};
use crate::object::{Piece, Span};
use crate::options::{Options, Planned};
use crate::protocol::Protocol;
use crate::relay::{Relay, Relayed};
use crate::{sentence, stream};

/// The version of everything below; both sides must speak the same.
pub const VERSION: u16 = 10;
/// The longest message that is taken.
pub const MESSAGE_MAX: usize = 1 << 20;
/// Octets of a list in one message: digests of all pieces of an object fit.
pub(crate) const PART_MAX: usize = MESSAGE_MAX / 4 * 3;
/// Digests of held ranges that a receiver may have been told and not answered.
pub const UNANSWERED_MAX: usize = 32;
/// Longest part of a held range that is compared at once: if it differs, all of it is sent again.
pub const COMPARED_MAX: u64 = 4 << 20;

/// One message of the session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is said once in a session"
)]
pub enum Message {
    /// The client says what it wants.
    Hello(Hello),
    /// The server agrees, and has protocols of these names.
    Welcome(Vec<String>),
    /// Datagrams of at most so many octets arrive here, zero if none do, and by these lanes, a bit
    /// for each; and how much of the time somebody here waits for a processor, in percent.
    Reached(u16, u8, u8),
    /// A train arrived here: so many octets in so many nanoseconds.
    Train(u64, u64),
    /// How objects will be sent.
    Offer(Offer),
    /// An object is about to come.
    Object(Announced),
    /// Sends the reports of the next pieces of an object, which have just been read.
    Reports(u64, Vec<Report>),
    /// The sender's digest of a range that the receiver holds.
    Held(HeldDigest),
    /// Who says this is there, even if it has nothing else to say.
    Alive,
    /// That was the last object.
    Sent,
    /// How the receiver is doing.
    Progress(Progress),
    /// So many more entries are in place, or have failed for these reasons.
    Settled(u64, Vec<Failure>),
    /// Something that whoever copies should know.
    Warning(#[serde(deserialize_with = "sentence::read")] String),
    /// The hashes of a file.
    Hashed(Hashed),
    /// Everything is in place that will be.
    Verdict(Verdict),
    /// What came of a measurement.
    Measured(Measured),
    /// It cannot go on: exit code and reason.
    Failed(u8, #[serde(deserialize_with = "sentence::read")] String),
    /// A piece of the answer to a [`Verb`].
    Files(Answer),
    /// A word of a checkup.
    Checkup(Word),
    /// Before anything else, a client whose key may not be listed says why it should be let in.
    Credential(Credential),
    /// How a copy between two others goes.
    Relayed(Relayed),
    /// The connection belongs to a session that is there already.
    Join(Join),
    /// What moves the data, and why, where the path was to decide.
    Chosen(#[serde(deserialize_with = "sentence::read")] String),
    /// Those of the connections with these numbers, a bit for each, have joined the session.
    Joined(u32),
    /// A word about a stream.
    Stream(stream::word::Word),
    /// What gateways say of the link between them, in their own words.
    Gateway(Vec<u8>),
}

/// One message about the list of entries, on a stream of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Listing {
    /// Entries are named after their source, rather than being the contents of one folder.
    Begin(bool),
    /// Some entries, packed.
    Entries(Vec<u8>),
    /// Something was left out, and why.
    Skipped(#[serde(deserialize_with = "sentence::read")] String),
    /// Something that whoever copies should know.
    Warning(#[serde(deserialize_with = "sentence::read")] String),
    /// An entry cannot be read: its path, exit code and reason.
    Unreadable(
        Vec<u8>,
        u8,
        #[serde(deserialize_with = "sentence::read")] String,
    ),
    /// That was the last entry.
    End,
    /// What a dry run came to.
    Planned(Vec<Planned>),
    /// Paths that only the target had, and that were removed there.
    Removed(Vec<Vec<u8>>),
    /// The sender has room for a page of the paths that the receiver wants listed.
    Which,
    /// These; none after the last.
    Take(Page),
    /// Which of the next entries the receiver wants.
    Wanted(Wanted),
    /// The receiver has compared a range that it holds.
    Compared(Compared),
}

/// What the receiver wants of the next `entries` entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// How many entries this is about.
    pub entries: u64,
    /// Files that it wants, in the order of their numbers.
    pub files: Vec<WantedFile>,
}

/// What the receiver wants of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedFile {
    /// Its number among the entries.
    pub number: u64,
    /// Ranges to send, in order; nothing for the whole file.
    pub send: Option<Vec<Span>>,
    /// Ranges that an earlier run left at the target, in order: the sender digests its own bytes of each, in parts of
    /// [`COMPARED_MAX`] bytes.
    pub held: Vec<Span>,
    /// The digest for those.
    pub digest: digest::Kind,
}

/// The sender's digest of a part of a range that the receiver holds from an earlier run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldDigest {
    /// The number of the file.
    pub entry: u64,
    /// From where to where in it.
    pub span: Span,
    /// The digest, or why there is none.
    pub report: Report,
}

/// What came of comparing a range that the receiver holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// The number of the file.
    pub entry: u64,
    /// From where to where in it.
    pub span: Span,
    /// The range must be sent.
    pub wanted: bool,
}

/// An entry that is not in place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Its number.
    pub number: u64,
    /// Its path.
    pub path: Vec<u8>,
    /// The exit code.
    pub code: u8,
    /// The reason.
    #[serde(deserialize_with = "sentence::read")]
    pub why: String,
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
    /// The rate in bits a second, if somebody asked for one.
    pub rate_bps: Option<u64>,
    /// When the rate is limited, as [`lighthaul_base::Timetable`] reads it; empty if never.
    pub limit: String,
    /// How to copy.
    pub options: Options,
    /// The names of the protocols that the client has.
    pub protocols: Vec<String>,
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
    /// Do something with files where they are.
    Files(Verb),
    /// Take part in a checkup.
    Checkup,
    /// Send files to another daemon, and say how it goes.
    Relay(Relay),
    /// Let the holder of the key with this fingerprint in, once, to leave files there.
    Expect([u8; 32], Target),
    /// Carry a stream.
    Stream(stream::word::Wanted),
    /// Carry sessions of programs, on a link that these words tell of.
    Gateway(Vec<u8>),
}

/// Where files go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The path somebody wrote.
    pub path: Vec<u8>,
    /// It is a folder that sources go into, rather than the name that the one source gets.
    pub into: bool,
}

/// How objects will be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// What moves them.
    pub protocol: Protocol,
    /// Bytes of each packet but an object's last.
    pub packet_len: u32,
    /// The rate in bits a second on the wire, of all lanes together.
    pub rate_bps: u64,
    /// How long the receiver waits for stragglers at the end of a round, in microseconds.
    pub settle_us: u32,
    /// The round-trip time as the sender knows it, in microseconds.
    pub rtt_us: u32,
    /// Datagrams come over UDP, not on the stream.
    pub udp: bool,
    /// Objects at a time.
    pub lanes: u8,
    /// Connections that may join to carry them.
    pub joins: u8,
}

/// An object: its number, which counts up, the lane that it comes by, and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    /// Its number.
    pub number: u64,
    /// Its lane.
    pub lane: u8,
    /// Parts of files, one behind the other.
    pub pieces: Vec<Piece>,
}

/// What the sender has to say about a piece, once it has read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// It had this digest.
    Digest(Digest),
    /// Its file changed, vanished or could not be read: exit code and reason.
    Failed(u8, #[serde(deserialize_with = "sentence::read")] String),
}

/// How the receiver is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Bytes of objects that it has.
    pub bytes: u64,
    /// Packets that came twice.
    pub duplicates: u64,
    /// Datagrams that each lane saw.
    pub datagrams: Vec<u64>,
    /// Receptions that its full receive buffers dropped.
    pub buffer_drops: u64,
    /// Datagrams of somebody else or not genuine.
    pub foreign: u64,
    /// Entries that this transfer has put in place.
    pub published: u64,
}

/// What is in place at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Files, folders and links.
    pub entries: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// Entries among them that were in place before.
    pub unchanged: u64,
}

impl Message {
    /// Sends the reports of the pieces of an object, in as many messages as they need.
    pub fn reports(object: u64, reports: Vec<Report>) -> impl Iterator<Item = Self> {
        in_parts(reports).map(move |part| Self::Reports(object, part))
    }

    /// News of `settled` entries, of which these have failed, in as many messages as it takes.
    pub fn settled(settled: u64, failures: Vec<Failure>) -> impl Iterator<Item = Self> {
        let others = settled.saturating_sub(failures.len() as u64);
        let others = (others > 0).then(|| Self::Settled(others, Vec::new()));
        in_parts(failures)
            .map(|part| Self::Settled(part.len() as u64, part))
            .chain(others)
    }
}

impl Wanted {
    /// The same in as many parts as it takes, where `first` is the number of the first entry.
    pub fn parts(self, first: u64) -> impl Iterator<Item = Self> {
        let till = first + self.entries;
        let mut next = first;
        let mut parts: Vec<_> = in_parts(self.files).collect();
        let last = parts.pop().unwrap_or_default();
        let ends = move |files: &[WantedFile]| files.last().map_or(first, |file| file.number + 1);
        let parts = parts.into_iter().map(move |files| (ends(&files), files));
        parts.chain([(till, last)]).map(move |(end, files)| Self {
            entries: end - mem::replace(&mut next, end),
            files,
        })
    }
}

/// Lists of these items, each of which fits a message.
pub(crate) fn in_parts<T: Serialize>(items: Vec<T>) -> impl Iterator<Item = Vec<T>> {
    let mut items = items.into_iter().peekable();
    iter::from_fn(move || {
        let mut octets = 0;
        let mut part = Vec::new();
        while let Some(item) = items.peek() {
            octets += size(item);
            if octets > PART_MAX && !part.is_empty() {
                break;
            }
            part.extend(items.next());
        }
        (!part.is_empty()).then_some(part)
    })
}

/// Returns the octets that `item` takes in a message.
pub(crate) fn size(item: &impl Serialize) -> usize {
    postcard::experimental::serialized_size(item).unwrap_or_default()
}

/// The octets of `message`.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(message).unwrap_or_default()
}

/// The message in `octets`.
pub fn decode<M: DeserializeOwned>(octets: &[u8]) -> Result<M, Malformed> {
    if octets.len() > MESSAGE_MAX {
        return Err(Malformed);
    }
    match postcard::take_from_bytes(octets) {
        Ok((message, [])) => Ok(message),
        _ => Err(Malformed),
    }
}

impl Message {
    /// Its octets.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// The message in `octets`.
    pub fn decode(octets: &[u8]) -> Result<Self, Malformed> {
        decode(octets)
    }
}

impl Listing {
    /// Its octets.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// The message in `octets`.
    pub fn decode(octets: &[u8]) -> Result<Self, Malformed> {
        decode(octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_survive_the_wire() {
        for message in [
            Message::Welcome(vec!["rbudp".into()]),
            Message::Train(5, 7),
            Message::Reports(3, vec![Report::Failed(24, "why".into())]),
            Message::Settled(
                1,
                vec![Failure {
                    number: 1,
                    path: b"x".to_vec(),
                    code: 12,
                    why: "no".into(),
                }],
            ),
        ] {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    const PATH_LEN: usize = 4096;

    fn failure(number: u64) -> Failure {
        Failure {
            number,
            path: vec![b'p'; PATH_LEN],
            code: 12,
            why: "w".repeat(PATH_LEN),
        }
    }

    #[test]
    fn long_lists_of_failures_take_several_messages() {
        let failures: Vec<_> = (0..1 << 14).map(failure).collect();
        let (mut settled, mut heard) = (0, Vec::new());
        for message in Message::settled(20_000, failures.clone()) {
            let octets = message.encode();
            assert!(octets.len() <= MESSAGE_MAX, "{}", octets.len());
            let Message::Settled(entries, failures) = message else {
                panic!("{message:?}");
            };
            assert!(entries >= failures.len() as u64);
            settled += entries;
            heard.extend(failures);
        }
        assert_eq!(settled, 20_000);
        assert!(heard == failures);

        let reports = vec![Report::Failed(24, "w".repeat(PATH_LEN)); 1 << 14];
        let mut heard = 0;
        for message in Message::reports(7, reports) {
            assert!(message.encode().len() <= MESSAGE_MAX);
            let Message::Reports(7, reports) = message else {
                panic!("{message:?}");
            };
            heard += reports.len();
        }
        assert_eq!(heard, 1 << 14);
    }

    #[test]
    fn ranges_of_many_files_take_several_messages_in_order() {
        let file = |number| WantedFile {
            number,
            send: Some(vec![(u64::MAX, u64::MAX); 1000]),
            held: Vec::new(),
            digest: digest::Kind::default(),
        };
        let wanted = Wanted {
            entries: 400,
            files: (0..100).map(|nth| file(1003 + 3 * nth)).collect(),
        };
        let (mut next, mut files) = (1000, 0);
        for part in wanted.parts(1000) {
            let numbers = next..next + part.entries;
            assert!(part.files.iter().all(|file| numbers.contains(&file.number)));
            (next, files) = (numbers.end, files + part.files.len());
            assert!(Listing::Wanted(part).encode().len() <= MESSAGE_MAX);
        }
        assert_eq!((next, files), (1400, 100));
        let none = Wanted {
            entries: 5,
            files: Vec::new(),
        };
        assert_eq!(none.clone().parts(9).collect::<Vec<_>>(), [none]);
    }

    proptest! {
        #[test]
        fn any_octets_decode_without_panic(octets: Vec<u8>) {
            if let Ok(message) = Message::decode(&octets) {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
            }
            if let Ok(listing) = Listing::decode(&octets) {
                prop_assert_eq!(Listing::decode(&listing.encode()), Ok(listing));
            }
        }
    }
}
