//! Selection of files to copy, keep and delete, and the report of a dry run.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::far::Far;
use crate::running::Outcome;
use crate::scratch::{dress, look, names, tree};

/// Everything in a [`garden`] but its temporary files.
const LASTING: [&str; 8] = [
    "gate",
    "beds",
    "beds/roses",
    "beds/roses/red",
    "beds/weeds",
    "beds/weeds/all",
    "shed",
    "shed/spade",
];

/// A directory with some of everything.
fn garden(far: &Far) -> PathBuf {
    let folder = far.near.folder("garden");
    for inner in ["beds/roses", "beds/weeds", "shed"] {
        fs::create_dir_all(folder.join(inner)).unwrap();
    }
    for file in [
        "gate",
        "beds/roses/red",
        "beds/roses/white.tmp",
        "beds/weeds/all",
        "shed/spade",
        "shed/x.tmp",
    ] {
        fs::write(folder.join(file), file).unwrap();
    }
    folder
}

/// Paths below `folder`.
fn paths(folder: &Path) -> BTreeSet<String> {
    tree(folder)
        .into_keys()
        .map(|path| path.to_str().unwrap().to_owned())
        .collect()
}

fn set(paths: &[&str]) -> BTreeSet<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

fn contents(folder: &Path) -> PathBuf {
    PathBuf::from(format!("{}/", folder.display()))
}

/// The events of a dry run, as action and path.
fn plan(outcome: &Outcome) -> BTreeSet<String> {
    let events = outcome
        .events()
        .into_iter()
        .filter(|event| event["type"] == "plan");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    events
        .map(|event| format!("{} {}", text(&event["action"]), text(&event["path"])))
        .collect()
}

