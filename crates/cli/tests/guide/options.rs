//! The page that compares options with rsync, scp and rclone.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use lighthaul_testkit::lacks_tool;

use crate::project;

const PROGRAM: &str = env!("CARGO_BIN_EXE_lighthaul");

/// A row: options of another program, and words for `lighthaul cp`.
struct Row {
    options: Vec<String>,
    here: Option<String>,
}

/// Returns the rows of the table below this heading.
fn rows(heading: &str) -> Vec<Row> {
    let page = fs::read_to_string(project().join("docs/src/compare-options.md")).unwrap();
    let section = page.split(&format!("\n## {heading}\n")).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let lines = section.lines().filter(|line| line.starts_with("| `"));
    let rows = lines.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let options = cells[0]
            .split(", ")
            .map(|word| word.trim_matches('`').to_owned());
        let here = cells[1]
            .strip_prefix('`')
            .and_then(|words| words.strip_suffix('`'));
        Row {
            options: options.collect(),
            here: here.map(str::to_owned),
        }
    });
    rows.collect()
}

/// Returns the options in the first column below a heading, each once.
fn listed(heading: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for option in rows(heading).into_iter().flat_map(|row| row.options) {
        assert!(
            found.insert(option.clone()),
            "{heading}: {option} has two rows"
        );
    }
    found
}

/// Returns the words that begin with a dash at the start of a line of help.
fn options_in(help: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in help.lines().map(str::trim_start) {
        let words = line.split_whitespace();
        let words = words.take_while(|word| word.starts_with('-'));
        for word in words {
            let word = word.trim_end_matches(',').split(['=', '[']).next().unwrap();
            found.insert(word.to_owned());
        }
    }
    found
}

#[test]
fn options_of_rsync_are_on_the_page() {
    if lacks_tool("options_of_rsync_are_on_the_page", "rsync") {
        return;
    }
    let help = Command::new("rsync").arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let help = help.split("Options").nth(1).unwrap();
    let (theirs, page) = (options_in(help), listed("rsync"));
    assert!(theirs.len() > 150, "{theirs:?}");
    let known = ["--no-OPTION", "--help"].map(str::to_owned);
    let missing: Vec<_> = theirs
        .iter()
        .filter(|option| !page.contains(*option) && !known.contains(option))
        .collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
}

#[test]
fn options_of_scp_are_on_the_page() {
    if lacks_tool("options_of_scp_are_on_the_page", "scp") {
        return;
    }
    let usage = Command::new("scp").output().unwrap();
    let usage = String::from_utf8(usage.stderr).unwrap();
    let page = listed("scp");
    let groups = usage
        .split('[')
        .skip(1)
        .filter_map(|group| group.strip_prefix('-'));
    let mut count = 0;
    for group in groups {
        let letters = group.split([' ', ']']).next().unwrap();
        for letter in letters.chars() {
            count += 1;
            assert!(
                page.contains(&format!("-{letter}")),
                "-{letter} is not on the page"
            );
        }
    }
    assert!(count > 15, "{usage}");
}

#[test]
fn options_of_rclone_are_on_the_page() {
    let page = listed("rclone copy and sync");
    let missing: Vec<_> = RCLONE
        .iter()
        .filter(|option| !page.contains(**option))
        .collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
}

#[test]
fn options_of_cp_are_on_the_page() {
    let help = Command::new(PROGRAM)
        .args(["cp", "--help"])
        .output()
        .unwrap();
    let ours = options_in(&String::from_utf8(help.stdout).unwrap());
    let mut page = listed("Only here");
    for heading in ["rsync", "scp", "rclone copy and sync"] {
        for words in rows(heading).into_iter().filter_map(|row| row.here) {
            let words = words.split_whitespace().map(str::to_owned);
            page.extend(words.filter(|word| word.starts_with('-')));
        }
    }
    let long = ours
        .iter()
        .filter(|option| option.starts_with("--") && *option != "--help");
    let long: Vec<_> = long.collect();
    assert!(long.len() > 60, "{long:?}");
    // an option is there under its long or its short name
    let shorts = short_names();
    let missing: Vec<_> = long
        .into_iter()
        .filter(|option| {
            let short = shorts.iter().find(|(_, long)| long == *option);
            !page.contains(*option) && !short.is_some_and(|(short, _)| page.contains(short))
        })
        .collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
    let unknown: Vec<_> = listed("Only here")
        .into_iter()
        .filter(|option| !ours.contains(option))
        .collect();
    assert!(unknown.is_empty(), "no options of cp: {unknown:?}");
}

