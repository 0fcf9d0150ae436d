//! Peers with valid keys that send wrong names, lengths, digests and results.
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

use lighthaul_base::{Endpoint, Instant, Span};
use lighthaul_copy::message::{
    Announced, CopyResult, Failure, HeldDigest, LIST, Landing, Listing, Message, Target,
    WantedFile, WantedFiles,
};
use lighthaul_copy::report::Report;
use lighthaul_copy::watch::{CopyEvent, Summary};
use lighthaul_files::digest::{self, Digest, Digester};
use lighthaul_files::filter::Rules;
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::manifest::{Entry, EntryKind, pack};
use lighthaul_files::naming::Naming;
use lighthaul_files::object::Piece;
use lighthaul_files::walk::Walk;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_io::control::Frame;
use lighthaul_io::drive::{Next, Owner, run};
use lighthaul_io::error::Error as World;
use lighthaul_io::store::Store;
use lighthaul_receive::target_folder::TargetFolder;
use lighthaul_receive::{self as receive, receive};
use lighthaul_send::{self as send, send};
use lighthaul_session::error::{Code, Error};
use lighthaul_session::machine::{Learned, MachineEvent, ReceiveMachine, SendMachine};
use lighthaul_session::message as own;
use lighthaul_session::offer::{Offer, lanes_over, rekey, setup};
use lighthaul_session::protocol::Protocol;
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;
use lighthaul_session::topic::Topic;

use ends::sessions;
use offer::offer;
use talk::stay;

/// Messages of a misbehaving sender.
struct SenderScript {
    entries: Vec<Entry>,
    offer: Offer,
    /// Objects, each with the whole of one file unless a test changes that.
    objects: Vec<Announced>,
    reports: Vec<(u64, Vec<Report>)>,
    /// Digests of ranges that the receiver does not hold.
    held: Vec<HeldDigest>,
}

impl SenderScript {
    /// Returns correct messages about files of these names, each full of sevens.
    fn about(names: &[&str]) -> Self {
        let numbers = 0..names.len() as u64;
        let object = |number| Announced {
            number,
            lane: 0,
            protocol: offer().protocol,
            pieces: vec![Piece {
                entry: number,
                offset: 0,
                len: LEN,
            }],
            source_wait: 0,
        };
        Self {
            entries: names
                .iter()
                .map(|name| entry(name, EntryKind::File(LEN)))
                .collect(),
            offer: offer(),
            objects: numbers.clone().map(object).collect(),
            reports: numbers
                .map(|number| (number, vec![Report::Digest(digest(7))]))
                .collect(),
            held: Vec::new(),
        }
    }
}

#[test]
fn correct_messages_are_published() {
    let folder = folder("truth");
    let summary = hear(SenderScript::about(&["a", "b"]), &folder).unwrap();
    assert_eq!((summary.entries, summary.failures.len()), (2, 0));
    assert_eq!(names(&folder), ["a", "b"]);
    assert_eq!(fs::read(folder.join("b")).unwrap(), vec![7; LEN as usize]);
}

#[test]
fn data_that_differ_from_the_digest_are_not_published() {
    let folder = folder("digest");
    fs::write(folder.join("b"), "as before").unwrap();
    let mut script = SenderScript::about(&["a", "b", "c"]);
    script.reports[1].1 = vec![Report::Digest(digest(8))];
    script.reports[2].1 = vec![Report::Failed {
        code: 24,
        why: "c: it changed while it was sent".to_owned(),
    }];
    let summary = hear(script, &folder).unwrap();
    let codes: Vec<_> = summary.failures.iter().map(|failed| failed.code).collect();
    assert_eq!(codes, [Code::Integrity as u8, Code::Changed as u8]);
    assert_eq!(names(&folder), ["a", "b"]);
    assert_eq!(fs::read_to_string(folder.join("b")).unwrap(), "as before");
}

/// Change that makes correct messages wrong.
type Change = fn(&mut SenderScript);

/// Requires that each change ends the session, and that nothing wrong is published in a folder of this name.
fn assert_refused(name: &str, changes: &[(&str, Change)]) {
    for (what, change) in changes {
        let folder = folder(name);
        let mut script = SenderScript::about(&["a", "b"]);
        change(&mut script);
        let error = hear(script, &folder).expect_err(what);
        assert_eq!(error.code(), Code::Protocol, "{what}: {error}");
        // data that were verified before may be published
        let left = names(&folder);
        assert!(
            left.is_empty() || left == ["a"],
            "{what}: {error}: {left:?}"
        );
    }
}

