//! Lists of hashes, written in the formats of other tools and compared with files.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::far::{Far, Near, PROGRAM};
use crate::files::run as run_known;
use crate::running::Outcome;
use crate::schema::assert_valid;
use crate::scratch::noise;

/// A directory of files with all kinds of names.
fn folder(near: &Near) -> PathBuf {
    let folder = near.folder("folder");
    fs::create_dir_all(folder.join("b/c")).unwrap();
    fs::write(folder.join("a"), "").unwrap();
    fs::write(folder.join("b/large"), noise(3_000_000, 7)).unwrap();
    fs::write(folder.join("b/c/with space"), "12345").unwrap();
    fs::write(folder.join("z\nb\\c"), "newline").unwrap();
    fs::write(folder.join(OsStr::from_bytes(b"z\xff")), "octet").unwrap();
    symlink("a", folder.join("link")).unwrap();
    folder
}

fn run(near: &Near, words: &[&str]) -> Outcome {
    near.run(near.lighthaul(words))
}

/// Writes the list of `folder` to a file.
fn list(near: &Near, folder: &Path, options: &[&str]) -> PathBuf {
    let path = near.at("list");
    let mut command = Command::new(PROGRAM);
    command.arg("manifest").args(options).arg(folder);
    command.stdout(fs::File::create(&path).unwrap());
    assert!(command.status().unwrap().success());
    path
}

fn verify(near: &Near, list: &Path, folder: &Path, options: &[&str]) -> Outcome {
    let words = ["verify", list.to_str().unwrap(), folder.to_str().unwrap()];
    run(near, &[&words, options].concat())
}

#[test]
fn manifest_has_the_format_of_coreutils() {
    let near = Near::new("sums-coreutils", None);
    let folder = folder(&near);
    for (hash, tool) in [("sha256", "sha256sum"), ("md5", "md5sum")] {
        let list = list(&near, &folder, &["--hash", hash]);
        let script =
            format!("LC_ALL=C find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 {tool}");
        let theirs = Command::new("sh")
            .args(["-c", &script])
            .current_dir(&folder)
            .output();
        let theirs = theirs.unwrap().stdout;
        let sorted = |bytes: &[u8]| {
            let mut lines: Vec<_> = bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&fs::read(&list).unwrap()), sorted(&theirs), "{hash}");
        let checked = Command::new(tool)
            .args(["--quiet", "-c"])
            .arg(&list)
            .current_dir(&folder)
            .status();
        assert!(checked.unwrap().success(), "{hash}");
        verify(&near, &list, &folder, &[]).assert_succeeded();
    }
}

#[test]
fn every_hash_verifies_from_lists_and_events() {
    let near = Near::new("sums-all", None);
    let folder = folder(&near);
    for hash in ["sha256", "md5", "blake3", "crc32c", "adler32"] {
        for json in [&[][..], &["--json"]] {
            let list = list(&near, &folder, &[&["--hash", hash], json].concat());
            let outcome = verify(&near, &list, &folder, &[]).assert_succeeded();
            assert!(
                outcome.out.is_empty() && outcome.said("5 files, 0 not as listed"),
                "{outcome:?}"
            );
            fs::write(folder.join("a"), "x").unwrap();
            let outcome = verify(&near, &list, &folder, &[]);
            assert_eq!(outcome.code, Some(12), "{outcome:?}");
            fs::write(folder.join("a"), "").unwrap();
        }
    }
    let outcome = run(&near, &["manifest", "--json", folder.to_str().unwrap()]).assert_succeeded();
    assert_eq!(assert_valid(&outcome).len(), 6);
}

#[test]
fn verify_lists_different_missing_and_malformed_entries() {
    let near = Near::new("sums-bad", None);
    let folder = folder(&near);
    let list = list(&near, &folder, &[]);
    fs::remove_file(folder.join("a")).unwrap();
    let large = fs::OpenOptions::new()
        .write(true)
        .open(folder.join("b/large"))
        .unwrap();
    std::os::unix::fs::FileExt::write_all_at(&large, b"!", 2_999_999).unwrap();
    // a pipe must not block it
    fs::remove_file(folder.join("b/c/with space")).unwrap();
    let pipe = Command::new("mkfifo")
        .arg(folder.join("b/c/with space"))
        .status();
    assert!(pipe.unwrap().success());
    let mut text = fs::read(&list).unwrap();
    text.extend_from_slice(b"nonsense\n");
    fs::write(&list, text).unwrap();
    let outcome = verify(&near, &list, &folder, &[]);
    assert_eq!(outcome.code, Some(12), "{outcome:?}");
    let found: Vec<_> = outcome
        .out
        .iter()
        .map(|line| line.split(": ").next().unwrap())
        .collect();
    let expected = [
        "missing    a",
        "unreadable b/c/with space",
        "differs    b/large",
        "malformed  ",
    ];
    assert_eq!(found, expected);
    assert!(outcome.said("5 files, 4 not as listed"), "{outcome:?}");
    let outcome = verify(&near, &list, &folder, &["--json"]);
    let events = assert_valid(&outcome);
    assert_eq!(events[0]["problem"], "missing");
    assert_eq!(events.last().unwrap()["failures"], 4);
    fs::write(&list, "\n# nothing\n").unwrap();
    verify(&near, &list, &folder, &[]).assert_failed(1, "lists no files");
    verify(&near, &near.at("none"), &folder, &[]).assert_failed(3, "cannot open");
    verify(&near, &list, &near.at("none"), &[]).assert_failed(3, "cannot open");
}

