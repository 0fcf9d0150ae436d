//! Options that rsync has too, compared with rsync on the same trees.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use lighthaul_testkit::lacks_tool;

use crate::far::Far;
use crate::running::Outcome;
use crate::scratch::{dress, names, tree};

/// Time of unchanged files, in seconds since 1970.
const THEN: u64 = 1_600_000_000;

/// One comparison: options of rsync, and of `lighthaul cp` where they differ.
struct Case {
    rsync: &'static [&'static str],
    ours: &'static [&'static str],
}

const fn same(options: &'static [&'static str]) -> Case {
    Case {
        rsync: options,
        ours: options,
    }
}

/// Fills the source, with what rsync compares: sizes, times, modes, links.
fn grow_source(root: &Path) {
    fs::create_dir_all(root.join("dir/inner")).unwrap();
    fs::create_dir_all(root.join("new/inner")).unwrap();
    for (name, content, mode) in [
        ("same", "same", 0o644),
        ("content", "new..", 0o644),
        ("longer", "longer than before", 0o644),
        ("mode", "mode", 0o600),
        ("time", "time", 0o644),
        ("older", "older", 0o644),
        ("empty", "", 0o644),
        ("run", "run", 0o755),
        ("dir/file", "file", 0o640),
        ("dir/inner/x.tmp", "x", 0o644),
        ("new/inner/y", "y", 0o644),
        ("new/z~", "z", 0o644),
    ] {
        fs::write(root.join(name), content).unwrap();
        dress(&root.join(name), mode, THEN);
    }
    fs::hard_link(root.join("run"), root.join("hard")).unwrap();
    link("same", &root.join("link"));
    link("elsewhere", &root.join("dir/dangling"));
    for (name, mode) in [
        ("new/inner", 0o755),
        ("new", 0o755),
        ("dir/inner", 0o750),
        ("dir", 0o755),
    ] {
        dress(&root.join(name), mode, THEN);
    }
}

/// Fills a target with an older state, and with what the source does not have.
fn grow_target(root: &Path) {
    fs::create_dir_all(root.join("dir/inner")).unwrap();
    fs::create_dir_all(root.join("gone/inner")).unwrap();
    for (name, content, mode, time) in [
        ("same", "same", 0o644, THEN),
        ("content", "old..", 0o644, THEN + 5),
        ("longer", "short", 0o644, THEN),
        ("mode", "mode", 0o644, THEN),
        ("time", "time", 0o644, THEN + 9),
        ("older", "newer here", 0o644, THEN + 900),
        ("empty", "not empty", 0o644, THEN),
        ("dir/file", "old", 0o600, THEN),
        ("dir/extra.log", "extra", 0o644, THEN),
        ("gone/file", "gone", 0o644, THEN),
        ("gone/inner/keep.log", "keep", 0o644, THEN),
        ("kept~", "kept", 0o644, THEN),
    ] {
        fs::write(root.join(name), content).unwrap();
        dress(&root.join(name), mode, time);
    }
    link("other", &root.join("link"));
    for (name, mode) in [("dir/inner", 0o755), ("dir", 0o755), ("gone", 0o755)] {
        dress(&root.join(name), mode, THEN);
    }
}

/// Makes a symbolic link of a known time.
fn link(target: &str, path: &Path) {
    symlink(target, path).unwrap();
    let time = format!("--date=@{THEN}");
    let touched = Command::new("touch").args(["-h", &time]).arg(path).status();
    assert!(touched.unwrap().success());
}

/// Mode, time and content of one path.
type State = (u32, Option<(i64, i64)>, Vec<u8>);

/// Mode, time and content of all that is below `folder`, without the times of directories, which rsync
/// does not always keep.
fn state(folder: &Path) -> BTreeMap<PathBuf, State> {
    let paths = tree(folder).into_keys();
    let state = paths.map(|path| {
        let at = folder.join(&path);
        let meta = fs::symlink_metadata(&at).unwrap();
        let time = (!meta.is_dir()).then(|| (meta.mtime(), meta.mtime_nsec()));
        let content = match (meta.is_file(), meta.is_symlink()) {
            (true, _) => fs::read(&at).unwrap(),
            (_, true) => fs::read_link(&at).unwrap().as_os_str().as_bytes().to_vec(),
            _ => Vec::new(),
        };
        (path, (meta.mode(), time, content))
    });
    state.collect()
}

