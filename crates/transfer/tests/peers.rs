//! Peers whose keys are right and who lie: about names, lengths, digests and verdicts.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test is a world of its own")]

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use lighthaul_base::{Instant, Rate, Span};
use lighthaul_io::drive::{Next, Owner, run};
use lighthaul_io::error::Error as World;
use lighthaul_io::identity::Identity;
use lighthaul_io::store::Store;
use lighthaul_io::tcp::patient;
use lighthaul_io::tls::Side;
use lighthaul_proto::rbudp::{Receiver, ReceiverEvent, Sender, SenderEvent};
use lighthaul_transfer::digest::{self, Digest, Taking};
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::landing::Landing;
use lighthaul_transfer::manifest::{Entry, Kind, pack};
use lighthaul_transfer::message::{Message, Offer, Target};
use lighthaul_transfer::mover;
use lighthaul_transfer::path::{Door, explore};
use lighthaul_transfer::receive::{self, receive};
use lighthaul_transfer::send::{self, send};
use lighthaul_transfer::session::Session;
use lighthaul_transfer::sink;
use lighthaul_transfer::source::Report;
use lighthaul_transfer::walk::walk;
use lighthaul_transfer::watch::{Sight, Summary};

/// What a lying sender says.
struct Lie {
    entries: Vec<Entry>,
    offer: Offer,
    reports: Vec<(u64, Report)>,
}

impl Lie {
    /// The truth about files of these names, each full of sevens.
    fn about(names: &[&str]) -> Self {
        let entries: Vec<_> = names
            .iter()
            .map(|name| entry(name, Kind::File(LEN)))
            .collect();
        let object_len = LEN * entries.len() as u64;
        let report = |nth| (nth as u64, Report::Digest(digest(7)));
        Self {
            offer: Offer {
                object_len,
                packet_len: 32 << 10,
                rate_bps: Rate::UNLIMITED.as_bps(),
                settle_us: 2000,
                named: true,
                udp: false,
                entries: entries.len() as u64,
                file_bytes: object_len,
            },
            reports: (0..entries.len()).map(report).collect(),
            entries,
        }
    }
}

#[test]
fn the_truth_is_published() {
    let folder = folder("truth");
    let summary = hear(Lie::about(&["a", "b"]), &folder).unwrap();
    assert_eq!((summary.entries, summary.failures.len()), (2, 0));
    assert_eq!(names(&folder), ["a", "b"]);
    assert_eq!(fs::read(folder.join("b")).unwrap(), vec![7; LEN as usize]);
}

#[test]
fn bytes_that_are_not_what_was_read_are_not_published() {
    let folder = folder("digest");
    fs::write(folder.join("b"), "as before").unwrap();
    let mut lie = Lie::about(&["a", "b", "c"]);
    lie.reports[1].1 = Report::Digest(digest(8));
    lie.reports[2].1 = Report::Failed("c: it changed while it was sent".to_owned());
    let summary = hear(lie, &folder).unwrap();
    let codes: Vec<_> = summary.failures.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [Code::Integrity as u8, Code::Changed as u8]);
    assert_eq!(names(&folder), ["a", "b"]);
    assert_eq!(fs::read_to_string(folder.join("b")).unwrap(), "as before");
}

/// What makes a lie of the truth.
type Twist = fn(&mut Lie);

#[test]
fn manifests_and_offers_that_cannot_be_end_a_session_and_leave_nothing() {
    let twists: [(&str, Twist); 16] = [
        ("up and out", |lie| lie.entries[1].path = b"../out".to_vec()),
        ("absolute", |lie| lie.entries[1].path = b"/tmp/out".to_vec()),
        ("no name", |lie| lie.entries[1].path.clear()),
        ("fewer bytes than the object", |lie| drop(lie.entries.pop())),
        ("more entries than offered", |lie| lie.offer.entries = 1),
        ("fewer entries than offered", |lie| lie.offer.entries = 3),
        ("larger than any file", |lie| {
            lie.entries[1].kind = Kind::File(u64::MAX);
        }),
        ("through a link", |lie| {
            lie.entries[1].path = b"link/x".to_vec();
            lie.entries
                .insert(0, entry("link", Kind::Link(b"/tmp".to_vec())));
            lie.offer.entries = 3;
        }),
        ("in a file", |lie| lie.entries[1].path = b"a/x".to_vec()),
        ("no digest", |lie| drop(lie.reports.pop())),
        ("digests of nobody", |lie| {
            lie.reports = (0..100).map(|n| (n, lie.reports[0].1.clone())).collect();
        }),
        ("packets of no bytes", |lie| lie.offer.packet_len = 0),
        ("packets of odd bytes", |lie| lie.offer.packet_len = 1001),
        ("packets larger than datagrams", |lie| {
            lie.offer.packet_len = 1 << 20;
        }),
        ("an object larger than any", |lie| {
            lie.offer.object_len = u64::MAX;
        }),
        ("no rate", |lie| lie.offer.rate_bps = 0),
    ];
    for (what, twist) in twists {
        let folder = folder("twists");
        let mut lie = Lie::about(&["a", "b"]);
        twist(&mut lie);
        let error = hear(lie, &folder).expect_err(what);
        let fits = matches!(error.code, Code::Protocol | Code::Open);
        assert!(fits, "{what}: {} {error}", error.code as u8);
        assert_eq!(names(&folder), [""; 0], "{what}: {error}");
    }
}

