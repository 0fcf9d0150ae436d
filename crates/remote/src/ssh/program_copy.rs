//! A copy of this program on another host, below the user's cache directory there.
//!
//! Its directory is named for the version and the BLAKE3 digest of the program, so that another build never takes its
//! place. The copy is verified there before it gets that name, by the program's own `manifest`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::ssh::script::{Word, is_plain};

/// Directory of all copies, for the shell of the other host.
const CACHE: &str = "${XDG_CACHE_HOME:-$HOME/.cache}/lighthaul";
/// First word of the lines that the scripts print.
pub(super) const REPORT: &str = "lighthaul-copy";

/// A program that runs on any Linux host of its architecture, and its copies on other hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProgramCopy {
    /// The program on this host.
    pub(super) path: PathBuf,
    /// Its length in bytes.
    pub(super) len: u64,
    /// Its BLAKE3 digest, in hexadecimal digits.
    digest: String,
}

impl ProgramCopy {
    /// Returns the running program. Returns none if it needs shared libraries, which the other host may lack.
    pub(super) fn of_this_program() -> io::Result<Option<Self>> {
        if !cfg!(target_feature = "crt-static") {
            return Ok(None);
        }
        Self::of(Path::new("/proc/self/exe")).map(Some)
    }

    /// Reads the program at `path`.
    fn of(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(file)?;
        let digest = hasher.finalize().to_hex().to_string();
        Ok(Self {
            path: path.to_owned(),
            len,
            digest,
        })
    }

    /// Returns the name of the directory of its copies.
    fn name(&self) -> String {
        format!("{}-{}", env!("CARGO_PKG_VERSION"), &self.digest[..16])
    }

    /// Returns the script that becomes the program that is installed there, or else the copy, if there is one. It ends
    /// with 127 if there is neither.
    pub(super) fn start_script(&self, installed: Option<&str>, words: &[&str]) -> Word {
        let copy = format!("\"{CACHE}/{}/lighthaul\"", self.name());
        let words = words.join(" ");
        let find = match installed {
            Some(program) if is_plain(program) => {
                format!("p={program}; command -v $p >/dev/null 2>&1 || p={copy}")
            }
            _ => format!("p={copy}"),
        };
        Word::script(&format!(
            "{find}; command -v \"$p\" >/dev/null 2>&1 || exit 127; exec \"$p\" {words}"
        ))
    }

    /// Returns the script that tells its system, reads the program from standard input, verifies it, and keeps it.
    pub(super) fn install_script(&self) -> Word {
        let (name, digest) = (self.name(), &self.digest);
        Word::script(&format!(
            "umask 077; d={CACHE}; t=\"$d/.new-$$\"; echo {REPORT} system $(uname -s) $(uname -m); \
             mkdir -p \"$t\" && cat >\"$t/lighthaul\" && chmod 700 \"$t/lighthaul\" || \
             {{ rm -rf \"$t\"; echo {REPORT} unwritten; exit 1; }}; \
             h=$(\"$t/lighthaul\" manifest --progress none --hash blake3 \"$t\"); s=$?; \
             if test \"$h\" = \"{digest}  lighthaul\"; then \
             test -d \"$d/{name}\" || mv \"$t\" \"$d/{name}\" || s=1; else rm -rf \"$t\"; echo {REPORT} unusable $s; exit 1; fi; \
             rm -rf \"$t\"; test -x \"$d/{name}/lighthaul\" && echo {REPORT} kept"
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::process::{Command, Output, Stdio};

    use super::*;

    /// Directory that is removed at the end.
    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("lighthaul-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    /// A program that answers like `lighthaul manifest`.
    fn program(home: &Home) -> ProgramCopy {
        let path = home.0.join("program");
        fs::write(&path, "#!/bin/sh\nb3sum=$(cat \"$HOME/digest\")\necho \"$b3sum  lighthaul\"\n").unwrap();
        let copy = ProgramCopy::of(&path).unwrap();
        fs::write(home.0.join("digest"), &copy.digest).unwrap();
        copy
    }

    fn run(home: &Home, word: &Word, input: &[u8]) -> Output {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(word.to_string()).env("HOME", &home.0).env_remove("XDG_CACHE_HOME");
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = shell.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).ok();
        child.wait_with_output().unwrap()
    }

    #[test]
    fn copy_is_kept_only_if_it_is_verified() {
        let home = Home::new("copy-verified");
        let copy = program(&home);
        let whole = fs::read(&copy.path).unwrap();
        let script = copy.install_script();
        let before = run(&home, &copy.start_script(None, &["x"]), b"");
        assert_eq!(before.status.code(), Some(127));

        fs::write(home.0.join("digest"), "another").unwrap();
        let refused = run(&home, &script, &whole);
        assert!(String::from_utf8_lossy(&refused.stdout).contains("unusable"), "{refused:?}");
        let left = fs::read_dir(home.0.join(".cache/lighthaul")).unwrap().count();
        assert_eq!(left, 0);

        fs::write(home.0.join("digest"), &copy.digest).unwrap();
        for _ in 0..2 {
            let kept = run(&home, &script, &whole);
            assert!(String::from_utf8_lossy(&kept.stdout).ends_with("kept\n"), "{kept:?}");
        }
        let after = run(&home, &copy.start_script(Some("no-such-program"), &["x"]), b"");
        assert_eq!(after.status.code(), Some(0));
    }

    #[test]
    fn directory_that_cannot_be_written_is_reported() {
        let home = Home::new("copy-unwritten");
        let copy = program(&home);
        fs::write(home.0.join(".cache"), "a file").unwrap();
        let failed = run(&home, &copy.install_script(), b"x");
        assert!(String::from_utf8_lossy(&failed.stdout).ends_with("unwritten\n"), "{failed:?}");
    }
}