/// A fresh directory of this name.
pub(crate) fn fresh(far: &Far, name: &str, grow: fn(&Path)) -> PathBuf {
    let folder = far.near.folder(name);
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    grow(&folder);
    folder
}

/// Lines of itemized changes, without what links point to.
fn items(lines: impl Iterator<Item = String>) -> BTreeSet<String> {
    // rsync prints this on standard output, too
    let notes = "cannot delete non-empty directory";
    let lines = lines.filter(|line| !line.is_empty() && !line.ends_with(" ./"));
    let lines = lines.filter(|line| !line.starts_with(notes));
    let lines = lines.map(|line| {
        let line = line
            .split(" -> ")
            .next()
            .unwrap()
            .split(" => ")
            .next()
            .unwrap();
        let line = line.replacen('<', ">", 1);
        match line.strip_prefix("*deleting") {
            Some(_) => line.trim_end_matches('/').to_owned(),
            None => line,
        }
    });
    lines.collect()
}

/// Starts a far side called `name`. Returns `None` if there is no rsync, and records that `test` is skipped.
fn start(test: &str, name: &str) -> Option<Far> {
    (!lacks_tool(test, "rsync")).then(|| Far::start(name, &[]))
}

/// Compares all cases, one after the other.
fn compare_all(far: &Far, cases: &[Case]) {
    for case in cases {
        compare(far, case);
    }
}

/// Runs both programs in both directions, and compares targets, sources, output and status.
fn compare(far: &Far, case: &Case) -> Vec<Outcome> {
    let name = format!("{:?}", case.rsync);
    let theirs = fresh(far, "theirs", grow_target);
    let source = fresh(far, "source", grow_source);
    let from = format!("{}/", source.display());
    let mut rsync = Command::new("rsync");
    rsync
        .args(["-a", "-i"])
        .args(case.rsync)
        .arg(&from)
        .arg(&theirs);
    let output = rsync.output().unwrap();
    let expected = (state(&theirs), state(&source), output.status.code());
    let told = String::from_utf8(output.stdout).unwrap();
    let told = items(told.lines().map(str::to_owned));
    let mut outcomes = Vec::new();
    for pull in [false, true] {
        let source = fresh(far, "source", grow_source);
        let ours = fresh(far, "ours", grow_target);
        let there = |path: &str| format!("lh://127.0.0.1:{}{path}", far.port);
        let to = ours.to_str().unwrap().to_owned();
        let paths = if pull {
            [there(&from), to]
        } else {
            [from.clone(), there(&to)]
        };
        let options = [&["-a", "-i", "--yes"], case.ours].concat();
        let outcome = far
            .near
            .run(far.usual_copy(&options, &paths.each_ref().map(String::as_str)));
        let name = format!("{name}, pull {pull}: {outcome:?}");
        assert_eq!(state(&ours), expected.0, "target of {name}");
        let (mut left, mut left_by_rsync) = (state(&source), expected.1.clone());
        if case.rsync.contains(&"--remove-source-files") {
            // a file that was there before may be the source itself, so that it stays here
            for unchanged in ["same", "mode"] {
                assert!(
                    left.remove(Path::new(unchanged)).is_some(),
                    "{unchanged} of {name}"
                );
                left_by_rsync.remove(Path::new(unchanged));
            }
        }
        assert_eq!(left, left_by_rsync, "source of {name}");
        assert_eq!(outcome.code, expected.2, "status of {name}");
        let ours = items(outcome.out.iter().cloned());
        // rsync sends the last name of a file and links the others to it, and we send the first
        let is_name = |item: &&String| {
            case.rsync.contains(&"-H") && (item.ends_with(" run") || item.ends_with(" hard"))
        };
        let ours: Vec<_> = ours.iter().filter(|item| !is_name(item)).collect();
        let told: Vec<_> = told.iter().filter(|item| !is_name(item)).collect();
        assert_eq!(ours, told, "output of {name}");
        outcomes.push(outcome);
    }
    outcomes
}

