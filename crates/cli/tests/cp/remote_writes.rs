//! Written remote files: their digests, requests that wait, and local programs that append.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::thread;

use lighthaul_files::hash::HashKind;
use lighthaul_remote_files::failure::FailureKind;

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
        let of_daemon = format!("/proc/{}", far.daemon.id());
        let path = far.target.join(name);
        let found = fs::read_dir(format!("{of_daemon}/fd"))
            .unwrap()
            .find_map(|fd| {
                let fd = fd.unwrap();
                let is_it = fs::read_link(fd.path()).is_ok_and(|link| link == path);
                is_it.then(|| fd.file_name().into_string().unwrap())
            });
        let info = fs::read_to_string(format!("{of_daemon}/fdinfo/{}", found.unwrap())).unwrap();
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
