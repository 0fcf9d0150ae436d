//! Dry runs for existing files, and replacement of files of another type.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};

use lighthaul_fs::metadata::{Extras, Inode, Keep};

use crate::far::Far;
use crate::running::Outcome;
use crate::scratch::{Scratch, dress, names, noise, tree};
use crate::stage::is_skipped;

/// Actions of a dry run by path.
fn plans(outcome: &Outcome) -> BTreeMap<String, (String, String)> {
    let events = outcome.events();
    let plans = events.iter().filter(|event| event["type"] == "plan");
    let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    plans
        .map(|plan| {
            (
                word(&plan["path"]),
                (word(&plan["action"]), word(&plan["why"])),
            )
        })
        .collect()
}

/// A tree of which a copy with owners and attributes lies at `tree` of `far`, and that has changed since.
fn changed(far: &Far) -> PathBuf {
    let source = far.near.folder("tree");
    fs::create_dir(source.join("d")).unwrap();
    for name in ["same", "mode", "owner", "attributes", "d/in"] {
        fs::write(source.join(name), noise(100, 1)).unwrap();
    }
    symlink("same", source.join("link")).unwrap();
    far.push(&["-aX"], &[&source], "tree").assert_succeeded();
    dress(&source.join("d"), 0o700, 1_000_000_000);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(source.join("mode"), mode).unwrap();
    chown(source.join("owner"), Some(1), Some(1)).unwrap();
    let keep = Keep {
        xattrs: true,
        ..Keep::default()
    };
    let given = Extras {
        xattrs: vec![(b"user.a".to_vec(), b"b".to_vec())],
        ..Extras::default()
    };
    let attributes = Inode::at(&source.join("attributes")).unwrap();
    assert_eq!(attributes.apply(&given, keep), []);
    source
}

#[test]
fn dry_run_reports_metadata_changes() {
    if is_skipped("dry_run_reports_metadata_changes") {
        return;
    }
    let far = Far::start("kinds-dry", &[]);
    let source = changed(&far);
    let changes = |options: &[&str], from: &Path, to: &str| {
        let outcome = far.push(options, &[from], to).assert_succeeded();
        let plans = plans(&outcome).into_iter();
        let changes = plans.filter(|(_, (action, _))| action == "change");
        changes
            .map(|(path, (_, why))| (path, why))
            .collect::<BTreeMap<_, _>>()
    };
    let told = |told: &[(&str, &str)]| -> BTreeMap<String, String> {
        let words = |(path, why): &(&str, &str)| (path.to_string(), why.to_string());
        told.iter().map(words).collect()
    };
    let all = told(&[
        ("tree/d", "mode, time"),
        ("tree/mode", "mode"),
        ("tree/owner", "owner"),
        ("tree/attributes", "attributes"),
    ]);
    let plain = told(&[("tree/d", "mode, time"), ("tree/mode", "mode")]);
    for detail in ["-n", "-n=all", "-n=explain"] {
        assert_eq!(changes(&["-aX", "--json", detail], &source, "tree"), all);
        assert_eq!(changes(&["--json", detail], &source, "tree"), plain);
    }
    let outcome = far.push(&["-n"], &[&source], "tree").assert_succeeded();
    let lines = ["change   tree/d (mode, time)", "change   tree/mode (mode)"];
    assert_eq!(outcome.out, lines);
    far.push(&["-aX"], &[&source], "tree").assert_succeeded();
    assert_eq!(
        changes(&["-aX", "--json", "-n"], &source, "tree"),
        told(&[])
    );
    // the directory whose contents are copied is one of them
    dress(&source, 0o711, 1_000_000_000);
    let contents = format!("{}/", source.display());
    let outcome = far.run(&["-n"], &[&contents, &far.place("tree")]);
    assert_eq!(outcome.assert_succeeded().out, [""; 0]);
    let outcome = far.run(&["-an"], &[&contents, &far.place("tree")]);
    assert_eq!(outcome.assert_succeeded().out, ["change   . (mode, time)"]);
}

