//! Written remote files: their digests, requests that wait, and local programs that append.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::channel;
use std::thread;

use lighthaul_files::hash::HashKind;
use lighthaul_remote_files::failure::FailureKind;

use crate::far::Far;
use crate::remote_files::{connect, daemon};
use crate::running::becomes_true;
use crate::scratch::{names, noise};

#[test]
fn written_bytes_are_compared_with_those_on_the_server() {
    let far = daemon("write-digest");
    let files = connect(&far, true).unwrap();
    let spoil = |path: &std::path::Path, offset: u64| {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(b"!", offset).unwrap();
    };
    let content = noise(1_000_000, 11);
    let writer = files.create(b"new", None, false).unwrap();
    for (nth, piece) in content.chunks(300_000).enumerate() {
        writer.write(piece, nth as u64 * 300_000).unwrap();
    }
    let mut temporary = None;
    becomes_true("the bytes are there", || {
        let there = fs::read_dir(&far.target).unwrap();
        let mut there = there.map(|item| item.unwrap().path());
        temporary = there.find(|path| fs::metadata(path).is_ok_and(|meta| meta.len() == 1_000_000));
        temporary.is_some()
    });
    spoil(&temporary.unwrap(), 700_000);
    let failure = writer.commit(None).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Corrupt, "{failure}");
    drop(writer);
    becomes_true("nothing is left", || names(&far.target).is_empty());
    // bytes at the end of a file, whose other bytes are not read
    let path = far.target.join("log");
    fs::write(&path, "first ").unwrap();
    let writer = files.append(b"log", None).unwrap();
    writer.write(b"second ", 6).unwrap();
    writer.commit(None).unwrap();
    spoil(&path, 0);
    writer.write(b"third", 13).unwrap();
    writer.commit(None).unwrap();
    writer.write(b"fourth", 18).unwrap();
    becomes_true("the bytes are there", || {
        fs::metadata(&path).unwrap().len() == 24
    });
    spoil(&path, 20);
    let failure = writer.commit(None).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Corrupt, "{failure}");
    // a file whose bytes are written in any order has no digest
    let writer = files.create(b"mixed", None, false).unwrap();
    writer.write(b"def", 3).unwrap();
    writer.write(b"abc", 0).unwrap();
    writer.truncate(5).unwrap();
    writer.commit(None).unwrap();
    assert_eq!(fs::read(far.target.join("mixed")).unwrap(), b"abcde");
}

#[test]
fn more_long_requests_than_the_server_takes_are_done_later() {
    let far = daemon("write-crowd");
    let size = 32 << 20;
    fs::File::create(far.target.join("data"))
        .unwrap()
        .set_len(size)
        .unwrap();
    let files = connect(&far, true).unwrap();
    let committed = thread::scope(|scope| {
        for nth in 0..150 {
            let files = &files;
            let name = format!("{nth}");
            scope.spawn(move || {
                if nth % 3 == 0 {
                    let writer = files.create(name.as_bytes(), None, false).unwrap();
                    writer.write(b"bytes", 0).unwrap();
                    writer.commit(None).unwrap();
                } else {
                    let hashed = files.hash(b"data", &[HashKind::Blake3, HashKind::Sha256]);
                    assert_eq!(hashed.unwrap().1.size, size);
                }
            });
        }
        50
    });
    assert_eq!(names(&far.target).len(), 1 + committed);
}

#[test]
fn lists_do_not_wait_for_hashes() {
    let far = daemon("write-lists");
    let large = fs::File::create(far.target.join("large")).unwrap();
    // a hole that no test waits for
    large.set_len(1 << 42).unwrap();
    let files = connect(&far, true).unwrap();
    let (ended, results) = channel();
    thread::scope(|scope| {
        for _ in 0..8 {
            let (files, ended) = (&files, ended.clone());
            scope.spawn(move || {
                let hashed = files.hash(b"large", &[HashKind::Sha256]);
                ended.send(hashed.is_ok()).unwrap();
            });
        }
        // files that are hashed are open
        let open = || open_files(&far, "large").len();
        becomes_true("all threads for files are busy", || open() >= 4);
        let listed = files.list(b"");
        assert_eq!(listed.unwrap().len(), 1);
        assert!(results.try_recv().is_err(), "a hash has ended");
        // what was hashed so far has another size
        large.set_len(1).unwrap();
    });
}

#[test]
fn local_program_that_appends_is_not_overwritten() {
    let far = daemon("write-append");
    let files = connect(&far, true).unwrap();
    let writer = files.create(b"log", None, false).unwrap();
    writer.write(b"ours ", 0).unwrap();
    writer.commit(None).unwrap();
    let appended = files.create(b"other", None, false).unwrap();
    appended.commit(None).unwrap();
    drop(appended);
    let mut opened = None;
    becomes_true("the file can be appended", || {
        opened = files.append(b"other", None).ok();
        opened.is_some()
    });
    // the kernel writes at the end, wherever that is then
    let flags = |name: &str| {
        let found = open_files(&far, name).remove(0);
        let info = format!("/proc/{}/fdinfo/{found}", far.daemon.id());
        let info = fs::read_to_string(info).unwrap();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        u32::from_str_radix(flags.unwrap().trim(), 8).unwrap()
    };
    for name in ["log", "other"] {
        let appends = rustix::fs::OFlags::APPEND.bits();
        assert_ne!(flags(name) & appends, 0, "{name}");
    }
    let path = far.target.join("log");
    let mut log = OpenOptions::new().append(true).open(&path).unwrap();
    log.write_all(b"theirs ").unwrap();
    let failed = writer
        .write(b"ours", 5)
        .and_then(|()| writer.commit(None).map(drop));
    assert_eq!(failed.unwrap_err().kind, FailureKind::Changed);
    assert_eq!(fs::read(&path).unwrap(), b"ours theirs ");
}

/// Returns the numbers under which the daemon has a file open.
fn open_files(far: &Far, name: &str) -> Vec<String> {
    let path = far.target.join(name);
    let open = fs::read_dir(format!("/proc/{}/fd", far.daemon.id())).unwrap();
    let open = open.map(|fd| fd.unwrap());
    // some are closed meanwhile
    let open = open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|link| link == path));
    open.map(|fd| fd.file_name().into_string().unwrap())
        .collect()
}
