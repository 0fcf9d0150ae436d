//! Tests of metadata: owner, mode, times, attributes and access lists are copied, and failures
//! reported.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use lighthaul_fs::disk::Root;
use lighthaul_fs::metadata::{Extras, Inode, Keep, MetadataKind, NotKept, NotKeptReason};
use lighthaul_testkit::lacks_root;
use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};

use crate::scratch::Scratch;

/// Reports whether owners and `trusted.*` can be tested. Records a skip if not.
fn is_root() -> bool {
    !lacks_root("owners and trusted attributes")
}

fn set(path: &Path, name: &str, value: &[u8]) {
    lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn value(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 1 << 16];
    let len = lgetxattr(path, name, &mut value).ok()?;
    value.truncate(len);
    Some(value)
}

/// Returns the access list `u::rw-,u:1234:r--,g::r--,m::r--,o::---` in the kernel's format.
fn access_list() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] = [
        (1, 6, u32::MAX),
        (2, 4, 1234),
        (4, 4, u32::MAX),
        (16, 4, u32::MAX),
        (32, 0, u32::MAX),
    ];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

fn copy(source: &Path, target: &Path) -> Vec<NotKept> {
    let (extras, unread) = Inode::at(source).unwrap().read(Keep::ALL).unwrap();
    assert_eq!(unread, []);
    Inode::at(target).unwrap().apply(&extras, Keep::ALL)
}

fn read(path: &Path) -> Extras {
    Inode::at(path).unwrap().read(Keep::ALL).unwrap().0
}

#[test]
fn all_metadata_is_copied() {
    let scratch = Scratch::on_disk("extras");
    let (source, target) = (scratch.file("source", b"x"), scratch.file("target", b"x"));
    set(&source, "user.note", b"\0\xff");
    set(&source, "user.empty", b"");
    set(&target, "user.stale", b"old");
    if is_root() {
        set(&source, "trusted.mine", b"t");
        std::os::unix::fs::chown(&source, Some(1234), Some(4321)).unwrap();
    }
    set(&source, "system.posix_acl_access", &access_list());
    fs::set_permissions(&source, PermissionsExt::from_mode(0o6640)).unwrap();
    let times = Extras {
        accessed: Some((1_000_000_000, 123_456_789)),
        modified: Some((-5, 987_654_321)),
        ..Extras::default()
    };
    let only_times = Keep {
        accessed: true,
        modified: true,
        ..Keep::default()
    };
    assert_eq!(Inode::at(&source).unwrap().apply(&times, only_times), []);

    assert_eq!(copy(&source, &target), []);
    assert_eq!(read(&target), read(&source));
    let meta = fs::symlink_metadata(&target).unwrap();
    assert_eq!(meta.mode() & 0o7777, 0o6640);
    assert_eq!(
        (meta.atime(), meta.atime_nsec()),
        (1_000_000_000, 123_456_789)
    );
    assert_eq!((meta.mtime(), meta.mtime_nsec()), (-5, 987_654_321));
    assert_eq!(value(&target, "user.note"), Some(b"\0\xff".to_vec()));
    assert_eq!(value(&target, "user.stale"), None);
    assert_eq!(
        value(&target, "system.posix_acl_access"),
        Some(access_list())
    );
    if is_root() {
        assert_eq!((meta.uid(), meta.gid()), (1234, 4321));
        assert_eq!(value(&target, "trusted.mine"), Some(b"t".to_vec()));
    }
}

#[test]
fn metadata_outside_the_selection_is_unchanged() {
    let scratch = Scratch::on_disk("unasked");
    let (source, target) = (scratch.file("source", b""), scratch.file("target", b""));
    set(&source, "user.a", b"1");
    set(&target, "user.b", b"2");
    fs::set_permissions(&source, PermissionsExt::from_mode(0o600)).unwrap();
    let before = read(&target);
    let (extras, _) = Inode::at(&source).unwrap().read(Keep::default()).unwrap();
    assert!(extras.is_empty());
    Inode::at(&target)
        .unwrap()
        .apply(&read(&source), Keep::default());
    assert_eq!(read(&target), before);
}

