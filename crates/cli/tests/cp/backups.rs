//! Backups of replaced and deleted files, where they could do harm.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use crate::far::Far;
use crate::rsync::fresh;
use crate::scratch::{names, tree};

#[test]
fn backup_replaces_no_special_file() {
    let far = Far::start("rsync-special", &[]);
    let file = far.near.file("x", 10);
    far.push(&[], &[&file], "x").assert_succeeded();
    rustix::fs::mkfifoat(rustix::fs::CWD, far.target.join("x~"), 0o600.into()).unwrap();
    fs::write(&file, "changed").unwrap();
    let outcome = far.push(&["-b"], &[&file], "x");
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome.said("would replace a device, socket or other special file"),
        "{outcome:?}"
    );
    let there = fs::metadata(far.target.join("x~")).unwrap();
    assert!(there.file_type().is_fifo());
}

/// A source directory with `files`, each with its name as its content.
fn source_of(far: &Far, files: &[&str]) -> PathBuf {
    let source = fresh(far, "source", |_| {});
    for file in files {
        fs::write(source.join(file), file).unwrap();
    }
    source
}

#[test]
fn backup_replaces_no_file_of_the_same_copy() {
    let far = Far::start("rsync-listed", &[]);
    let source = source_of(&far, &["a", "a~", "b"]);
    far.push(&[], &[&source.join("")], "t").assert_succeeded();
    for file in ["a", "b"] {
        fs::write(source.join(file), "changed").unwrap();
    }
    let outcome = far.push(&["-b"], &[&source.join("")], "t");
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome.said("its backup would replace a file of the same copy"),
        "{outcome:?}"
    );
    let read = |name: &str| fs::read_to_string(far.target.join("t").join(name)).unwrap();
    assert_eq!(
        ["a", "a~", "b", "b~"].map(read),
        ["a", "a~", "changed", "b"]
    );
}

#[test]
fn backup_directory_in_the_target_survives_deletion() {
    let far = Far::start("rsync-backup-inside", &[]);
    let kept = far.target.join("t/kept");
    let link = far.target.join("link");
    symlink(&kept, &link).unwrap();
    let source = source_of(&far, &["a"]);
    let folders = [kept.as_path(), &link, Path::new("kept")];
    for (folder, exists) in folders
        .iter()
        .zip([true, false])
        .chain([(&folders[2], true)])
    {
        if far.target.join("t").exists() {
            fs::remove_dir_all(far.target.join("t")).unwrap();
        }
        fs::create_dir_all(far.target.join("t/gone")).unwrap();
        for file in ["a", "gone/b"] {
            fs::write(far.target.join("t").join(file), "old").unwrap();
        }
        if exists || *folder == link {
            fs::create_dir(&kept).unwrap();
        }
        let option = format!("--backup-dir={}", folder.display());
        for detail in ["--dry-run", "--yes"] {
            let options = ["-b", "--delete", detail, &option];
            let outcome = far.push(&options, &[&source.join("")], "t");
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
            assert!(!outcome.said("kept"), "{outcome:?}");
        }
        let there: Vec<_> = tree(&kept).into_keys().collect();
        let expected = ["a", "gone", "gone/b"].map(PathBuf::from);
        assert_eq!(there, expected, "{}", folder.display());
        assert_eq!(names(&far.target.join("t")), ["a", "kept"]);
    }
}

#[test]
fn fifo_in_place_of_a_backup_directory_is_kept() {
    let far = Far::start("rsync-backup-fifo", &[]);
    let file = far.near.file("x", 10);
    far.push(&[], &[&file], "x").assert_succeeded();
    fs::create_dir(far.target.join("old")).unwrap();
    let fifo = far.target.join("old/x");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    fs::write(&file, "changed").unwrap();
    let outcome = far.push(&["-b", "--backup-dir=old"], &[&file], "x");
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    let there = fs::metadata(&fifo).unwrap();
    assert!(there.file_type().is_fifo());
}

#[test]
fn relative_directories_start_at_a_copied_directory_with_a_new_name() {
    let far = Far::start("rsync-renamed", &[]);
    let source = source_of(&far, &["a", "b"]);
    far.push(&[], &[&source], "t").assert_succeeded();
    fs::write(source.join("a"), "changed").unwrap();
    far.push(&["-b", "--backup-dir=../old"], &[&source], "t")
        .assert_succeeded();
    assert_eq!(names(&far.target.join("old")), ["a"]);
    far.push(&["--link-dest=../t"], &[&source], "u")
        .assert_succeeded();
    for name in ["a", "b"] {
        let inode = |folder: &str| {
            fs::metadata(far.target.join(folder).join(name))
                .unwrap()
                .ino()
        };
        assert_eq!(inode("t"), inode("u"), "{name}");
    }
}

/// A file of another directory is linked if its size and time are the same. Its bytes may be others.
#[test]
fn source_of_a_linked_but_uncompared_file_is_not_removed() {
    let far = Far::start("link-dest-moved", &[]);
    let source = source_of(&far, &["a", "b"]);
    far.push(&[], &[&source], "t").assert_succeeded();
    let old = far.target.join("t/a");
    let time = fs::metadata(&old).unwrap().modified().unwrap();
    let mut bytes = fs::read(&old).unwrap();
    bytes[0] ^= 1;
    fs::write(&old, &bytes).unwrap();
    fs::File::open(&old).unwrap().set_modified(time).unwrap();
    fs::write(source.join("c"), "new").unwrap();
    let options = ["--link-dest=../t", "--remove-source-files"];
    let outcome = far.push(&options, &[&source], "u").assert_succeeded();
    assert!(outcome.said(", sent data verified"), "{outcome:?}");
    assert_eq!(names(&source), ["a", "b"]);
    assert_eq!(fs::read(far.target.join("u/a")).unwrap(), bytes);
    // with -c, the bytes are compared
    let options = [&options[..], &["-c"]].concat();
    far.push(&options, &[&source], "v").assert_succeeded();
    assert!(names(&source).is_empty());
    assert_ne!(fs::read(far.target.join("v/a")).unwrap(), bytes);
    let inode = |place: &str| fs::metadata(far.target.join(place)).unwrap().ino();
    assert_eq!(inode("v/b"), inode("t/b"));
}