#[test]
fn verify_reads_no_files_outside_the_directory() {
    let near = Near::new("sums-outside", None);
    let folder = folder(&near);
    let empty = "d41d8cd98f00b204e9800998ecf8427e";
    fs::write(near.at("outside"), "").unwrap();
    symlink("../outside", folder.join("out")).unwrap();
    fs::write(
        near.at("list"),
        format!("{empty}  ../outside\n{empty}  out\n{empty}  link\n"),
    )
    .unwrap();
    let outcome = verify(&near, &near.at("list"), &folder, &[]);
    assert_eq!(outcome.code, Some(12));
    let is_extra = |line: &&String| line.starts_with("extra ");
    let (extra, outside): (Vec<_>, Vec<_>) = outcome.out.iter().partition(is_extra);
    assert_eq!((extra.len(), outside.len()), (5, 2), "{outcome:?}");
    let is_outside = |line: &&String| line.ends_with("it is outside the directory");
    assert!(outside.iter().all(is_outside), "{outcome:?}");
}

#[test]
fn manifest_is_sorted_with_many_threads() {
    let near = Near::new("sums-many", None);
    let folder = near.folder("many");
    fs::write(folder.join("0000-large"), noise(20 << 20, 3)).unwrap();
    for nth in 1..3000 {
        fs::write(folder.join(format!("{nth:04}")), nth.to_string()).unwrap();
    }
    let list = |jobs| {
        let words = ["manifest", "--jobs", jobs, folder.to_str().unwrap()];
        run(&near, &words).assert_succeeded().out
    };
    let one = list("1");
    assert_eq!(one.len(), 3000);
    assert!(one.iter().map(|line| &line[66..]).is_sorted());
    assert!(list("8") == one);
}

#[test]
fn files_that_the_list_lacks_are_named() {
    let near = Near::new("sums-extra", None);
    let folder = folder(&near);
    let list = list(&near, &folder, &[]);
    fs::write(folder.join("new"), "new").unwrap();
    let outcome = verify(&near, &list, &folder, &[]).assert_succeeded();
    assert_eq!(outcome.out, ["extra      new: the list does not have it"]);
    assert!(
        outcome.said(" 0 not as listed, 1 not in the list"),
        "{outcome:?}"
    );
    let events = verify(&near, &list, &folder, &["--json"]).events();
    assert_eq!(events[0]["problem"], "extra");
    assert_eq!(events.last().unwrap()["failures"], 0);
}

#[test]
fn manifest_and_verify_read_files_on_another_host() {
    let far = Far::start("sums-remote", &["--root", "ROOT"]);
    let here = folder(&far.near);
    // the lines of such names are escaped, which other tests compare
    for name in [&b"z\nb\\c"[..], b"z\xff"] {
        fs::remove_file(here.join(OsStr::from_bytes(name))).unwrap();
    }
    let tree = far.target.join("tree");
    let copied = Command::new("cp").arg("-a").arg(&here).arg(&tree).status();
    assert!(copied.unwrap().success());
    let place = format!("lh://127.0.0.1:{}/tree", far.port);
    let list = list(&far.near, &here, &[]);
    let outcome = run_known(&far, &["manifest", &place]).assert_succeeded();
    let expected = fs::read_to_string(&list).unwrap();
    assert_eq!(outcome.out.join("\n") + "\n", expected);
    let list = list.to_str().unwrap();
    let outcome = run_known(&far, &["verify", list, &place]).assert_succeeded();
    assert!(outcome.out.is_empty(), "{outcome:?}");

    let names: Vec<_> = expected.lines().map(|line| &line[66..]).collect();
    fs::write(tree.join(names[0]), "changed").unwrap();
    fs::remove_file(tree.join(names[1])).unwrap();
    fs::write(tree.join("more"), "more").unwrap();
    let outcome = run_known(&far, &["verify", "--json", list, &place]);
    assert_eq!(outcome.code, Some(12), "{outcome:?}");
    let events = outcome.events();
    let found: BTreeSet<_> = events
        .iter()
        .filter(|event| event["type"] == "difference")
        .map(|event| {
            (
                event["path"].as_str().unwrap(),
                event["problem"].as_str().unwrap(),
            )
        })
        .collect();
    let expected = [
        (names[0], "differs"),
        (names[1], "missing"),
        ("more", "extra"),
    ];
    assert_eq!(found, expected.into_iter().collect());

    // nothing outside the root is read
    let outside = format!("lh://127.0.0.1:{}/../tree", far.port);
    let outcome = run_known(&far, &["manifest", &outside]);
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.out.is_empty(), "{outcome:?}");
}

#[test]
fn remote_hashes_end_with_the_rights_of_the_key() {
    let far = Far::start("sums-denied", &["--root", "ROOT"]);
    // takes longer to read than the rights last
    let large = fs::File::create(far.target.join("large")).unwrap();
    large.set_len(1 << 40).unwrap();
    let place = format!("lh://127.0.0.1:{}/", far.port);
    let mut command = far
        .near
        .lighthaul(&["manifest", &place, "--pin", &far.pin, "--key"]);
    command.arg(far.near.key());
    let reading = crate::running::Running::start(command);
    crate::running::becomes_true("the file is read", || {
        let process = format!("/proc/{}/io", far.daemon.id());
        let text = fs::read_to_string(process).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        line.unwrap().parse::<u64>().unwrap() > 100 << 20
    });
    fs::write(far.near.allowed(), "").unwrap();
    let outcome = reading.finish();
    assert_eq!(outcome.code, Some(13), "{outcome:?}");
}
