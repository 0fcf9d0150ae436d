//! Peers with valid keys that send wrong messages about deltas.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod ends;
mod offer;
mod offered;
mod talk;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lighthaul_copy::delta_message::{DeltaStretch, Sums, SumsRequest};
use lighthaul_copy::message::{
    Compared, LIST, Landing, Listing, Message, Target, WantedFile, WantedFiles,
};
use lighthaul_copy::report::Report;
use lighthaul_copy::watch::{CopyEvent, Summary};
use lighthaul_files::delta::stretch::{Copied, STRETCH_MAX};
use lighthaul_files::delta::summer::{Sum, Summer};
use lighthaul_files::digest::{Digest, DigestKind};
use lighthaul_files::filter::Rules;
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::manifest::{Entry, EntryKind, Linked, pack};
use lighthaul_files::naming::Naming;
use lighthaul_files::options::{DeltaMode, Options};
use lighthaul_files::walk::Walk;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_io::control::{Frame, Stream};
use lighthaul_receive::target_folder::TargetFolder;
use lighthaul_receive::{self as receive, receive};
use lighthaul_send::{self as send, send};
use lighthaul_session::error::{Code, Error};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;

use ends::sessions;
use offer::offer;
use talk::stay;

/// Bytes of the old and the new file.
const LEN: u64 = 1 << 20;
const BLOCK: u32 = 4 << 10;
const REQUEST: SumsRequest = SumsRequest {
    entry: 0,
    block: BLOCK,
    key: [3; 32],
};

/// Sender of a test. It gets answers on the stream of the list.
struct Sender {
    session: Session,
    list: Stream,
}

impl Sender {
    fn say(&self, message: &Message) -> Result<(), Error> {
        while !self.session.stream.has_room() {
            std::thread::yield_now();
        }
        self.session.say(message)
    }

    fn stretch(&self, span: (u64, u64), copies: &[Copied], digest: Digest) -> Result<(), Error> {
        self.say(&Message::Delta(DeltaStretch {
            entry: 0,
            span,
            copies: copies.to_vec(),
            report: Report::Digest(digest),
        }))
    }

    fn answer(&self) -> Result<Listing, Error> {
        let clock = self.session.clock;
        let until = clock.now() + Duration::from_secs(30);
        Listing::decode(&self.list.receive(clock, until)?.octets)
    }

    /// Returns true if the copies of a stretch are wanted.
    fn compared(&self, span: (u64, u64)) -> Result<bool, Error> {
        loop {
            if let Listing::Compared(compared) = self.answer()? {
                assert_eq!((compared.entry, compared.span), (0, span));
                return Ok(compared.wanted);
            }
        }
    }

    /// Requests the sums of the old file, and waits for all of them.
    fn request_sums(&self) -> Result<Vec<Sum>, Error> {
        self.say(&Message::RequestSums(REQUEST))?;
        let mut all = Vec::new();
        loop {
            let Listing::Sums(sums) = self.answer()? else {
                panic!("no sums arrived")
            };
            let new = Sum::decode(&sums.octets).map_err(|_| PeerFault::Malformed)?;
            all.extend(new);
            if sums.last {
                return Ok(all);
            }
        }
    }
}

/// Returns the bytes of the old file.
fn old() -> Vec<u8> {
    (0..LEN).map(|at| ((at * at) >> 9) as u8).collect()
}

const fn copied(offset: u64, len: u64, from: u64) -> Copied {
    Copied { offset, len, from }
}

fn digest(bytes: &[u8]) -> Digest {
    Digest::Blake3(*blake3::hash(bytes).as_bytes())
}