/// Returns the short and long names of options of `cp`.
fn short_names() -> Vec<(String, String)> {
    let help = Command::new(PROGRAM)
        .args(["cp", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let lines = help.lines().map(str::trim_start);
    let pairs = lines.filter_map(|line| {
        let (short, long) = line.split_once(", ")?;
        let long = long.split([' ', '=', '[']).next()?;
        (short.starts_with('-') && long.starts_with("--"))
            .then(|| (short.to_owned(), long.to_owned()))
    });
    pairs.collect()
}

#[test]
fn options_on_the_page_are_accepted_by_cp() {
    let mut refused = Vec::new();
    for heading in ["rsync", "scp", "rclone copy and sync"] {
        for words in rows(heading).into_iter().filter_map(|row| row.here) {
            // both places are on this host, which is refused after the options were read
            let output = Command::new("sh")
                .args(["-c", &format!("exec \"$0\" cp --yes {words} a b"), PROGRAM])
                .env("XDG_CONFIG_HOME", env!("CARGO_TARGET_TMPDIR"))
                .current_dir(env!("CARGO_TARGET_TMPDIR"))
                .output()
                .unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            if output.status.code() != Some(1) || !said.contains("neither side is remote") {
                refused.push(format!("{words}: {said}"));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// Options of `rclone copy` and `rclone sync`, and those for all commands that matter to them.
const RCLONE: [&str; 79] = [
    "--backup-dir",
    "--suffix",
    "--suffix-keep-extension",
    "--bwlimit",
    "--bwlimit-file",
    "--checksum",
    "--ignore-checksum",
    "--size-only",
    "--ignore-size",
    "--ignore-times",
    "--compare-dest",
    "--copy-dest",
    "--create-empty-src-dirs",
    "--delete-before",
    "--delete-during",
    "--delete-after",
    "--delete-excluded",
    "--max-delete",
    "--ignore-errors",
    "--dry-run",
    "--interactive",
    "--error-on-no-transfer",
    "--exclude",
    "--exclude-from",
    "--exclude-if-present",
    "--include",
    "--include-from",
    "--filter",
    "--filter-from",
    "--files-from",
    "--files-from-raw",
    "--ignore-case",
    "--ignore-case-sync",
    "--ignore-existing",
    "--immutable",
    "--max-age",
    "--min-age",
    "--max-depth",
    "--max-size",
    "--min-size",
    "--max-duration",
    "--cutoff-mode",
    "--max-transfer",
    "--metadata",
    "--modify-window",
    "--no-traverse",
    "--no-check-dest",
    "--check-first",
    "--no-update-modtime",
    "--order-by",
    "--progress",
    "--quiet",
    "--verbose",
    "--stats",
    "--use-json-log",
    "--log-file",
    "--log-format",
    "--log-level",
    "--retries",
    "--low-level-retries",
    "--retries-sleep",
    "--timeout",
    "--contimeout",
    "--transfers",
    "--checkers",
    "--multi-thread-streams",
    "--multi-thread-cutoff",
    "--buffer-size",
    "--use-mmap",
    "--max-backlog",
    "--track-renames",
    "--track-renames-strategy",
    "--update",
    "--fast-list",
    "--tpslimit",
    "--tpslimit-burst",
    "--copy-links",
    "--links",
    "--one-file-system",
];
