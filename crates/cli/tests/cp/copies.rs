//! Content and names of copied files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::far::Far;
use crate::scratch::{Scratch, dress, look, names, tree};

/// Lengths around the size of a packet and of a block of packets, on paths over loopback.
const LENGTHS: [u64; 12] = [
    0,
    1,
    1439,
    1440,
    1441,
    8896,
    1440 * 128,
    1440 * 128 * 6 + 1,
    (1 << 20) - 1,
    1 << 20,
    (1 << 20) + 1,
    32_768 * 128 + 1,
];

#[test]
fn files_of_any_length_arrive_complete_with_metadata() {
    let far = Far::start("lengths", &["--plain"]);
    for (nth, len) in LENGTHS.into_iter().enumerate() {
        let file = far.near.file("file", len);
        dress(&file, 0o640, 1_000_000_000 + len);
        let options: &[&str] = match nth % 4 {
            0 => &[],
            1 => &["--plain", "--digest", "blake3"],
            2 => &["--no-udp"],
            _ => &["--no-sync", "--digest", "blake3"],
        };
        far.push(options, &[&file], "there").assert_succeeded();
        assert!(
            look(&far.target.join("there")) == look(&file),
            "{len} bytes to the far side"
        );
        let back = far.near.at("back");
        far.pull(options, &["there"], back.to_str().unwrap())
            .assert_succeeded();
        assert!(look(&back) == look(&file), "{len} bytes from the far side");
    }
    assert_eq!(far.names(), ["there"]);
}

#[test]
fn tree_arrives_with_modes_times_links_and_unusual_names() {
    let far = Far::start("tree", &[]);
    let source = wild_tree(&far.near);
    let before = tree(&source);
    assert!(before.len() > 40);
    far.push(&[], &[&source], "copy").assert_succeeded();
    assert_eq!(tree(&far.target.join("copy")), before);
    assert_eq!(look(&far.target.join("copy")), look(&source));
    // and back, over the files of an earlier copy
    let back = far.near.folder("back");
    for _ in 0..2 {
        far.pull(&["--no-sync"], &["copy/"], back.to_str().unwrap())
            .assert_succeeded();
        assert_eq!(tree(&back), before);
    }
    assert_eq!(tree(&source), before, "a copy leaves its source alone");
}

/// A directory with all that a directory can have.
fn wild_tree(scratch: &Scratch) -> std::path::PathBuf {
    let root = scratch.folder("tree");
    for nth in 0..30_u64 {
        let file = scratch.file(&format!("tree/small-{nth}"), nth * 37);
        dress(&file, 0o600 + nth as u32 % 8, 1_600_000_000 + nth);
    }
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    scratch.file("tree/a/b/c/large", 3 << 20);
    scratch.file("tree/a/.hidden", 5);
    scratch.file("tree/a/ leading space and\nnewline", 6);
    scratch.file(&format!("tree/a/{}", "long".repeat(63)), 7);
    fs::write(
        root.join(OsStr::from_bytes(b"a/not-utf8-\xff\xfe")),
        "octets",
    )
    .unwrap();
    fs::create_dir(root.join(OsStr::from_bytes(b"\xc3\x28"))).unwrap();
    fs::write(root.join(OsStr::from_bytes(b"\xc3\x28/inside")), "octets").unwrap();
    symlink("a/b/c/large", root.join("link")).unwrap();
    symlink("/no/such/place", root.join("dangling")).unwrap();
    symlink("a", root.join("link-to-folder")).unwrap();
    symlink(OsStr::from_bytes(b"\xff"), root.join("link-to-octets")).unwrap();
    dress(&root.join("a/b/c"), 0o700, 1_500_000_000);
    dress(&root.join("a/b"), 0o750, 1_500_000_001);
    dress(&root.join("empty"), 0o1777, 1_500_000_002);
    dress(&root, 0o711, 1_500_000_003);
    root
}

#[test]
fn trailing_slashes_select_the_target() {
    let far = Far::start("slashes", &[]);
    let folder = far.near.folder("folder");
    let file = far.near.file("folder/inner", 100);
    let contents = format!("{}/", folder.display());
    let at = |name: &str| look(&far.target.join(name)) == look(&file);
    // the directory under another name, into a directory, and its contents alone
    far.push(&[], &[&folder], "renamed").assert_succeeded();
    assert!(at("renamed/inner"));
    far.push(&[], &[&folder], "into/").assert_succeeded();
    assert!(at("into/folder/inner"));
    far.push(&[], &[Path::new(&contents)], "contents")
        .assert_succeeded();
    assert!(at("contents/inner"));
    far.push(&[], &[Path::new(&contents)], "contents-into/")
        .assert_succeeded();
    assert!(at("contents-into/inner"));
    // a file under another name, and into a directory, created if necessary
    far.push(&[], &[&file], "file").assert_succeeded();
    assert!(at("file"));
    far.push(&[], &[&file], "new/").assert_succeeded();
    assert!(at("new/inner"));
    // the result is the same if the target exists
    let before = tree(&far.target);
    far.push(&[], &[&folder], "renamed").assert_succeeded();
    far.push(&[], &[&folder], "into/").assert_succeeded();
    assert_eq!(names(&far.target.join("renamed")), ["inner"]);
    assert_eq!(names(&far.target.join("into")), ["folder"]);
    assert_eq!(tree(&far.target).len(), before.len());
    // the same on the way back
    let back = far.near.folder("back");
    let back = |name: &str| format!("{}/{name}", back.display());
    far.pull(&[], &["into"], &back("x")).assert_succeeded();
    assert!(Path::new(&back("x/folder/inner")).exists());
    far.pull(&[], &["into/"], &back("y")).assert_succeeded();
    assert!(Path::new(&back("y/folder/inner")).exists());
    far.pull(&[], &["into"], &back("z/")).assert_succeeded();
    assert!(Path::new(&back("z/into/folder/inner")).exists());
}