#[test]
fn invalid_lists_and_objects_end_the_session_without_leftovers() {
    let changes: [(&str, Change); 19] = [
        ("path above the target", |script| {
            script.entries[1].path = b"../out".to_vec();
        }),
        ("absolute path", |script| {
            script.entries[1].path = b"/tmp/out".to_vec();
        }),
        ("empty path", |script| script.entries[1].path.clear()),
        ("path with a NUL", |script| {
            script.entries[1].path = b"a\0b".to_vec();
        }),
        ("object without a file", |script| drop(script.entries.pop())),
        ("file without an object", |script| {
            drop(script.objects.pop());
        }),
        ("object without pieces", |script| {
            script.objects[1].pieces.clear();
        }),
        ("longer than requested", |script| {
            script.objects[1].pieces[0].len += 1;
        }),
        ("beyond the end", |script| {
            script.objects[1].pieces[0].offset = 1;
        }),
        ("empty piece", |script| script.objects[1].pieces[0].len = 0),
        ("offset overflow", |script| {
            script.objects[1].pieces[0].offset = u64::MAX;
        }),
        ("repeated piece", |script| {
            let piece = script.objects[1].pieces[0];
            script.objects[1].pieces.push(piece);
        }),
        ("piece of another object", |script| {
            script.objects[1].pieces[0].entry = 0;
        }),
        ("repeated object", |script| script.objects[1].number = 0),
        ("unknown lane", |script| script.objects[1].lane = 7),
        ("missing digest", |script| drop(script.reports.pop())),
        ("missing digest of a piece", |script| {
            script.reports[1].1.clear();
        }),
        ("digests of an unknown object", |script| {
            script.reports[1].0 = 100;
        }),
        ("digest of a range that is not held", |script| {
            script.held.push(HeldDigest {
                entry: 1,
                span: (0, LEN),
                report: Report::Digest(digest(7)),
            });
        }),
    ];
    assert_refused("changes", &changes);
}

#[test]
fn invalid_offers_and_protocols_end_the_session_without_leftovers() {
    let changes: [(&str, Change); 5] = [
        ("protocol that was not offered", |script| {
            script.objects[1].protocol = Protocol::SabulSwift;
        }),
        ("other protocol without datagrams", |script| {
            script.objects[1].protocol = Protocol::RbudpPlus;
        }),
        ("packets of no bytes", |script| script.offer.packet_len = 0),
        ("packets of odd bytes", |script| {
            script.offer.packet_len = 1001;
        }),
        ("rate of zero", |script| script.offer.rate_bps = 0),
    ];
    assert_refused("offers", &changes);
}

#[test]
fn files_at_impossible_paths_do_not_affect_other_files() {
    let changes: [(&str, Change); 3] = [
        ("larger than any disk", |script| {
            script.entries[1].kind = EntryKind::File(u64::MAX);
        }),
        ("through a link", |script| {
            script.entries[1].path = b"link/x".to_vec();
        }),
        ("in a file", |script| {
            script.entries[1].path = b"file/x".to_vec();
        }),
    ];
    for (what, change) in changes {
        let folder = folder("alone");
        fs::write(folder.join("file"), "f").unwrap();
        std::os::unix::fs::symlink("/tmp", folder.join("link")).unwrap();
        let twisted = || {
            let mut script = SenderScript::about(&["a", "b"]);
            change(&mut script);
            script
        };
        // the file is rejected, and the peer sends it anyway
        let error = hear(twisted(), &folder).expect_err(what);
        assert_eq!(error.code(), Code::Protocol, "{what}: {error}");
        let mut left = names(&folder);
        left.retain(|name| name != "a");
        assert_eq!(left, ["file", "link"], "{what}");
        let mut honest = twisted();
        honest.objects.pop();
        honest.reports.pop();
        let summary = hear(honest, &folder).expect(what);
        assert_eq!(
            (summary.entries, summary.failures.len()),
            (1, 1),
            "{what}: {summary:?}"
        );
        assert_eq!(names(&folder), ["a", "file", "link"], "{what}");
    }
}

#[test]
fn file_that_is_listed_twice_is_handled_once() {
    let folder = folder("twice");
    hear(SenderScript::about(&["a", "a"]), &folder).unwrap();
    assert_eq!(names(&folder), ["a"]);
    let mut script = SenderScript::about(&["b", "b"]);
    script.entries[1].kind = EntryKind::Folder;
    script.objects.pop();
    script.reports.pop();
    let summary = hear(script, &folder).unwrap();
    // the directory is there before the bytes of the file arrive
    let failed: Vec<_> = summary.failures.iter().map(|failed| &failed.path).collect();
    assert_eq!((summary.entries, failed), (1, vec![&b"b".to_vec()]));
    assert_eq!(names(&folder), ["a", "b"]);
    assert!(folder.join("b").is_dir());
}

