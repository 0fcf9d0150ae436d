//! Files that have several names, and names that are invalid elsewhere.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::Value;

use crate::far::Far;
use crate::running::{Outcome, Running};
use crate::scratch::{dress, look, names, noise, tree};

fn summary(outcome: &Outcome) -> Value {
    let mut events = outcome.events().into_iter();
    events.find(|event| event["type"] == "summary").unwrap()
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

#[test]
fn hard_links_are_preserved_in_both_directions_and_sent_once() {
    let far = Far::start("links", &[]);
    let folder = far.near.folder("folder");
    far.near.folder("folder/b");
    let large = far.near.file("folder/b/large", 9 << 20);
    let small = far.near.file("folder/b/small", 5000);
    let empty = far.near.file("folder/b/empty", 0);
    for (nth, name) in ["a", "b/x", "c", "z"].iter().enumerate() {
        fs::hard_link(&large, folder.join(format!("{name}-large"))).unwrap();
        fs::hard_link(&small, folder.join(format!("{name}-small"))).unwrap();
        if nth % 2 == 0 {
            fs::hard_link(&empty, folder.join(format!("{name}-empty"))).unwrap();
        }
    }
    // a name outside the copied tree
    fs::hard_link(&small, far.near.at("outside")).unwrap();
    dress(&folder.join("b"), 0o750, 1_500_000_000);
    let one_each = |root: &Path| {
        for kind in ["large", "small"] {
            let first = inode(&root.join(format!("a-{kind}")));
            for name in ["b/", "b/x-", "c-", "z-"] {
                assert_eq!(inode(&root.join(format!("{name}{kind}"))), first);
            }
        }
        assert_eq!(inode(&root.join("c-empty")), inode(&root.join("b/empty")));
    };
    let outcome = far
        .push(&["-H", "--json"], &[&folder], "copy")
        .assert_succeeded();
    assert_eq!(summary(&outcome)["bytes_moved"], (9 << 20) + 5000);
    let copy = far.target.join("copy");
    assert_eq!(tree(&copy), tree(&folder));
    one_each(&copy);
    // a second copy has nothing to do
    let outcome = far
        .push(&["-H", "--json"], &[&folder], "copy")
        .assert_succeeded();
    let again = summary(&outcome);
    assert_eq!(
        (&again["bytes_moved"], &again["unchanged"]),
        (&0.into(), &again["entries"])
    );
    one_each(&copy);
    // separate files become hard links again, without sending a byte
    fs::remove_file(copy.join("c-small")).unwrap();
    fs::write(copy.join("c-small"), "another").unwrap();
    fs::remove_file(copy.join("z-large")).unwrap();
    let outcome = far
        .push(&["-H", "--json"], &[&folder], "copy")
        .assert_succeeded();
    assert_eq!(summary(&outcome)["bytes_moved"], 0);
    one_each(&copy);
    let back = far.near.folder("back");
    far.pull(&["-H"], &["copy/"], back.to_str().unwrap())
        .assert_succeeded();
    assert_eq!(tree(&back), tree(&folder));
    one_each(&back);
    // without -H, each name is a file
    far.push(&[], &[&folder], "apart").assert_succeeded();
    let apart = far.target.join("apart");
    assert_eq!(tree(&apart), tree(&folder));
    assert_ne!(inode(&apart.join("a-small")), inode(&apart.join("c-small")));
}

#[test]
fn hard_links_of_symbolic_links_are_preserved() {
    let far = Far::start("links-symbolic", &[]);
    let folder = far.near.folder("folder");
    far.near.folder("folder/b");
    std::os::unix::fs::symlink("nowhere", folder.join("a")).unwrap();
    let first = folder.join("a");
    let flags = rustix::fs::AtFlags::empty();
    for name in ["b/c", "d"] {
        let cwd = rustix::fs::CWD;
        rustix::fs::linkat(cwd, &first, cwd, folder.join(name), flags).unwrap();
    }
    let one = |root: &Path| {
        let inode = |name: &str| fs::symlink_metadata(root.join(name)).unwrap().ino();
        inode("a") == inode("b/c") && inode("a") == inode("d")
    };
    assert!(one(&folder));
    for _ in 0..2 {
        far.push(&["-H"], &[&folder], "copy").assert_succeeded();
        assert!(one(&far.target.join("copy")));
    }
    assert_eq!(tree(&far.target.join("copy")), tree(&folder));
    let back = far.near.at("back");
    far.pull(&["-aH"], &["copy"], back.to_str().unwrap())
        .assert_succeeded();
    assert!(one(&back) && tree(&back) == tree(&folder));
}

#[test]
fn hard_links_of_a_failed_file_fail() {
    let far = Far::start("links-failed", &[]);
    let folder = far.near.folder("folder");
    fs::write(folder.join("a-large"), noise(48 << 20, 2)).unwrap();
    fs::hard_link(folder.join("a-large"), folder.join("b-large")).unwrap();
    fs::write(folder.join("c"), "c").unwrap();
    let place = far.place("copy");
    let options = ["--json", "-H", "--rate", "150Mb/s"];
    let copy = far.copy(&options, &[folder.to_str().unwrap(), &place]);
    let mut copy = Running::start(copy);
    copy.prints("\"type\":\"start\"");
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(folder.join("a-large"))
        .unwrap();
    std::io::Write::write_all(&mut file, b"more").unwrap();
    let outcome = copy.finish();
    assert_eq!(outcome.code, Some(24), "{outcome:?}");
    assert!(outcome.said("b-large: it is a hard link to a file that failed"));
    assert_eq!(names(&far.target.join("copy")), ["c"]);
}

#[test]
fn longest_names_fit_with_temporary_names() {
    let far = Far::start("long-names", &[]);
    let folder = far.near.folder("folder");
    let long = |letter: &str| letter.repeat(255);
    for (letter, len) in [("s", 100), ("l", 9 << 20), ("e", 0)] {
        far.near.file(&format!("folder/{}", long(letter)), len);
    }
    fs::hard_link(folder.join(long("s")), folder.join(long("h"))).unwrap();
    std::os::unix::fs::symlink("x", folder.join(long("y"))).unwrap();
    fs::create_dir(folder.join(long("f"))).unwrap();
    for _ in 0..2 {
        far.push(&["-H"], &[&folder], "copy").assert_succeeded();
        assert_eq!(tree(&far.target.join("copy")), tree(&folder));
    }
    assert!(look(&far.target.join("copy")) == look(&folder));
}