#[test]
fn link_to_a_directory_is_not_replaced_by_a_file() {
    let far = Far::start("slashes-link", &[]);
    let file = far.near.file("f", 100);
    fs::create_dir(far.target.join("folder")).unwrap();
    symlink("folder", far.target.join("lx")).unwrap();
    symlink("nowhere", far.target.join("ly")).unwrap();
    far.push(&[], &[&file], "lx")
        .assert_failed(3, "lx: it is a link to a directory; write");
    far.push(&[], &[&file], "lx/").assert_succeeded();
    assert!(look(&far.target.join("folder/f")) == look(&file));
    far.push(&[], &[&file], "ly").assert_succeeded();
    assert!(look(&far.target.join("ly")) == look(&file));
}

#[test]
fn temporary_files_are_not_copied() {
    let far = Far::start("copies-hidden", &[]);
    let folder = far.target.join("folder");
    fs::create_dir(&folder).unwrap();
    let hidden = ".lighthaul-0123456789abcdef";
    for name in [
        "x",
        ".lighthaul-notes",
        hidden,
        &format!("{hidden}.journal"),
    ] {
        fs::write(folder.join(name), "x").unwrap();
    }
    let back = far.near.at("back");
    let outcome = far.pull(&[], &["folder"], back.to_str().unwrap());
    assert!(outcome.assert_succeeded().said("not copied: "));
    assert_eq!(names(&back), [".lighthaul-notes", "x"]);
    // into itself, where its own mark is
    let (place, inner) = (far.place("folder"), far.place("folder/in"));
    far.run(&[], &[&place, &inner]);
    let is_lock_file = |path: &std::path::PathBuf| path.to_string_lossy().ends_with(".lock");
    assert!(!tree(&folder).keys().any(is_lock_file));
}

#[test]
fn directory_created_for_a_failed_copy_is_removed() {
    let far = Far::start("copies-made", &[]);
    let back = far.near.at("back");
    let place = format!("{}/", back.display());
    for source in ["nothing", "nothing/"] {
        far.pull(&[], &[source], &place).assert_failed(3, "nothing");
        assert!(!back.exists(), "{source}");
    }
    // an existing directory stays, also if an empty one was copied to it
    fs::create_dir(far.target.join("empty")).unwrap();
    far.pull(&[], &["empty/"], &place).assert_succeeded();
    far.pull(&[], &["nothing"], &place)
        .assert_failed(3, "nothing");
    assert!(back.exists());
}

#[test]
fn several_sources_need_a_target_directory() {
    let far = Far::start("several", &[]);
    let (x, y) = (far.near.file("x", 10), far.near.file("y", 20));
    let folder = far.near.folder("folder");
    far.near.file("folder/z", 30);
    far.push(&[], &[&x, &y, &folder], "all/").assert_succeeded();
    assert_eq!(names(&far.target.join("all")), ["folder", "x", "y"]);
    far.push(&[], &[&x, &y], "one").assert_succeeded();
    assert_eq!(names(&far.target.join("one")), ["x", "y"]);
    far.push(&["-T"], &[&x, &y], "two")
        .assert_failed(1, "-T gives one source a new name");
    far.push(&[], &[&x, &y], "all/x")
        .assert_failed(3, "not a directory");
    let twin = far.near.folder("twin");
    let twin = [twin.join("x"), x.clone()];
    fs::write(&twin[0], "other").unwrap();
    far.push(&[], &[&twin[0], &twin[1]], "twins/")
        .assert_failed(1, "two sources have the name x");
    let contents = format!("{}/", folder.display());
    far.push(&[], &[Path::new(&contents), &x], "mixed/")
        .assert_failed(1, "can only be copied alone");
    let back = format!("{}/", far.near.at("back").display());
    far.pull(&[], &["all/x", "all/folder", "all/y"], &back)
        .assert_succeeded();
    assert_eq!(names(&far.near.at("back")), ["folder", "x", "y"]);
}

#[test]
fn target_is_replaced_atomically() {
    let far = Far::start("replace", &[]);
    let old = far.target.join("x");
    fs::write(&old, "the old bytes").unwrap();
    // a reader that has the old file open keeps it
    let mut open = fs::File::open(&old).unwrap();
    let file = far.near.file("x", 2 << 20);
    far.push(&[], &[&file], "x").assert_succeeded();
    assert!(look(&old) == look(&file));
    let mut kept = String::new();
    std::io::Read::read_to_string(&mut open, &mut kept).unwrap();
    assert_eq!(kept, "the old bytes");
    // a link is replaced, not followed
    let victim = far.near.file("victim", 9);
    let before = look(&victim);
    symlink(&victim, far.target.join("link")).unwrap();
    far.push(&[], &[&file], "link").assert_succeeded();
    assert!(look(&far.target.join("link")) == look(&file));
    assert_eq!(look(&victim), before);
    assert_eq!(far.names(), ["link", "x"]);
}