#[test]
fn options_behave_like_rsync() {
    let Some(far) = start("options_behave_like_rsync", "rsync") else {
        return;
    };
    let cases = [
        same(&[]),
        same(&["-n"]),
        same(&["-c"]),
        same(&["-u"]),
        same(&["--existing"]),
        same(&["--ignore-existing"]),
        same(&["--existing", "--ignore-existing"]),
        same(&["--delete", "--existing"]),
        same(&["--delete", "-n"]),
        Case {
            rsync: &["--max-size=5"],
            ours: &["--max-size=5B"],
        },
        Case {
            rsync: &["--min-size=5", "--max-size=5"],
            ours: &["--min-size=5B", "--max-size=5B"],
        },
        Case {
            rsync: &["--delete", "--min-size=1K"],
            ours: &["--delete", "--min-size=1K"],
        },
        same(&["--chmod=D711,F604"]),
        same(&["--chmod=u+X,go-w,Fg+s"]),
        same(&["--chmod=a=rX", "--chmod=Du+w"]),
        same(&["--remove-source-files"]),
        same(&["-H"]),
        same(&["-H", "--remove-source-files"]),
        same(&["--remove-source-files", "--existing"]),
        same(&["--remove-source-files", "-u"]),
        same(&["--remove-source-files", "-n"]),
    ];
    compare_all(&far, &cases);
}

#[test]
fn backups_match_rsync() {
    let Some(far) = start("backups_match_rsync", "rsync-backup") else {
        return;
    };
    let cases = [
        same(&["-b"]),
        same(&["-b", "--suffix=.old"]),
        same(&["-b", "--delete"]),
        same(&["-b", "--backup-dir=../backups"]),
        same(&["-b", "--backup-dir=../backups", "--suffix=.1", "--delete"]),
    ];
    for case in &cases {
        let backups = far.near.folder("backups");
        fs::remove_dir_all(&backups).unwrap();
        fs::create_dir(&backups).unwrap();
        compare(&far, case);
        // the last run, which is ours, has replaced the backups of rsync with equal ones
        let kept: BTreeSet<_> = tree(&backups).into_keys().collect();
        fs::remove_dir_all(&backups).unwrap();
        fs::create_dir(&backups).unwrap();
        let source = fresh(&far, "source", grow_source);
        let theirs = fresh(&far, "theirs", grow_target);
        let mut rsync = Command::new("rsync");
        rsync
            .arg("-a")
            .args(case.rsync)
            .arg(source.join(""))
            .arg(theirs);
        assert!(rsync.status().unwrap().success());
        let expected: BTreeSet<_> = tree(&backups).into_keys().collect();
        assert_eq!(kept, expected, "{:?}", case.rsync);
    }
}

#[test]
fn rules_protect_hide_show_and_risk_as_in_rsync() {
    let Some(far) = start(
        "rules_protect_hide_show_and_risk_as_in_rsync",
        "rsync-rules",
    ) else {
        return;
    };
    let cases = [
        same(&["--delete", "-f", "P *.log"]),
        same(&["--delete", "-f", "protect /gone"]),
        same(&["--delete", "-f", "R keep.log", "-f", "- *.log"]),
        same(&["--delete", "-f", "H *.tmp", "-f", "hide /new"]),
        same(&["--delete", "-f", "S x.tmp", "-f", "- *.tmp"]),
        same(&[
            "--delete",
            "-f",
            "show /dir",
            "-f",
            "risk /dir",
            "-f",
            "P dir",
        ]),
        same(&["--delete", "-f", "H /dir/file", "-f", "P /dir/file"]),
        same(&["--delete", "--exclude=*~", "-f", "risk *~"]),
    ];
    compare_all(&far, &cases);
}

