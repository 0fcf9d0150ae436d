//! The Python package: its tests in Python with daemons of this build, and its types.
//!
//! The package is laid out in `target/debug/python`, with the library that cargo has built, so that no second build is
//! needed. Tools of the tests are installed beside it once.
#![expect(clippy::unwrap_used, reason = "a test")]

mod site;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use lighthaul_testkit::{lacks, lacks_tool, report};

/// Package with the tools of its tests.
struct Package {
    /// Directory for all of this.
    folder: PathBuf,
    /// Command of this build.
    program: PathBuf,
}

impl Package {
    /// Lays out the package with its tools. Returns none if the host lacks something, so that `test` is skipped.
    fn prepare(test: &str) -> Option<Self> {
        if lacks_tool(test, "python3") {
            return None;
        }
        let this = std::env::current_exe().ok()?;
        let built = this.ancestors().nth(2)?;
        let package = Self {
            folder: built.join("python"),
            program: built.join("lighthaul"),
        };
        let made = package.make(built);
        (!lacks(test, made)).then_some(package)
    }

    fn make(&self, built: &Path) -> Result<(), String> {
        if !self.program.exists() {
            return Err("needs the command of this build: test the whole workspace".to_owned());
        }
        let failed = |error: io::Error| error.to_string();
        fs::create_dir_all(&self.folder).map_err(failed)?;
        // the other test makes it, too
        let lock = File::create(self.folder.join("lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        self.install_tools()?;
        let site = self.folder.join("site");
        if !IS_LAID_OUT.swap(true, Relaxed) {
            site::lay_out(&site, &project().join("python"), built)?;
        }
        Ok(())
    }

    /// Installs the tools of the tests, unless they are there.
    fn install_tools(&self) -> Result<(), String> {
        let list = project().join("tests/requirements.txt");
        let done = self.folder.join("requirements.txt");
        let failed = |error: io::Error| error.to_string();
        let wanted = fs::read(&list).map_err(failed)?;
        if fs::read(&done).is_ok_and(|there| there == wanted) {
            return Ok(());
        }
        let venv = self.folder.join("venv");
        let mut make = Command::new("python3");
        make.args(["-m", "venv", "--without-pip"]).arg(&venv);
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "--python"]);
        install.arg(venv.join("bin/python"));
        install.args(["install", "--quiet", "--requirement"]);
        install.arg(&list);
        for mut command in [make, install] {
            let output = command.output().map_err(failed)?;
            if !output.status.success() {
                let why = text(&output);
                return Err(format!("needs packages of Python: {}", why.trim()));
            }
        }
        fs::write(done, wanted).map_err(failed)
    }

    /// Returns the interpreter with the package and the tools.
    fn python(&self) -> Command {
        let mut python = Command::new(self.folder.join("venv/bin/python"));
        python
            .current_dir(project())
            .env("PYTHONPATH", self.folder.join("site"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("LIGHTHAUL_TEST_PROGRAM", &self.program);
        python
    }

    /// Runs a module of the interpreter, which must succeed.
    fn run(&self, words: &[&str]) {
        let output = self.python().arg("-m").args(words).output().unwrap();
        let text = text(&output);
        assert!(output.status.success(), "{words:?}\n{text}");
        report(text.lines().last().unwrap_or_default());
    }
}

/// Directory for the files of the tests, which is removed with this value.
struct Scratch(String);

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// True once the package is laid out by this process.
static IS_LAID_OUT: AtomicBool = AtomicBool::new(false);

/// Returns the directory of this crate.
fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes))
        .concat()
}

#[test]
fn package_passes_its_tests() {
    let Some(package) = Package::prepare("package_passes_its_tests") else {
        return;
    };
    let words =
        "pytest -c pyproject.toml -p no:cacheprovider -q --tb=short tests/python --basetemp";
    // in memory, since hundreds of small files are written to disk one by one
    let scratch = Scratch(format!("/dev/shm/lighthaul-pytest-{}", std::process::id()));
    package.run(&words.split(' ').chain([&*scratch.0]).collect::<Vec<_>>());
}

#[test]
fn types_are_complete_and_match_the_module() {
    let Some(package) = Package::prepare("types_are_complete_and_match_the_module") else {
        return;
    };
    let cache = package.folder.join("mypy").display().to_string();
    package.run(&[
        "mypy",
        "--cache-dir",
        &cache,
        "python/lighthaul",
        "tests/python",
    ]);
    package.run(&[
        "mypy.stubtest",
        "lighthaul._lighthaul",
        "--mypy-config-file",
        "pyproject.toml",
    ]);
}
