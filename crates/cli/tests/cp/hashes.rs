//! Hashes of copied files, reported and compared with expected values.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::far::Far;
use crate::running::Outcome;
use crate::schema::assert_valid;
use crate::scratch::{Scratch, look, noise};

/// Returns the MD5 of a file by coreutils.
fn md5(path: &Path) -> String {
    let outcome = Command::new("md5sum").arg(path).output().unwrap();
    let line = String::from_utf8(outcome.stdout).unwrap();
    line.trim_start_matches('\\')
        .split(' ')
        .next()
        .unwrap()
        .to_owned()
}

/// A directory with files of all sizes, by their paths.
fn some_files(scratch: &Scratch) -> BTreeMap<String, PathBuf> {
    scratch.folder("tree/inner");
    let names = [
        ("empty", 0),
        ("inner/small", 5000),
        ("inner/large", 40 << 20),
        ("b\\c", 1),
    ];
    let mut files: BTreeMap<_, _> = names
        .iter()
        .map(|(name, len)| {
            let name = format!("tree/{name}");
            (name.clone(), scratch.file(&name, *len))
        })
        .collect();
    let holes = scratch.at("tree/holes");
    let file = fs::File::create(&holes).unwrap();
    file.set_len(20 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &noise(70_000, 1), 9 << 20).unwrap();
    files.insert("tree/holes".into(), holes);
    files
}

/// Returns the MD5 hashes in events, by path.
fn told(outcome: &Outcome) -> BTreeMap<String, String> {
    let events = assert_valid(outcome);
    let files = events.iter().filter(|event| event["type"] == "file");
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    files
        .map(|event| {
            assert_eq!(event["hash"]["adler32"].as_str().unwrap().len(), 8);
            (text(&event["path"]), text(&event["hash"]["md5"]))
        })
        .collect()
}

#[test]
fn hashes_are_printed_for_sent_and_unchanged_files() {
    let far = Far::start("hashes", &[]);
    let expected: BTreeMap<_, _> = some_files(&far.near)
        .into_iter()
        .map(|(name, path)| (name, md5(&path)))
        .collect();
    let source = far.near.at("tree");
    let options = ["--hash", "md5,adler32", "--json"];
    for _ in 0..2 {
        let outcome = far.push(&options, &[&source], "tree").assert_succeeded();
        assert_eq!(told(&outcome), expected);
    }
    let back = format!("{}/", far.near.at("back").display());
    let outcome = far.pull(&options, &["tree"], &back).assert_succeeded();
    assert_eq!(told(&outcome), expected);
    // without --json, a copy prints the format of md5sum
    let outcome = far
        .push(&["--hash", "md5"], &[&source], "tree")
        .assert_succeeded();
    assert_eq!(outcome.out.len(), expected.len());
    let list = far.near.at("list");
    fs::write(&list, outcome.out.join("\n") + "\n").unwrap();
    let checked = Command::new("md5sum")
        .args(["--check", "--strict"])
        .arg(&list)
        .current_dir(&far.target)
        .stdout(Stdio::null())
        .status();
    assert!(checked.unwrap().success());
    assert_eq!(far.names(), ["tree"]);
}

#[test]
fn file_with_an_unexpected_hash_is_not_published() {
    let far = Far::start("hashes-expected", &[]);
    let wrong = format!("md5={}", "0".repeat(32));
    for len in [0, 5000, 40 << 20] {
        let file = far.near.file("x", len);
        let right = format!("md5={}", md5(&file));
        let refused = far.push(&["--hash", &wrong], &[&file], "x");
        let place = far.target.join("x").display().to_string();
        let words = format!("cannot publish {place}: its md5 is");
        refused.assert_failed(12, &words);
        assert!(far.names().is_empty(), "{len}");
        far.push(&["--hash", &right], &[&file], "x")
            .assert_succeeded();
        assert!(look(&far.target.join("x")) == look(&file), "{len}");
        // existing files are reported too, and stay
        let refused = far.push(&["--hash", &wrong], &[&file], "x");
        let words = format!("{place} differs from the expected file: its md5 is");
        refused.assert_failed(12, &words);
        far.push(&["-n", "--hash", &wrong], &[&file], "x")
            .assert_succeeded();
        let back = far.near.at("back");
        let place = back.to_str().unwrap();
        let refused = far.pull(&["--hash", &wrong], &["x"], place);
        let words = format!("cannot publish {place}: its md5 is");
        refused.assert_failed(12, &words);
        assert!(!back.exists(), "{len}");
        far.pull(&["--hash", &right], &["x"], place)
            .assert_succeeded();
        assert!(look(&back) == look(&file), "{len}");
        fs::remove_file(&back).unwrap();
        fs::remove_file(far.target.join("x")).unwrap();
    }
}

#[test]
fn hashes_match_the_bytes_at_the_target() {
    let far = Far::start("hashes-target", &[]);
    let file = far.near.file("x", 5000);
    far.push(&[], &[&file], "x").assert_succeeded();
    let right = md5(&far.target.join("x"));
    // other bytes of the same size and time, which a copy does not read
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    fs::write(&file, noise(5000, 3)).unwrap();
    let handle = fs::File::options().write(true).open(&file).unwrap();
    handle.set_modified(time).unwrap();
    let outcome = far
        .push(&["--hash", "md5"], &[&file], "x")
        .assert_succeeded();
    assert_eq!(outcome.out, [format!("{right}  x")]);
    let expected = format!("md5={}", md5(&file));
    far.push(&["--hash", &expected], &[&file], "x")
        .assert_failed(12, "differs from the expected file");
}

#[test]
fn expected_hash_needs_a_single_file() {
    let far = Far::start("hashes-one", &[]);
    let (one, other) = (far.near.file("one", 10), far.near.file("other", 10));
    let folder = far.near.folder("folder");
    let options = ["--hash", "adler32=1"];
    far.push(&options, &[&one, &other], "all/")
        .assert_failed(1, "applies to one file");
    far.push(&options, &[&folder], "folder")
        .assert_failed(1, "applies to one file");
    far.push(&["--hash", "md6"], &[&one], "x")
        .assert_failed(1, "unknown hash");
}