#[test]
fn a_file_that_is_named_twice_is_one_file() {
    let folder = folder("twice");
    hear(Lie::about(&["a", "a"]), &folder).unwrap();
    assert_eq!(names(&folder), ["a"]);
    let mut lie = Lie::about(&["b", "b"]);
    lie.entries[1].kind = Kind::Folder;
    lie.offer.object_len = LEN;
    lie.reports.pop();
    let result = hear(lie, &folder);
    assert!(result.is_err() || !result.unwrap().failures.is_empty());
    assert!(!names(&folder).iter().any(|name| name.starts_with('.')));
}

#[test]
fn verdicts_that_cannot_be_are_not_believed() {
    let folder = folder("verdict");
    let source = folder.join("source");
    fs::write(&source, vec![7; LEN as usize]).unwrap();
    for verdict in [
        vec![(1, 12, "no such entry".to_owned())],
        vec![(u64::MAX, 12, "no such entry".to_owned())],
        vec![(0, 12, "twice".to_owned()), (0, 12, "twice".to_owned())],
    ] {
        let result = tell(&source, Message::Verdict(verdict.clone()));
        let error = result.expect_err("nobody can say that");
        assert_eq!(error.code, Code::Protocol, "{verdict:?}: {error}");
    }
    let summary = tell(
        &source,
        Message::Verdict(vec![(0, 0, "a failure is no success".to_owned())]),
    );
    let failed = summary.is_ok_and(|summary| summary.failures == [(0, String::new())]);
    assert!(!failed, "a failure of code 0 passes for success");
    let summary = tell(&source, Message::Verdict(Vec::new())).unwrap();
    assert_eq!((summary.entries, summary.bytes), (1, LEN));
    let error = tell(&source, Message::Welcome).expect_err("that is no verdict");
    assert_eq!(error.code, Code::Protocol);
    let error = tell(&source, Message::Failed(11, "no space left".to_owned())).unwrap_err();
    assert_eq!(
        (error.code, error.text.as_str()),
        (Code::Io, "no space left")
    );
}

/// What an honest receiver makes of `lie`.
fn hear(lie: Lie, folder: &Path) -> Result<Summary, Error> {
    let target = Target {
        path: folder.as_os_str().as_encoded_bytes().to_vec(),
        into: true,
    };
    let landing = Landing::find(&target, Path::new(""))?;
    let sink = sink::Settings {
        digest: digest::Kind::default(),
        sync: false,
        transfer: 0,
    };
    let [honest, liar] = sessions();
    let liar = std::thread::spawn(move || {
        // whatever becomes of it: the other side is looked at
        lie_to(&liar, &lie).ok();
        while liar.hear().is_ok() {}
    });
    let settings = receive::Settings { plain: true, sink };
    let mut watcher = |_: Sight| {};
    let result = receive(
        &honest,
        &Door::Caller(false),
        landing,
        settings,
        &mut watcher,
    );
    if let Err(error) = &result {
        honest.give_up(error);
    }
    drop(honest);
    assert!(liar.join().is_ok(), "the liar broke down");
    result
}

