//! Messages of a copy, on stream 0 and on a stream for the list of entries.
//!
//! ```text
//! stream       from the sender                 from the receiver
//! 0 (Message)  Object, Reports, Held, Sent     Progress, Settled, Result
//! 1 (Listing)  Begin, Entries, Contents, End   Wanted, Compared, Planned, Removed
//! ```
//!
//! [`Request`] starts a copy, in either direction. Bytes of files travel in objects on lanes,
//! except small files in [`Listing::Contents`]. Decoding checks the limit of each list before it
//! allocates memory. Longer lists are sent [`in_parts`].

use std::{iter, mem};

use lighthaul_files::digest;
use lighthaul_files::hash::FileHashes;
use lighthaul_files::list::{NAMES_MAX, Page};
use lighthaul_files::manifest::{PATH_MAX, PATH_SHOWN_MAX, PLACES_MAX};
use lighthaul_files::naming::Naming;
use lighthaul_files::object::{PIECES_MAX, Piece, Span};
use lighthaul_files::options::{Options, Planned};
use lighthaul_io::control::bounded;
use lighthaul_io::net::probe::LANES_MAX;
use lighthaul_session::error::Error;
use lighthaul_session::offer::Offer;
use lighthaul_session::peer_text;
use lighthaul_session::protocol::Protocol;
use lighthaul_session::topic::{self, ITEMS_MAX, MESSAGE_MAX, Topic};
use serde::{Deserialize, Serialize};

use crate::contents::{Content, FILES_MAX};
use crate::delta_message::{DeltaStretch, Sums, SumsRequest};
use crate::report::Report;

/// Stream of [`Listing`] messages.
pub const LIST: u16 = 1;
/// Maximum number of octets of a list in one message: digests of all pieces of an object fit.
pub const PART_MAX: usize = MESSAGE_MAX / 4 * 3;
/// Maximum number of digests of held ranges that wait for an answer of the receiver.
pub const UNANSWERED_MAX: usize = 32;
/// Longest part of a held range that is compared at once, in bytes. If it differs, all of it is
/// sent again.
pub const COMPARED_MAX: u64 = 4 << 20;

/// Maximum number of ranges of one file: the ranges of a journal, and the parts of a file with holes, fit.
const RANGES_MAX: usize = 1 << 14;

/// Message of a copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The sender explores the path, before its offer. Both travel on the stream of the path.
    Explore,
    /// Parameters for objects.
    Offer(Offer),
    /// Protocol that was chosen for the path, with the reason.
    Chosen {
        /// The protocol.
        protocol: Protocol,
        /// Sentence for the user.
        #[serde(deserialize_with = "peer_text::read")]
        why: String,
    },
    /// Announcement of an object.
    Object(Announced),
    /// Reports about the next pieces of an object, after they were read.
    Reports {
        /// Number of the object.
        object: u64,
        /// One report for each piece.
        #[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")]
        reports: Vec<Report>,
    },
    /// The sender's digest of a range that the receiver holds.
    Held(HeldDigest),
    /// All objects were sent.
    Sent,
    /// Progress of the receiver.
    Progress(Progress),
    /// More entries are in place, or have failed.
    Settled {
        /// Number of entries that were settled.
        entries: u64,
        /// Failures among the settled entries.
        #[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")]
        failures: Vec<Failure>,
    },
    /// Warning for the user.
    Warning {
        /// Sentence for the user.
        #[serde(deserialize_with = "peer_text::read")]
        text: String,
    },
    /// Hashes of a file.
    Hashed(FileHashes),
    /// Result, after all entries are in place or have failed.
    Result(CopyResult),
    /// Entries that are durably in place (true) or stay different (false); sent if the sender removes its files.
    Placed {
        /// Number of each entry, and true if it is in place.
        #[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")]
        entries: Vec<(u64, bool)>,
    },
    /// Files that the sender could not remove.
    SourceKept {
        /// Files, each with the reason.
        #[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")]
        failures: Vec<Failure>,
    },
    /// Entries that were changed, if each is reported.
    Done {
        /// Entries, each with its change.
        #[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")]
        entries: Vec<Planned>,
    },
    /// Items that could not be removed at the target, or the reason why the removal stopped.
    NotRemoved {
        /// Items, each with the reason.
        #[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")]
        failures: Vec<Failure>,
    },
    /// Request of the sender for the sums of a basis; see [`crate::delta_message`].
    RequestSums(SumsRequest),
    /// Next stretch of a file that has a basis.
    Delta(DeltaStretch),
    /// Change of the rate during the copy, with the reason.
    Changed(#[serde(deserialize_with = "peer_text::read")] String),
    /// All data have left the circuit of the sender.
    CircuitReleased,
}

