//! One side of a trial: a command, its output, and the cost of all its processes.
//!
//! [`run`] is the process around the command. It adopts orphans of the command, so that its
//! children's usage includes all of them. When its standard input ends, it ends the command.
//! [`Side`], in the measuring process, thus stops the command, also when the measuring process
//! dies.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use lighthaul_io::host::affinity::pin_to_core;
use lighthaul_io::host::clock::Clock;
use lighthaul_lab::core_load::CoreLoad;
use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::args;
use super::plan::Tools;

/// Cost of a side.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// Duration of the command, in seconds.
    pub(crate) seconds: f64,
    /// Exit status, or 128 plus the signal that ended the command.
    pub(crate) code: i32,
    /// CPU seconds of the command and all its descendants.
    pub(crate) cpu_s: f64,
    /// Peak memory of the largest process.
    pub(crate) rss_bytes: u64,
}

/// Runs the command, and prints its cost on standard output.
pub(crate) fn run(side: &args::Side) -> io::Result<()> {
    set_child_subreaper(true)?;
    let _load = side.core.map(|core| crowd(core, side.tasks)).transpose()?;
    let clock = Clock::start();
    let mut command = Command::new(&side.command[0]);
    command.args(&side.command[1..]).process_group(0);
    command.stdin(Stdio::null());
    command.stdout(File::create(side.log.with_extension("out"))?);
    command.stderr(File::create(side.log.with_extension("err"))?);
    let main = Pid::from_raw(command.spawn()?.id().cast_signed());
    thread::spawn(move || {
        io::copy(&mut io::stdin(), &mut io::sink()).ok();
        end(main);
    });
    if let Some(port) = side.ready.clone() {
        thread::spawn(move || tell_when_ready(&port));
    }
    let (code, seconds) = reap(main, clock)?;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    let cost = Cost {
        seconds,
        code,
        cpu_s: time(usage.user_time()) + time(usage.system_time()),
        rss_bytes: usage.max_rss().cast_unsigned() * 1024,
    };
    writeln!(io::stdout(), "{}", serde_json::to_string(&cost)?)
}

/// Pins this process and its children to `core`, and starts `tasks` competing tasks there.
fn crowd(core: usize, tasks: u32) -> io::Result<CoreLoad> {
    pin_to_core(core)?;
    CoreLoad::start(tasks, core).map_err(io::Error::other)
}

/// Waits for all descendants. Those that outlive the command by a second are killed.
fn reap(main: Pid, clock: Clock) -> io::Result<(i32, f64)> {
    let mut ended = (255, 0.0);
    loop {
        let (pid, code) = match waitpid(None, None) {
            Ok(WaitStatus::Exited(pid, code)) => (pid, code),
            Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, 128 + signal as i32),
            Ok(_) | Err(Errno::EINTR) => continue,
            Err(Errno::ECHILD) => return Ok(ended),
            Err(error) => return Err(error.into()),
        };
        if pid == main {
            ended = (code, clock.now().as_secs_f64());
            thread::spawn(|| {
                thread::sleep(Duration::from_secs(1));
                end_stragglers();
            });
        }
    }
}

/// Sends the command's process group SIGTERM, and a second later SIGKILL.
fn end(main: Pid) {
    killpg(main, Signal::SIGTERM).ok();
    thread::sleep(Duration::from_secs(1));
    killpg(main, Signal::SIGKILL).ok();
    end_stragglers();
}