fn lie_to(session: &Session, lie: &Lie) -> Result<(), Error> {
    let path = explore(session, &Door::Caller(false), true)?;
    session.say(&Message::Offer(lie.offer))?;
    session.say(&Message::Manifest(pack(&lie.entries)?))?;
    session.say(&Message::ManifestEnd)?;
    let config = mover::config(&lie.offer, true, session.peer_address())?;
    let mut lane = mover::lane(session, path, true)?;
    let mut sender = Sender::new(session.clock.now(), config, 1);
    run(
        &mut sender,
        &mut lane,
        &mut Sevens(vec![7; 32 << 10]),
        &mut Eager,
    )?;
    session.say(&Message::Reports(lie.reports.clone()))?;
    session.say(&Message::ReportsEnd)
}

/// What an honest sender of `source` makes of a receiver who takes everything and then says `last`.
fn tell(source: &Path, last: Message) -> Result<Summary, Error> {
    let [honest, liar] = sessions();
    let liar = std::thread::spawn(move || {
        take_from(&liar, &last).unwrap();
        // until the other side goes
        while liar.hear().is_ok() {}
    });
    let tree = walk(&[source.to_owned()])?;
    let settings = send::Settings {
        plain: true,
        digest: digest::Kind::default(),
        rate: None,
    };
    let result = send(
        &honest,
        &Door::Caller(false),
        tree,
        settings,
        &mut |_: Sight| {},
    );
    drop(honest);
    assert!(liar.join().is_ok(), "the liar broke down");
    result
}

fn take_from(session: &Session, last: &Message) -> Result<(), Error> {
    let path = explore(session, &Door::Caller(false), false)?;
    let Message::Offer(offer) = session.hear()? else {
        panic!("nothing was offered")
    };
    let config = mover::config(&offer, true, session.peer_address())?;
    let mut lane = mover::lane(session, path, true)?;
    let mut receiver = Receiver::new(session.clock.now(), config, 1);
    run(
        &mut receiver,
        &mut lane,
        &mut Sevens(Vec::new()),
        &mut Eager,
    )?;
    while session.hear()? != Message::ReportsEnd {}
    session.say(last)
}

/// Both ends of a session.
fn sessions() -> [Session; 2] {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let start = |tcp, side| Session::start(patient(tcp).unwrap(), side, &Identity::generate());
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| start(TcpStream::connect(address).unwrap(), Side::Client));
        let called = start(listener.accept().unwrap().0, Side::Server);
        [caller.join().unwrap().unwrap(), called.unwrap()]
    })
}

fn entry(path: &str, kind: Kind) -> Entry {
    Entry {
        path: path.into(),
        kind,
        mode: 0o644,
        seconds: 1_000_000_000,
        nanos: 0,
    }
}

/// The digest of a file of `LEN` such bytes.
fn digest(byte: u8) -> Digest {
    let mut taking = Taking::new(digest::Kind::default(), LEN);
    taking.take(0, &vec![byte; LEN as usize]);
    taking.finish().unwrap()
}

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("peers-{name}"));
    fs::remove_dir_all(&path).ok();
    fs::create_dir_all(&path).unwrap();
    path
}

fn names(folder: &Path) -> Vec<String> {
    let items = fs::read_dir(folder)
        .unwrap()
        .map(|item| item.unwrap().file_name());
    let mut names: Vec<_> = items
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// An object of one byte over and over, which nobody keeps.
struct Sevens(Vec<u8>);

impl Store for Sevens {
    fn gather(&mut self, span: Span) -> Result<&mut [u8], World> {
        Ok(&mut self.0[..span.len as usize])
    }

    fn slot(&mut self, _: Span) -> Result<Option<&mut [u8]>, World> {
        Ok(None)
    }
}

/// An owner who wants the end.
struct Eager;

impl Owner<Sender> for Eager {
    fn event(&mut self, _: &mut Sender, event: SenderEvent, _: Instant) -> Result<Next, World> {
        Ok(if event == SenderEvent::Complete {
            Next::Finish
        } else {
            Next::Continue
        })
    }

    fn tick(&mut self, _: &mut Sender, _: Instant) -> Result<Next, World> {
        Ok(Next::Continue)
    }
}

impl Owner<Receiver> for Eager {
    fn event(&mut self, _: &mut Receiver, event: ReceiverEvent, _: Instant) -> Result<Next, World> {
        Ok(if event == ReceiverEvent::Complete {
            Next::Finish
        } else {
            Next::Continue
        })
    }

    fn tick(&mut self, _: &mut Receiver, _: Instant) -> Result<Next, World> {
        Ok(Next::Continue)
    }
}

/// Bytes of every file.
const LEN: u64 = 100_000;
