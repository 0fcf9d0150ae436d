//! Tests that skips are recorded, or fail, in a separate process.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use lighthaul_testkit::{REQUIRE, SKIPPED, lacks, lacks_root, lacks_tool};

const TMP: &str = env!("CARGO_TARGET_TMPDIR");

/// Runs the ignored tests below, and returns their output and record.
fn run(name: &str, require: Option<&str>) -> (Output, String) {
    let record = Path::new(TMP).join(name);
    fs::remove_file(&record).ok();
    let mut tests = Command::new(std::env::current_exe().expect("the path of this test"));
    tests.args(["--ignored", "--test-threads", "2"]);
    tests.env(SKIPPED, &record).env_remove(REQUIRE);
    if let Some(require) = require {
        tests.env(REQUIRE, require);
    }
    let output = tests.output().expect("tests that run");
    (output, fs::read_to_string(record).unwrap_or_default())
}

#[test]
fn skips_are_recorded_with_test_and_reason() {
    let (output, record) = run("recorded", None);
    assert!(output.status.success(), "{output:?}");
    let mut lines: Vec<_> = record.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 2, "{record}");
    assert_eq!(
        lines[0],
        "a kernel of two lines\tskip child_without_a_kernel"
    );
    assert!(
        lines[1].starts_with("needs the command lighthaul-no-such-tool: "),
        "{record}"
    );
    assert!(
        lines[1].ends_with("\tskip child_without_a_tool"),
        "{record}"
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        said.matches("skipped: skip child_without_a_").count(),
        2,
        "{said}"
    );
}

#[test]
fn skips_fail_if_all_tests_are_required() {
    for require in ["all", "some"] {
        let (output, record) = run(require, Some(require));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("2 failed"), "{said}");
        assert_eq!(record, "");
    }
}

#[test]
fn met_requirements_do_not_skip() {
    assert!(!lacks("", Ok::<_, &str>(())));
    assert!(!lacks_tool("", "sh"));
    let is_root = fs::read_to_string("/proc/self/status")
        .expect("a process file system")
        .lines()
        .any(|line| line.starts_with("Uid:\t0\t0"));
    assert!(!is_root || !lacks_root(""));
}

#[test]
#[ignore = "called by the tests above"]
fn child_without_a_tool() {
    assert!(lacks_tool("another_name", "lighthaul-no-such-tool"));
}

#[test]
#[ignore = "called by the tests above"]
fn child_without_a_kernel() {
    assert!(lacks("", Err::<(), _>("a kernel\nof two lines")));
}
