//! Commands `ls`, `du`, `stat`, `rm` and `mkdir`: at a daemon, over ssh, and on this host.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::far::{Far, PROGRAM};
use crate::running::{Outcome, becomes_true};
use crate::scratch::{dress, names};

/// Runs the command with `words`, as a client that the daemon knows.
pub(crate) fn run(far: &Far, words: &[&str]) -> Outcome {
    let mut command = far.near.lighthaul(words);
    command
        .args(["--pin", &far.pin, "--key"])
        .arg(far.near.key());
    far.near.run(command)
}

/// Returns the place `path` of a daemon with a root.
fn place(far: &Far, path: &str) -> String {
    format!("lh://127.0.0.1:{}/{path}", far.port)
}

fn entries(outcome: &Outcome) -> Vec<Value> {
    let events = outcome.events();
    let entries = events.iter().filter(|event| event["type"] == "entry");
    entries.cloned().collect()
}

#[test]
fn ls_prints_names_long_lines_and_json() {
    let far = Far::start("ls", &["--root", "ROOT"]);
    fs::write(far.target.join("b"), "four").unwrap();
    dress(&far.target.join("b"), 0o640, 1_000_000_000);
    fs::create_dir(far.target.join("a")).unwrap();
    fs::write(far.target.join(".hidden"), "").unwrap();
    symlink("b", far.target.join("c")).unwrap();
    let root = place(&far, "");
    let outcome = run(&far, &["ls", &root]).assert_succeeded();
    assert_eq!(outcome.out, ["a", "b", "c"]);
    let outcome = run(&far, &["ls", "-a", &root]).assert_succeeded();
    assert_eq!(outcome.out, [".hidden", "a", "b", "c"]);
    let outcome = run(&far, &["ls", "-l", &root]).assert_succeeded();
    let line = &outcome.out[1];
    assert!(line.starts_with("-rw-r----- "), "{line}");
    assert!(line.ends_with(" 4 2001-09-09T01:46:40Z b"), "{line}");
    assert!(outcome.out[2].ends_with(" c -> b"), "{outcome:?}");
    let words = ["ls", "-lh", &root];
    let outcome = run(&far, &words).assert_succeeded();
    assert!(outcome.out[1].contains(" 4 B 2001"), "{outcome:?}");
    let outcome = run(&far, &["ls", "--json", &root]).assert_succeeded();
    let found = entries(&outcome);
    assert_eq!(found.len(), 3);
    assert_eq!(
        (&found[1]["path"], &found[1]["kind"], &found[1]["size"]),
        (&"b".into(), &"file".into(), &4.into())
    );
    assert_eq!(found[1]["mode"], "0640");
    assert_eq!(found[1]["mtime"], "2001-09-09T01:46:40.123456789Z");
    assert_eq!(found[2]["target"], "b");
    assert_eq!(outcome.events().last().unwrap()["entries"], 3);
    // a path that is no directory is listed itself
    let outcome = run(&far, &["ls", &place(&far, "b")]).assert_succeeded();
    assert_eq!(outcome.out, ["/b"]);
}

