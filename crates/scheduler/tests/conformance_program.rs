//! The program of the conformance suite, with a skeleton as driver.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;
use std::process::Command;

use lighthaul_testkit::{allowance, lacks_tool};

/// Returns the status of the program, and what it printed.
fn suite(words: &[&str]) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_lighthaul-conformance");
    let output = Command::new(program).args(words).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(printed).unwrap())
}

#[test]
fn each_check_is_reported() {
    if lacks_tool("each_check_is_reported", "python3") {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let device = folder.join(format!("conformance-{}.json", std::process::id()));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let skeleton = root.join("drivers/skeleton-python/driver.py");
    let limit = allowance(3).as_secs().to_string();
    let words = ["--limit", &limit, "--seed", "5", "--device"];
    let paths = [&device, Path::new("/usr/bin/env")].map(|path| path.to_str().unwrap());
    let driver = ["python3", skeleton.to_str().unwrap()];
    let (status, text) = suite(&[&words[..], &paths, &driver].concat());
    fs::remove_file(&device).unwrap();
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("passed   calls can be repeated\n"), "{text}");
    assert!(text.ends_with("seed 5\n"), "{text}");
    assert!(!text.contains("not done"), "{text}");
}

#[test]
fn drivers_that_fail_and_wrong_options_have_their_own_status() {
    let (status, text) = suite(&["/bin/false"]);
    assert_eq!(status, Some(1));
    assert!(text.contains("FAILED   opens: /bin/false failed"), "{text}");
    for words in [
        &["--nothing", "1", "/bin/false"][..],
        &[],
        &["--limit", "soon"],
    ] {
        let (status, text) = suite(words);
        assert_eq!(status, Some(2), "{text}");
        assert!(text.contains("see lighthaul-conformance --help"), "{text}");
    }
    let (status, text) = suite(&["--help"]);
    assert_eq!(status, Some(0));
    assert!(text.starts_with("Run the conformance suite"), "{text}");
}
