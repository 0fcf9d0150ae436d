//! Sources and targets that cannot be opened, written or trusted. No file remains.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::far::{ClosedPort, Far};
use crate::running::Outcome;
use crate::scratch::{look, names, noise, tree};
use crate::stage::is_skipped;

#[test]
fn missing_source_is_reported() {
    let far = Far::start("missing", &[]);
    let file = far.near.file("x", 10);
    far.push(&[], &[&far.near.at("no-source")], "x")
        .assert_failed(3, "no-source");
    far.push(&[], &[&file, &far.near.at("no-source")], "all/")
        .assert_failed(3, "no-source");
    far.push(&[], &[&file], "no-folder/x")
        .assert_failed(3, "cannot open the target directory");
    far.push(&[], &[&file], "no-folder/inner/")
        .assert_failed(3, "cannot create the target directory");
    let back = far.near.at("back");
    far.pull(&[], &["no-source"], back.to_str().unwrap())
        .assert_failed(3, "no-source");
    fs::write(far.target.join("y"), "y").unwrap();
    let deep = far.near.at("no-folder/back");
    far.pull(&[], &["y"], deep.to_str().unwrap())
        .assert_failed(3, "cannot open the target directory");
    assert_eq!(far.names(), ["y"]);
    assert!(!back.exists());
}

#[test]
fn dot_paths_are_directories_even_without_a_slash() {
    let far = Far::start("dots", &[]);
    let some = far.near.folder("some");
    let [a, b] = ["some/a", "some/b"].map(|name| far.near.file(name, 10));
    far.push(&[], &[&a, &b], ".").assert_succeeded();
    assert_eq!(far.names(), ["a", "b"]);
    let dot = some.join(".");
    far.push(&[], &[&dot], "copy").assert_succeeded();
    assert_eq!(names(&far.target.join("copy")), ["a", "b"]);
    let back = far.near.at("back");
    fs::create_dir(&back).unwrap();
    let here = back.join("..").join("back").join(".");
    far.pull(&[], &["a", "copy/b"], here.to_str().unwrap())
        .assert_succeeded();
    assert_eq!(names(&back), ["a", "b"]);
}

#[test]
fn unreachable_host_is_reported() {
    let far = Far::start("unreachable", &[]);
    let file = far.near.file("x", 10);
    let file = file.to_str().unwrap();
    let closed = ClosedPort::new();
    let port = closed.number();
    far.run(&[], &[file, &format!("lh://127.0.0.1:{port}/x")])
        .assert_failed(10, "cannot reach");
    far.run(&[], &[file, "lh://no-such-host.invalid/x"])
        .assert_failed(10, "no-such-host.invalid");
    // something else listens there
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let talk = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"SSH-2.0-OpenSSH_9.9\r\n").unwrap();
        std::io::Read::read_to_end(&mut stream, &mut Vec::new()).ok();
    });
    far.run(&[], &[file, &format!("lh://127.0.0.1:{port}/x")])
        .assert_failed(10, "TLS handshake failed");
    talk.join().unwrap();
}

#[test]
fn file_and_directory_do_not_replace_each_other() {
    let far = Far::start("kinds", &[]);
    let file = far.near.file("x", 2000);
    let folder = far.near.folder("folder");
    far.near.file("folder/y", 10);
    fs::create_dir(far.target.join("a-folder")).unwrap();
    fs::write(far.target.join("a-file"), "kept").unwrap();
    far.push(&[], &[&file], "a-folder")
        .assert_failed(3, "is a directory; write");
    far.push(&[], &[&folder], "a-file")
        .assert_failed(3, "is a file, and a directory replaces it");
    far.push(&[], &[&file], "a-file/")
        .assert_failed(3, "not a directory");
    far.push(&[], &[&file], "a-file/x")
        .assert_failed(3, "not a directory");
    let contents = format!("{}/", folder.display());
    far.push(&[], &[Path::new(&contents)], "a-file")
        .assert_failed(3, "not a directory");
    // the same deeper in a tree
    let deep = far.near.folder("deep/inner");
    fs::write(deep.join("y"), "y").unwrap();
    fs::create_dir(far.target.join("deep")).unwrap();
    fs::write(far.target.join("deep/inner"), "kept").unwrap();
    far.push(&[], &[&far.near.at("deep")], "deep")
        .assert_failed(23, "is a file, and a directory");
    assert_eq!(far.names(), ["a-file", "a-folder", "deep"]);
    assert_eq!(
        fs::read_to_string(far.target.join("a-file")).unwrap(),
        "kept"
    );
    assert_eq!(
        fs::read_to_string(far.target.join("deep/inner")).unwrap(),
        "kept"
    );
    assert!(names(&far.target.join("a-folder")).is_empty());
}

#[test]
fn links_in_the_target_are_not_followed() {
    let far = Far::start("target-links", &[]);
    let outside = far.near.folder("outside");
    let folder = far.near.folder("folder/inner");
    fs::write(folder.join("y"), "y").unwrap();
    fs::create_dir(far.target.join("folder")).unwrap();
    symlink(&outside, far.target.join("folder/inner")).unwrap();
    let outcome = far.push(&[], &[&far.near.at("folder")], "folder");
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(names(&outside).is_empty(), "{outcome:?}");
    assert_eq!(names(&far.target.join("folder")), ["inner"]);
}

#[test]
fn unwritable_target_is_reported() {
    let name = "unwritable_target_is_reported";
    if is_skipped(name) {
        return;
    }
    let far = Far::start_after("read-only", "mount -t tmpfs -o ro none \"$1\"");
    let small = far.near.file("small", 10);
    let large = far.near.file("large", 3 << 20);
    let empty = far.near.file("empty", 0);
    let folder = far.near.folder("folder");
    for source in [&small, &large, &empty, &folder] {
        far.push(&[], &[source], "x")
            .assert_failed(3, "read-only file system");
    }
    far.push(&[], &[&small], "new/")
        .assert_failed(3, "read-only file system");
    let outcome = far.push(&["--no-udp"], &[&large], "x");
    outcome.assert_failed(3, "read-only file system");
}

