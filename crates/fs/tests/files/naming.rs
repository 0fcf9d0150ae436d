//! Tests of a file system's rules for names.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use lighthaul_fs::name_rules::NameRules;
use lighthaul_testkit::{lacks_root, lacks_tool};

use crate::scratch::Scratch;

const FOLDED: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/folded");

#[test]
fn linux_file_systems_are_case_sensitive_and_the_probe_removes_its_file() {
    for scratch in Scratch::everywhere("naming") {
        let folder = File::open(&scratch.0).unwrap();
        let naming = NameRules::of(&folder, 7).unwrap();
        assert!(!naming.folds_case && naming.path_max == 4095);
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0);
        File::create(scratch.0.join("x".repeat(naming.name_max))).unwrap();
        assert!(File::create(scratch.0.join("x".repeat(naming.name_max + 1))).is_err());
    }
}

#[test]
fn case_insensitive_file_system_is_detected() {
    let test = "case_insensitive_file_system_is_detected";
    if lacks_root(test) || lacks_tool(test, "lowntfs-3g") || lacks_tool(test, "mkntfs") {
        return;
    }
    fs::create_dir_all(FOLDED).unwrap();
    let script = "truncate -s 8M \"$1.disk\" && mkntfs -qfF \"$1.disk\" && \
        lowntfs-3g -o ignore_case \"$1.disk\" \"$1\" && \"$2\" --exact --ignored \"$3\"; \
        status=$?; umount \"$1\"; rm -f \"$1.disk\"; exit $status";
    let status = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh", FOLDED])
        .arg(std::env::current_exe().unwrap())
        .arg("naming::within_the_case_insensitive_file_system")
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
#[ignore = "called by case_insensitive_file_system_is_detected"]
fn within_the_case_insensitive_file_system() {
    let folder = File::open(Path::new(FOLDED)).unwrap();
    let naming = NameRules::of(&folder, 7).unwrap();
    assert!(naming.folds_case, "{naming:?}");
}