impl Topic for Message {
    const NUMBER: u8 = 1;
    type Request = Request;
}

/// Message about the list of entries; such messages have a stream of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Listing {
    /// Start of the list.
    Begin {
        /// Names of the entries.
        naming: Naming,
    },
    /// Packed entries.
    Entries(Vec<u8>),
    /// Contents of files of the next page.
    Contents(#[serde(deserialize_with = "bounded::list::<FILES_MAX, _, _>")] Vec<Content>),
    /// Notice of a skipped item.
    Skipped {
        /// Sentence for the user.
        #[serde(deserialize_with = "peer_text::read")]
        why: String,
    },
    /// Warning for the user.
    Warning {
        /// Sentence for the user.
        #[serde(deserialize_with = "peer_text::read")]
        text: String,
    },
    /// Entry that cannot be read.
    Unreadable {
        /// Path of the entry.
        #[serde(deserialize_with = "bounded::list::<PATH_SHOWN_MAX, _, _>")]
        path: Vec<u8>,
        /// Exit status.
        code: u8,
        /// Reason of the failure.
        #[serde(deserialize_with = "peer_text::read_reason")]
        why: String,
    },
    /// End of the list.
    End,
    /// Actions of a dry run.
    Planned(#[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")] Vec<Planned>),
    /// Paths that only the target had, and that were removed there.
    Removed(
        #[serde(deserialize_with = "bounded::rows::<ITEMS_MAX, PATH_SHOWN_MAX, _>")] Vec<Vec<u8>>,
    ),
    /// Request of the sender for a page of the receiver's list of paths.
    RequestPaths,
    /// Page of paths; an empty page ends the list.
    Paths(#[serde(deserialize_with = "bounded::list::<NAMES_MAX, _, _>")] Page),
    /// Ranges of the next entries that the receiver wants.
    Wanted(WantedFiles),
    /// Result of comparing a held range, or the copies of a stretch.
    Compared(Compared),
    /// Path of a directory whose contents are left out, since it is on another file system.
    Mount(#[serde(deserialize_with = "bounded::list::<PATH_SHOWN_MAX, _, _>")] Vec<u8>),
    /// Sums of the next blocks of a basis.
    Sums(Sums),
}

/// Files among the next entries that the receiver wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedFiles {
    /// Number of entries that this message covers.
    pub entries: u64,
    /// Bytes of files that the receiver took from [`Listing::Contents`].
    pub taken: u64,
    /// Wanted files, in the order of their numbers.
    #[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")]
    pub files: Vec<WantedFile>,
}

/// Ranges that the receiver wants of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedFile {
    /// Number of the file among the entries.
    pub number: u64,
    /// Ranges to send, in order; none for the whole file.
    #[serde(deserialize_with = "bounded::option_list::<RANGES_MAX, _, _>")]
    pub send: Option<Vec<Span>>,
    /// Ranges that an earlier run left at the target, in order. The sender sends digests of these
    /// ranges, in parts of [`COMPARED_MAX`] bytes.
    #[serde(deserialize_with = "bounded::list::<RANGES_MAX, _, _>")]
    pub held: Vec<Span>,
    /// Kind of the digests.
    pub digest: digest::DigestKind,
    /// Size of the file that is at the target now, if the ranges to send may be in it. The sender
    /// then says of each range whether it sends it; see [`crate::delta_message`].
    pub basis: Option<u64>,
}

/// The sender's digest of a part of a range that the receiver holds from an earlier run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldDigest {
    /// Number of the file.
    pub entry: u64,
    /// Range in the file.
    pub span: Span,
    /// Digest, or the reason why there is none.
    pub report: Report,
}

/// Result of comparing a range that the receiver holds or has copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// Number of the file.
    pub entry: u64,
    /// Range in the file.
    pub span: Span,
    /// True if the range, or each copied block in it, must be sent.
    pub wanted: bool,
}

/// Entry that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Number of the entry.
    pub number: u64,
    /// Path of the entry.
    #[serde(deserialize_with = "bounded::list::<PATH_SHOWN_MAX, _, _>")]
    pub path: Vec<u8>,
    /// Exit status.
    pub code: u8,
    /// Reason of the failure.
    #[serde(deserialize_with = "peer_text::read_reason")]
    pub why: String,
}