/// Runs a receiver of the file `x` with a sender that does what `attack` does after the receiver has answered the list.
fn hear(
    folder: &Path,
    attack: impl FnOnce(&Sender) -> Result<(), Error> + Send + 'static,
) -> Result<Summary, Error> {
    let target = Target {
        path: folder.as_os_str().as_encoded_bytes().to_vec(),
        landing: Landing::Inside,
    };
    let target_folder = TargetFolder::open(&target, &Arc::new(FileAccess::anywhere()), false)?;
    let [honest, liar] = sessions();
    let liar = std::thread::spawn(move || {
        let list = liar.control.open(LIST)?;
        let entries = Listing::Entries(pack(&[entry()])?);
        let naming = Naming::Several;
        for listing in [Listing::Begin { naming }, entries, Listing::End] {
            list.send(&Frame::message(listing.encode()))?;
        }
        let dialog = liar.path_dialog(Arc::default())?;
        dialog.say(&Message::Offer(offer()))?;
        let sender = Sender {
            session: liar,
            list,
        };
        let Listing::Wanted(wanted) = sender.answer()? else {
            panic!("nothing is wanted")
        };
        assert_eq!(wanted.files[0].basis, Some(LEN));
        attack(&sender)?;
        sender.say(&Message::Sent)?;
        stay(&sender.session);
        Ok::<_, Error>(())
    });
    let settings = receive::Settings {
        plain: true,
        options: Options {
            delta: DeltaMode::Always,
            stall: 60,
            ..Options::default()
        },
        ..receive::Settings::default()
    };
    let role = Role::Client(false);
    let watcher = &mut |_: CopyEvent| {};
    let result = receive(&honest, role, target_folder, settings, watcher);
    if let Err(error) = &result {
        honest.give_up(error);
    }
    drop(honest);
    // a sender that is refused fails; one that panics fails the test
    assert!(liar.join().is_ok(), "the sender panicked");
    result
}

#[test]
fn copies_with_the_right_digest_are_published() {
    let folder = folder("truth");
    // both halves change places
    let new = [&old()[LEN as usize / 2..], &old()[..LEN as usize / 2]].concat();
    let all = digest(&new);
    let summary = hear(&folder, move |sender| {
        let sums = sender.request_sums()?;
        let summer = Summer::new(REQUEST.key, BLOCK);
        let known = old();
        let known = known.chunks(BLOCK as usize).map(|block| summer.sum(block));
        assert!(known.eq(sums), "the sums are not those of the old file");
        let half = LEN / 2;
        let copies = [copied(0, half, half), copied(half, half, 0)];
        sender.stretch((0, LEN), &copies, all)?;
        assert!(!sender.compared((0, LEN))?);
        Ok(())
    });
    let summary = summary.unwrap();
    assert_eq!((summary.entries, summary.failures.len()), (1, 0));
    assert_eq!(
        (
            summary.motion.delta.files,
            summary.motion.delta.copied,
            summary.motion.delta.sent
        ),
        (1, LEN, 0)
    );
    assert!(fs::read(folder.join("x")).unwrap() == new);
    assert_eq!(names(&folder), ["x"]);
}

/// A copy with a wrong digest, or of bytes that the old file does not have, is requested, and nothing is published.
#[test]
fn copies_that_differ_are_wanted_and_never_published() {
    let beyond = copied(0, LEN, u64::from(BLOCK));
    let endless = copied(0, LEN, u64::MAX - 2 * LEN + 1);
    for (what, copy, digest) in [
        ("another digest", copied(0, LEN, 0), digest(b"no")),
        ("another kind", copied(0, LEN, 0), Digest::None),
        ("past the end", beyond, digest(&old())),
        ("far past the end", endless, digest(&old())),
    ] {
        let folder = folder("differ");
        let error = hear(&folder, move |sender| {
            sender.request_sums()?;
            sender.stretch((0, LEN), &[copy], digest)?;
            assert!(sender.compared((0, LEN))?, "{what}");
            Ok(())
        });
        let error = error.expect_err(what);
        assert_eq!(error.code(), Code::Protocol, "{what}: {error}");
        assert!(fs::read(folder.join("x")).unwrap() == old(), "{what}");
        assert_eq!(names(&folder), ["x"], "{what}");
    }
}

type Attack = fn(&Sender) -> Result<(), Error>;

