//! Peers with valid keys that send too much: lists, failures, announcements and reports without
//! end. Each gets an error, and causes little use of memory until then.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod ends;
mod offer;
mod talk;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_copy::message::{Announced, LIST, Landing, Listing, Message, Progress, Target};
use lighthaul_copy::report::Report;
use lighthaul_copy::watch::CopyEvent;
use lighthaul_files::filter::Rules;
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::manifest::{Entry, EntryKind, pack};
use lighthaul_files::naming::Naming;
use lighthaul_files::object::Piece;
use lighthaul_files::options::Options;
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

#[test]
fn endless_list_is_rejected_before_memory_is_full() {
    let _turn = turn();
    let folder = folder("list");
    let error = hear(&folder, |_, list| {
        let mut number = 0;
        loop {
            let names = number..number + 1000;
            let page: Vec<_> = names.map(|n| entry(n, EntryKind::File(1))).collect();
            say(list, &Listing::Entries(pack(&page)?))?;
            number += 1000;
        }
    });
    assert_eq!(error.code(), Code::Protocol, "{error}");
    assert!(
        error.text().contains("more entries than the window"),
        "{error}"
    );
    assert_eq!(names(&folder), 0);
}

#[test]
fn endless_failures_end_the_copy() {
    let _turn = turn();
    let folder = folder("failures");
    let error = hear(&folder, |_, list| {
        for number in 0_u64.. {
            let path = number.to_string().into_bytes();
            say(
                list,
                &Listing::Unreadable {
                    path,
                    code: 13,
                    why: "x".repeat(100),
                },
            )?;
        }
        Ok(())
    });
    assert_eq!(error.code(), Code::Partial, "{error}");
    assert!(
        error.text().starts_with("more than 131072 entries failed"),
        "{error}"
    );
}

#[test]
fn endless_warnings_are_sent_only_as_fast_as_the_observer_reads() {
    let _turn = turn();
    let folder = folder("warnings");
    let error = hear(&folder, |_, list| {
        for _ in 0..120_000 {
            say(
                list,
                &Listing::Skipped {
                    why: "x".repeat(4000),
                },
            )?;
        }
        Err(PeerFault::reported(Code::Interrupted as u8, "enough").into())
    });
    // the peer has left after its warnings
    assert!(
        matches!(error.code(), Code::Network | Code::TimedOut),
        "{error}"
    );
}

#[test]
fn announced_objects_that_never_arrive_are_rejected() {
    let _turn = turn();
    let folder = folder("objects");
    let error = hear(&folder, |session, list| {
        let page: Vec<_> = (0..1000).map(|n| entry(n, EntryKind::File(1))).collect();
        say(list, &Listing::Entries(pack(&page)?))?;
        // the content of the request does not matter
        let patience = session.clock.now() + Duration::from_secs(10);
        list.receive(session.clock, patience)?;
        for number in 0..1000 {
            let piece = Piece {
                entry: number,
                offset: 0,
                len: 1,
            };
            session.say(&Message::Object(Announced {
                number,
                lane: 0,
                protocol: offer().protocol,
                pieces: vec![piece],
                source_wait: 0,
            }))?;
        }
        Ok(())
    });
    assert_eq!(error.code(), Code::Protocol, "{error}");
    assert!(
        error.text().contains("more objects than a lane accepts"),
        "{error}"
    );
    assert_eq!(names(&folder), 0);
}

#[test]
fn reports_without_objects_are_rejected() {
    let _turn = turn();
    let folder = folder("reports");
    let error = hear(&folder, |session, _| {
        for number in 0_u64.. {
            session.say(&Message::Reports {
                object: number,
                reports: Vec::new(),
            })?;
        }
        Ok(())
    });
    assert_eq!(error.code(), Code::Protocol, "{error}");
}

#[test]
fn endless_reasons_take_little_memory() {
    let _turn = turn();
    let folder = folder("reasons");
    let error = hear(&folder, |session, list| {
        // each object is announced and reported, and none arrives
        for number in 0..2 {
            let first = number * FILES;
            let names: Vec<_> = (first..first + FILES).collect();
            for names in names.chunks(1000) {
                let page: Vec<_> = names
                    .iter()
                    .map(|n| entry(*n, EntryKind::File(1)))
                    .collect();
                say(list, &Listing::Entries(pack(&page)?))?;
            }
            let mut wanted = 0;
            while wanted < FILES {
                let until = session.clock.now() + Duration::from_mins(1);
                let frame = list.receive(session.clock, until)?;
                if let Ok(Listing::Wanted(these)) = Listing::decode(&frame.octets) {
                    wanted += these.entries;
                }
            }
            let piece = |entry| Piece {
                entry,
                offset: 0,
                len: 1,
            };
            session.say(&Message::Object(Announced {
                number,
                lane: 0,
                protocol: offer().protocol,
                pieces: (first..first + FILES).map(piece).collect(),
                source_wait: 0,
            }))?;
            let report = Report::Failed {
                code: 11,
                why: "r".repeat(2000),
            };
            for message in Message::reports(number, vec![report; FILES as usize]) {
                while !session.stream.has_room() {
                    std::thread::yield_now();
                }
                session.say(&message)?;
            }
        }
        Err(PeerFault::reported(Code::Interrupted as u8, "enough").into())
    });
    assert!(
        matches!(error.code(), Code::Network | Code::TimedOut),
        "{error}"
    );
}

