//! `lighthaul serve` on host b, which allows the key of host a.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, thread};

use lighthaul_lab::emulate::Lab;

use super::running::Running;

/// Running daemon, and the settings that its clients need.
pub(crate) struct Daemon {
    /// Directory in which copies arrive.
    pub(super) root: PathBuf,
    caller_key: PathBuf,
    pin: String,
    _server: Running,
}

impl Daemon {
    /// Starts a daemon with its files below `folder`.
    pub(super) fn start(lab: &Lab, program: &Path, folder: &Path) -> Result<Self, String> {
        let file = |name: &str| folder.join(name);
        let caller = key(program, &file("caller_key"))?;
        let pin = key(program, &file("host_key"))?;
        run(Command::new(program)
            .arg("allow")
            .arg(caller)
            .arg("--allowed")
            .arg(file("allowed")))?;
        let root = file("arrived");
        fs::create_dir(&root).map_err(|e| e.to_string())?;
        let mut serve = lab.command("b", program).map_err(|e| e.to_string())?;
        serve.arg("serve").arg("--root").arg(&root);
        serve.arg("--key").arg(file("host_key"));
        serve.arg("--allowed").arg(file("allowed"));
        Ok(Self {
            root,
            caller_key: file("caller_key"),
            pin,
            _server: start(&mut serve, "listening")?,
        })
    }

    /// Adds the flags by which a copy and the daemon authenticate each other.
    pub(super) fn known_to(&self, cp: &mut Command) {
        cp.arg("--key").arg(&self.caller_key);
        cp.args(["--pin", &self.pin]);
    }
}

/// Creates the key at `path`, and returns its fingerprint.
pub(crate) fn key(program: &Path, path: &Path) -> Result<String, String> {
    run(Command::new(program).arg("key").arg("--key").arg(path)).map(|text| text.trim().to_owned())
}

/// Runs a command and returns its output. Fails if the command fails.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let name = command
        .get_args()
        .next()
        .map(OsStr::to_owned)
        .unwrap_or_default();
    let output = command
        .stdout(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .map_err(|e| format!("lighthaul {}: {e}", name.display()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("lighthaul {}: {}", name.display(), output.status))
    }
}

/// Starts a server, and waits until a line of its standard error contains `says`. Later lines are
/// discarded.
pub(crate) fn start(serve: &mut Command, says: &str) -> Result<Running, String> {
    let mut server = serve
        .stderr(Stdio::piped())
        .spawn()
        .map(Running)
        .map_err(|e| format!("cannot start a server: {e}"))?;
    let pipe = server
        .0
        .stderr
        .take()
        .ok_or("the standard error of a server is not captured")?;
    let mut lines = BufReader::new(pipe).lines().map_while(Result::ok);
    let mut said = String::new();
    for line in lines.by_ref() {
        if line.contains(says) {
            thread::spawn(move || lines.for_each(drop));
            return Ok(server);
        }
        said = line;
    }
    Err(format!("a server ended before it was ready: {said}"))
}