/// Request of a client for a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Direction of the copy.
    pub way: Way,
    /// Options of the copy.
    pub options: Options,
}

/// Direction of a copy, as seen from the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// The server receives files.
    Receive(Target),
    /// The server sends the files at the given paths.
    Send(#[serde(deserialize_with = "bounded::rows::<PLACES_MAX, PATH_MAX, _>")] Vec<Vec<u8>>),
}

/// Target of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Path that the user gave.
    #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
    pub path: Vec<u8>,
    /// Meaning of the path.
    pub landing: Landing,
}

/// Meaning of the path of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Landing {
    /// Directory that contains the sources.
    Inside,
    /// Directory that contains the sources, if it exists or if the only source is no file; otherwise
    /// the new name of the only source.
    Usual,
    /// New name of the only source.
    Exact,
}

/// Announcement of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    /// Number of the object; numbers count up.
    pub number: u64,
    /// Lane of the object.
    pub lane: u8,
    /// Protocol that moves the object: the offered protocol, or an alternative that the offer allows.
    pub protocol: Protocol,
    /// Time that the lane has waited for the source disk, in nanoseconds.
    pub source_wait: u64,
    /// Parts of files in the object, in order.
    #[serde(deserialize_with = "bounded::list::<PIECES_MAX, _, _>")]
    pub pieces: Vec<Piece>,
}

/// Progress of the receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Bytes of objects that arrived.
    pub bytes: u64,
    /// Packets that arrived again.
    pub duplicates: u64,
    /// Datagrams that arrived on each lane.
    #[serde(deserialize_with = "bounded::list::<LANES_MAX, _, _>")]
    pub datagrams: Vec<u64>,
    /// Datagrams that the kernel dropped because a receive buffer was full.
    pub buffer_drops: u64,
    /// Datagrams of other connections, or not authentic.
    pub foreign: u64,
    /// Entries that this transfer has put in place.
    pub published: u64,
    /// Total time for which the lanes waited for the disk, in nanoseconds.
    pub disk_wait: u64,
    /// Bytes that wait for the disk now.
    pub disk_backlog: u64,
    /// Total time for which the threads of the lanes waited for a processor, in nanoseconds.
    pub run_delay: u64,
}

/// Result of a copy: entries that are in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyResult {
    /// Files, directories and links.
    pub entries: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Entries that were in place before.
    pub unchanged: u64,
}

impl Message {
    /// Returns the reports about an object, in as few messages as possible.
    pub fn reports(object: u64, reports: Vec<Report>) -> impl Iterator<Item = Self> {
        in_parts(reports).map(move |reports| Self::Reports { object, reports })
    }

    /// Returns notices about `settled` entries, including `failures`, in as few messages as possible.
    pub fn settled(settled: u64, failures: Vec<Failure>) -> impl Iterator<Item = Self> {
        let others = settled.saturating_sub(failures.len() as u64);
        let others = (others > 0).then(|| Self::Settled {
            entries: others,
            failures: Vec::new(),
        });
        let told = in_parts(failures).map(|failures| Self::Settled {
            entries: failures.len() as u64,
            failures,
        });
        told.chain(others)
    }
}

impl WantedFiles {
    /// Splits the message into parts of limited size. `first` is the number of the first entry.
    pub fn parts(self, first: u64) -> impl Iterator<Item = Self> {
        let (till, mut taken) = (first + self.entries, self.taken);
        let mut next = first;
        let mut parts: Vec<_> = in_parts(self.files).collect();
        let last = parts.pop().unwrap_or_default();
        let ends = move |files: &[WantedFile]| files.last().map_or(first, |file| file.number + 1);
        let parts = parts.into_iter().map(move |files| (ends(&files), files));
        parts.chain([(till, last)]).map(move |(end, files)| Self {
            entries: end - mem::replace(&mut next, end),
            taken: mem::take(&mut taken),
            files,
        })
    }
}

/// Splits `items` into lists that fit in a message.
pub fn in_parts<T: Serialize>(items: Vec<T>) -> impl Iterator<Item = Vec<T>> {
    let mut items = items.into_iter().peekable();
    iter::from_fn(move || {
        let mut octets = 0;
        let mut part = Vec::new();
        while let Some(item) = items.peek() {
            octets += size(item);
            if (octets > PART_MAX && !part.is_empty()) || part.len() == ITEMS_MAX {
                break;
            }
            part.extend(items.next());
        }
        (!part.is_empty()).then_some(part)
    })
}