#[test]
fn max_delete_stops_with_the_status_of_rsync() {
    let Some(far) = start(
        "max_delete_stops_with_the_status_of_rsync",
        "rsync-max-delete",
    ) else {
        return;
    };
    let count = |folder: &Path| tree(folder).len();
    for max in ["0", "1", "3", "100"] {
        let option = format!("--max-delete={max}");
        let theirs = fresh(&far, "theirs", grow_target);
        let source = fresh(&far, "source", grow_source);
        let mut rsync = Command::new("rsync");
        rsync
            .args(["-a", "--delete", &option])
            .arg(source.join(""))
            .arg(&theirs);
        let code = rsync.output().unwrap().status.code();
        let from = format!("{}/", source.display());
        for pull in [false, true] {
            let ours = fresh(&far, "ours", grow_target);
            let there = |path: &str| format!("lh://127.0.0.1:{}{path}", far.port);
            let to = ours.to_str().unwrap().to_owned();
            let paths = if pull {
                [there(&from), to]
            } else {
                [from.clone(), there(&to)]
            };
            let options = ["-a", "--yes", "--delete", &option];
            let outcome = far
                .near
                .run(far.usual_copy(&options, &paths.each_ref().map(String::as_str)));
            assert_eq!(outcome.code, code, "{max}: {outcome:?}");
            assert_eq!(count(&ours), count(&theirs), "{max}: {outcome:?}");
            assert_eq!(outcome.said("--max-delete"), code != Some(0), "{outcome:?}");
        }
    }
}

#[test]
fn unchanged_files_are_linked_as_in_rsync() {
    let Some(far) = start("unchanged_files_are_linked_as_in_rsync", "rsync-link-dest") else {
        return;
    };
    let linked = |folder: &Path| -> BTreeSet<PathBuf> {
        let files = tree(folder).into_keys();
        files
            .filter(|path| {
                let meta = fs::symlink_metadata(folder.join(path)).unwrap();
                meta.is_file() && meta.nlink() > 1
            })
            .collect()
    };
    for checksum in [false, true] {
        let prev = fresh(&far, "prev", grow_target);
        let more = fresh(&far, "more", grow_source);
        fs::write(more.join("content"), "fake.").unwrap();
        dress(&more.join("content"), 0o644, THEN);
        fs::remove_file(more.join("run")).unwrap();
        let source = fresh(&far, "source", grow_source);
        let from = format!("{}/", source.display());
        let mut options = vec![
            "-a",
            "-i",
            "--link-dest=../prev",
            "--link-dest=../more",
            "--link-dest=../none",
        ];
        options.extend(checksum.then_some("-c"));
        let theirs = fresh(&far, "theirs", |_| {});
        let mut rsync = Command::new("rsync");
        rsync
            .args(&options)
            .arg(&from)
            .arg(&theirs)
            .output()
            .unwrap();
        let expected = (linked(&theirs), state(&theirs));
        assert!(expected.0.len() > 4, "{expected:?}");
        // fewer names, so that those of our copy count
        fs::remove_dir_all(&theirs).unwrap();
        for pull in [false, true] {
            let ours = fresh(&far, "ours", |_| {});
            let there = |path: &str| format!("lh://127.0.0.1:{}{path}", far.port);
            let to = ours.to_str().unwrap().to_owned();
            let paths = if pull {
                [there(&from), to]
            } else {
                [from.clone(), there(&to)]
            };
            let outcome = far
                .near
                .run(far.usual_copy(&options, &paths.each_ref().map(String::as_str)));
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
            assert_eq!((linked(&ours), state(&ours)), expected, "{outcome:?}");
            assert!(outcome.said("none does not exist"), "{outcome:?}");
            fs::remove_dir_all(&ours).unwrap();
        }
        drop((prev, more));
    }
}

