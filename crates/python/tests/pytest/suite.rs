//! A test suite in Python: the package, with the tools that the suite needs.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use lighthaul_testkit::{lacks, lacks_tool, report};

use crate::site;

/// Tests in a directory, with the package and the tools that they need.
pub(crate) struct Suite {
    /// Name of the directory of the tests.
    name: &'static str,
    /// Directory of the package.
    site: PathBuf,
    /// Directory of the tools.
    pub(crate) folder: PathBuf,
    /// The command `lighthaul` of this build.
    pub(crate) program: PathBuf,
}

impl Suite {
    /// Lays out the package with the tools of the tests in `tests/NAME`. Returns none if the host lacks something, so
    /// that `test` is skipped.
    pub(crate) fn prepare(test: &str, name: &'static str) -> Option<Self> {
        if lacks_tool(test, "python3") {
            return None;
        }
        let this = std::env::current_exe().ok()?;
        let built = this.ancestors().nth(2)?;
        let packages = built.join("python");
        let suite = Self {
            name,
            site: packages.join("site"),
            folder: packages.join(name),
            program: built.join("lighthaul"),
        };
        let made = suite.make(built);
        (!lacks(test, made)).then_some(suite)
    }

    fn make(&self, built: &Path) -> Result<(), String> {
        if !self.program.exists() {
            return Err("needs the command of this build: test the whole workspace".to_owned());
        }
        let failed = |error: io::Error| error.to_string();
        fs::create_dir_all(&self.folder).map_err(failed)?;
        // other tests create it, too
        let packages = File::create(built.join("python/lock")).map_err(failed)?;
        packages.lock().map_err(failed)?;
        if !IS_LAID_OUT.swap(true, Relaxed) {
            site::lay_out(&self.site, &project().join("python"), built)?;
        }
        drop(packages);
        let tools = File::create(self.folder.join("lock")).map_err(failed)?;
        tools.lock().map_err(failed)?;
        self.install_tools()
    }

    /// Installs the tools of the tests, unless they are there.
    fn install_tools(&self) -> Result<(), String> {
        let list = project()
            .join("tests")
            .join(self.name)
            .join("requirements.txt");
        let done = self.folder.join("requirements.txt");
        let failed = |error: io::Error| error.to_string();
        let wanted = fs::read(&list).map_err(failed)?;
        if fs::read(&done).is_ok_and(|there| there == wanted) {
            return Ok(());
        }
        let venv = self.folder.join("venv");
        let mut make = Command::new("python3");
        make.args(["-m", "venv", "--without-pip"]).arg(&venv);
        let mut install = self.pip();
        install.arg("--requirement").arg(&list);
        for mut command in [make, install] {
            let output = command.output().map_err(failed)?;
            if !output.status.success() {
                let why = text(&output);
                return Err(format!("needs packages of Python: {}", why.trim()));
            }
        }
        fs::write(done, wanted).map_err(failed)
    }

    /// Returns a command that installs packages for the tests.
    pub(crate) fn pip(&self) -> Command {
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "--python"]);
        install.arg(self.folder.join("venv/bin/python"));
        install.args(["install", "--quiet"]);
        install
    }

    /// Installs the package of a directory in `integrations`, with the tools that are already there.
    pub(crate) fn install(&self, integration: &str) {
        let mut install = self.pip();
        install.args(["--no-deps", "--no-build-isolation", "--force-reinstall"]);
        install.arg(integrations().join(integration));
        let output = install.output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
    }

    /// Returns the interpreter with the package and the tools.
    fn python(&self) -> Command {
        let mut python = Command::new(self.folder.join("venv/bin/python"));
        python
            .current_dir(project())
            .env("PYTHONPATH", &self.site)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("LIGHTHAUL_TEST_PROGRAM", &self.program);
        python
    }

    /// Runs the tests with additional environment variables. They must succeed.
    pub(crate) fn pass(&self, variables: &[(&str, &str)]) {
        self.pass_with(self.python(), variables);
    }

    /// Runs the tests like `pass`, with a package that is installed beside the tools.
    pub(crate) fn pass_installed(&self, variables: &[(&str, &str)]) {
        let mut python = self.python();
        python.env_remove("PYTHONPATH");
        self.pass_with(python, variables);
    }

    /// Runs the tests like `pass`, in a separate network namespace, which has only the loopback interface.
    pub(crate) fn pass_in_namespace(&self, variables: &[(&str, &str)]) {
        // names are not resolved if 127.0.0.1 is the only address
        const START: &str =
            "ip link set lo up && ip address add 192.0.2.1/32 dev lo && exec \"$@\"";
        let python = self.python();
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "sh", "-c", START, "sh"]);
        unshare.arg(python.get_program());
        unshare.current_dir(project());
        unshare.envs(
            python
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        self.pass_with(unshare, variables);
    }

    fn pass_with(&self, mut python: Command, variables: &[(&str, &str)]) {
        // in memory, since writing hundreds of small files to disk is slow
        let place = format!("/dev/shm/lighthaul-{}-{}", self.name, std::process::id());
        let scratch = Scratch(place);
        let tests = format!("tests/{}", self.name);
        python.envs(variables.iter().copied()).args([
            "-m",
            "pytest",
            "-c",
            "pyproject.toml",
            "-p",
            "no:cacheprovider",
            "-q",
            "--tb=short",
            &tests,
            "--basetemp",
            &scratch.0,
        ]);
        succeed(&mut python);
    }

    /// Runs a Python module, which must succeed.
    pub(crate) fn run(&self, words: &[&str]) {
        succeed(self.python().arg("-m").args(words));
    }
}

fn succeed(python: &mut Command) {
    let output = python.output().unwrap();
    let text = text(&output);
    assert!(output.status.success(), "{python:?}\n{text}");
    report(text.lines().last().unwrap_or_default());
}

/// Directory for the files of the tests, which is removed with this value.
struct Scratch(String);

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// True after this process has laid out the package.
static IS_LAID_OUT: AtomicBool = AtomicBool::new(false);

/// Returns the directory of this crate.
pub(crate) fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the directory of the integrations.
fn integrations() -> PathBuf {
    let ancestors = project().ancestors();
    ancestors.into_iter().nth(2).unwrap().join("integrations")
}

/// Returns the directory with Slurm, which `make test` unpacks beside the directory of this build.
pub(crate) fn slurm(program: &Path) -> Result<String, String> {
    let target = program.ancestors().nth(2).unwrap();
    let tree = target.join("tools/slurm").display().to_string();
    let is_there = Path::new(&tree).join("usr/bin/sbatch").exists();
    let missing = format!("needs {tree}: run make test");
    is_there.then_some(tree).ok_or(missing)
}

pub(crate) fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes))
        .concat()
}