#[test]
fn inherited_access_list_is_replaced_by_the_sources() {
    let scratch = Scratch::on_disk("handed-down");
    set(&scratch.0, "system.posix_acl_default", &access_list());
    let target = scratch.file("target", b"");
    assert!(value(&target, "system.posix_acl_access").is_some());
    let extras = Extras {
        mode: Some(0o640),
        ..Extras::default()
    };
    assert_eq!(Inode::at(&target).unwrap().apply(&extras, Keep::ALL), []);
    assert_eq!(value(&target, "system.posix_acl_access"), None);
    assert_eq!(read(&target).mode, Some(0o640));
    // A directory also gets its source's default access list.
    let (source, folder) = (scratch.0.clone(), scratch.0.join("folder"));
    fs::create_dir(&folder).unwrap();
    assert_eq!(copy(&source, &folder), []);
    assert_eq!(
        value(&folder, "system.posix_acl_default"),
        Some(access_list())
    );
}

#[test]
fn symbolic_links_metadata_is_set_and_its_target_unchanged() {
    let scratch = Scratch::on_disk("links");
    let victim = scratch.file("victim", b"x");
    set(&victim, "user.a", b"1");
    symlink("victim", scratch.0.join("link")).unwrap();
    let before = read(&victim);
    let mut extras = Extras {
        mode: Some(0o4777),
        modified: Some((77, 7)),
        xattrs: vec![(b"user.evil".to_vec(), b"1".to_vec())],
        ..Extras::default()
    };
    if is_root() {
        extras.owner = Some((1234, 4321));
        extras
            .xattrs
            .push((b"trusted.mine".to_vec(), b"t".to_vec()));
    }
    let mut root = Root::open(&scratch.0).unwrap();
    let link = root.inode(Path::new("link")).unwrap();
    let not_kept = link.apply(&extras, Keep::ALL);
    assert_eq!(read(&victim), before);
    let meta = fs::symlink_metadata(scratch.0.join("link")).unwrap();
    assert_eq!((meta.mtime(), meta.mtime_nsec()), (77, 7));
    // Linux does not allow user.* attributes on links.
    let (part, reason) = (MetadataKind::UserAttributes, NotKeptReason::Denied);
    assert!(not_kept.contains(&NotKept { part, reason }), "{not_kept:?}");
    if is_root() {
        assert_eq!((meta.uid(), meta.gid()), (1234, 4321));
        let mine = value(&scratch.0.join("link"), "trusted.mine");
        assert_eq!(mine, Some(b"t".to_vec()));
    }
}

#[test]
fn open_inode_is_unaffected_by_renames() {
    let scratch = Scratch::on_disk("renamed");
    let path = scratch.file("file", b"x");
    let file = File::open(&path).unwrap();
    fs::rename(&path, scratch.0.join("elsewhere")).unwrap();
    scratch.file("file", b"other");
    let extras = Extras {
        mode: Some(0o700),
        ..Extras::default()
    };
    assert_eq!(Inode::of(&file).apply(&extras, Keep::ALL), []);
    let mode = |name| fs::metadata(scratch.0.join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("elsewhere"), mode("file") == 0o700), (0o700, false));
}

#[test]
fn inode_refuses_paths_outside_the_root() {
    let scratch = Scratch::on_disk("outside");
    fs::create_dir(scratch.0.join("root")).unwrap();
    scratch.file("secret", b"");
    symlink("..", scratch.0.join("root/up")).unwrap();
    let mut root = Root::open(&scratch.0.join("root")).unwrap();
    for path in ["../secret", "up/secret", "/etc/passwd", "..", "a/.."] {
        assert!(root.inode(Path::new(path)).is_err(), "{path}");
    }
}

#[test]
fn not_kept_names_the_metadata_and_the_reason() {
    let scratch = Scratch::on_disk("sentences");
    let target = scratch.file("target", b"");
    let extras = Extras {
        xattrs: vec![(b"user.large".to_vec(), vec![1; 60 << 10])],
        ..Extras::default()
    };
    let not_kept = Inode::at(&target).unwrap().apply(&extras, Keep::ALL);
    if value(&target, "user.large").is_none() {
        let text = not_kept[0].to_string();
        assert!(
            text.contains("larger than the target's file system allows"),
            "{text}"
        );
    }
    let elsewhere = Path::new("/proc/self/mountinfo");
    let extras = Extras {
        xattrs: vec![(b"system.posix_acl_access".to_vec(), access_list())],
        ..Extras::default()
    };
    let not_kept = Inode::at(elsewhere).unwrap().apply(&extras, Keep::ALL);
    let text = "access lists could not be kept: the target's file system does not support this";
    assert!(
        not_kept.iter().any(|one| one.to_string() == text),
        "{not_kept:?}"
    );
}
