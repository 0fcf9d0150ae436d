//! Daemon on host b, and copies to it from host a.
//!
//! `Pair` has the keys, the log and the files of both sides in one directory. Its daemon can be
//! killed and started again between copies, and dropping it kills the process. `Copy` is a running
//! copy without retries, so that the trial decides about each attempt.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_io::host::clock::Clock;
use lighthaul_lab::emulate::Lab;
use serde_json::Value;

use crate::demo::{Running, key};

/// Both sides of copies, with the directory of all their files.
pub(crate) struct Pair<'a> {
    lab: &'a Lab,
    program: &'a Path,
    folder: &'a Path,
    rate: Rate,
    host: String,
    daemon: Option<Running>,
}

impl<'a> Pair<'a> {
    /// Creates the keys of both sides, allows the client, and starts the daemon.
    pub(crate) fn new(
        lab: &'a Lab,
        program: &'a Path,
        folder: &'a Path,
        rate: Rate,
    ) -> Result<Self, String> {
        let caller = key(program, &folder.join("caller_key"))?;
        let host = key(program, &folder.join("host_key"))?;
        let allowed = folder.join("allowed");
        let status = Command::new(program)
            .arg("allow")
            .arg(caller)
            .arg("--allowed")
            .arg(allowed)
            .status();
        let status = status.map_err(|e| format!("lighthaul allow: {e}"))?;
        if !status.success() {
            return Err(format!("lighthaul allow: {status}"));
        }
        fs::create_dir_all(folder.join("arrived")).map_err(|e| e.to_string())?;
        let mut pair = Self {
            lab,
            program,
            folder,
            rate,
            host,
            daemon: None,
        };
        pair.serve()?;
        Ok(pair)
    }

    /// Returns the path of the copy.
    pub(crate) fn target(&self) -> PathBuf {
        self.folder.join("arrived/copy")
    }

    /// Starts the daemon, and waits until it listens.
    pub(crate) fn serve(&mut self) -> Result<(), String> {
        let at = |name: &str| self.folder.join(name);
        let log = at("daemon.log");
        let file = File::create(&log).map_err(|e| e.to_string())?;
        let serve = self.lab.command("b", self.program);
        let mut serve = serve.map_err(|e| e.to_string())?;
        serve.arg("serve").arg("--root").arg(at("arrived"));
        serve.arg("--key").arg(at("host_key"));
        serve.arg("--allowed").arg(at("allowed"));
        let child = serve.stdin(Stdio::null()).stderr(file).spawn();
        self.daemon = Some(Running(child.map_err(|e| format!("lighthaul serve: {e}"))?));
        let clock = Clock::start();
        while !fs::read_to_string(&log).is_ok_and(|text| text.contains("listening on ")) {
            if clock.now().as_secs_f64() > 20.0 {
                return Err("the daemon did not listen within 20 s".to_owned());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Kills the daemon.
    pub(crate) fn kill_daemon(&mut self) {
        self.daemon = None;
    }

    /// Starts a copy.
    pub(crate) fn copy(&self) -> Result<Copy, String> {
        let at = |name: &str| self.folder.join(name);
        let copy = self.lab.command("a", self.program);
        let mut copy = copy.map_err(|e| e.to_string())?;
        copy.args([
            "cp",
            "--json",
            "--quiet",
            "-H",
            "-X",
            "-T",
            "--retries",
            "0",
            "--pin",
            &self.host,
        ]);
        copy.arg("--rate").arg(self.rate.to_string());
        copy.arg("--key").arg(at("caller_key"));
        copy.arg(at("tree")).arg("lh://b/copy");
        let file = |name: &str| File::create(at(name)).map_err(|e| e.to_string());
        copy.stdin(Stdio::null())
            .stdout(file("copy.json")?)
            .stderr(file("copy.log")?);
        let child = copy.spawn().map_err(|e| format!("lighthaul cp: {e}"))?;
        Ok(Copy {
            child: Running(child),
            log: at("copy"),
            clock: Clock::start(),
        })
    }
}

/// Running copy.
pub(crate) struct Copy {
    child: Running,
    log: PathBuf,
    clock: Clock,
}

/// Result of a copy.
#[derive(Clone, Debug)]
pub(crate) struct CopyResult {
    /// Exit status; `None` after a signal.
    pub(crate) code: Option<i32>,
    /// Duration in seconds.
    pub(crate) seconds: f64,
    /// Standard error output.
    pub(crate) said: String,
    /// Summary event.
    pub(crate) summary: Option<Value>,
}

impl Copy {
    /// Waits for the end of the copy, at most `seconds` from its start. Returns `None` if it still
    /// runs.
    pub(crate) fn wait(&mut self, seconds: f64) -> Option<CopyResult> {
        while self.clock.now().as_secs_f64() < seconds {
            if let Some(ended) = self.ended() {
                return Some(ended);
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }

    fn ended(&mut self) -> Option<CopyResult> {
        let child: &mut Child = &mut self.child.0;
        let status = child.try_wait().ok()??;
        let read = |kind: &str| fs::read_to_string(self.log.with_extension(kind));
        let events = read("json").unwrap_or_default();
        let mut events = events
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        Some(CopyResult {
            code: status.code(),
            seconds: self.clock.now().as_secs_f64(),
            said: read("log").unwrap_or_default(),
            summary: events.find(|event: &Value| event["type"] == "summary"),
        })
    }
}
