//! Tests of hard links beneath a root.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use lighthaul_fs::disk::Root;

use crate::scratch::Scratch;

#[test]
fn hard_link_adds_a_name_in_another_folder() {
    let scratch = Scratch::on_disk("second-name");
    let first = scratch.file("first", b"x");
    fs::create_dir_all(scratch.0.join("a/b")).unwrap();
    let mut root = Root::open(&scratch.0).unwrap();
    let second = Path::new("a/b/second");
    root.hard_link(Path::new("first"), second).unwrap();
    // Repeated, as in a resumed transfer.
    root.hard_link(Path::new("first"), second).unwrap();
    root.hard_link(second, Path::new("a/third")).unwrap();
    let inode = |path: &Path| fs::symlink_metadata(path).unwrap().ino();
    assert_eq!(inode(&first), inode(&scratch.0.join("a/b/second")));
    assert_eq!(fs::metadata(&first).unwrap().nlink(), 3);
}

#[test]
fn hard_link_does_not_follow_symbolic_links() {
    let scratch = Scratch::on_disk("second-link");
    let file = scratch.file("file", b"x");
    symlink("file", scratch.0.join("link")).unwrap();
    let mut root = Root::open(&scratch.0).unwrap();
    let second = Path::new("second");
    root.hard_link(Path::new("link"), second).unwrap();
    assert!(
        fs::symlink_metadata(scratch.0.join(second))
            .unwrap()
            .is_symlink()
    );
    assert_eq!(fs::metadata(file).unwrap().nlink(), 1);
}

#[test]
fn hard_link_keeps_existing_files_and_stays_beneath_the_root() {
    let scratch = Scratch::on_disk("second-refused");
    let secret = scratch.file("secret", b"");
    fs::create_dir(scratch.0.join("root")).unwrap();
    scratch.file("root/file", b"new");
    scratch.file("root/other", b"old");
    symlink("..", scratch.0.join("root/up")).unwrap();
    let mut root = Root::open(&scratch.0.join("root")).unwrap();
    let mut link = |from: &str, to: &str| root.hard_link(Path::new(from), Path::new(to));
    let kind = link("file", "other").unwrap_err().kind();
    assert_eq!(kind, ErrorKind::AlreadyExists);
    assert_eq!(fs::read(scratch.0.join("root/other")).unwrap(), b"old");
    for (from, to) in [
        ("../secret", "a"),
        ("up/secret", "a"),
        ("/etc/passwd", "a"),
        ("file", "../a"),
        ("file", "up/a"),
        ("up", "up/a"),
        ("missing", "a"),
    ] {
        assert!(link(from, to).is_err(), "{from} {to}");
    }
    assert_eq!(fs::metadata(secret).unwrap().nlink(), 1);
}