#[test]
fn full_disk_is_reported_and_no_temporary_files_remain() {
    let name = "full_disk_is_reported_and_no_temporary_files_remain";
    if is_skipped(name) {
        return;
    }
    let far = Far::start_after("full", "mount -t tmpfs -o size=4m none \"$1\"");
    // the daemon's view of its own mount
    let inside = format!("/proc/{}/root{}", far.daemon.id(), far.target.display());
    let inside = Path::new(&inside);
    let large = far.near.file("large", 8 << 20);
    far.push(&[], &[&large], "x")
        .assert_failed(11, "has room for");
    assert!(names(inside).is_empty());
    far.push(&["--no-udp"], &[&large], "x")
        .assert_failed(11, "has room for");
    assert!(names(inside).is_empty());
    // a dry run reports it in advance
    far.push(&["-n"], &[&large], "x")
        .assert_failed(11, "has room for");
    let many = far.near.folder("many");
    for nth in 0..80 {
        fs::write(many.join(nth.to_string()), noise(100_000, nth)).unwrap();
    }
    far.push(&[], &[&many], "many")
        .assert_failed(11, "has room for");
    let left = tree(inside);
    assert!(
        left.keys().all(|path| path == Path::new("many")),
        "{:?}",
        left.keys()
    );
    // files that fit are still copied
    let small = far.near.file("small", 1 << 20);
    far.push(&[], &[&small], "y").assert_succeeded();
    assert!(look(&inside.join("y")) == look(&small));
    // beside the file that it replaces, until it is complete
    let large = far.near.file("larger", 7 << 19);
    far.push(&[], &[&large], "y")
        .assert_failed(11, "has room for 3.00 MiB");
    assert!(look(&inside.join("y")) == look(&small));
    let small = far.near.file("other", 5 << 19);
    far.push(&[], &[&small], "y").assert_succeeded();
    assert!(look(&inside.join("y")) == look(&small));
    assert_eq!(names(inside), ["many", "y"]);
}

/// Change of a file while it is sent.
type Change = fn(&Path);

#[test]
fn changed_source_is_reported_and_not_published() {
    let far = Far::start("changes", &[]);
    let changes: [(&str, Change); 3] = [
        ("longer", |path| {
            let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
            std::io::Write::write_all(&mut file, b"more").unwrap();
        }),
        ("shorter", |path| {
            fs::OpenOptions::new()
                .write(true)
                .open(path)
                .unwrap()
                .set_len(40 << 20)
                .unwrap();
        }),
        ("other", |path| {
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, b"other", 45 << 20).unwrap();
        }),
    ];
    // more than is read ahead, so that its end is not read yet when the blast begins
    let bytes = noise(48 << 20, 1);
    let copies = changes.map(|(name, change)| {
        let folder = far.near.folder(name);
        fs::write(folder.join("steady"), "steady").unwrap();
        let large = folder.join("very-large");
        fs::write(&large, &bytes).unwrap();
        let place = far.place(name);
        let copy = far.copy(
            &["--json", "--rate", "100Mb/s"],
            &[folder.to_str().unwrap(), &place],
        );
        let mut copy = crate::running::Running::start(copy);
        copy.prints("\"type\":\"start\"");
        change(&large);
        (name, copy)
    });
    for (name, copy) in copies {
        let outcome = copy.finish();
        assert_eq!(outcome.code, Some(24), "{name}: {outcome:?}");
        assert!(outcome.said("very-large: it "), "{name}: {outcome:?}");
        assert_eq!(names(&far.target.join(name)), ["steady"], "{name}");
        let summary = outcome.events().pop().unwrap();
        assert_eq!(
            (&summary["verified"], &summary["entries"]),
            (&false.into(), &2.into())
        );
    }
}

#[test]
fn vanished_source_is_reported_and_other_sources_are_copied() {
    let far = Far::start("vanishes", &[]);
    let folder = far.near.folder("folder");
    fs::write(folder.join("a-large"), noise(48 << 20, 2)).unwrap();
    fs::write(folder.join("b-small"), noise(5000, 3)).unwrap();
    fs::write(folder.join("c-small"), noise(5000, 4)).unwrap();
    let place = far.place("copy");
    let copy = far.copy(
        &["--json", "--rate", "150Mb/s"],
        &[folder.to_str().unwrap(), &place],
    );
    let mut copy = crate::running::Running::start(copy);
    copy.prints("\"type\":\"start\"");
    fs::remove_file(folder.join("b-small")).unwrap();
    let outcome = copy.finish().assert_failed(24, "b-small");
    assert_eq!(
        names(&far.target.join("copy")),
        ["a-large", "c-small"],
        "{outcome:?}"
    );
    assert!(look(&far.target.join("copy/a-large")) == look(&folder.join("a-large")));
}

#[test]
fn special_files_are_skipped_with_a_warning() {
    let far = Far::start("pipes", &[]);
    let folder = far.near.folder("folder");
    fs::write(folder.join("file"), "file").unwrap();
    let pipe = std::process::Command::new("mkfifo")
        .arg(folder.join("pipe"))
        .status();
    assert!(pipe.unwrap().success());
    let outcome: Outcome = far.push(&[], &[&folder], "copy").assert_succeeded();
    assert!(outcome.said("not copied: ") && outcome.said("is a FIFO"));
    assert_eq!(names(&far.target.join("copy")), ["file"]);
}