#[test]
fn invalid_results_are_rejected() {
    let folder = folder("verdict");
    let source = folder.join("source");
    fs::write(&source, vec![7; LEN as usize]).unwrap();
    let failure = |number, code, why: &str| Failure {
        number,
        path: b"source".to_vec(),
        code,
        why: why.to_owned(),
    };
    let verdict = |entries, bytes| {
        let verdict = Message::Result(CopyResult {
            entries,
            bytes,
            unchanged: 0,
        });
        verdict.encode()
    };
    let settled = |entries, failures| Message::Settled { entries, failures }.encode();
    for (what, news) in [
        (
            "more entries than listed",
            vec![settled(2, vec![]), verdict(2, LEN)],
        ),
        ("without settled entries", vec![verdict(1, LEN)]),
        ("more bytes", vec![settled(1, vec![]), verdict(1, LEN + 1)]),
        (
            "more failures than entries",
            vec![
                settled(1, vec![failure(0, 12, "no"), failure(1, 12, "no")]),
                verdict(0, 0),
            ],
        ),
        ("unexpected message", vec![own::Message::Guest.encode()]),
    ] {
        let error = tell(&source, news).expect_err(what);
        assert_eq!(error.code(), Code::Protocol, "{what}: {error}");
    }
    let failed = vec![settled(1, vec![failure(0, 0, "no success")]), verdict(0, 0)];
    let summary = tell(&source, failed).unwrap();
    let failed = &summary.failures[0];
    assert_eq!(
        (failed.code, failed.why.as_str()),
        (Code::Protocol as u8, "no success")
    );
    let summary = tell(&source, vec![settled(1, vec![]), verdict(1, LEN)]).unwrap();
    assert_eq!((summary.entries, summary.bytes), (1, LEN));
    let error = tell(
        &source,
        vec![
            own::Message::Failed {
                code: 11,
                why: "no space left".to_owned(),
            }
            .encode(),
        ],
    )
    .unwrap_err();
    assert_eq!(
        (error.code(), error.text().as_str()),
        (Code::Io, "no space left")
    );
}

/// Runs a receiver with a sender of `script`. Returns the receiver's result.
fn hear(script: SenderScript, folder: &Path) -> Result<Summary, Error> {
    let target = Target {
        path: folder.as_os_str().as_encoded_bytes().to_vec(),
        landing: Landing::Inside,
    };
    let target_folder = TargetFolder::open(&target, &Arc::new(FileAccess::anywhere()), false)?;
    let [honest, liar] = sessions();
    let liar = std::thread::spawn(move || {
        // errors of the sender do not matter
        send_script(&liar, &script).ok();
        stay(&liar);
    });
    let settings = receive::Settings {
        plain: true,
        ..receive::Settings::default()
    };
    let mut watcher = |_: CopyEvent| {};
    let role = Role::Client(false);
    let result = receive(&honest, role, target_folder, settings, &mut watcher);
    if let Err(error) = &result {
        honest.give_up(error);
    }
    drop(honest);
    assert!(liar.join().is_ok(), "the misbehaving peer panicked");
    result
}

fn send_script(session: &Session, script: &SenderScript) -> Result<(), Error> {
    let list = session.control.open(LIST)?;
    for listing in [
        Listing::Begin {
            naming: Naming::Several,
        },
        Listing::Entries(pack(&script.entries)?),
        Listing::End,
    ] {
        list.send(&Frame::message(listing.encode()))?;
    }
    let path = lighthaul_session::path::Path::none(session);
    let dialog = session.path_dialog(Arc::default())?;
    dialog.say(&Message::Offer(script.offer))?;
    // the content of the request does not matter
    list.receive(session.clock, session.clock.now() + Duration::from_secs(5))
        .ok();
    let mut lane = lanes_over(session, &script.offer, path, &[])?.swap_remove(0);
    for held in &script.held {
        session.say(&Message::Held(held.clone()))?;
    }
    for object in &script.objects {
        session.say(&Message::Object(object.clone()))?;
        let len = object.pieces.iter().map(|piece| piece.len).sum();
        let setup = setup(&script.offer, (object.number, len), &lane, true)?;
        rekey(session, &mut lane, object.number, true);
        let mut sender = SendMachine::new(session.clock.now(), &setup, Learned::default());
        let mut store = Sevens(vec![7; 32 << 10]);
        run(&mut sender, &mut lane, &mut store, &mut Eager)?;
    }
    for (object, reports) in &script.reports {
        session.say(&Message::Reports {
            object: *object,
            reports: reports.clone(),
        })?;
    }
    session.say(&Message::Sent)
}