#[test]
fn invalid_stretches_end_the_session_without_leftovers() {
    let attacks: [(&str, Attack); 14] = [
        ("nothing decided", |_| Ok(())),
        ("stretch twice", |sender| {
            sender.stretch((0, 10), &[], Digest::None)?;
            sender.stretch((9, 20), &[], Digest::None)
        }),
        ("empty stretch", |sender| {
            sender.stretch((7, 7), &[], Digest::None)
        }),
        ("inverted stretch", |sender| {
            sender.stretch((9, 7), &[], Digest::None)
        }),
        ("stretch past the end", |sender| {
            sender.stretch((0, LEN + 1), &[], Digest::None)
        }),
        ("endless stretch", |sender| {
            sender.stretch((0, u64::MAX), &[], Digest::None)
        }),
        ("copies without sums", |sender| {
            sender.stretch((0, LEN), &[copied(0, LEN, 0)], digest(&old()))
        }),
        ("copies of single bytes", |sender| {
            sender.request_sums()?;
            sender.stretch((0, LEN), &[copied(0, 1, 0)], digest(&[0]))
        }),
        ("copies between blocks", |sender| {
            sender.request_sums()?;
            let copy = copied(0, BLOCK.into(), 1);
            sender.stretch((0, LEN), &[copy], digest(&[0]))
        }),
        ("copies out of order", |sender| {
            sender.request_sums()?;
            let block = u64::from(BLOCK);
            let copies = [copied(block, block, 0), copied(0, block, 0)];
            sender.stretch((0, LEN), &copies, digest(&[0]))
        }),
        ("copies that are too long", |sender| {
            sender.request_sums()?;
            let copy = copied(0, 2 * STRETCH_MAX, 0);
            sender.stretch((0, LEN), &[copy], digest(&[0]))
        }),
        ("sums twice", |sender| {
            sender.request_sums()?;
            sender.say(&Message::RequestSums(REQUEST))
        }),
        ("sums of another file", |sender| {
            let request = SumsRequest {
                entry: 1,
                ..REQUEST
            };
            sender.say(&Message::RequestSums(request))
        }),
        ("odd blocks", |sender| {
            let request = SumsRequest {
                block: 3000,
                ..REQUEST
            };
            sender.say(&Message::RequestSums(request))
        }),
    ];
    for (what, attack) in attacks {
        let folder = folder("attacks");
        let error = hear(&folder, attack).expect_err(what);
        assert_eq!(error.code(), Code::Protocol, "{what}: {error}");
        assert!(fs::read(folder.join("x")).unwrap() == old(), "{what}");
        assert_eq!(names(&folder), ["x"], "{what}");
    }
}

/// The source changed while it was searched.
#[test]
fn failed_search_fails_only_the_file() {
    let folder = folder("failed");
    let summary = hear(&folder, |sender| {
        sender.request_sums()?;
        sender.say(&Message::Delta(DeltaStretch {
            entry: 0,
            span: (0, 0),
            copies: Vec::new(),
            report: Report::Failed {
                code: Code::Changed as u8,
                why: "x: it changed".to_owned(),
            },
        }))
    });
    let summary = summary.unwrap();
    assert_eq!(summary.entries, 0);
    assert_eq!(summary.failures[0].code, Code::Changed as u8);
    assert!(fs::read(folder.join("x")).unwrap() == old());
    assert_eq!(names(&folder), ["x"]);
}

#[test]
fn file_in_endless_stretches_is_refused() {
    let folder = folder("split");
    let error = hear(&folder, |sender| {
        (0..LEN / 2).try_for_each(|nth| {
            let at = LEN - 2 * nth - 2;
            sender.stretch((at, at + 1), &[], Digest::None)
        })
    });
    let error = error.unwrap_err();
    assert_eq!(error.code(), Code::Protocol, "{error}");
    assert!(fs::read(folder.join("x")).unwrap() == old());
}

