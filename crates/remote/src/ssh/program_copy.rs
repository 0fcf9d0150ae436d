//! A copy of this program on another host, below the user's cache directory.
//!
//! ```text
//! $XDG_CACHE_HOME/lighthaul/VERSION-DIGEST/lighthaul
//! ```
//!
//! The directory is named for the version and the BLAKE3 digest of the program, so two builds never take each other's
//! place. A copy gets its name when its length and the digest that it computes of itself are right: this finds damage,
//! and the login protects the bytes on their way. A copy is started only from directories that belong to the user and
//! that no other user can write. Copies that were not started for a month are removed by the next installation.

use std::fs::File;
use std::io;
use std::time::Duration;

use lighthaul_session::message::VERSION;

use crate::ssh::report::REPORT;
use crate::ssh::script;

/// This program, and its copies on other hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProgramCopy {
    /// Length in bytes.
    pub(crate) len: u64,
    /// BLAKE3 digest, in hexadecimal digits.
    digest: String,
}

impl ProgramCopy {
    /// Reads this program.
    pub(crate) fn of_this_program() -> io::Result<Self> {
        let mut program = open_this_program()?;
        let mut hasher = blake3::Hasher::new();
        let len = io::copy(&mut program, &mut hasher)?;
        let digest = hasher.finalize().to_hex().to_string();
        Ok(Self { len, digest })
    }

    /// Returns the command that runs the copy with `words`.
    pub(crate) fn command(&self, words: &[&str]) -> String {
        let (place, words) = (self.place(), words.join(" "));
        script::command(&format!(
            "set -f; {place}; {OWN}; own \"$c\" || exit 126; exec \"$c\" {words}"
        ))
    }

    /// Returns the command that runs the installed program with `words`, or else the copy. If neither runs or has the
    /// protocol of this program, it awaits the request to install a copy and its bytes. It reports its steps in lines
    /// that begin with [`REPORT`]. A program that does not answer within `patience` is ended, where the host has the
    /// command `timeout`.
    ///
    /// The program reads the standard input, so the script reads it only where there is no program.
    pub(crate) fn search(&self, words: &[&str], patience: Duration) -> String {
        let (place, words, install) = (self.place(), words.join(" "), self.install());
        let seconds = patience.as_secs().max(1);
        script::command(&format!(
            "echo {REPORT} begun; set -f; {place}; {OWN}; \
             t=; if timeout -k 1 1 true 2>/dev/null; then t=\"timeout -k 1 {seconds}\"; fi; \
             fits() {{ o=$($t \"$1\" --version --json 2>/dev/null </dev/null); s=$?; case $o in \
             (*protocol?:{VERSION}[,}}]*) return 0;; esac; return 1; }}; \
             w=missing; v=; if command -v lighthaul >/dev/null 2>&1; then \
             if fits lighthaul; then echo {REPORT} installed; exec lighthaul {words}; fi; \
             case $s in (124|137|143) echo {REPORT} silent; exit 1;; esac; w=other; v=$(lighthaul --version 2>/dev/null </dev/null); fi; \
             if own \"$c\" && fits \"$c\"; then touch \"$d\" 2>/dev/null; echo {REPORT} copy; exec \"$c\" {words}; fi; \
             echo {REPORT} $w $(uname -s) $(uname -m) $v; {install}; \
             echo {REPORT} copied; exec \"$c\" {words}"
        ))
    }

    /// Returns the part of the script that reads the program from standard input, verifies it, and renames it.
    fn install(&self) -> String {
        let Self { len, digest } = self;
        format!(
            "read k && read a && test \"$a\" = {INSTALL} || exit 127; (umask 077; \
             e=$(mkdir -p \"$d\" 2>&1) || {{ echo {REPORT} unwritten $e; exit 1; }}; \
             own \"$d\" || {{ echo {REPORT} unwritten other users can write $d; exit 1; }}; \
             t=$(mktemp -d \"$d/.new-XXXXXX\" 2>&1) || {{ echo {REPORT} unwritten $t; exit 1; }}; n=$t/lighthaul; \
             e=$({{ head -c {len} >\"$n\" && chmod 700 \"$n\" && sync \"$n\"; }} 2>&1) || \
             {{ rm -rf \"$t\"; echo {REPORT} unwritten $e; exit 1; }}; \
             test $(wc -c <\"$n\") -eq {len} || {{ rm -rf \"$t\"; echo {REPORT} unwritten it did not arrive whole; exit 1; }}; \
             o=$(\"$n\" manifest --progress none --hash blake3 \"$t\" 2>&1 </dev/null); s=$?; \
             case $o in ({digest}*) ;; (*) rm -rf \"$t\"; echo {REPORT} unusable $s $o; exit 1;; esac; \
             e=$(mv -f \"$n\" \"$c\" 2>&1) || {{ rm -rf \"$t\"; echo {REPORT} unwritten $e; exit 1; }}; rm -rf \"$t\"; \
             find \"$d\" -mindepth 1 -maxdepth 1 -name \".new-*\" -mtime +1 -exec rm -rf {{}} + 2>/dev/null; \
             find \"${{d%/*}}\" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {{}} + 2>/dev/null; exit 0) || exit $?"
        )
    }

