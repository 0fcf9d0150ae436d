//! Metadata of copied files: owners, attributes, access lists, times.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use lighthaul_fs::metadata::{Extras, Inode, Keep};

use crate::far::{Far, USER};
use crate::running::{Outcome, Running};
use crate::scratch::{Scratch, dress, tree};
use crate::stage::is_skipped;

/// Options that preserve all metadata.
const KEEP: [&str; 2] = ["-aXAU", "--no-sync"];

/// Returns all metadata that a copy preserves, for `path`.
fn extras(path: &Path) -> Extras {
    Inode::at(path).unwrap().read(Keep::ALL).unwrap().0
}

/// Returns the same for all paths below `folder`, and for itself.
fn all_extras(folder: &Path) -> BTreeMap<PathBuf, Extras> {
    let mut all: BTreeMap<_, _> = tree(folder)
        .into_keys()
        .map(|path| (path.clone(), extras(&folder.join(path))))
        .collect();
    all.insert(PathBuf::new(), extras(folder));
    all
}

/// Sets all kinds of metadata at `path`, different for each number.
fn adorn(path: &Path, number: u32) {
    // a time that reading does not change, since it is after the last change
    let tomorrow = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs()
        + 86_400;
    let is_link = path.is_symlink();
    let user = |n: u32| (format!("user.{n}").into_bytes(), n.to_le_bytes().to_vec());
    let trusted = (b"trusted.t".to_vec(), number.to_le_bytes().to_vec());
    // version 2; owner rwx, user 1000 + number r, group r-x, mask rwx, others none
    let mut acl = vec![2, 0, 0, 0];
    for (tag, rights, id) in [
        (1, 7, u32::MAX),
        (2, 4, 1000 + number),
        (4, 5, u32::MAX),
        (16, 7, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        acl.extend_from_slice(&[tag, 0, rights, 0]);
        acl.extend_from_slice(&u32::to_le_bytes(id));
    }
    let mut xattrs = vec![trusted];
    if !is_link {
        xattrs.extend([user(number), user(number + 1)]);
        xattrs.insert(0, (b"system.posix_acl_access".to_vec(), acl));
    }
    let wanted = Extras {
        mode: None,
        owner: Some((4000 + number, 5000 + number)),
        accessed: Some((tomorrow.cast_signed() + i64::from(number), 777)),
        modified: Some((1_000_000_000 + i64::from(number), 555)),
        xattrs,
    };
    let not_kept = Inode::at(path).unwrap().apply(&wanted, Keep::ALL);
    assert_eq!(not_kept, [], "{}", path.display());
}

/// A directory with one entry of each kind, each with all kinds of metadata.
fn adorned_tree(scratch: &Scratch) -> PathBuf {
    let root = scratch.folder("tree");
    fs::create_dir(root.join("folder")).unwrap();
    scratch.file("tree/small", 100);
    scratch.file("tree/empty", 0);
    scratch.file("tree/folder/large", 9 << 20);
    dress(&scratch.file("tree/folder/set-id", 10), 0o4755, 5);
    symlink("small", root.join("link")).unwrap();
    for (nth, name) in ["small", "empty", "folder/large", "folder/set-id", "link"]
        .iter()
        .enumerate()
    {
        adorn(&root.join(name), 10 * nth as u32);
    }
    adorn(&root.join("folder"), 70);
    adorn(&root, 80);
    root
}

#[test]
fn metadata_of_every_entry_type_is_preserved_in_both_directions() {
    if is_skipped("metadata_of_every_entry_type_is_preserved_in_both_directions") {
        return;
    }
    let far = Far::start("extras", &[]);
    let source = adorned_tree(&far.near);
    let before = all_extras(&source);
    let outcome = far.push(&KEEP, &[&source], "copy").assert_succeeded();
    assert!(!outcome.said("could not be kept"), "{outcome:?}");
    assert_eq!(all_extras(&far.target.join("copy")), before);
    let back = far.near.at("back");
    far.pull(&KEEP, &["copy"], back.to_str().unwrap())
        .assert_succeeded();
    assert_eq!(all_extras(&back), before);
    assert_eq!(
        all_extras(&source),
        before,
        "a copy leaves its source alone"
    );
}

#[test]
fn metadata_is_not_preserved_without_options() {
    if is_skipped("metadata_is_not_preserved_without_options") {
        return;
    }
    let far = Far::start("extras-not", &[]);
    let source = adorned_tree(&far.near);
    far.push(&["--no-sync"], &[&source], "copy")
        .assert_succeeded();
    for (path, extras) in all_extras(&far.target.join("copy")) {
        assert_eq!(extras.owner, Some((0, 0)), "{}", path.display());
        assert_eq!(extras.xattrs, [], "{}", path.display());
    }
    // the permissions are those of another owner now
    dress(&source.join("folder/set-id"), 0o755, 5);
    dress(&far.target.join("copy/folder/set-id"), 0o755, 5);
    assert_eq!(tree(&far.target.join("copy")), tree(&source));
}

#[test]
fn unchanged_files_get_their_metadata() {
    if is_skipped("unchanged_files_get_their_metadata") {
        return;
    }
    let far = Far::start("extras-again", &[]);
    let source = adorned_tree(&far.near);
    far.push(&["--no-sync"], &[&source], "copy")
        .assert_succeeded();
    let outcome = far
        .push(&["-aXAU", "--json"], &[&source], "copy")
        .assert_succeeded();
    let summary = outcome.events().pop().unwrap();
    assert_eq!(summary["unchanged"], summary["entries"], "{summary}");
    assert_eq!(summary["bytes_moved"], 0, "{summary}");
    assert_eq!(all_extras(&far.target.join("copy")), all_extras(&source));
    // metadata that the source no longer has is removed
    let file = source.join("small");
    let mut plain = extras(&file);
    // except attributes that the system may have set
    plain
        .xattrs
        .retain(|(name, _)| name.starts_with(b"trusted."));
    assert_eq!(Inode::at(&file).unwrap().apply(&plain, Keep::ALL), []);
    far.push(&KEEP, &[&source], "copy").assert_succeeded();
    assert_eq!(extras(&far.target.join("copy/small")).xattrs.len(), 1);
    assert_eq!(all_extras(&far.target.join("copy")), all_extras(&source));
}

#[test]
fn unsupported_metadata_is_reported_once_per_kind() {
    let name = "unsupported_metadata_is_reported_once_per_kind";
    if is_skipped(name) {
        return;
    }
    let said_once = |outcome: &Outcome| {
        let told = outcome.err.iter().filter(|line| line.contains("user.*"));
        let told: Vec<_> = told.collect();
        let words = "lighthaul: attributes (user.*) could not be kept: the target's file system does not support this";
        assert_eq!(told, [words], "{outcome:?}");
    };
    let far = Far::start_after("extras-ramfs", "mount -t ramfs none \"$1\"");
    let source = adorned_tree(&far.near);
    let outcome = far.push(&KEEP, &[&source], "copy").assert_succeeded();
    said_once(&outcome);
    let inside = format!("/proc/{}/root{}", far.daemon.id(), far.target.display());
    let inside = Path::new(&inside).join("copy");
    assert_eq!(tree(&inside).len(), tree(&source).len());
    assert_eq!(fs::metadata(inside.join("small")).unwrap().uid(), 4000);
    // the same for a pull
    let far = Far::start("extras-ramfs-pull", &[]);
    fs::rename(&source, far.target.join("tree")).unwrap();
    let back = far.near.folder("back");
    let back = back.to_str().unwrap();
    let copy = far.copy(&KEEP, &[&far.place("tree/"), back]);
    let mut shell = Command::new("unshare");
    let script = "mount -t ramfs none \"$0\" && exec \"$@\"";
    shell.args(["-m", "sh", "-c", script, back]);
    shell.arg(copy.get_program()).args(copy.get_args());
    for (name, value) in copy.get_envs() {
        shell.env(name, value.unwrap());
    }
    said_once(&Running::start(shell).finish().assert_succeeded());
}

#[test]
fn owner_that_cannot_be_set_is_reported_and_clears_set_id_bits() {
    let name = "owner_that_cannot_be_set_is_reported_and_clears_set_id_bits";
    if is_skipped(name) {
        return;
    }
    let far = Far::start("extras-owner", &[]);
    let program = far.target.join("program");
    fs::write(&program, "x").unwrap();
    dress(&program, 0o4755, 1_000_000_000);
    let back = far.near.folder("back");
    let place = format!("{}/", back.display());
    let paths = [&far.place("program"), place.as_str()];
    let outcome = far.run_as_user(&["-a"], &paths, &back).assert_succeeded();
    assert!(outcome.said("owner and group could not be kept: only root"));
    assert!(outcome.said("set-user-ID"), "{outcome:?}");
    let meta = fs::metadata(back.join("program")).unwrap();
    assert_eq!((meta.uid(), meta.mode() & 0o7777), (USER, 0o755));
}