#[test]
fn recursive_list_and_sizes_match_the_tree() {
    let far = Far::start("ls-tree", &["--root", "ROOT"]);
    fs::create_dir_all(far.target.join("t/a/b")).unwrap();
    fs::create_dir(far.target.join("t/.c")).unwrap();
    for (name, len) in [
        ("t/x", 1),
        ("t/a/y", 1000),
        ("t/a/b/z", 5_000_000),
        ("t/.c/h", 3),
    ] {
        fs::write(far.target.join(name), vec![7; len]).unwrap();
    }
    symlink("..", far.target.join("t/a/up")).unwrap();
    let tree = place(&far, "t");
    let outcome = run(&far, &["ls", "-R", &tree]).assert_succeeded();
    assert_eq!(outcome.out, ["a", "a/b", "a/b/z", "a/up", "a/y", "x"]);
    let outcome = run(&far, &["ls", "-R", "-a", &tree]).assert_succeeded();
    assert_eq!(outcome.out[..2], [".c", ".c/h"]);
    let outcome = run(&far, &["du", &tree]).assert_succeeded();
    let line = format!("   4.77 MiB        4 files  {tree}");
    assert_eq!(outcome.out, [line]);
    let outcome = run(
        &far,
        &["du", "-d", "1", "--json", &tree, &place(&far, "t/x")],
    );
    let events = outcome.assert_succeeded().events();
    let sums: Vec<_> = events
        .iter()
        .filter(|event| event["type"] == "usage")
        .map(|event| {
            (
                event["path"].as_str().unwrap().replace(&tree, ""),
                event["bytes"].as_u64().unwrap(),
            )
        })
        .collect();
    let expected = [("/.c", 3), ("/a", 5_001_000), ("", 5_001_004), ("/x", 1)];
    assert_eq!(sums, expected.map(|(path, bytes)| (path.to_owned(), bytes)));
    let local = far.target.join("t");
    let outcome = run(&far, &["du", "-sh", local.to_str().unwrap()]).assert_succeeded();
    assert!(outcome.out[0].starts_with("   4.77 MiB"), "{outcome:?}");
    let gone = place(&far, "gone");
    let says = format!("cannot list {gone}: no such file");
    let outcome = run(&far, &["du", &gone]).assert_failed(3, &says);
    assert!(outcome.out.is_empty(), "{outcome:?}");
    let outcome = run(&far, &["du", &gone, &tree]).assert_failed(23, &says);
    assert_eq!(outcome.out.len(), 1, "{outcome:?}");
    // the same error and status in each command
    for command in ["ls", "manifest"] {
        let outcome = run(&far, &[command, &gone]).assert_failed(3, &says);
        assert!(outcome.out.is_empty(), "{outcome:?}");
    }
    run(&far, &["rm", &gone]).assert_failed(3, &format!("cannot remove {gone}: no such file"));
}

#[test]
fn nesting_beyond_the_limit_is_reported() {
    let far = Far::start("ls-deep", &["--root", "ROOT"]);
    let mut deep = far.target.join("t");
    deep.extend(std::iter::repeat_n("d", 220));
    fs::create_dir_all(&deep).unwrap();
    let tree = place(&far, "t");
    let outcome = run(&far, &["ls", "-R", &tree]);
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    assert_eq!(outcome.out.len(), 201, "{outcome:?}");
    assert!(
        outcome.said("nested more than 200 directories deep"),
        "{outcome:?}"
    );
    fs::write(far.target.join("t/x"), "x").unwrap();
    let outcome = run(&far, &["manifest", &tree]);
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
}

#[test]
fn names_that_are_not_text_are_escaped() {
    let far = Far::start("ls-octets", &["--root", "ROOT"]);
    let name = OsStr::from_bytes(b"x\xff\n\x1b[2J");
    fs::write(far.target.join(name), "").unwrap();
    let root = place(&far, "");
    let outcome = run(&far, &["ls", &root]).assert_succeeded();
    assert_eq!(outcome.out, [r"x\xff\x0a\x1b[2J"]);
    let found = entries(&run(&far, &["ls", "--json", &root]).assert_succeeded());
    assert_eq!(found[0]["path_hex"], "78ff0a1b5b324a");
}

#[test]
fn json_shows_no_hidden_characters_of_names() {
    let far = Far::start("ls-hidden", &["--root", "ROOT"]);
    let name = "a\u{202e}b\u{9b}c";
    fs::write(far.target.join(name), "x").unwrap();
    let here = far.target.to_str().unwrap();
    let manifest = far.near.file("manifest", 0);
    let words = ["manifest", "--json", here];
    let listed = far.near.run(far.near.lighthaul(&words)).assert_succeeded();
    fs::write(&manifest, format!("{}  {name}\n", "0".repeat(64))).unwrap();
    let words = [
        "verify",
        "--json",
        "--hash",
        "sha256",
        manifest.to_str().unwrap(),
        here,
    ];
    let verified = far.near.run(far.near.lighthaul(&words));
    for outcome in [
        listed,
        verified,
        run(&far, &["ls", "--json", &place(&far, "")]).assert_succeeded(),
        run(&far, &["rm", "--json", &place(&far, name)]).assert_succeeded(),
    ] {
        let out = outcome.out.concat();
        assert!(!out.contains(['\u{202e}', '\u{9b}']), "{out}");
    }
}