/// Runs a sender of a file with a receiver that does what `attack` does after the sums were requested.
fn tell(
    name: &str,
    basis: u64,
    attack: impl FnOnce(&Sender, &Message) -> Result<(), Error> + Send + 'static,
) -> Error {
    let source = folder(name).join("x");
    let [honest, liar] = sessions();
    let liar = std::thread::spawn(move || {
        let list = liar.control.open(LIST)?;
        // the start of the list, and the only entry
        for _ in 0..2 {
            list.receive(liar.clock, liar.clock.now() + Duration::from_secs(5))?;
        }
        let file = WantedFile {
            number: 0,
            send: None,
            held: Vec::new(),
            digest: DigestKind::default(),
            basis: Some(basis),
        };
        let wanted = Listing::Wanted(WantedFiles {
            entries: 1,
            taken: 0,
            files: vec![file],
        });
        list.send(&Frame::message(wanted.encode()))?;
        offered::take(&liar)?;
        let sender = Sender {
            session: liar,
            list,
        };
        let first = offered::after_choice(&sender.session)?;
        attack(&sender, &first)?;
        stay(&sender.session);
        Ok::<_, Error>(())
    });
    let walk = Walk::new(
        Arc::new(FileAccess::anywhere()),
        &[source],
        Rules::default(),
    );
    let settings = send::Settings {
        plain: true,
        options: Options {
            delta: DeltaMode::Always,
            stall: 60,
            ..Options::default()
        },
        ..send::Settings::default()
    };
    let role = Role::Client(false);
    let finds = SourceEntries::from_walk(walk.unwrap());
    let error = send(&honest, role, finds, settings, &mut |_: CopyEvent| {}).unwrap_err();
    honest.give_up(&error);
    drop(honest);
    assert!(liar.join().is_ok(), "the receiver panicked");
    error
}

fn sums(entry: u64, octets: usize, last: bool) -> Vec<u8> {
    let octets = vec![9; octets];
    let sums = Sums {
        entry,
        octets,
        last,
    };
    Listing::Sums(sums).encode()
}

#[test]
fn invalid_sums_end_the_session() {
    let compared = Compared {
        entry: 0,
        span: (0, LEN),
        wanted: true,
    };
    let blocks = LEN as usize / 1024;
    for (what, news) in [
        ("too many", vec![sums(0, 8 * (blocks + 1), false)]),
        (
            "too many in parts",
            vec![sums(0, 8 * blocks, false), sums(0, 8, false)],
        ),
        ("a part of a sum", vec![sums(0, 12, false)]),
        ("of another file", vec![sums(1, 8, false)]),
        ("after the last", vec![sums(0, 8, true), sums(0, 8, true)]),
        (
            "an answer too early",
            vec![Listing::Compared(compared).encode()],
        ),
    ] {
        let error = tell("sums", LEN, move |sender, first| {
            let Message::RequestSums(request) = first else {
                panic!("no sums were requested: {first:?}")
            };
            assert!(request.entry == 0 && request.block == 1024);
            for octets in news {
                sender.list.send(&Frame::message(octets))?;
            }
            Ok(())
        });
        assert_eq!(error.code(), Code::Protocol, "{what}: {error}");
    }
}

#[test]
fn basis_of_impossible_size_is_declined() {
    let error = tell("large", u64::MAX, |sender, first| {
        let Message::Delta(stretch) = first else {
            panic!("the file is not declined: {first:?}")
        };
        assert_eq!((stretch.span, stretch.copies.len()), ((0, LEN), 0));
        assert!(matches!(sender.session.hear()?, Message::Object(_)));
        Err(PeerFault::Malformed.into())
    });
    // the receiver has left
    assert_eq!(error.code(), Code::Network, "{error}");
}

fn entry() -> Entry {
    Entry {
        path: b"x".to_vec(),
        kind: EntryKind::File(LEN),
        mode: 0o644,
        seconds: 1_000_000_000,
        nanos: 0,
        digest: None,
        extras: None,
        data: None,
        linked: Linked::Alone,
        mark: None,
    }
}

/// Returns a directory with the old file.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("deltas-{name}"));
    fs::remove_dir_all(&path).ok();
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("x"), old()).unwrap();
    path
}

fn names(folder: &Path) -> Vec<String> {
    let items = fs::read_dir(folder).unwrap();
    let names = items.map(|item| item.unwrap().file_name().into_string().unwrap());
    names.collect()
}