#[test]
fn source_that_changes_after_the_copy_is_not_removed() {
    let far = Far::start("rsync-remove-changed", &[]);
    let folder = far.near.folder("dir");
    far.near.file("dir/first", 1000);
    far.near.file("dir/large", 20 << 20);
    let from = format!("{}/", folder.display());
    let place = far.place("t");
    let options = ["--json", "--remove-source-files", "--rate", "60Mb/s"];
    let copy = far.usual_copy(&options, &[&from, &place]);
    let mut copy = crate::running::Running::start(copy);
    copy.prints("\"type\":\"progress\"");
    // it is in place, or at least read, by now
    fs::write(folder.join("first"), "changed").unwrap();
    let outcome = copy.finish();
    assert_eq!(outcome.code, Some(24), "{outcome:?}");
    assert_eq!(names(&folder), ["first"], "{outcome:?}");
    assert_eq!(fs::read(folder.join("first")).unwrap(), b"changed");
    assert_eq!(
        fs::metadata(far.target.join("t/large")).unwrap().len(),
        20 << 20
    );
}

#[test]
fn moving_a_file_onto_itself_keeps_the_file() {
    let far = Far::start("rsync-itself", &[]);
    let file = far.target.join("x");
    fs::write(&file, "the only copy").unwrap();
    far.push(&["--remove-source-files"], &[&file], "x")
        .assert_succeeded();
    assert_eq!(fs::read(&file).unwrap(), b"the only copy");
}

#[test]
fn options_that_contradict_file_settings_are_refused() {
    let far = Far::start("rsync-settings", &[]);
    let file = far.near.file("x", 10);
    far.near.folder("config/lighthaul");
    let settings = far.near.at("config/lighthaul/config.toml");
    fs::write(settings, "[cp]\ninplace = true\n").unwrap();
    far.push(&["-b"], &[&file], "x")
        .assert_failed(1, "writes into the file");
    assert!(far.names().is_empty());
}

#[test]
fn contradicting_options_are_refused() {
    let far = Far::start("rsync-refused", &[]);
    let file = far.near.file("x", 10);
    for (options, why) in [
        (
            &["--remove-source-files", "--delete"][..],
            "cannot be used with",
        ),
        (
            &["--remove-source-files", "--no-sync"],
            "cannot be used with",
        ),
        (
            &["--remove-source-files", "--verify=none"],
            "only what was verified",
        ),
        (&["--max-delete=3"], "--delete"),
        (&["--max-size=3"], "unit"),
        (&["--chmod=q"], "D755,F644"),
        (&["-b", "--inplace"], "cannot be used with"),
        (&["--inplace", "--ignore-existing"], "writes into the file"),
        (&["--inplace", "--link-dest=old"], "omit one of them"),
        (&["-b", "--remove-source-files"], "just moved"),
        (&["-b", "--suffix="], "needs --backup-dir"),
        (&["-b", "--suffix=a/b"], "without slashes"),
    ] {
        let outcome = far.push(options, &[&file], "x");
        assert_eq!(outcome.code, Some(1), "{options:?}: {outcome:?}");
        assert!(outcome.said(why), "{options:?}: {outcome:?}");
    }
    let many = ["--link-dest=x"; 21];
    far.push(&many, &[&file], "x")
        .assert_failed(1, "at most 20 times");
    assert!(far.names().is_empty());
}

#[test]
fn verbose_lists_copied_entries_and_json_has_their_differences() {
    let far = Far::start("rsync-verbose", &[]);
    let folder = far.near.folder("dir");
    far.near.file("dir/x", 10);
    let place = far.place("t");
    let paths = [folder.to_str().unwrap(), &place];
    let run = |options: &[&str]| {
        far.near
            .run(far.usual_copy(options, &paths))
            .assert_succeeded()
    };
    assert_eq!(run(&["-v"]).out, ["dir/", "dir/x"]);
    assert!(run(&["-v"]).out.is_empty(), "nothing changed");
    fs::write(folder.join("x"), "longer than ten").unwrap();
    let events = run(&["-i", "--json"]).events();
    let copied: Vec<_> = events
        .iter()
        .filter(|event| event["type"] == "copied")
        .collect();
    let x = copied
        .iter()
        .find(|event| event["path"] == "dir/x")
        .unwrap();
    assert_eq!(x["item"], "<f.st......");
    assert_eq!(x["action"], "replace");
    assert!(run(&["-P"]).code == Some(0));
}