/// Runs a sender of `source` with a receiver that accepts everything and then sends `news`. Returns
/// the sender's result.
fn tell(source: &Path, news: Vec<Vec<u8>>) -> Result<Summary, Error> {
    let [honest, liar] = sessions();
    let liar = std::thread::spawn(move || {
        // the honest side may end the session before all was said
        take_from(&liar, &news).ok();
        // until the other side closes
        stay(&liar);
    });
    let walk = Walk::new(
        Arc::new(FileAccess::anywhere()),
        &[source.to_owned()],
        Rules::default(),
    )?;
    let settings = send::Settings {
        plain: true,
        ..send::Settings::default()
    };
    let role = Role::Client(false);
    let result = send(
        &honest,
        role,
        SourceEntries::from_walk(walk),
        settings,
        &mut |_: CopyEvent| {},
    );
    drop(honest);
    assert!(liar.join().is_ok(), "the misbehaving peer panicked");
    result
}

fn take_from(session: &Session, news: &[Vec<u8>]) -> Result<(), Error> {
    let list = session.control.open(LIST)?;
    let wanted = Listing::Wanted(WantedFiles {
        entries: 1,
        taken: 0,
        files: vec![WantedFile {
            number: 0,
            send: None,
            held: Vec::new(),
            digest: digest::DigestKind::default(),
            basis: None,
        }],
    });
    // the start of the list, and the only entry
    for _ in 0..2 {
        list.receive(session.clock, session.clock.now() + Duration::from_secs(5))?;
    }
    list.send(&Frame::message(wanted.encode()))?;
    let (offer, path, joined) = offered::take(session)?;
    let Message::Object(object) = offered::after_choice(session)? else {
        panic!("no object was sent")
    };
    let mut lane = lanes_over(session, &offer, path, &joined)?.swap_remove(object.lane.into());
    let about = (object.number, object.pieces[0].len);
    let setup = setup(&offer, about, &lane, true)?;
    rekey(session, &mut lane, object.number, true);
    let mut receiver = ReceiveMachine::new(session.clock.now(), &setup, Learned::default());
    let mut store = Sevens(Vec::new());
    run(&mut receiver, &mut lane, &mut store, &mut Eager)?;
    while session.hear::<Message>()? != Message::Sent {}
    for octets in news {
        session.stream.send(&Frame::message(octets.clone()))?;
    }
    Ok(())
}

fn entry(path: &str, kind: EntryKind) -> Entry {
    Entry {
        kind,
        mode: 0o644,
        ..Entry::bare(path.into())
    }
}

/// Returns the digest of a file of `LEN` equal bytes.
fn digest(byte: u8) -> Digest {
    let mut digester = Digester::new(digest::DigestKind::default(), LEN);
    digester.update(0, &vec![byte; LEN as usize]);
    digester.finish().unwrap()
}

/// Returns an empty directory.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("peers-{name}"));
    fs::remove_dir_all(&path).ok();
    fs::create_dir_all(&path).unwrap();
    path
}

fn names(folder: &Path) -> Vec<String> {
    lighthaul_testkit::names(folder).unwrap()
}

/// Object of one repeated byte, which is not stored.
struct Sevens(Vec<u8>);

impl Store for Sevens {
    fn gather(&mut self, span: Span) -> Result<&[u8], World> {
        Ok(&self.0[..span.len as usize])
    }

    fn slot(&mut self, _: Span) -> Result<Option<&mut [u8]>, World> {
        Ok(None)
    }
}

/// Owner that waits for the end.
struct Eager;

impl<E: Endpoint<Event = MachineEvent>> Owner<E> for Eager {
    fn event(&mut self, _: &mut E, event: MachineEvent, _: Instant) -> Result<Next, World> {
        Ok(if event == MachineEvent::Complete {
            Next::Finish
        } else {
            Next::Continue
        })
    }

    fn tick(&mut self, _: &mut E, _: Instant) -> Result<Next, World> {
        Ok(Next::Continue)
    }
}

/// Bytes of every file.
const LEN: u64 = 100_000;
