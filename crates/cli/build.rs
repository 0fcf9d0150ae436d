//! Names the commit that the program is built from.
#![expect(clippy::disallowed_methods, reason = "a build script reads the environment")]
#![expect(clippy::print_stdout, reason = "Cargo reads the output of a build script")]

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=LIGHTHAUL_COMMIT");
    // each commit and checkout adds a line
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let given = env::var("LIGHTHAUL_COMMIT").ok();
    let commit = given.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo::rustc-env=LIGHTHAUL_COMMIT={}", commit.unwrap_or_default());
}

/// Returns the line that git prints, if this is a checkout.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