/// Returns the octets that `item` takes in a message.
pub fn size(item: &impl Serialize) -> usize {
    postcard::experimental::serialized_size(item).unwrap_or_default()
}

impl Listing {
    /// Returns the octets of the message.
    pub fn encode(&self) -> Vec<u8> {
        topic::encode(self)
    }

    /// Decodes a message.
    pub fn decode(octets: &[u8]) -> Result<Self, Error> {
        topic::decode(octets)
    }
}

#[cfg(test)]
mod tests {
    use lighthaul_files::request::{FileReply, FileRequest};
    use lighthaul_session::error::Code;
    use lighthaul_session::message::Hello;
    use lighthaul_session::protocol::NAME_MAX;
    use proptest::prelude::*;

    use super::*;
    use crate::relay::{self, Relay};

    #[test]
    fn messages_round_trip() {
        for message in [
            Message::Reports {
                object: 3,
                reports: vec![failed("why".into())],
            },
            Message::Settled {
                entries: 1,
                failures: vec![Failure {
                    number: 1,
                    path: b"x".to_vec(),
                    code: 12,
                    why: "no".into(),
                }],
            },
        ] {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    type Spoil = fn(&mut Options);

    /// Returns the error of a peer that receives `request`.
    fn refused<M: Topic>(request: &M::Request) -> Error {
        let hello = Hello::about::<M>(request);
        hello.request::<M>().err().unwrap()
    }

    #[test]
    fn each_list_and_text_of_a_request_is_bounded() {
        let path = vec![b'p'; PATH_MAX + 1];
        let many = vec![Vec::new(); PLACES_MAX + 1];
        let target = |path: &[u8]| Target {
            path: path.to_vec(),
            landing: Landing::Exact,
        };
        let relay = |paths: Vec<Vec<u8>>| Relay {
            host: String::new(),
            port: 1,
            key: [0; 32],
            udp: true,
            paths,
            target: target(b"t"),
        };
        let mut errors = Vec::new();
        let spoilt: [(_, Spoil); 3] = [
            ("33 octets", |options| {
                options.protocol = "x".repeat(NAME_MAX + 1);
            }),
            ("524289 octets", |options| {
                options.trc = "x".repeat((512 << 10) + 1);
            }),
            ("4097 items", |options| {
                options.partial_dir = Some(vec![b'x'; PATH_MAX + 1]);
            }),
        ];
        for (why, spoil) in spoilt {
            let (way, mut options) = (Way::Receive(target(b"t")), Options::default());
            spoil(&mut options);
            errors.push((why, refused::<Message>(&Request { way, options })));
        }
        for (why, way) in [
            ("4097 items", Way::Receive(target(&path))),
            ("4097 items", Way::Send(vec![path.clone()])),
            ("16385 items", Way::Send(many.clone())),
        ] {
            let options = Options::default();
            errors.push((why, refused::<Message>(&Request { way, options })));
        }
        let expect = relay::Request::Expect {
            key: [0; 32],
            target: target(&path),
            options: Options::default(),
        };
        let send = relay::Request::Send {
            relay: relay(many.clone()),
            options: Options::default(),
        };
        errors.push(("4097 items", refused::<relay::Message>(&expect)));
        errors.push(("16385 items", refused::<relay::Message>(&send)));
        errors.push((
            "16385 items",
            refused::<FileReply>(&FileRequest::Stat { paths: many }),
        ));
        for (why, error) in errors {
            assert_eq!(error.code(), Code::Protocol);
            assert!(error.text().contains(why), "{error}, not {why}");
        }
    }

    /// Fails unless a message is rejected at the count of its last list.
    fn check<M: std::fmt::Debug>(mut octets: Vec<u8>, decode: impl Fn(&[u8]) -> Result<M, Error>) {
        assert_eq!(octets.pop(), Some(0), "an empty list is the last field");
        octets.extend(postcard::to_allocvec(&(1_u64 << 19)).unwrap());
        // octets that are not valid items
        octets.resize(octets.len() + (1 << 19), 255);
        let error = decode(&octets).unwrap_err();
        assert!(error.text().contains("524288 items"), "{error}");
    }

    #[test]
    fn object_of_an_unknown_protocol_is_rejected() {
        for number in 0..=u8::MAX {
            // message, number, lane, protocol, wait, and no pieces
            let octets = [
                &Message::CircuitReleased.encode()[..1],
                &[3, 1, 0, number, 0, 0],
            ]
            .concat();
            let decoded = Message::decode(&octets);
            let known = usize::from(number) < Protocol::ALL.len();
            assert_eq!(decoded.is_ok(), known, "{number}: {decoded:?}");
        }
    }

    #[test]
    fn too_long_lists_are_rejected_before_items_are_decoded() {
        let object = Announced {
            number: 1,
            lane: 0,
            pieces: Vec::new(),
            protocol: Protocol::Rbudp,
            source_wait: 0,
        };
        for message in [
            Message::Reports {
                object: 1,
                reports: Vec::new(),
            },
            Message::Settled {
                entries: 1,
                failures: Vec::new(),
            },
            Message::Object(object),
        ] {
            check(message.encode(), Message::decode);
        }
        let items = Vec::new();
        check(FileReply::Listed { items }.encode(), FileReply::decode);
        let page = Vec::new();
        check(
            relay::Message::Paths { page }.encode(),
            relay::Message::decode,
        );
        for listing in [
            Listing::Planned(Vec::new()),
            Listing::Removed(Vec::new()),
            Listing::Paths(Vec::new()),
        ] {
            check(listing.encode(), Listing::decode);
        }
    }

    #[test]
    fn largest_lists_of_small_items_need_little_memory() {
        assert_eq!(ITEMS_MAX, PIECES_MAX, "one message reports on an object");
        for bytes in [
            size_of::<Report>(),
            size_of::<Failure>(),
            size_of::<WantedFile>(),
            size_of::<Planned>(),
            size_of::<Piece>(),
        ] {
            assert!(bytes * ITEMS_MAX <= 2 * MESSAGE_MAX, "{bytes}");
        }
    }

    const PATH_LEN: usize = 4096;

    fn failed(why: String) -> Report {
        Report::Failed { code: 24, why }
    }

    fn failure(number: u64) -> Failure {
        Failure {
            number,
            path: vec![b'p'; PATH_LEN],
            code: 12,
            why: "w".repeat(PATH_LEN),
        }
    }

    #[test]
    fn long_lists_of_failures_are_split_into_messages() {
        let failures: Vec<_> = (0..1 << 14).map(failure).collect();
        let (mut settled, mut heard) = (0, Vec::new());
        for message in Message::settled(20_000, failures.clone()) {
            let octets = message.encode();
            assert!(octets.len() <= MESSAGE_MAX, "{}", octets.len());
            let Message::Settled { entries, failures } = message else {
                panic!("{message:?}");
            };
            assert!(entries >= failures.len() as u64);
            settled += entries;
            heard.extend(failures);
        }
        assert_eq!(settled, 20_000);
        assert!(heard == failures);

        let reports = vec![failed("w".repeat(PATH_LEN)); 1 << 14];
        let mut heard = 0;
        for message in Message::reports(7, reports) {
            assert!(message.encode().len() <= MESSAGE_MAX);
            let Message::Reports { object: 7, reports } = message else {
                panic!("{message:?}");
            };
            heard += reports.len();
        }
        assert_eq!(heard, 1 << 14);
    }

    #[test]
    fn ranges_of_many_files_are_split_into_messages_in_order() {
        let file = |number| WantedFile {
            number,
            send: Some(vec![(u64::MAX, u64::MAX); 1000]),
            held: Vec::new(),
            digest: digest::DigestKind::default(),
            basis: None,
        };
        let wanted = WantedFiles {
            entries: 400,
            taken: 9,
            files: (0..100).map(|nth| file(1003 + 3 * nth)).collect(),
        };
        let (mut next, mut files, mut taken) = (1000, 0, 0);
        for part in wanted.parts(1000) {
            let numbers = next..next + part.entries;
            assert!(part.files.iter().all(|file| numbers.contains(&file.number)));
            (next, files) = (numbers.end, files + part.files.len());
            taken += part.taken;
            assert!(Listing::Wanted(part).encode().len() <= MESSAGE_MAX);
        }
        assert_eq!((next, files, taken), (1400, 100, 9));
        let none = WantedFiles {
            entries: 5,
            taken: 9,
            files: Vec::new(),
        };
        assert_eq!(none.clone().parts(9).collect::<Vec<_>>(), [none]);
    }

    proptest! {
        #[test]
        fn decoding_never_panics(octets: Vec<u8>) {
            let frame = [vec![Message::NUMBER], octets.clone()].concat();
            if let Ok(message) = Message::decode(&frame) {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
            }
            if let Ok(listing) = Listing::decode(&octets) {
                prop_assert_eq!(Listing::decode(&listing.encode()), Ok(listing));
            }
        }
    }
}
