//! The library that cargo has built, laid out for a compiler.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

/// Directory with the library under its installed names, and for programs. It is removed with this value.
pub(crate) struct Built(PathBuf);

impl Built {
    /// Lays out the library.
    pub(crate) fn new(test: &str) -> Self {
        let folder = env::temp_dir().join(format!("lighthaul-c-{test}-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let deps = env::current_exe().unwrap().parent().unwrap().to_owned();
        for (name, end) in [("so", "so"), ("so", "so.0"), ("a", "a")] {
            let library = deps.join(format!("liblighthaul_c.{name}"));
            assert!(library.exists(), "{} is missing", library.display());
            symlink(library, folder.join(format!("liblighthaul.{end}"))).unwrap();
        }
        Self(folder)
    }

    /// Returns a path in the directory.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Compiles `source` to the program `name`, with warnings as errors. The last `options` are for the linker.
    pub(crate) fn compile(&self, source: &Path, name: &str, options: &[&str]) -> PathBuf {
        let program = self.at(name);
        let is_c = source.extension().is_some_and(|end| end == "c");
        let (compiler, standard) = if is_c {
            ("cc", "-std=c11")
        } else {
            ("c++", "-std=c++17")
        };
        let mut command = Command::new(compiler);
        command.args([standard, "-D_POSIX_C_SOURCE=200809L", "-O1", "-pthread"]);
        command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
        command.arg("-I").arg(project().join("include"));
        command.arg("-o").arg(&program).arg(source);
        command.arg("-L").arg(&self.0).args(options);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
        program
    }

    /// Returns a command that runs a program with the shared library.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", &self.0);
        command
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Returns the directory of the crate.
pub(crate) fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