/// Kills children of this process repeatedly, until it exits.
fn end_stragglers() {
    let own = std::process::id();
    loop {
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // PID (NAME) STATE PARENT ...; the name may contain any characters.
            let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
            let parent = after
                .split_whitespace()
                .nth(1)
                .and_then(|p| p.parse::<u32>().ok());
            if parent == Some(own) {
                kill(Pid::from_raw(pid), Signal::SIGKILL).ok();
            }
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Prints a line when the port, such as `tcp:4810`, accepts connections in this network namespace.
fn tell_when_ready(port: &str) {
    let (protocol, number) = port.split_once(':').unwrap_or(("tcp", port));
    let wanted = format!(":{:04X}", number.parse::<u16>().unwrap_or(0));
    // States: TCP is listening, UDP is not connected.
    let state = if protocol == "tcp" { "0A" } else { "07" };
    let tables = [
        format!("/proc/self/net/{protocol}"),
        format!("/proc/self/net/{protocol}6"),
    ];
    loop {
        let texts = tables
            .iter()
            .filter_map(|table| fs::read_to_string(table).ok());
        let is_ready = texts.collect::<String>().lines().any(|line| {
            let mut columns = line.split_whitespace().skip(1);
            columns.next().is_some_and(|local| local.ends_with(&wanted))
                && columns.nth(1) == Some(state)
        });
        if is_ready {
            writeln!(io::stdout(), "{READY}").ok();
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Running side.
#[derive(Debug)]
pub(crate) struct Side {
    child: Child,
    lifeline: Option<ChildStdin>,
    lines: Receiver<String>,
    log: PathBuf,
}

impl Side {
    /// Starts a command, on host `b` if `is_far`, else on this host. With `tasks`, each host is pinned to a core, and
    /// the tasks run beside the far command.
    pub(crate) fn start(
        tools: &Tools,
        is_far: bool,
        words: &[String],
        ready: Option<&str>,
        tasks: u32,
    ) -> io::Result<Self> {
        let log = tools.work.join(if is_far { "far" } else { "near" });
        let own = std::env::current_exe()?;
        let mut command = if is_far {
            let mut command = Command::new(&tools.lighthaul);
            command.args(["lab", "on", "b", "--"]).arg(own);
            command
        } else {
            Command::new(own)
        };
        command.args(["bench", "side", "--log"]).arg(&log);
        command.args(ready.map(|port| format!("--ready={port}")));
        if tasks > 0 {
            let last = thread::available_parallelism()?.get() - 1;
            let (core, tasks) = if is_far { (last, tasks) } else { (0, 0) };
            command.args([format!("--core={core}"), format!("--tasks={tasks}")]);
        }
        command.arg("--").args(words).process_group(0);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                let lines = BufReader::new(stdout).lines().map_while(Result::ok);
                lines
                    .take_while(|line| sender.send(line.clone()).is_ok())
                    .for_each(drop);
            });
        }
        let lifeline = child.stdin.take();
        Ok(Self {
            child,
            lifeline,
            lines,
            log,
        })
    }

    /// Waits until the side is ready. Returns false if it has ended or `timeout` has passed.
    pub(crate) fn is_ready(&self, timeout: Duration) -> bool {
        self.lines
            .recv_timeout(timeout)
            .is_ok_and(|line| line == READY)
    }

    /// Waits for the end of the side. Returns `None` if `timeout` has passed.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<Cost> {
        let clock = Clock::start();
        let till = clock.now() + timeout;
        loop {
            let left = clock.until(till);
            match self.lines.recv_timeout(left) {
                Ok(line) if line == READY => {}
                Ok(line) => return serde_json::from_str(&line).ok(),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Ends the side with all its processes.
    pub(crate) fn stop(&mut self) -> Option<Cost> {
        self.lifeline = None;
        self.wait(Duration::from_secs(5))
    }

    /// Returns the present standard output.
    pub(crate) fn output(&self) -> String {
        read(&self.log.with_extension("out"))
    }

    /// Returns the present standard error output.
    pub(crate) fn complaints(&self) -> String {
        read(&self.log.with_extension("err"))
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.lifeline = None;
        let clock = Clock::start();
        while clock.now().as_secs_f64() < 5.0 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Reads the first 16 MiB of a log as text.
fn read(path: &std::path::Path) -> String {
    let mut bytes = Vec::new();
    let file = File::open(path);
    file.and_then(|file| file.take(LOG_BYTES_MAX).read_to_end(&mut bytes))
        .ok();
    String::from_utf8_lossy(&bytes).into_owned()
}

const READY: &str = "ready";
const LOG_BYTES_MAX: u64 = 16 << 20;