    /// Returns the part of a script that sets `c` to the path of the copy, and `d` to its directory.
    fn place(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let digest = &self.digest[..16];
        format!("d=${{XDG_CACHE_HOME:-$HOME/.cache}}/lighthaul/{version}-{digest}; c=$d/lighthaul")
    }
}

/// Opens the file of this program, even if another file has taken its name.
pub(crate) fn open_this_program() -> io::Result<File> {
    File::open("/proc/self/exe")
}

/// Shell function `own`. It succeeds if a file, the directory of the copy and the one above belong to the user and are
/// no links. Other users cannot write them. The cache directory itself may be shared if it is sticky.
const OWN: &str = "u=$(id -u); mine() { set -- $(ls -ldn \"$1\" 2>/dev/null); \
     case $1 in (l*|?????w*|????????w*) return 1;; esac; test \"$3\" = $u; }; \
     own() { case $(ls -ldn \"${d%/lighthaul/*}/\" 2>/dev/null) in (????????w[-x]*) return 1;; esac; \
     mine \"${d%/*}\" && mine \"$d\" && mine \"$1\"; }";

/// Line that requests the installation.
pub(crate) const INSTALL: &str = "install";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::process::{Command, Stdio};

    use super::*;

    /// Directory that is removed at the end.
    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Self {
            let name = format!("lighthaul-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        /// Runs the search with `input`. Returns the status, and the first line of each report.
        fn search(&self, copy: &ProgramCopy, input: &[u8]) -> (Option<i32>, String) {
            let mut shell = Command::new("sh");
            let script = format!(
                "umask 022; {}",
                copy.search(&["serve"], Duration::from_secs(1))
            );
            shell.arg("-c").arg(script);
            shell.env("HOME", &self.0).env_remove("XDG_CACHE_HOME");
            shell.env("PATH", format!("{}:/usr/bin:/bin", self.0.display()));
            shell.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = shell.spawn().unwrap();
            child.stdin.take().unwrap().write_all(input).ok();
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            (output.status.code(), text)
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    /// A script that answers like this program, and has the digest that it is told.
    fn program(home: &Home) -> (ProgramCopy, Vec<u8>) {
        let text = format!(
            "#!/bin/sh\ncase $1 in --version) echo '{{\"protocol\":{VERSION},\"v\":1}}';;\n\
             manifest) echo \"$(cat \"$HOME/digest\")  lighthaul\";;\n*) echo started \"$@\" $(umask);; esac\n"
        );
        let copy = ProgramCopy {
            len: text.len() as u64,
            digest: blake3::hash(text.as_bytes()).to_hex().to_string(),
        };
        fs::write(home.0.join("digest"), &copy.digest).unwrap();
        (copy, text.into_bytes())
    }

    fn request(program: &[u8]) -> Vec<u8> {
        [format!("key\n{INSTALL}\n").as_bytes(), program].concat()
    }

    #[test]
    fn only_a_verified_copy_is_started() {
        let home = Home::new("copy-verified");
        let (copy, program) = program(&home);
        let (status, text) = home.search(&copy, b"key\n");
        assert_eq!(status, Some(127), "{text}");
        assert!(
            text.starts_with("lighthaul-start begun\nlighthaul-start missing Linux "),
            "{text}"
        );

        fs::write(home.0.join("digest"), "another").unwrap();
        let (status, text) = home.search(&copy, &request(&program));
        assert_eq!(status, Some(1), "{text}");
        assert!(text.contains("unusable 0 another"), "{text}");
        let cache = home.0.join(".cache/lighthaul");
        let folder = fs::read_dir(&cache)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);

        fs::write(home.0.join("digest"), &copy.digest).unwrap();
        let (status, text) = home.search(&copy, &request(&program));
        assert_eq!(status, Some(0), "{text}");
        assert!(
            text.ends_with("lighthaul-start copied\nstarted serve 0022\n"),
            "{text}"
        );
        let (_, text) = home.search(&copy, b"key\n");
        assert_eq!(
            text,
            "lighthaul-start begun\nlighthaul-start copy\nstarted serve 0022\n"
        );
        // a copy that does not run any more is replaced
        fs::write(folder.join("lighthaul"), "").unwrap();
        let (_, text) = home.search(&copy, &request(&program));
        assert!(
            text.ends_with("lighthaul-start copied\nstarted serve 0022\n"),
            "{text}"
        );
    }

    #[test]
    fn copy_that_another_user_could_write_is_not_started() {
        let home = Home::new("copy-foreign");
        let (copy, program) = program(&home);
        let (_, text) = home.search(&copy, &request(&program));
        assert!(text.ends_with("copied\nstarted serve 0022\n"), "{text}");
        let cache = home.0.join(".cache/lighthaul");
        let mut inner = fs::read_dir(&cache).unwrap();
        let folder = inner.next().unwrap().unwrap().path();
        let paths = [
            home.0.join(".cache"),
            cache,
            folder.clone(),
            folder.join("lighthaul"),
        ];
        for path in paths {
            let mode = |bits| fs::set_permissions(&path, PermissionsExt::from_mode(bits)).unwrap();
            mode(0o757);
            let (status, text) = home.search(&copy, b"key\n");
            assert_eq!(status, Some(127), "{}: {text}", path.display());
            assert!(!text.contains("started"), "{}: {text}", path.display());
            if path.is_dir() {
                let (_, text) = home.search(&copy, &request(&program));
                assert!(text.contains("unwritten other users can write "), "{text}");
            }
            mode(0o700);
        }
        // a link may lead to a directory of anybody
        let elsewhere = home.0.join("elsewhere");
        fs::rename(&folder, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &folder).unwrap();
        let (_, text) = home.search(&copy, &request(&program));
        assert!(text.contains("unwritten other users can write "), "{text}");
        assert!(!text.contains("started"), "{text}");
    }

    #[test]
    fn copy_that_did_not_arrive_whole_is_not_started() {
        let home = Home::new("copy-short");
        let (copy, program) = program(&home);
        let (status, text) = home.search(&copy, &request(&program[..program.len() - 1]));
        assert_eq!(status, Some(1), "{text}");
        assert!(text.contains("unwritten it did not arrive whole"), "{text}");
    }

    #[test]
    fn installed_program_of_another_protocol_is_skipped() {
        let home = Home::new("copy-other");
        let (copy, program) = program(&home);
        let installed = home.0.join("lighthaul");
        fs::write(&installed, &program).unwrap();
        fs::set_permissions(&installed, PermissionsExt::from_mode(0o755)).unwrap();
        let (_, text) = home.search(&copy, b"key\n");
        assert_eq!(
            text,
            "lighthaul-start begun\nlighthaul-start installed\nstarted serve 0022\n"
        );
        fs::write(&installed, "#!/bin/sh\necho lighthaul 0.0.9\n").unwrap();
        let (status, text) = home.search(&copy, b"key\n");
        assert_eq!(status, Some(127), "{text}");
        assert!(
            text.starts_with("lighthaul-start begun\nlighthaul-start other Linux "),
            "{text}"
        );
        assert!(text.ends_with(" lighthaul 0.0.9\n"), "{text}");
        let (_, text) = home.search(&copy, &request(&program));
        assert!(
            text.ends_with("lighthaul-start copied\nstarted serve 0022\n"),
            "{text}"
        );
    }

    #[test]
    fn installed_program_that_does_not_answer_is_ended() {
        let home = Home::new("copy-silent");
        let (copy, program) = program(&home);
        let installed = home.0.join("lighthaul");
        fs::write(
            &installed,
            "#!/bin/sh\necho $$ > $HOME/pid\nexec sleep 1000\n",
        )
        .unwrap();
        fs::set_permissions(&installed, PermissionsExt::from_mode(0o755)).unwrap();
        let (status, text) = home.search(&copy, &request(&program));
        assert_eq!(status, Some(1), "{text}");
        assert_eq!(text, "lighthaul-start begun\nlighthaul-start silent\n");
        let pid = fs::read_to_string(home.0.join("pid")).unwrap();
        let process = format!("/proc/{}/stat", pid.trim());
        let state = fs::read_to_string(process).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    }

    #[test]
    fn directory_that_cannot_be_written_is_reported() {
        let home = Home::new("copy-unwritten");
        let (copy, program) = program(&home);
        fs::write(home.0.join(".cache"), "a file").unwrap();
        let (status, text) = home.search(&copy, &request(&program));
        assert_eq!(status, Some(1), "{text}");
        assert!(text.contains("lighthaul-start unwritten mkdir: "), "{text}");
    }
}