/// A source and a target below `scratch` that have different kinds by the same names, and something extra.
fn crossed(scratch: &Scratch, target: &Path) -> PathBuf {
    let source = scratch.folder("kk");
    let outside = scratch.folder("outside");
    fs::write(outside.join("kept"), "x").unwrap();
    for folder in ["d1/in", "d2", "d3"] {
        fs::create_dir_all(source.join(folder)).unwrap();
        fs::write(source.join(folder).join("f"), noise(100, 1)).unwrap();
    }
    for file in ["f1", "f2"] {
        fs::write(source.join(file), noise(200, 2)).unwrap();
    }
    symlink("f1", source.join("l1")).unwrap();
    for folder in ["f1/deep", "l1", "sub", "extra"] {
        fs::create_dir_all(target.join(folder)).unwrap();
        fs::write(target.join(folder).join("old"), "x").unwrap();
    }
    fs::write(target.join("d1"), "x").unwrap();
    symlink(&outside, target.join("d2")).unwrap();
    symlink("sub", target.join("d3")).unwrap();
    symlink("sub", target.join("f2")).unwrap();
    source
}

#[test]
fn delete_replaces_entries_of_another_type() {
    let far = Far::start("kinds-delete", &[]);
    let target = far.target.join("kk");
    let source = crossed(&far.near, &target);
    let from = format!("{}/", source.display());
    let before = tree(&target);
    let options = ["--delete", "-y", "--json", "-n"];
    let outcome = far.run(&options, &[&from, &far.place("kk")]);
    let plans = plans(&outcome.assert_succeeded());
    let told = |action: &str| -> Vec<&str> {
        let these = plans.iter().filter(|(_, told)| told.0 == action);
        these.map(|(path, _)| path.as_str()).collect()
    };
    assert_eq!(told("replace"), ["d1", "d2", "d3", "f1", "f2", "l1"]);
    assert_eq!(told("delete"), ["extra", "extra/old", "sub", "sub/old"]);
    assert_eq!(told("create"), ["d1/in", "d1/in/f", "d2/f", "d3/f"]);
    assert_eq!(tree(&target), before);
    far.run(&["--delete", "-y"], &[&from, &far.place("kk")])
        .assert_succeeded();
    assert_eq!(tree(&target), tree(&source));
    assert_eq!(names(&far.near.at("outside")), ["kept"]);
}

#[test]
fn entries_of_another_type_stay_without_delete_or_when_excluded() {
    let far = Far::start("kinds-keep", &[]);
    let target = far.target.join("kk");
    let source = crossed(&far.near, &target);
    let from = format!("{}/", source.display());
    let outcome = far.run(&[], &[&from, &far.place("kk")]);
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    for words in [
        "kk/f1 is a directory, and a file replaces it; remove it, or use --delete",
        "kk/l1 is a directory, and a link replaces it; remove it",
        "kk/d1 is a file, and a directory replaces it; remove it",
        "kk/d2 is a link, and a directory replaces it; remove it",
    ] {
        assert!(outcome.said(words), "{words}: {outcome:?}");
    }
    assert_eq!(fs::read(target.join("d1")).unwrap(), b"x");
    assert_eq!(names(&target.join("extra")), ["old"]);
    // protected files prevent the replacement, and the rest is deleted
    let options = ["--delete", "-y", "--exclude", "old"];
    fs::remove_file(target.join("extra/old")).unwrap();
    let outcome = far.run(&options, &[&from, &far.place("kk")]);
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    assert!(
        outcome.said("but rules protect some of its contents"),
        "{outcome:?}"
    );
    assert_eq!(
        names(&target.join("f1")),
        ["old"].map(|_| "deep".to_owned())
    );
    assert_eq!(names(&target.join("f1/deep")), ["old"]);
    assert!(!target.join("extra").exists() && target.join("d1/in/f").exists());
    // a directory that may be a target is never replaced
    let file = source.join("f1");
    far.push(&["--delete", "-y"], &[&file], "kk/sub")
        .assert_failed(3, "kk/sub/ to copy into it");
}
