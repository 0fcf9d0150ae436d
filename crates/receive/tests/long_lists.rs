//! Lists that are longer than a message: failures of many files with long paths, on either side.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod ends;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;

use lighthaul_copy::message::{Landing, Target};
use lighthaul_copy::watch::{CopyEvent, Summary};
use lighthaul_files::filter::Rules;
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_files::options::Options;
use lighthaul_files::walk::{Found, Walk};
use lighthaul_fs::file_access::FileAccess;
use lighthaul_receive::target_folder::TargetFolder;
use lighthaul_receive::{self as receive, receive};
use lighthaul_send::{self as send, send};
use lighthaul_session::error::{Code, Error};
use lighthaul_session::protocol::Protocol;
use lighthaul_session::role::Role;

use ends::sessions;

/// Maximum number of pieces of an object.
const FILES: u64 = 1 << 14;

/// Tests with much work, each alone on the host. `make test` runs them after all others.
mod alone {
    use lighthaul_session::error::Code;
    use lighthaul_testkit::Turn;

    use crate::{FILES, PATH_LEN, both, copy, file, long_path};

    #[test]
    fn receiver_reports_16384_failures_with_paths_of_4_kib() {
        // a side that is too slow to read loses its connection
        let _turn = Turn::alone();
        // the directories above these files are not listed
        let found = |nth| file(&long_path(nth), "/no-such-file");
        let failed = both(copy("receiver", FILES, found), Code::Open);
        assert!(failed.iter().all(|path| path.len() == PATH_LEN));
    }

    #[test]
    fn sender_reports_16384_failures_with_paths_of_4_kib() {
        // a side that is too slow to read loses its connection
        let _turn = Turn::alone();
        let found = |nth: u64| file(&nth.to_string(), &format!("/{}", &long_path(nth)[2..]));
        both(copy("sender", FILES, found), Code::Changed);
    }
}

#[test]
fn links_with_long_targets_fit_the_list() {
    let links = |nth: u64| {
        let mut chance = nth + 1;
        let target = std::iter::repeat_with(|| {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            b'!' + (chance >> 33) as u8 % 90
        });
        let target: Vec<u8> = target.filter(|octet| *octet != b'/').take(4000).collect();
        link(&nth.to_string(), target)
    };
    // the most entries of a page of the list
    for side in copy("links", 1000, links) {
        assert_eq!(side.unwrap().entries, 1000);
    }
}

#[test]
fn file_with_a_too_long_path_does_not_affect_other_files() {
    let top = std::env::temp_dir().join(format!("long-{}", std::process::id()));
    let deep = top.join(&long_path(0)[..PATH_LEN - 26]);
    fs::create_dir_all(&deep).unwrap();
    let script = format!("cd {} && touch {}", deep.display(), "b".repeat(255));
    let made = Command::new("sh").args(["-c", &script]).status();
    assert!(made.unwrap().success());
    let access = Arc::new(FileAccess::anywhere());
    let source = PathBuf::from(format!("{}/", top.display()));
    let walk = Walk::new(Arc::clone(&access), &[source], Rules::default()).unwrap();
    let summaries = run("deep", SourceEntries::from_walk(walk));
    fs::remove_dir_all(&top).unwrap();
    let [sender, receiver] = summaries.map(Result::unwrap);
    assert_eq!((sender.failures.len(), receiver.failures.len()), (1, 1));
    assert_eq!(sender.entries, receiver.entries);
}

/// Returns the failed paths of both sides, each once. All failures must have this code.
fn both(sides: [Result<Summary, Error>; 2], code: Code) -> Vec<Vec<u8>> {
    let [sender, receiver] = sides.map(|side| {
        let failures = side.unwrap().failures;
        let codes = failures.iter().map(|failed| failed.code);
        assert_eq!(codes.filter(|other| *other != code as u8).count(), 0);
        let mut paths: Vec<_> = failures.into_iter().map(|failed| failed.path).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len() as u64, FILES);
        paths
    });
    assert!(sender == receiver);
    sender
}

/// Copies the entries that `found` returns for the first numbers. Returns the results of sender and
/// receiver.
fn copy(
    name: &str,
    files: u64,
    found: impl Fn(u64) -> Found + Send + 'static,
) -> [Result<Summary, Error>; 2] {
    let found = (0..files).map(found);
    run(
        name,
        SourceEntries::from_entries(Arc::new(FileAccess::anywhere()), found),
    )
}

/// Copies `finds` to an empty directory. Returns the results of sender and receiver.
fn run(name: &str, finds: SourceEntries) -> [Result<Summary, Error>; 2] {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("long-lists-{name}"));
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).unwrap();
    let target = Target {
        path: folder.as_os_str().as_encoded_bytes().to_vec(),
        landing: Landing::Inside,
    };
    let target_folder =
        TargetFolder::open(&target, &Arc::new(FileAccess::anywhere()), false).unwrap();
    let [caller, called] = sessions();
    let sender = std::thread::spawn(move || {
        let settings = send::Settings {
            plain: true,
            options: options(),
            ..send::Settings::default()
        };
        let role = Role::Client(false);
        send(&caller, role, finds, settings, &mut |_: CopyEvent| {})
            .inspect_err(|error| caller.give_up(error))
    });
    let settings = receive::Settings {
        plain: true,
        options: options(),
        ..receive::Settings::default()
    };
    let (arrivals, joins) = (channel().1, channel().1);
    let role = Role::Server(arrivals, joins);
    let received = receive(
        &called,
        role,
        target_folder,
        settings,
        &mut |_: CopyEvent| {},
    )
    .inspect_err(|error| called.give_up(error));
    drop(called);
    [sender.join().unwrap(), received]
}

fn options() -> Options {
    Options {
        protocol: Protocol::Rbudp.to_string(),
        ..Options::default()
    }
}

/// Returns a file of one byte at `path` of the list, whose content is at `place`.
fn file(path: &str, place: &str) -> Found {
    Found::Entry(entry(path, EntryKind::File(1)), PathBuf::from(place), None)
}

/// Returns a symbolic link to `target`.
fn link(path: &str, target: Vec<u8>) -> Found {
    Found::Entry(
        entry(path, EntryKind::Link(target)),
        PathBuf::from(path),
        None,
    )
}

fn entry(path: &str, kind: EntryKind) -> Entry {
    Entry {
        kind,
        mode: 0o644,
        ..Entry::bare(path.into())
    }
}

/// Returns a path of [`PATH_LEN`] octets.
fn long_path(nth: u64) -> String {
    let name = format!("{}/", "a".repeat(255)).repeat(PATH_LEN / 256);
    format!("{}{nth:05}", &name[..PATH_LEN - 5])
}

const PATH_LEN: usize = 4096;
