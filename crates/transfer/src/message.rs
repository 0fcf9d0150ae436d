//! What the two sides of a copy say to each other, on the talk stream and on a stream for the list of entries.

use std::{iter, mem};

use lighthaul_files::digest::{self, Digest};
use lighthaul_files::hash::Hashed;
use lighthaul_files::list::{NAMES_MAX, Page};
use lighthaul_files::manifest::{PATH_MAX, PATH_SHOWN_MAX, PLACES_MAX};
use lighthaul_files::object::{PIECES_MAX, Piece, Span};
use lighthaul_files::options::{Options, Planned};
use lighthaul_io::control::bounded;
use lighthaul_io::net::probe::LANES_MAX;
use lighthaul_session::error::Error;
use lighthaul_session::offer::Offer;
use lighthaul_session::sentence;
use lighthaul_session::topic::{self, ITEMS_MAX, MESSAGE_MAX, Topic};
use serde::{Deserialize, Serialize};

/// The stream of [`Listing`]s.
pub const LIST: u16 = 1;
/// Octets of a list in one message: digests of all pieces of an object fit.
pub(crate) const PART_MAX: usize = MESSAGE_MAX / 4 * 3;
/// Digests of held ranges that a receiver may have been told and not answered.
pub const UNANSWERED_MAX: usize = 32;
/// Longest part of a held range that is compared at once: if it differs, all of it is sent again.
pub const COMPARED_MAX: u64 = 4 << 20;

/// The most ranges of one file: those that a journal keeps, and the parts of a file with holes, fit.
const RANGES_MAX: usize = 1 << 14;

/// One message of a copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// How objects will be sent.
    Offer(Offer),
    /// What moves the data, and why, where the path was to decide.
    Chosen {
        /// A sentence for people.
        #[serde(deserialize_with = "sentence::read")]
        why: String,
    },
    /// An object is about to come.
    Object(Announced),
    /// Sends the reports of the next pieces of an object, which have just been read.
    Reports {
        /// Its number.
        object: u64,
        /// One for each piece.
        #[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")]
        reports: Vec<Report>,
    },
    /// The sender's digest of a range that the receiver holds.
    Held(HeldDigest),
    /// That was the last object.
    Sent,
    /// How the receiver is doing.
    Progress(Progress),
    /// More entries are in place, or have failed.
    Settled {
        /// How many.
        entries: u64,
        /// Those of them that have failed.
        #[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")]
        failures: Vec<Failure>,
    },
    /// Something that whoever copies should know.
    Warning {
        /// A sentence for people.
        #[serde(deserialize_with = "sentence::read")]
        text: String,
    },
    /// The hashes of a file.
    Hashed(Hashed),
    /// Everything is in place that will be.
    Verdict(Verdict),
}

impl Topic for Message {
    const NUMBER: u8 = 1;
    type Request = Request;
}

/// One message about the list of entries, on a stream of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Listing {
    /// The list begins.
    Begin {
        /// Entries are named after their source, rather than being the contents of one folder.
        named: bool,
    },
    /// Some entries, packed.
    Entries(Vec<u8>),
    /// Something was left out.
    Skipped {
        /// A sentence for people.
        #[serde(deserialize_with = "sentence::read")]
        why: String,
    },
    /// Something that whoever copies should know.
    Warning {
        /// A sentence for people.
        #[serde(deserialize_with = "sentence::read")]
        text: String,
    },
    /// An entry cannot be read.
    Unreadable {
        /// Its path.
        #[serde(deserialize_with = "bounded::list::<PATH_SHOWN_MAX, _, _>")]
        path: Vec<u8>,
        /// The exit code.
        code: u8,
        /// The reason.
        #[serde(deserialize_with = "sentence::read_reason")]
        why: String,
    },
    /// That was the last entry.
    End,
    /// What a dry run came to.
    Planned(#[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")] Vec<Planned>),
    /// Paths that only the target had, and that were removed there.
    Removed(
        #[serde(deserialize_with = "bounded::rows::<ITEMS_MAX, PATH_SHOWN_MAX, _>")] Vec<Vec<u8>>,
    ),
    /// The sender has room for a page of the paths that the receiver wants listed.
    Which,
    /// These; none after the last.
    Take(#[serde(deserialize_with = "bounded::rows::<NAMES_MAX, PATH_MAX, _>")] Page),
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
    #[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")]
    pub files: Vec<WantedFile>,
}

/// What the receiver wants of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedFile {
    /// Its number among the entries.
    pub number: u64,
    /// Ranges to send, in order; nothing for the whole file.
    #[serde(deserialize_with = "bounded::option_list::<RANGES_MAX, _, _>")]
    pub send: Option<Vec<Span>>,
    /// Ranges that an earlier run left at the target, in order: the sender digests its own bytes of each, in parts of
    /// [`COMPARED_MAX`] bytes.
    #[serde(deserialize_with = "bounded::list::<RANGES_MAX, _, _>")]
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
    #[serde(deserialize_with = "bounded::list::<PATH_SHOWN_MAX, _, _>")]
    pub path: Vec<u8>,
    /// The exit code.
    pub code: u8,
    /// The reason.
    #[serde(deserialize_with = "sentence::read_reason")]
    pub why: String,
}