#[test]
fn sender_accepts_any_number_of_progress_reports() {
    let _turn = turn();
    let folder = folder("progress");
    let source = folder.join("source");
    fs::write(&source, "source").unwrap();
    let before = resident();
    let [honest, liar] = sessions();
    let liar = std::thread::spawn(move || {
        for _ in 0..10_000 {
            // as fast as TCP accepts it, so that this process does not queue messages
            while !liar.stream.has_room() {
                std::thread::yield_now();
            }
            let datagrams = vec![u64::MAX; 8];
            liar.say(&Message::Progress(Progress {
                bytes: u64::MAX,
                datagrams,
                ..Progress::default()
            }))?;
        }
        liar.tell(&PeerFault::reported(Code::Io as u8, "no space left").into())?;
        stay(&liar);
        Ok::<_, Error>(())
    });
    let access = Arc::new(FileAccess::anywhere());
    let walk = Walk::new(access, &[source], Rules::default()).unwrap();
    let settings = send::Settings {
        plain: true,
        ..send::Settings::default()
    };
    let role = Role::Client(false);
    let finds = SourceEntries::from_walk(walk);
    let error = send(&honest, role, finds, settings, &mut |_: CopyEvent| {}).unwrap_err();
    assert_eq!(
        (error.code(), error.text().as_str()),
        (Code::Io, "no space left")
    );
    drop(honest);
    liar.join().unwrap().ok();
    assert!(resident() < before + MEMORY_KIB, "{} KiB", resident());
}

/// Runs a receiver in `folder` with a peer that sends what `attack` sends. Returns the receiver's
/// error.
fn hear(
    folder: &Path,
    attack: impl FnOnce(&Session, &Stream) -> Result<(), Error> + Send + 'static,
) -> Error {
    let before = resident();
    let target = Target {
        path: folder.as_os_str().as_encoded_bytes().to_vec(),
        landing: Landing::Inside,
    };
    let target_folder =
        TargetFolder::open(&target, &Arc::new(FileAccess::anywhere()), false).unwrap();
    let [honest, liar] = sessions();
    let liar = std::thread::spawn(move || {
        let list = liar.control.open(LIST)?;
        say(
            &list,
            &Listing::Begin {
                naming: Naming::Several,
            },
        )?;
        let dialog = liar.path_dialog(Arc::default())?;
        dialog.say(&Message::Offer(offer()))?;
        attack(&liar, &list)?;
        stay(&liar);
        Ok::<_, Error>(())
    });
    // a busy machine may take a while to receive everything
    let settings = receive::Settings {
        plain: true,
        options: Options {
            stall: 600,
            ..Options::default()
        },
        ..receive::Settings::default()
    };
    let mut watcher = |_: CopyEvent| {};
    let role = Role::Client(false);
    let error = receive(&honest, role, target_folder, settings, &mut watcher).unwrap_err();
    drop(honest);
    // the peer has failed, too
    liar.join().unwrap().ok();
    assert!(resident() < before + MEMORY_KIB, "{} KiB", resident());
    error
}

/// Sends `listing` as fast as the peer reads, so that this process does not queue messages.
fn say(list: &Stream, listing: &Listing) -> Result<(), Error> {
    while !list.has_room() {
        std::thread::yield_now();
    }
    Ok(list.send(&Frame::message(listing.encode()))?)
}

fn entry(number: u64, kind: EntryKind) -> Entry {
    Entry {
        kind,
        mode: 0o644,
        ..Entry::bare(format!("a-file-{number}").into_bytes())
    }
}

/// Returns an empty directory.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("floods-{name}"));
    fs::remove_dir_all(&path).ok();
    fs::create_dir_all(&path).unwrap();
    path
}

/// Returns the number of items in `folder`, with hidden ones.
fn names(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// Locks out other tests of this file, since each fills memory and measures that of the process.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the peak memory of this process in KiB, which includes other tests.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Files of one object.
const FILES: u64 = 1 << 14;
/// Maximum memory for all tests of this file together.
const MEMORY_KIB: u64 = 400 << 10;
