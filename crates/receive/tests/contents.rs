//! Contents of small files in the list of a sender that may lie.
#![expect(clippy::unwrap_used, clippy::unwrap_in_result, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod ends;
mod talk;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lighthaul_copy::contents::{BYTES_MAX, Content, FILES_MAX};
use lighthaul_copy::message::{LIST, Landing, Listing, Target};
use lighthaul_copy::watch::{CopyEvent, Summary};
use lighthaul_files::digest::{Digest, DigestKind, Digester};
use lighthaul_files::manifest::{Entry, EntryKind, pack};
use lighthaul_files::naming::Naming;
use lighthaul_files::options::{Detail, Options};
use lighthaul_fs::file_access::FileAccess;
use lighthaul_io::control::Frame;
use lighthaul_receive::target_folder::TargetFolder;
use lighthaul_receive::{self as receive, receive};
use lighthaul_session::error::{Code, Error};
use lighthaul_session::role::Role;

use ends::sessions;
use talk::stay;

#[test]
fn contents_with_the_right_digest_are_published() {
    let folder = folder("right");
    let files = (0..3).map(|number| content(number, &[7; 100])).collect();
    let summary = hear(&folder, files, Options::default()).unwrap();
    assert_eq!((summary.entries, summary.bytes), (3, 300));
    assert_eq!(summary.motion.done, 300);
    for number in 0..3 {
        assert_eq!(fs::read(folder.join(name(number))).unwrap(), [7; 100]);
    }
}

#[test]
fn contents_that_differ_from_the_digest_are_not_published() {
    let folder = folder("differ");
    let mut files = [0, 1, 2].map(|number| content(number, &[7; 100]));
    files[1].bytes[99] = 8;
    let summary = hear(&folder, files.into(), Options::default()).unwrap();
    assert_eq!((summary.entries, summary.failures.len()), (2, 1));
    assert_eq!(summary.failures[0].code, Code::Integrity as u8);
    assert_eq!(names(&folder), [name(0), name(2)]);
}

#[test]
fn contents_of_a_file_in_place_are_dropped() {
    let folder = folder("in-place");
    let files = || (0..3).map(|number| content(number, &[7; 100])).collect();
    hear(&folder, files(), Options::default()).unwrap();
    fs::write(folder.join(name(1)), [9; 100]).unwrap();
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1);
    let changed = fs::File::options().write(true).open(folder.join(name(1)));
    changed.unwrap().set_modified(time).unwrap();
    let summary = hear(&folder, files(), Options::default()).unwrap();
    assert_eq!((summary.entries, summary.unchanged), (3, 3));
    assert_eq!(fs::read(folder.join(name(1))).unwrap(), [9; 100]);
}

#[test]
fn forbidden_contents_end_the_session_without_leftovers() {
    let right = |number| content(number, &[7; 100]);
    let short = Content {
        bytes: vec![7; 99],
        ..right(0)
    };
    let long = Content {
        bytes: vec![7; 101],
        ..right(0)
    };
    let large = |number| content(number, &[7; BYTES_MAX / 2 + 1]);
    let many = (0..=FILES_MAX as u64).map(right).collect();
    for (nth, files) in [
        vec![short],
        vec![long],
        vec![right(0), right(0)],
        vec![large(10), large(11)],
        many,
    ]
    .into_iter()
    .enumerate()
    {
        let folder = folder(&format!("liar-{nth}"));
        let options = Options {
            stall: 2,
            ..Options::default()
        };
        let error = hear(&folder, files, options).unwrap_err();
        assert!(
            matches!(error.code(), Code::Protocol | Code::TimedOut),
            "{nth}: {error}"
        );
        assert_eq!(names(&folder), [""; 0], "{nth}");
    }
}

#[test]
fn contents_travel_with_several_pages_but_not_after_their_entries() {
    let pages = |number| -> Vec<Listing> {
        let entries: [Vec<_>; 2] = [vec![entry(0), entry(1)], vec![entry(2)]];
        let [first, second] = entries.map(|page| Listing::Entries(pack(&page).unwrap()));
        let contents = |numbers: &[u64]| {
            let files = numbers.iter().map(|number| content(*number, &[7; 100]));
            Listing::Contents(files.collect())
        };
        vec![contents(&[0, 1]), first, contents(&[number]), second]
    };
    let folder = folder("pages");
    let summary = hear_pages(&folder, pages(2), Options::default()).unwrap();
    assert_eq!((summary.entries, summary.bytes), (3, 300));
    for number in 0..3 {
        assert_eq!(fs::read(folder.join(name(number))).unwrap(), [7; 100]);
    }
    let error = hear_pages(&folder, pages(1), Options::default()).unwrap_err();
    assert_eq!(error.code(), Code::Protocol, "{error}");
}

#[test]
fn dry_run_accepts_no_contents() {
    let folder = folder("dry");
    let options = Options {
        dry_run: Some(Detail::Brief),
        ..Options::default()
    };
    let error = hear(&folder, vec![content(0, &[7; 100])], options).unwrap_err();
    assert_eq!(error.code(), Code::Protocol, "{error}");
    assert_eq!(names(&folder), [""; 0]);
}

/// Runs a receiver with a sender that lists three files of 100 bytes and sends these contents.
fn hear(folder: &Path, contents: Vec<Content>, options: Options) -> Result<Summary, Error> {
    let entries: Vec<_> = (0..3).map(entry).collect();
    let pages = vec![
        Listing::Contents(contents),
        Listing::Entries(pack(&entries)?),
    ];
    hear_pages(folder, pages, options)
}

/// Runs a receiver with a sender that sends these pages as its list.
fn hear_pages(folder: &Path, pages: Vec<Listing>, options: Options) -> Result<Summary, Error> {
    let target = Target {
        path: folder.as_os_str().as_encoded_bytes().to_vec(),
        landing: Landing::Inside,
    };
    let access = Arc::new(FileAccess::anywhere());
    let target_folder = TargetFolder::open(&target, &access, options.dry_run.is_some())?;
    let [honest, liar] = sessions();
    let liar = std::thread::spawn(move || {
        let list = liar.control.open(LIST)?;
        let begin = Listing::Begin {
            naming: Naming::Several,
        };
        for listing in [vec![begin], pages, vec![Listing::End]].concat() {
            list.send(&Frame::message(listing.encode()))?;
        }
        stay(&liar);
        Ok::<_, Error>(())
    });
    let settings = receive::Settings {
        options,
        ..receive::Settings::default()
    };
    let mut watcher = |_: CopyEvent| {};
    let role = Role::Client(false);
    let result = receive(&honest, role, target_folder, settings, &mut watcher);
    if let Err(error) = &result {
        honest.give_up(error);
    }
    drop(honest);
    // the sender has failed, too
    liar.join().unwrap().ok();
    result
}

fn entry(number: u64) -> Entry {
    Entry {
        kind: EntryKind::File(100),
        mode: 0o644,
        seconds: 1,
        ..Entry::bare(name(number).into())
    }
}

fn name(number: u64) -> String {
    format!("file{number}")
}

fn content(number: u64, bytes: &[u8]) -> Content {
    Content {
        number,
        bytes: bytes.to_vec(),
        digest: digest(bytes),
    }
}

fn digest(bytes: &[u8]) -> Digest {
    let mut digester = Digester::new(DigestKind::default(), bytes.len() as u64);
    digester.update(0, bytes);
    digester.finish().unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("contents")
        .join(name);
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