#[test]
fn filters_apply_to_listed_paths_as_in_rsync() {
    let far = Far::start("listed-rules", &[]);
    let folder = far.near.folder("folder");
    for name in ["a/b", "a/d/x", "a/d/y", "top"] {
        fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        fs::write(folder.join(name), name).unwrap();
    }
    let list = far.near.at("list");
    fs::write(&list, "top\na/b\na/d\n").unwrap();
    let list = list.to_str().unwrap();
    let there = far.target.join("there");
    far.push(&[], &[&folder.join("")], "there")
        .assert_succeeded();
    for (nth, (rule, left)) in [
        ("top", &["a/b", "a/d/x", "a/d/y"][..]),
        ("/a", &["a/b", "a/d/x", "a/d/y", "top"]),
        ("x", &["a/b", "a/d/y", "top"]),
        ("/a/d", &["a/b", "top"]),
        ("*", &[]),
    ]
    .into_iter()
    .enumerate()
    {
        let options = ["--files-from", list, "--exclude", rule];
        let files = |root: &Path| {
            let files = tree(root)
                .into_keys()
                .filter(|path| root.join(path).is_file());
            files
                .map(|path| path.to_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        far.push(&options, &[&folder], &format!("{nth}/"))
            .assert_succeeded();
        assert_eq!(
            files(&far.target.join(nth.to_string())),
            left,
            "pushed without {rule}"
        );
        let back = far.near.folder(&format!("back{nth}"));
        far.pull(&options, &["there/"], back.to_str().unwrap())
            .assert_succeeded();
        assert_eq!(files(&back), left, "pulled without {rule}");
    }
    assert!(there.exists());
}

#[test]
fn unwritable_failures_file_is_refused_before_the_copy() {
    let far = Far::start("failures-nowhere", &[]);
    let file = far.near.file("x", 10);
    far.push(&["--failures", "/nowhere/failures"], &[&file], "x")
        .assert_failed(3, "cannot create /nowhere/failures");
    assert!(far.names().is_empty());
}

#[test]
fn filters_exclude_the_same_files_as_rsync() {
    let far = Far::start("rules", &[]);
    let folder = garden(&far);
    let whole = contents(&folder);
    let cases: [(&str, &[&str], &[&str]); 4] = [
        ("a", &["--exclude", "*.tmp"], &LASTING),
        (
            "b",
            &["--include", "red", "--include", "*/", "--exclude", "*"],
            &["beds", "beds/roses", "beds/roses/red", "beds/weeds", "shed"],
        ),
        ("c", &["--exclude", "*", "--include", "red"], &[]),
        (
            "d",
            &["--filter", "- /shed", "--exclude", "weeds/"],
            &[
                "gate",
                "beds",
                "beds/roses",
                "beds/roses/red",
                "beds/roses/white.tmp",
            ],
        ),
    ];
    for (name, options, expected) in cases {
        far.push(options, &[&whole], name).assert_succeeded();
        assert_eq!(paths(&far.target.join(name)), set(expected), "{options:?}");
        let back = far.near.at(&format!("back-{name}"));
        let source = far.target.join("all");
        if !source.exists() {
            far.push(&[], &[&whole], "all").assert_succeeded();
        }
        far.pull(options, &["all/"], back.to_str().unwrap())
            .assert_succeeded();
        assert_eq!(paths(&back), set(expected), "{options:?} on the way back");
    }
}

#[test]
fn files_from_selects_files_in_both_directions() {
    let far = Far::start("listed", &[]);
    let folder = garden(&far);
    dress(&folder.join("beds"), 0o750, 1_000_000_000);
    let list = far.near.at("list");
    fs::write(&list, "shed/spade\n# a remark\nbeds/roses\nno/such\n").unwrap();
    let expected = set(&[
        "shed",
        "shed/spade",
        "beds",
        "beds/roses",
        "beds/roses/red",
        "beds/roses/white.tmp",
    ]);
    let list = list.to_str().unwrap();
    let failures = far.near.at("failures");
    let note = failures.to_str().unwrap();
    let options = ["--files-from", list, "--failures", note];
    far.push(&options, &[&folder], "copy")
        .assert_failed(23, "no/such");
    assert_eq!(paths(&far.target.join("copy")), expected);
    assert_eq!(
        look(&far.target.join("copy/beds")),
        look(&folder.join("beds"))
    );
    let noted = fs::read_to_string(&failures).unwrap();
    assert!(
        noted.lines().count() == 1 && noted.contains("\"no/such\""),
        "{noted}"
    );
    // only the entries that failed are retried
    fs::create_dir(folder.join("no")).unwrap();
    fs::write(folder.join("no/such"), "now").unwrap();
    far.push(&["--files-from", note], &[&folder], "again")
        .assert_succeeded();
    assert_eq!(paths(&far.target.join("again")), set(&["no", "no/such"]));
    let back = far.near.at("back");
    fs::write(list, "copy/shed\0copy/beds/roses/red\0").unwrap();
    let options = ["--files-from", list, "-0"];
    far.pull(&options, &["."], back.to_str().unwrap())
        .assert_succeeded();
    assert_eq!(
        paths(&back),
        set(&[
            "copy",
            "copy/shed",
            "copy/shed/spade",
            "copy/beds",
            "copy/beds/roses",
            "copy/beds/roses/red"
        ])
    );
    fs::write(list, "../x\n").unwrap();
    far.push(&["--files-from", list], &[&folder], "out")
        .assert_failed(1, "..");
}

#[test]
fn dry_run_reports_without_changing_files() {
    let far = Far::start("dry", &[]);
    let folder = garden(&far);
    let whole = contents(&folder);
    let dry = ["--json", "--dry-run", "--exclude", "*.tmp"];
    let outcome = far.push(&dry, &[&whole], "copy").assert_succeeded();
    assert!(far.names().is_empty());
    let creates = LASTING
        .iter()
        .map(|path| format!("create {path}"))
        .collect::<BTreeSet<_>>();
    assert_eq!(plan(&outcome), creates);
    far.push(&["--exclude", "*.tmp"], &[&whole], "copy")
        .assert_succeeded();
    let before = tree(&far.target);
    fs::write(folder.join("gate"), "another gate").unwrap();
    fs::remove_file(folder.join("shed/spade")).unwrap();
    let explain = [
        "--json",
        "--dry-run=explain",
        "--delete",
        "--exclude",
        "*.tmp",
    ];
    let outcome = far.push(&explain, &[&whole], "copy").assert_succeeded();
    let told = plan(&outcome);
    for line in [
        "replace gate",
        "delete shed/spade",
        "keep beds/roses/red",
        "exclude shed/x.tmp",
    ] {
        assert!(told.contains(line), "{line}: {told:?}");
    }
    assert_eq!(tree(&far.target), before);
    let summary = outcome.event("summary");
    let planned = ["bytes", "entries", "deletions"].map(|what| &summary[format!("planned_{what}")]);
    assert_eq!(planned, [&json!(12), &json!(1), &json!(1)], "{summary}");
    let options = ["-n", "--delete", "--exclude", "*.tmp"];
    let outcome = far.push(&options, &[&whole], "copy").assert_succeeded();
    assert!(
        outcome.said(", a dry run, would send 12 B in 1 entry"),
        "{outcome:?}"
    );
    assert!(outcome.err.concat().ends_with(", delete 1"), "{outcome:?}");
    let back = far.near.at("back");
    let outcome = far
        .pull(&["-n"], &["copy"], back.to_str().unwrap())
        .assert_succeeded();
    assert!(
        outcome.out.iter().any(|line| line == "create   back/gate"),
        "{outcome:?}"
    );
    assert!(!back.exists());
}

#[test]
fn update_keeps_newer_files_and_checksum_compares_content() {
    let far = Far::start("newer", &[]);
    let file = far.near.file("x", 1000);
    dress(&file, 0o644, 1_000_000_000);
    far.push(&[], &[&file], "x").assert_succeeded();
    // the same size and time, and other bytes
    fs::write(&file, vec![1; 1000]).unwrap();
    dress(&file, 0o644, 1_000_000_000);
    far.push(&[], &[&file], "x").assert_succeeded();
    assert!(look(&far.target.join("x")) != look(&file));
    far.push(&["-c"], &[&file], "x").assert_succeeded();
    assert!(look(&far.target.join("x")) == look(&file));
    // another time, the same bytes: nothing is sent
    dress(&file, 0o644, 1_000_000_001);
    let outcome = far
        .push(&["-c", "--json"], &[&file], "x")
        .assert_succeeded();
    assert_eq!(outcome.events().pop().unwrap()["bytes_moved"], 0);
    fs::write(&file, "old").unwrap();
    dress(&file, 0o644, 900_000_000);
    far.push(&["--update"], &[&file], "x").assert_succeeded();
    assert_eq!(fs::metadata(far.target.join("x")).unwrap().len(), 1000);
    far.push(&[], &[&file], "x").assert_succeeded();
    assert!(look(&far.target.join("x")) == look(&file));
}

/// Runs `copy` on a terminal, and types `answer`.
fn answered(far: &Far, copy: &Command, answer: &str) -> Outcome {
    let words = [copy.get_program()].into_iter().chain(copy.get_args());
    let words: Vec<String> = words
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let mut shell = Command::new("sh");
    let typed = "printf '%s\\n' \"$1\" | script -qec \"$2\" /dev/null";
    shell.args(["-c", typed, "sh", answer, &words.join(" ")]);
    for (name, value) in copy.get_envs() {
        shell.env(name, value.unwrap());
    }
    far.near.run(shell)
}

#[test]
fn delete_removes_exactly_the_extra_files() {
    let far = Far::start("delete", &[]);
    let folder = garden(&far);
    let whole = contents(&folder);
    far.push(&[], &[&whole], "copy").assert_succeeded();
    let copy = far.target.join("copy");
    fs::create_dir_all(copy.join("old/deep")).unwrap();
    for name in ["old/deep/x", "beds/old", "shed/kept.log"] {
        fs::write(copy.join(name), name).unwrap();
    }
    let outside = far.near.folder("outside");
    fs::write(outside.join("y"), "y").unwrap();
    std::os::unix::fs::symlink(&outside, copy.join("link")).unwrap();
    let unasked = far.copy(
        &["--delete"],
        &[whole.to_str().unwrap(), &far.place("copy")],
    );
    let mut unasked = unasked;
    unasked.stdin(Stdio::null());
    far.near.run(unasked).assert_failed(1, "add --yes");
    assert!(copy.join("old").exists());
    fs::remove_file(folder.join("gate")).unwrap();
    // old, old/deep, old/deep/x, beds/old, link and gate
    let asked = ["--delete", "--exclude", "*.log"];
    let asked = far.copy(&asked, &[whole.to_str().unwrap(), &far.place("copy")]);
    let outcome = answered(&far, &asked, "n");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let question = outcome.out.concat();
    assert!(question.contains("Delete 6 items of lh://"), "{question}");
    assert!(copy.join("old").exists());
    let options = ["--delete", "--yes", "--exclude", "*.log"];
    let outcome = far.push(&options, &[&whole], "copy").assert_succeeded();
    let gone = ["beds/old", "gate", "link", "old", "old/deep", "old/deep/x"];
    for path in gone {
        let line = format!("lighthaul: removed {path}");
        assert!(outcome.err.contains(&line), "{path}: {outcome:?}");
    }
    assert!(outcome.said(" 6 removed"), "{outcome:?}");
    // there is nothing to delete, so nothing is asked
    let outcome = answered(&far, &asked, "n");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let mut expected = paths(&folder);
    expected.insert("shed/kept.log".to_owned());
    assert_eq!(paths(&copy), expected);
    assert_eq!(names(&outside), ["y"]);
    let list = far.near.at("list");
    fs::write(&list, "gate\n").unwrap();
    let options = ["--delete", "-y", "--files-from", list.to_str().unwrap()];
    far.push(&options, &[&folder], "copy")
        .assert_failed(1, "--delete cannot be combined with --files-from");
    // nothing else is removed
    fs::write(far.target.join("bystander"), "b").unwrap();
    far.push(&["--delete", "-y"], &[&folder], "")
        .assert_succeeded();
    assert!(far.target.join("bystander").exists() && far.target.join("copy").exists());
}

#[test]
fn delete_keeps_excluded_files() {
    let far = Far::start("delete-rules", &[]);
    let folder = garden(&far);
    let copy = far.target.join("copy");
    let rules = ["--exclude", "*.log", "--exclude", "/garden/shed/secret"];
    far.push(&rules, &[&folder], "copy").assert_succeeded();
    let mut expected = paths(&copy);
    // inside a removed directory, and under another name than at the source
    fs::create_dir_all(copy.join("old/deep")).unwrap();
    for name in ["old/deep/x", "old/deep/y.log", "shed/secret"] {
        fs::write(copy.join(name), name).unwrap();
    }
    let options = [&["--delete", "-y"], &rules[..]].concat();
    far.push(&options, &[&folder], "copy").assert_succeeded();
    for kept in ["old", "old/deep", "old/deep/y.log", "shed/secret"] {
        expected.insert(kept.to_owned());
    }
    assert_eq!(paths(&copy), expected);
    // a new directory, which a dry run does not create, hides no file that would be removed
    fs::create_dir(folder.join("beds/new")).unwrap();
    fs::write(copy.join("beds/gone"), "gone").unwrap();
    let options = [&["--json", "-n", "--delete"], &rules[..]].concat();
    let told = plan(&far.push(&options, &[&folder], "copy").assert_succeeded());
    assert!(told.contains("delete copy/beds/gone"), "{told:?}");
    let kept = |line: &String| line.contains("secret") || line.contains(".log");
    assert!(!told.iter().any(kept), "{told:?}");
}

#[test]
fn rate_limit_holds_and_malformed_limits_are_refused() {
    let far = Far::start("later", &[]);
    let file = far.near.file("x", 4_000_000);
    let outcome = far
        .push(&["--limit", "16Mbit", "--json"], &[&file], "x")
        .assert_succeeded();
    let seconds = outcome.events().pop().unwrap()["moving_s"]
        .as_f64()
        .unwrap();
    assert!(seconds > 1.9, "{seconds} s for 32 Mb at 16 Mb/s");
    far.push(&["--limit", "noon"], &[&file], "x")
        .assert_failed_to_parse();
    far.push(&["--deadline", "23:00"], &[&file], "x")
        .assert_failed_to_parse();
    far.push(&["--partial-dir", "a/b"], &[&file], "x")
        .assert_failed(1, "--partial-dir needs a name");
    far.push(&["--verify=none"], &[&file], "y")
        .assert_succeeded();
    assert!(look(&far.target.join("y")) == look(&file));
}

#[test]
fn list_on_standard_input_is_read_incrementally() {
    let far = Far::start("stdin", &[]);
    let folder = garden(&far);
    let mut copy = far.copy(
        &["--files-from", "-"],
        &[folder.to_str().unwrap(), &far.place("copy")],
    );
    let mut child = copy.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"gate\n").unwrap();
    crate::running::becomes_true("the first is there", || {
        far.target.join("copy/gate").exists()
    });
    input.write_all(b"shed\n").unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
    assert_eq!(
        paths(&far.target.join("copy")),
        set(&["gate", "shed", "shed/spade", "shed/x.tmp"])
    );
}

#[test]
fn pattern_files_apply_in_the_order_of_options() {
    let far = Far::start("pattern-files", &[]);
    let folder = garden(&far);
    let (keep, drop) = (far.near.at("keep"), far.near.at("drop"));
    fs::write(&keep, "# what stays\nx.tmp\n\n").unwrap();
    fs::write(&drop, "; what goes\n*.tmp\nweeds/\n").unwrap();
    let (keep, drop) = (keep.to_str().unwrap(), drop.to_str().unwrap());
    let options = ["--include-from", keep, "--exclude-from", drop];
    far.push(&options, &[&folder], "copy").assert_succeeded();
    let came = set(&[
        "beds",
        "beds/roses",
        "beds/roses/red",
        "gate",
        "shed",
        "shed/spade",
        "shed/x.tmp",
    ]);
    let mut there = paths(&far.target.join("copy"));
    there.remove("");
    assert_eq!(there, came);
    let missing = ["--exclude-from", "/no/such/file"];
    let outcome = far.push(&missing, &[&folder], "other");
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.said("/no/such/file"), "{outcome:?}");
}