#[test]
fn stat_does_not_follow_links() {
    let far = Far::start("stat", &["--root", "ROOT"]);
    fs::write(far.target.join("x"), "12345").unwrap();
    symlink("/etc/passwd", far.target.join("out")).unwrap();
    let words = ["stat", "--json", &place(&far, "x"), &place(&far, "out")];
    let found = entries(&run(&far, &words).assert_succeeded());
    assert_eq!(found[0]["size"], 5);
    assert_eq!(
        (&found[1]["kind"], &found[1]["target"]),
        (&"link".into(), &"/etc/passwd".into())
    );
    let found = entries(&run(&far, &["stat", "--json", &place(&far, "")]).assert_succeeded());
    assert_eq!(found[0]["kind"], "directory");
    // one that is missing does not hide the others
    let words = ["stat", &place(&far, "none"), &place(&far, "x")];
    let words_said = format!("the metadata of {}: no such file", place(&far, "none"));
    let outcome = run(&far, &words).assert_failed(23, &words_said);
    assert_eq!(outcome.out.len(), 1, "{outcome:?}");
    run(&far, &["stat", &place(&far, "none")]).assert_failed(3, "no such file");
}

#[test]
fn unreachable_host_does_not_hide_other_hosts() {
    let far = Far::start("stat-hosts", &["--root", "ROOT"]);
    fs::write(far.target.join("x"), "12345").unwrap();
    // no daemon listens at the first port of the system
    let nowhere = "lh://127.0.0.1:1/x";
    let there = place(&far, "x");
    for (command, kind) in [("stat", "entry"), ("du", "usage")] {
        let words = [command, "--json", nowhere, &there];
        let outcome = run(&far, &words).assert_failed(23, "127.0.0.1");
        let events = outcome.events();
        let kinds: Vec<&Value> = events.iter().map(|event| &event["type"]).collect();
        assert_eq!(kinds, ["error", kind, "end"], "{command}");
        assert_eq!(events[2]["failures"], 1, "{command}");
        // alone, its own status
        run(&far, &[command, nowhere]).assert_failed(10, "127.0.0.1");
    }
}

#[test]
fn mkdir_and_rm_create_and_remove_directories() {
    let far = Far::start("mkdir", &["--root", "ROOT"]);
    run(&far, &["mkdir", &place(&far, "a")]).assert_succeeded();
    run(&far, &["mkdir", &place(&far, "a")]).assert_failed(3, "file exists");
    run(&far, &["mkdir", &place(&far, "b/c")]).assert_failed(3, "no such file");
    run(
        &far,
        &["mkdir", "-p", &place(&far, "b/c/d"), &place(&far, "a")],
    )
    .assert_succeeded();
    assert!(far.target.join("b/c/d").is_dir());
    fs::write(far.target.join("b/c/x"), "x").unwrap();
    run(&far, &["mkdir", "-p", &place(&far, "b/c/x")]).assert_failed(3, "file exists");
    run(&far, &["rm", &place(&far, "b")]).assert_failed(1, "is a directory; use -r to remove it");
    run(&far, &["rm", "-r", &place(&far, "b"), &place(&far, "a")]).assert_succeeded();
    run(&far, &["rm", &place(&far, "b")]).assert_failed(3, "no such file");
    assert!(far.names().is_empty());
    for path in ["", ".", "a/..", "//"] {
        run(&far, &["rm", "-r", &place(&far, path)]).assert_failed(1, "the root or a path of dots");
    }
    assert!(far.target.is_dir());
}