/// A copy that a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Which way files go.
    pub way: Way,
    /// How to copy.
    pub options: Options,
}

/// Which way files go, as seen from the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// It takes files in.
    Receive(Target),
    /// It sends the files at these paths.
    Send(#[serde(deserialize_with = "bounded::rows::<PLACES_MAX, PATH_MAX, _>")] Vec<Vec<u8>>),
}

/// Where files go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The path somebody wrote.
    #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
    pub path: Vec<u8>,
    /// It is a folder that sources go into, rather than the name that the one source gets.
    pub into: bool,
}

/// An object: its number, which counts up, the lane that it comes by, and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    /// Its number.
    pub number: u64,
    /// Its lane.
    pub lane: u8,
    /// Parts of files, one behind the other.
    #[serde(deserialize_with = "bounded::list::<PIECES_MAX, _, _>")]
    pub pieces: Vec<Piece>,
}

/// What the sender has to say about a piece, once it has read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// It had this digest.
    Digest(Digest),
    /// Its file changed, vanished or could not be read.
    Failed {
        /// The exit code.
        code: u8,
        /// The reason.
        #[serde(deserialize_with = "sentence::read_reason")]
        why: String,
    },
}

/// How the receiver is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Bytes of objects that it has.
    pub bytes: u64,
    /// Packets that came twice.
    pub duplicates: u64,
    /// Datagrams that each lane saw.
    #[serde(deserialize_with = "bounded::list::<LANES_MAX, _, _>")]
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
        in_parts(reports).map(move |reports| Self::Reports { object, reports })
    }

    /// News of `settled` entries, of which these have failed, in as many messages as it takes.
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
            if (octets > PART_MAX && !part.is_empty()) || part.len() == ITEMS_MAX {
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

impl Listing {
    /// Its octets.
    pub fn encode(&self) -> Vec<u8> {
        topic::encode(self)
    }

    /// The message in `octets`.
    pub fn decode(octets: &[u8]) -> Result<Self, Error> {
        topic::decode(octets)
    }
}

#[cfg(test)]
mod tests {
    use lighthaul_files::verb::{Answer, Verb};
    use lighthaul_session::error::Code;
    use lighthaul_session::message::{self as own, Hello};
    use lighthaul_session::protocol::NAME_MAX;
    use proptest::prelude::*;

    use super::*;
    use crate::relay::{self, Relay};

    #[test]
    fn messages_survive_the_wire() {
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

    /// Returns the error of a peer that is asked for `request`.
    fn refused<M: Topic>(request: &M::Request) -> Error {
        let hello = Hello::about::<M>(request);
        hello.request::<M>().err().unwrap()
    }

    #[test]
    fn what_a_client_asks_for_is_bounded_item_by_item() {
        let path = vec![b'p'; PATH_MAX + 1];
        let many = vec![Vec::new(); PLACES_MAX + 1];
        let target = |path: &[u8]| Target {
            path: path.to_vec(),
            into: false,
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
        errors.push(("16385 items", refused::<Answer>(&Verb::Stat(many))));
        for (why, error) in errors {
            assert_eq!(error.code, Code::Protocol);
            assert!(error.text.contains(why), "{error}, not {why}");
        }
    }

    /// Fails unless a message is refused at the count of the list that it ends with.
    fn check<M: std::fmt::Debug>(mut octets: Vec<u8>, decode: impl Fn(&[u8]) -> Result<M, Error>) {
        assert_eq!(octets.pop(), Some(0), "an empty list is the last field");
        octets.extend(postcard::to_allocvec(&(1_u64 << 19)).unwrap());
        // which make no sense as items
        octets.resize(octets.len() + (1 << 19), 255);
        let error = decode(&octets).unwrap_err();
        assert!(error.text.contains("524288 items"), "{error}");
    }

    #[test]
    fn lists_are_refused_at_their_count_before_their_items_are_decoded() {
        let object = Announced {
            number: 1,
            lane: 0,
            pieces: Vec::new(),
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
        let protocols = Vec::new();
        check(
            own::Message::Welcome { protocols }.encode(),
            own::Message::decode,
        );
        check(Answer::Listed(Vec::new()).encode(), Answer::decode);
        check(
            relay::Message::Take(Vec::new()).encode(),
            relay::Message::decode,
        );
        for listing in [
            Listing::Planned(Vec::new()),
            Listing::Removed(Vec::new()),
            Listing::Take(Vec::new()),
        ] {
            check(listing.encode(), Listing::decode);
        }
    }

    #[test]
    fn lists_of_small_items_take_little_memory() {
        assert_eq!(ITEMS_MAX, PIECES_MAX, "an object is reported on at once");
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
    fn long_lists_of_failures_take_several_messages() {
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
