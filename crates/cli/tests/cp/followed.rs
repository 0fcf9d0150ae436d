//! Bounds of options that follow paths: the root of the daemon, the file system, the right to write.

use std::fs;
use std::os::unix::fs::symlink;

use crate::far::Far;
use crate::scratch::{names, tree};

#[test]
fn link_dest_and_backup_dir_stay_in_the_root() {
    let far = Far::start("rsync-roots", &["--root", "ROOT"]);
    let file = far.near.file("x", 10);
    let outside = far.near.folder("outside");
    fs::write(outside.join("x"), fs::read(&file).unwrap()).unwrap();
    fs::create_dir(far.target.join("t")).unwrap();
    symlink(&outside, far.target.join("out")).unwrap();
    let place = format!("lh://127.0.0.1:{}/t", far.port);
    let paths = [file.to_str().unwrap(), &place];
    for dir in ["../../outside", "../out"] {
        let option = format!("--link-dest={dir}");
        let outcome = far.near.run(far.usual_copy(&[&option], &paths));
        outcome.assert_failed(13, "leaves the root");
        fs::write(far.target.join("t/x"), "old").unwrap();
        let option = format!("--backup-dir={dir}");
        let outcome = far.near.run(far.usual_copy(&[&option], &paths));
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
        assert_eq!(fs::read(far.target.join("t/x")).unwrap(), b"old");
        assert_eq!(names(&outside), ["x"]);
        fs::remove_file(far.target.join("t/x")).unwrap();
    }
}

#[test]
fn links_are_followed_within_the_root_only() {
    let far = Far::start("rsync-copy-links", &["--root", "ROOT"]);
    let outside = far.near.file("secret", 10);
    let folder = far.target.join("tree");
    fs::create_dir_all(folder.join("dir/inner")).unwrap();
    fs::write(folder.join("dir/file"), "file").unwrap();
    symlink("dir/file", folder.join("to-file")).unwrap();
    symlink("dir", folder.join("to-dir")).unwrap();
    symlink("..", folder.join("dir/loop")).unwrap();
    symlink("nowhere", folder.join("dangling")).unwrap();
    symlink(&outside, folder.join("absolute")).unwrap();
    symlink("../../secret", folder.join("escape")).unwrap();
    let back = far.near.at("back");
    let place = format!("lh://127.0.0.1:{}/tree/", far.port);
    let outcome = far
        .near
        .run(far.usual_copy(&["-L"], &[&place, back.to_str().unwrap()]));
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    assert!(outcome.said("dir/loop: it is a link to a directory that contains it"));
    assert!(outcome.said("escape: it leaves the root"), "{outcome:?}");
    let found: Vec<_> = tree(&back)
        .into_keys()
        .map(|path| path.display().to_string())
        .collect();
    let expected = [
        "dir",
        "dir/file",
        "dir/inner",
        "to-dir",
        "to-dir/file",
        "to-dir/inner",
        "to-file",
    ];
    assert_eq!(found, expected);
    assert!(
        fs::symlink_metadata(back.join("to-file"))
            .unwrap()
            .is_file()
    );
    // a source that is a link itself
    let place = format!("lh://127.0.0.1:{}/tree/to-file", far.port);
    let copy = far.near.at("copy");
    far.near
        .run(far.usual_copy(&["-L"], &[&place, copy.to_str().unwrap()]))
        .assert_succeeded();
    assert_eq!(fs::read(&copy).unwrap(), b"file");
}

#[test]
fn one_file_system_skips_mounts_and_keeps_their_targets() {
    if crate::stage::is_skipped("one_file_system_skips_mounts_and_keeps_their_targets") {
        return;
    }
    let script = "mkdir -p \"$1/tree/mnt\"; echo x > \"$1/tree/x\"; \
        mount -t tmpfs none \"$1/tree/mnt\"; echo y > \"$1/tree/mnt/y\"";
    let far = Far::start_after("rsync-one-file-system", script);
    let back = far.near.folder("back");
    fs::create_dir(back.join("mnt")).unwrap();
    fs::write(back.join("mnt/mine"), "mine").unwrap();
    fs::write(back.join("gone"), "gone").unwrap();
    let place = far.place("tree/");
    let paths = [place.as_str(), back.to_str().unwrap()];
    far.near
        .run(far.usual_copy(&["-x", "--delete", "--yes"], &paths))
        .assert_succeeded();
    let found: Vec<_> = tree(&back)
        .into_keys()
        .map(|path| path.display().to_string())
        .collect();
    assert_eq!(found, ["mnt", "mnt/mine", "x"]);
}

#[test]
fn remote_patterns_are_expanded_by_the_far_side() {
    let far = Far::start("rsync-globs", &["--root", "ROOT"]);
    fs::create_dir(far.target.join("results")).unwrap();
    for name in ["a.h5", "b.h5", "notes", ".hidden.h5", "odd[1].h5"] {
        fs::write(far.target.join("results").join(name), name).unwrap();
    }
    let pull = |pattern: &str, to: &str| {
        let place = format!("lh://127.0.0.1:{}/{pattern}", far.port);
        let to = far.near.at(to);
        far.near
            .run(far.usual_copy(&[], &[&place, to.to_str().unwrap()]))
    };
    pull("results/[ab].h5", "several").assert_succeeded();
    assert_eq!(names(&far.near.at("several")), ["a.h5", "b.h5"]);
    // one match lands as several do
    pull("res*/n*", "one").assert_succeeded();
    assert_eq!(names(&far.near.at("one")), ["notes"]);
    // a name that exists is no pattern
    pull("results/odd[1].h5", "literal").assert_succeeded();
    assert_eq!(fs::read(far.near.at("literal")).unwrap(), b"odd[1].h5");
    pull("results/*.x", "none").assert_failed(3, "no file matches /results/*.x");
    pull("../*", "none").assert_failed(3, "no file matches");
    // patterns of this host are left to its shell
    let here = format!("{}/*", far.target.display());
    let place = format!("lh://127.0.0.1:{}/t", far.port);
    far.near
        .run(far.usual_copy(&[], &[&here, &place]))
        .assert_failed(3, "cannot open");
}

#[test]
fn sources_are_removed_only_with_the_right_to_write() {
    let far = Far::start("rsync-remove-right", &[]);
    let key = far.near.run({
        let mut key = far.near.lighthaul(&["key", "--key"]);
        key.arg(far.near.key());
        key
    });
    let key = key.out.concat();
    let mut allow = far
        .near
        .lighthaul(&["allow", &key, "tester", "--read-only"]);
    allow.arg("--allowed").arg(far.near.allowed());
    far.near.run(allow).assert_succeeded();
    fs::write(far.target.join("x"), "x").unwrap();
    let to = far.near.at("x");
    let paths = [&far.place("x"), to.to_str().unwrap()];
    far.near
        .run(far.usual_copy(&["--remove-source-files"], &paths))
        .assert_failed(13, "may only read");
    far.near.run(far.usual_copy(&[], &paths)).assert_succeeded();
    assert_eq!(far.names(), ["x"]);
}