#[test]
fn file_commands_stay_inside_the_root() {
    let far = Far::start("confined", &["--root", "ROOT"]);
    let outside = far.near.folder("outside/inner");
    fs::write(outside.join("kept"), "kept").unwrap();
    symlink(outside.parent().unwrap(), far.target.join("absolute")).unwrap();
    symlink("../outside", far.target.join("relative")).unwrap();
    fs::create_dir(far.target.join("folder")).unwrap();
    symlink("../absolute", far.target.join("folder/chain")).unwrap();
    for path in [
        "absolute",
        "relative",
        "..",
        "../outside",
        "folder/chain",
        "folder/../..",
    ] {
        let inner = format!("{path}/inner");
        run(&far, &["ls", &place(&far, path)]).assert_failed(13, "leaves the root");
        run(&far, &["stat", &place(&far, &inner)]).assert_failed(13, "leaves the root");
        run(&far, &["rm", "-r", &place(&far, &inner)]).assert_failed(13, "leaves the root");
        let new = place(&far, &format!("{path}/new"));
        run(&far, &["mkdir", &new]).assert_failed(13, "leaves the root");
        run(&far, &["mkdir", "-p", &new]).assert_failed(13, "leaves the root");
    }
    // a link is removed, and its target stays
    run(
        &far,
        &["rm", "-r", &place(&far, "folder"), &place(&far, "absolute")],
    )
    .assert_succeeded();
    assert_eq!(names(outside.parent().unwrap()), ["inner"]);
    assert_eq!(names(&outside), ["kept"]);
    assert_eq!(far.names(), ["relative"]);
}

#[test]
fn read_only_key_lists_but_changes_no_files() {
    let far = Far::start("files-ro", &["--root", "ROOT"]);
    fs::write(far.target.join("x"), "").unwrap();
    let listed = fs::read_to_string(far.near.allowed()).unwrap();
    fs::write(far.near.allowed(), format!("{} ro\n", listed.trim_end())).unwrap();
    let outcome = run(&far, &["ls", &place(&far, "")]).assert_succeeded();
    assert_eq!(outcome.out, ["x"]);
    run(&far, &["rm", &place(&far, "x")]).assert_failed(13, "may only read");
    run(&far, &["mkdir", &place(&far, "y")]).assert_failed(13, "may only read");
    assert_eq!(far.names(), ["x"]);
}

#[test]
fn ls_follows_a_link_inside_the_root() {
    let far = Far::start("within", &["--root", "ROOT"]);
    fs::create_dir_all(far.target.join("a/b")).unwrap();
    fs::write(far.target.join("a/b/x"), "").unwrap();
    symlink("a/b", far.target.join("link")).unwrap();
    let outcome = run(&far, &["ls", &place(&far, "link")]).assert_succeeded();
    assert_eq!(outcome.out, ["x"]);
}

#[test]
fn ls_of_a_huge_directory_uses_little_memory() {
    let far = Far::start("ls-many", &["--root", "ROOT"]);
    let count = 60_000;
    for nth in 0..count {
        let name = format!("an-entry-whose-name-is-rather-long-as-they-are-in-archives-{nth:06}");
        fs::File::create(far.target.join(name)).unwrap();
    }
    let before = memory_kib(far.daemon.id());
    let outcome = run(&far, &["ls", "--json", &place(&far, "")]).assert_succeeded();
    let mut found: Vec<_> = entries(&outcome)
        .iter()
        .map(|entry| entry["path"].as_str().unwrap().to_owned())
        .collect();
    found.sort();
    found.dedup();
    assert_eq!(found.len(), count);
    // entries have 100 bytes or more, so all of them in memory would be visible
    let grown = memory_kib(far.daemon.id()) - before;
    assert!(grown < 6000, "the daemon grew by {grown} KiB");
}

/// Returns the peak memory of a process.
fn memory_kib(process: u32) -> i64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn closed_pipe_ends_the_listing() {
    let far = Far::start("ls-head", &["--root", "ROOT"]);
    for nth in 0..20_000 {
        fs::File::create(far.target.join(format!("entry-{nth}"))).unwrap();
    }
    let script = format!(
        "{PROGRAM} ls {} --pin {} --key {} | head -n 1; exit ${{PIPESTATUS[0]}}",
        place(&far, ""),
        far.pin,
        far.near.key().display()
    );
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]);
    let outcome = far.near.run(shell).assert_succeeded();
    assert_eq!(outcome.out.len(), 1);
    assert!(!outcome.said("lighthaul: "), "{outcome:?}");
}

