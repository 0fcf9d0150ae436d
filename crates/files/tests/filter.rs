//! Comparison of filters with rsync.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lighthaul_base::Rng;
use lighthaul_files::filter::{Decision, FilterOption, Rules};
use lighthaul_testkit::lacks_tool;

#[test]
fn filters_select_the_same_files_as_rsync() {
    if lacks_tool("filters_select_the_same_files_as_rsync", "rsync") {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("filter");
    let mut split = 0;
    for seed in 0..5 {
        fs::remove_dir_all(&folder).ok();
        let mut rng = Rng::new(seed);
        let source = folder.join("source");
        fs::create_dir_all(folder.join("target")).unwrap();
        grow(&source, &mut rng, 3);
        for round in 0..30 {
            let rules = written(&mut rng);
            let ours = taken(&Rules::parse(&rules).unwrap(), &source);
            let theirs = taken_by_rsync(&rules, &source);
            assert_eq!(ours, theirs, "seed {seed}, round {round}, {rules:?}");
            let all = taken(&Rules::default(), &source).len();
            split += usize::from(!ours.is_empty() && ours.len() < all);
        }
    }
    assert!(
        split > 30,
        "rules that select all or nothing test little: {split}"
    );
    fs::remove_dir_all(folder).unwrap();
}

/// Fills a directory with files and directories of short names.
fn grow(folder: &Path, rng: &mut Rng, depth: u32) {
    fs::create_dir_all(folder).unwrap();
    for _ in 0..4 {
        let path = folder.join(name(rng, b"abc.[-\\ "));
        if path.exists() {
            continue;
        }
        if depth > 0 && rng.below(2) == 0 {
            grow(&path, rng, depth - 1);
        } else {
            fs::write(path, "").unwrap();
        }
    }
}

fn name(rng: &mut Rng, letters: &[u8]) -> String {
    let len = 1 + rng.below(3);
    let letters = (0..len).map(|_| char::from(letters[rng.below(letters.len() as u64) as usize]));
    let name: String = letters.collect();
    if name.bytes().all(|octet| octet == b'.') {
        "a".into()
    } else {
        name
    }
}

/// Returns a few rules, each made of meaningful parts.
fn written(rng: &mut Rng) -> Vec<FilterOption> {
    let count = 1 + rng.below(4);
    (0..count)
        .map(|_| {
            let pieces = 1 + rng.below(5);
            let mut text = String::new();
            for _ in 0..pieces {
                text += PIECES[rng.below(PIECES.len() as u64) as usize];
            }
            match rng.below(8) {
                3 => FilterOption::Filter(format!("H {text}").into()),
                4 => FilterOption::Filter(format!("show {text}").into()),
                5 => FilterOption::Filter(format!("P {text}").into()),
                6 => FilterOption::Filter(format!("risk {text}").into()),
                0 => FilterOption::Include(text.into()),
                1 => FilterOption::Filter(format!("+ {text}").into()),
                2 => FilterOption::Filter(format!("- {text}").into()),
                _ => FilterOption::Exclude(text.into()),
            }
        })
        .collect()
}

fn taken(rules: &Rules, source: &Path) -> BTreeSet<String> {
    let mut taken = BTreeSet::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(source.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            let is_folder = entry.file_type().unwrap().is_dir();
            let text = path.to_str().unwrap().to_owned();
            if rules.decide(text.as_bytes(), is_folder) != Decision::Include {
                continue;
            }
            if is_folder {
                folders.push(path);
                taken.insert(text + "/");
            } else {
                taken.insert(text);
            }
        }
    }
    taken
}

fn taken_by_rsync(rules: &[FilterOption], source: &Path) -> BTreeSet<String> {
    let mut command = Command::new("rsync");
    command.args(["-rn", "-8", "--out-format=%n"]);
    for rule in rules {
        let (option, text) = match rule {
            FilterOption::Exclude(text) => ("--exclude", text),
            FilterOption::Include(text) => ("--include", text),
            FilterOption::Filter(text) => ("--filter", text),
            FilterOption::ExcludeFrom(_) | FilterOption::IncludeFrom(_) => {
                unreachable!("not written here")
            }
        };
        let text = String::from_utf8(text.clone()).unwrap();
        command.arg(format!("{option}={text}"));
    }
    let target = source.with_file_name("target");
    command.args([source.join(""), target]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let paths = text.lines().filter(|path| *path != "./");
    // rsync -n prints a backslash as \#134
    paths.map(|path| path.replace("\\#134", "\\")).collect()
}

const PIECES: [&str; 22] = [
    "a",
    "b",
    "c",
    ".",
    "a",
    "b",
    "/",
    "/",
    "/",
    "*",
    "*",
    "**",
    "***",
    "?",
    "[ab]",
    "[!a]",
    "[a-c]",
    "[[:alpha:]]",
    "\\",
    "[\\-]",
    "[]a]",
    "[",
];
