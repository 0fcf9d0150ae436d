//! Targets on a file system that ignores case, and shows all names in lower case.

use std::fs;
use std::process::Command;

use lighthaul_testkit::{lacks_root, lacks_tool};

use super::bench::{Bench, age};
use super::entry_checker::deleting;

/// Runs a test whose name ends with `test` in this program, with all of its files on such a file system.
fn run_folded(name: &str, test: &str) {
    if lacks_root(name) || lacks_tool(name, "lowntfs-3g") || lacks_tool(name, "mkntfs") {
        return;
    }
    let folder = std::env::temp_dir().join(format!("folded-{test}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let script = "truncate -s 16M \"$1.disk\" && mkntfs -qfF \"$1.disk\" && \
        lowntfs-3g -o ignore_case \"$1.disk\" \"$1\" && TMPDIR=\"$1\" \"$2\" --exact --ignored \"$3\"; \
        status=$?; umount \"$1\"; rm -f \"$1.disk\"; exit $status";
    let status = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(&folder)
        .arg(std::env::current_exe().unwrap())
        .arg(format!("tests::folded_names::{test}"))
        .status()
        .unwrap();
    fs::remove_dir(folder).unwrap();
    assert!(status.success());
}

#[test]
fn deletion_keeps_listed_files_with_other_case() {
    let name = "deletion_keeps_listed_files_with_other_case";
    run_folded(name, "within_deletion");
}

#[test]
#[ignore = "called by deletion_keeps_listed_files_with_other_case"]
fn within_deletion() {
    let bench = Bench::new("folded");
    // the source is on another file system
    let top = std::env::temp_dir().with_extension("source");
    fs::create_dir_all(top.join("Dir")).unwrap();
    for path in ["README", "Dir/A", "Dir/B"] {
        fs::write(top.join(path), "abc").unwrap();
    }
    for path in ["readme", "dir/a", "old", "dir/old"] {
        bench.leave(path, "abc");
    }
    for path in ["README", "Dir/A"] {
        age(&top.join(path));
        age(&bench.target(path));
    }
    let from = format!("{}/", top.display());
    let copy = || bench.copy_to(&from, "target/", &deleting()).whole();
    copy();
    assert_eq!(bench.names(""), ["dir", "readme"]);
    assert_eq!(bench.names("dir"), ["a", "b"]);
    // a new version replaces the old one
    fs::write(top.join("README"), "other").unwrap();
    copy();
    assert_eq!(bench.names(""), ["dir", "readme"]);
    assert_eq!(bench.read("readme"), b"other");
    fs::remove_dir_all(top).unwrap();
}