#[test]
fn file_commands_work_on_local_paths() {
    let near = crate::far::Near::new("here", None);
    let folder = near.folder("folder");
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let run = |words: &[&str]| near.run(near.lighthaul(words));
    run(&["mkdir", "-p", &at("a/b"), &at("c")]).assert_succeeded();
    assert_eq!(run(&["ls", &at("")]).assert_succeeded().out, ["a", "c"]);
    run(&["rm", "-r", &at("a"), &at("c")]).assert_succeeded();
    assert!(names(&folder).is_empty());
    run(&["rm", &at("a")]).assert_failed(3, "cannot remove");
}

#[test]
fn rm_of_a_tree_swapped_for_links_removes_no_outside_files() {
    let near = crate::far::Near::new("race", None);
    let outside = near.folder("outside");
    fs::write(outside.join("kept"), "kept").unwrap();
    for round in 0..30 {
        let tree = near.folder("tree/inner/deep");
        for nth in 0..50 {
            fs::write(tree.join(nth.to_string()), "").unwrap();
        }
        let (inner, aside) = (near.at("tree/inner"), near.at("tree/aside"));
        std::thread::scope(|scope| {
            let remover = scope.spawn(|| {
                let words = ["rm", "-r", near.at("tree").to_str().unwrap()].map(str::to_owned);
                near.run(near.lighthaul(&words.each_ref().map(String::as_str)))
            });
            while !remover.is_finished() {
                if fs::rename(&inner, &aside).is_ok() {
                    symlink(&outside, &inner).ok();
                    fs::remove_file(&inner).ok();
                    fs::rename(&aside, &inner).ok();
                }
            }
        });
        assert_eq!(names(&outside), ["kept"], "round {round}");
        fs::remove_dir_all(near.at("tree")).ok();
    }
    assert!(Path::new(&outside).is_dir());
}

/// Completes the last of these words as bash does.
fn completed(far: &Far, words: &[&str]) -> Vec<String> {
    let mut bash = Command::new("bash");
    let script = "set -e; program=$0; eval \"$($program completions bash)\"; shopt -s progcomp
        COMP_WORDS=(lighthaul \"$@\") COMP_CWORD=$# COMP_TYPE=9
        lighthaul() { \"$program\" \"$@\"; }
        _clap_complete_lighthaul lighthaul \"${@: -1}\" || true
        printf '%s\\n' \"${COMPREPLY[@]}\"";
    bash.args(["-c", script, PROGRAM])
        .args(words)
        .env("XDG_CONFIG_HOME", far.near.at("config"))
        .env("LIGHTHAUL_KEY", far.near.key())
        .env("LIGHTHAUL_PIN", &far.pin);
    far.near.run(bash).assert_succeeded().out
}

#[test]
fn bash_completes_paths_on_another_host() {
    let far = Far::start("complete", &["--root", "ROOT"]);
    for name in [
        "run1.h5",
        "run2.h5",
        "other",
        ".run",
        "run;reboot",
        "run $(id)",
    ] {
        fs::write(far.target.join(name), "").unwrap();
    }
    fs::create_dir(far.target.join("runs")).unwrap();
    let place = |name: &str| place(&far, name);
    let all = ["run1.h5", "run2.h5", "runs/"].map(place);
    let hidden = [place(".run")];
    for (words, expected) in [
        (&["ls", &place("run")][..], &all[..]),
        (&["cp", "x", &place("run")], &all),
        (&["ls", &place(".")], &hidden),
    ] {
        // nothing is completed if a busy host takes too long
        becomes_true(&format!("{words:?} become {expected:?}"), || {
            let found = completed(&far, words);
            assert!(found == [""] || found == expected, "{found:?}");
            found == expected
        });
    }
    assert_eq!(completed(&far, &["ls", &place("runs/x")]), [""]);
    let options = completed(&far, &["ls", "--rec"]);
    assert_eq!(options, ["--recursive"]);
    // nothing is asked, and no error is shown
    assert_eq!(completed(&far, &["ls", "lh://127.0.0.1:1/"]), [""]);
}
