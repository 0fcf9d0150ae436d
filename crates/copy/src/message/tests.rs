//! Tests of the messages of a copy: encoding, bounds of lists, and long lists in several messages.

use lighthaul_files::request::{FileReply, FileRequest};
use lighthaul_session::error::Code;
use lighthaul_session::message::Hello;
use lighthaul_session::protocol::NAME_MAX;
use proptest::prelude::*;

use super::*;
use crate::relay::{self, Relay};

#[test]
fn messages_decode_to_what_was_encoded() {
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
fn lists_are_rejected_at_their_count_before_items_are_decoded() {
    let object = Announced {
        number: 1,
        lane: 0,
        pieces: Vec::new(),
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
