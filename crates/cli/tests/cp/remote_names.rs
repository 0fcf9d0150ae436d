//! Remote files that lose their name, hidden files, and files that are no files.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::thread;

use lighthaul_files::hash::HashKind;
use lighthaul_files::temp_names::Writer;
use lighthaul_remote_files::failure::FailureKind;

use crate::remote_files::{connect, daemon};
use crate::running::becomes_true;
use crate::scratch::names;

#[test]
fn append_to_a_file_that_lost_its_name_is_not_committed() {
    let far = daemon("write-replaced");
    let (one, two) = (connect(&far, true).unwrap(), connect(&far, true).unwrap());
    for change in ["replaced", "removed", "renamed"] {
        fs::write(far.target.join("log"), "old ").unwrap();
        fs::write(far.target.join("new"), "new ").unwrap();
        let writer = one.append(b"log", Some(4)).unwrap();
        match change {
            "replaced" => two.rename(b"new", b"log", true).unwrap(),
            "removed" => two.remove(b"log").unwrap(),
            _ => two.rename(b"log", b"log.1", false).unwrap(),
        }
        writer.write(b"bytes", 4).unwrap();
        let committed = writer.commit(None);
        if change == "renamed" {
            committed.unwrap();
            assert_eq!(fs::read(far.target.join("log.1")).unwrap(), b"old bytes");
            continue;
        }
        let failure = committed.expect_err(change);
        assert_eq!(failure.kind, FailureKind::Changed, "{change}: {failure}");
        assert!(failure.text.contains("removed or replaced"), "{failure}");
        drop(writer);
        becomes_true("the lock file is removed", || {
            names(&far.target).iter().all(|name| !name.starts_with('.'))
        });
    }
}

#[test]
fn names_of_temporary_files_are_refused() {
    let far = daemon("write-hidden");
    let files = connect(&far, true).unwrap();
    fs::write(far.target.join("name"), "name").unwrap();
    let writer = files.create(b"other", None, false).unwrap();
    let hidden = names(&far.target)
        .into_iter()
        .find(|name| name.starts_with('.'))
        .unwrap();
    let hidden = hidden.as_bytes();
    let refused = [
        files.remove(hidden),
        files.rename(hidden, b"mine", false),
        files.rename(b"name", hidden, true),
        files.copy(b"name", hidden, true),
        files.create(hidden, None, false).map(drop),
        files.append(hidden, None).map(drop),
        files.make_folder(hidden),
        files.make_link(hidden, b"name"),
        files.set(hidden, Some(0o600), None),
    ];
    for (nth, refused) in refused.into_iter().enumerate() {
        let failure = refused.expect_err("hidden");
        assert_eq!(failure.kind, FailureKind::Invalid, "{nth}: {failure}");
    }
    writer.write(b"bytes", 0).unwrap();
    writer.commit(None).unwrap();
    assert_eq!(fs::read(far.target.join("other")).unwrap(), b"bytes");
}

#[test]
fn directory_with_files_of_a_running_copy_is_not_empty() {
    let far = daemon("remove-running");
    let files = connect(&far, true).unwrap();
    let folder = far.target.join("sub");
    fs::create_dir(&folder).unwrap();
    let running = Writer::new(1).temporary(Path::new("file"), 1);
    fs::write(folder.join(&running), "part").unwrap();
    let failure = files.remove_folder(b"sub").unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotEmpty, "{failure}");
    assert_eq!(fs::read(folder.join(&running)).unwrap(), b"part");
    // that of a process that has ended
    let name = running.to_str().unwrap();
    let process = format!("-{}-", std::process::id());
    let (host, rest) = name.split_once(&process).unwrap();
    let ended = format!("{host}-{}-{rest}", u32::MAX);
    fs::rename(folder.join(name), folder.join(ended)).unwrap();
    files.remove_folder(b"sub").unwrap();
    assert!(!folder.exists());
}

#[test]
fn reader_does_not_open_a_fifo() {
    let far = daemon("read-fifo");
    let files = connect(&far, false).unwrap();
    let fifo = far.target.join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    // a program that waits for a reader
    let opened = thread::spawn({
        let fifo = fifo.clone();
        move || OpenOptions::new().write(true).open(fifo)
    });
    let failure = files.open(b"fifo").unwrap_err();
    assert_eq!(failure.kind, FailureKind::Invalid, "{failure}");
    let failure = files.hash(b"fifo", &[HashKind::Blake3]).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Invalid, "{failure}");
    // the writer is released by this reader; if the server had opened the FIFO, its write would fail
    let mut reader = OpenOptions::new().read(true).open(&fifo).unwrap();
    opened
        .join()
        .unwrap()
        .unwrap()
        .write_all(b"stream")
        .unwrap();
    let mut found = Vec::new();
    reader.read_to_end(&mut found).unwrap();
    assert_eq!(found, b"stream");
}
