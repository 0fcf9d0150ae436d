//! Demonstration of paths across domains: runs the test of three domains and shows its output.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs three domains with different devices, a copy across all of them, and the failure of one domain.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let failed = |why: std::io::Error| format!("cannot run cargo: {why}");
    let mut test = Command::new("cargo")
        .args(["test", "--locked", "--quiet", "--package", "lighthaul-cli"])
        .args(["--features", "lab,scheduler", "--test", "domains"])
        .args(["--", "--exact", TEST, "--nocapture"])
        // a machine that allows no lab is an error here, and not a skipped test
        .env("LIGHTHAUL_TEST_REQUIRE", "all")
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let lines = test.stdout.take().map(BufReader::new);
    for line in lines.into_iter().flat_map(BufRead::lines) {
        let line = line.map_err(failed)?;
        if !HARNESS.iter().any(|start| line.starts_with(start)) {
            println!("{line}");
        }
    }
    let status = test.wait().map_err(failed)?;
    let fault = "the demonstration failed; its last lines name the reason";
    status
        .success()
        .then_some(())
        .ok_or_else(|| fault.to_owned())
}

const TEST: &str = "three_domains::copy_across_three_domains_survives_a_killed_domain";
/// Starts of lines that the test program adds.
const HARNESS: [&str; 4] = ["running ", "test result", "test three", "."];
