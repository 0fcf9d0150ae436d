//! The wheel, built as `make wheel` does, but with the library that cargo has built.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::suite::{Suite, project, text};

/// Builds the wheel and installs it beside the tools of a suite.
pub(crate) fn install(suite: &Suite) {
    let folder = suite.folder.join("wheels");
    fs::remove_dir_all(&folder).ok();
    let mut build = Command::new(suite.folder.join("venv/bin/maturin"));
    build.args(["build", "--profile", "dev", "--locked", "--offline"]);
    build
        .arg("--manifest-path")
        .arg(project().join("Cargo.toml"));
    build.arg("--out").arg(&folder);
    let cargo = project().join("tests/wheel/cargo");
    let search = Path::new(env!("CARGO")).parent().unwrap();
    build
        .env("LIGHTHAUL_TEST_CARGO", env!("CARGO"))
        .env("LIGHTHAUL_TEST_LIBRARY", library(&suite.program))
        .env("LIGHTHAUL_TEST_PROJECT", project())
        .env("LIGHTHAUL_TEST_VERSION", VERSION)
        .env("CARGO", &cargo)
        .env(
            "PATH",
            format!(
                "{}:{}:/usr/local/bin:/usr/bin:/bin",
                project().join("tests/wheel").display(),
                search.display()
            ),
        );
    let output = build.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let wheel = fs::read_dir(&folder).unwrap().next().unwrap().unwrap();
    let mut install = suite.pip();
    install
        .args(["--no-deps", "--force-reinstall"])
        .arg(wheel.path());
    let output = install.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

/// Returns the library beside the command of this build.
fn library(program: &Path) -> std::path::PathBuf {
    program.with_file_name("deps").join("lib_lighthaul.so")
}

/// Version of the package.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
