//! The library that captures connections. Tests of one package alone do not build it.

use std::path::Path;
use std::process::Command;

/// Builds the library beside the command `lighthaul`, where the command looks for it.
pub(crate) fn build(lighthaul: &Path) {
    let folder = lighthaul.parent().unwrap();
    let profile = match folder.file_name().and_then(|name| name.to_str()).unwrap() {
        "debug" => "dev",
        other => other,
    };
    let status = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--locked",
            "--offline",
            "--package",
            "lighthaul-wrap",
        ])
        .args(["--profile", profile, "--target-dir"])
        .arg(folder.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(status.success(), "the library cannot be built");
}
