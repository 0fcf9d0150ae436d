//! Modes that forbid operations of a copy, and set-ID modes.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use lighthaul_fs::metadata::{Extras, Inode, Keep};

use crate::far::{Far, USER};
use crate::scratch::{dress, look, noise, tree};
use crate::stage::is_skipped;

/// Modes that deny reading or writing to an owner other than root.
const CLOSED: [u32; 5] = [0o444, 0o400, 0o555, 0o200, 0];

#[test]
fn files_without_owner_permissions_are_copied() {
    if is_skipped("files_without_owner_permissions_are_copied") {
        return;
    }
    let far = Far::start("modes-closed", &[]);
    let source = far.target.join("tree");
    for (nth, size) in [9, 9 << 20].into_iter().enumerate() {
        fs::create_dir_all(source.join(nth.to_string())).unwrap();
        for mode in CLOSED {
            let path = source.join(format!("{nth}/{mode:o}"));
            fs::write(&path, vec![7; size]).unwrap();
            dress(&path, mode, 1_000_000_000);
        }
    }
    fs::hard_link(source.join("0/0"), source.join("0/other")).unwrap();
    let open = far.near.folder("open");
    for options in [
        &["-H"][..],
        &["-cH"],
        &["-a"],
        &["--inplace"],
        &["--partial-dir", ".p"],
        &["--no-sync"],
    ] {
        for times in 1..=2 {
            let back = open.join(options.concat());
            let paths = [&far.place("tree"), back.to_str().unwrap()];
            far.run_as_user(options, &paths, &open).assert_succeeded();
            assert_eq!(tree(&back), tree(&source), "{options:?}, {times}");
        }
        let alone = open.join(format!("{}-alone", options.concat()));
        let paths = [&far.place("tree/0/444"), alone.to_str().unwrap()];
        far.run_as_user(options, &paths, &open).assert_succeeded();
        assert_eq!(fs::metadata(&alone).unwrap().mode() & 0o7777, 0o444);
    }
    let back = open.join("--inplace");
    for (name, mode) in [("0/444", 0o444), ("1/0", 0)] {
        let path = source.join(name);
        fs::write(&path, vec![8; 9 << 20]).unwrap();
        dress(&path, mode, 1_000_000_001);
    }
    let paths = [&far.place("tree"), back.to_str().unwrap()];
    far.run_as_user(&["--inplace"], &paths, &open)
        .assert_succeeded();
    assert_eq!(tree(&back), tree(&source), "written again in their places");
}

#[test]
fn read_only_directories_are_updated() {
    if is_skipped("read_only_directories_are_updated") {
        return;
    }
    let far = Far::start("modes-folders", &[]);
    let source = far.target.join("tree");
    for folder in ["", "a", "a/b"] {
        fs::create_dir(source.join(folder)).unwrap();
        fs::write(source.join(folder).join("f"), "1").unwrap();
    }
    let modes = [("a/b", 0o500), ("a", 0o555), ("", 0o555)];
    let open = far.near.folder("open");
    let (named, contents) = (open.join("named"), open.join("contents"));
    for round in 0..3 {
        for (folder, mode) in modes {
            fs::write(source.join(folder).join(format!("g{round}")), "2").unwrap();
            dress(&source.join(folder), mode, 1_000_000_000 + round);
        }
        for (from, back, options) in [("tree", &named, &[][..]), ("tree/", &contents, &["-a"])] {
            let paths = [&far.place(from), back.to_str().unwrap()];
            far.run_as_user(options, &paths, &open).assert_succeeded();
            assert_eq!(look(back), look(&source), "{from}, {round}");
            assert_eq!(tree(back), tree(&source), "{from}, {round}");
        }
    }
}

#[test]
fn set_id_bits_are_kept_only_with_the_owner() {
    if is_skipped("set_id_bits_are_kept_only_with_the_owner") {
        return;
    }
    let far = Far::start("modes-rights", &[]);
    let source = far.near.folder("tree");
    for (name, mode) in [("user", 0o4755), ("group", 0o2755), ("empty", 0o6755)] {
        let path = source.join(name);
        fs::write(&path, if name == "empty" { "" } else { "x" }).unwrap();
        chown(&path, Some(USER), Some(USER)).unwrap();
        dress(&path, mode, 1_000_000_000);
    }
    dress(&source, 0o2755, 1_000_000_000);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o7777;
    for (options, target) in [(&[][..], "a"), (&["-X"], "b"), (&[], "b")] {
        far.push(options, &[&source], target).assert_succeeded();
        for name in ["user", "group", "empty"] {
            assert_eq!(mode(far.target.join(target).join(name)), 0o755, "{name}");
        }
        assert_eq!(mode(far.target.join(target)), 0o2755, "of a directory");
    }
    // preserving the owner also preserves the set-ID bits
    far.push(&["-a"], &[&source], "b").assert_succeeded();
    assert_eq!(tree(&far.target.join("b")), tree(&source));
}

#[test]
fn contents_copy_sets_the_metadata_of_the_directory() {
    if is_skipped("contents_copy_sets_the_metadata_of_the_directory") {
        return;
    }
    let far = Far::start("modes-top", &[]);
    let source = far.near.folder("m");
    fs::write(source.join("f"), noise(100, 1)).unwrap();
    let given = Extras {
        mode: Some(0o2750),
        owner: Some((USER, USER)),
        modified: Some((1_000_000_000, 5)),
        xattrs: vec![(b"user.a".to_vec(), b"b".to_vec())],
        ..Extras::default()
    };
    let all = Keep {
        mode: true,
        owner: true,
        modified: true,
        xattrs: true,
        ..Keep::default()
    };
    assert_eq!(Inode::at(&source).unwrap().apply(&given, all), []);
    let extras = |path: &Path| Inode::at(path).unwrap().read(all).unwrap().0;
    let place = format!("{}/", source.display());
    let back = far.near.at("back");
    for options in [
        &["-aHAX"][..],
        &["-aX", "--delete", "-y"],
        &["-aX", "--partial-dir", ".p"],
    ] {
        for target in ["new", "old"] {
            fs::create_dir_all(far.target.join("old")).unwrap();
            far.run(options, &[&place, &far.place(target)])
                .assert_succeeded();
            assert_eq!(extras(&far.target.join(target)), given, "{options:?}");
        }
        far.pull(options, &["old/"], back.to_str().unwrap())
            .assert_succeeded();
        assert_eq!(extras(&back), given, "{options:?}");
    }
    let outcome = far.run(&["-aX", "-n"], &[&place, &far.place("old")]);
    assert_eq!(outcome.assert_succeeded().out, [""; 0]);
    // nothing beyond the request
    far.run(&[], &[&place, &far.place("plain")])
        .assert_succeeded();
    assert_eq!(look(&far.target.join("plain")), look(&source));
    let plain = extras(&far.target.join("plain"));
    assert_eq!((plain.owner, plain.xattrs.len()), (Some((0, 0)), 0));
    // a directory that was there may have others in it
    let shared = far.target.join("shared");
    fs::create_dir(&shared).unwrap();
    dress(&shared, 0o1777, 1_000_000_000);
    for target in ["shared", "shared/"] {
        far.run(&[], &[&place, &far.place(target)])
            .assert_succeeded();
        assert_eq!(fs::metadata(&shared).unwrap().mode() & 0o7777, 0o1777);
    }
}
