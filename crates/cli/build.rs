//! Names the commit that a release is built from, for `--version`, and links builds for tests to a fixed address.
#![expect(
    clippy::disallowed_methods,
    reason = "a build script reads the environment"
)]

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=LIGHTHAUL_COMMIT");
    let given = env::var("LIGHTHAUL_COMMIT").ok();
    println!(
        "cargo::rustc-env=LIGHTHAUL_COMMIT={}",
        given.or_else(commit).unwrap_or_default()
    );
    if is_for_tests() {
        // tests start thousands of programs, each of which would otherwise relocate the addresses of all its data
        println!("cargo::rustc-link-arg=-no-pie");
    }
}

fn is_for_tests() -> bool {
    env::var("PROFILE").is_ok_and(|profile| profile == "debug")
}

/// Returns the commit of the checkout. Builds for tests have none, since each commit would build all of them again.
fn commit() -> Option<String> {
    if is_for_tests() {
        println!("cargo::rerun-if-changed=build.rs");
        return None;
    }
    // each commit and checkout adds a line
    let log = git(&[
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "logs/HEAD",
    ])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// Returns the line that git prints, if this is a checkout.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
