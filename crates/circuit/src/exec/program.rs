//! Running a program with limits of time and memory.
//!
//! `run` writes the input, reads both outputs, and returns the standard output of a program that
//! succeeds. It waits on all three pipes at once, so neither side can block the other. The output
//! is limited to 16 MiB. Of the standard error, the last 1024 bytes are kept for messages. The
//! program has an empty environment except for `PATH`. When `run` returns early, the whole process
//! group is killed. The format of input and output is not known here.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Watch, wait};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::{Error, ProgramFault, Result};
use crate::exec::config::Config;

/// Passes `input` to the program, and returns its output. After the time limit, its process group is killed.
pub(super) fn run(clock: Clock, config: &Config, input: &[u8]) -> Result<Vec<u8>> {
    let program = config.program.display().to_string();
    let failed = |fault: ProgramFault| Error::Program {
        program: program.clone(),
        fault,
    };
    let not_run = |why: io::Error, tail: String| {
        let why = why.to_string();
        failed(ProgramFault::Run { why, tail })
    };
    let mut running = Running::start(clock, config).map_err(|why| not_run(why, String::new()))?;
    let ended = running.exchange(clock.now() + config.limit, input);
    let tail = running.tail();
    let limit = config.limit;
    match ended {
        Ok(Some(status)) if status.success() => Ok(std::mem::take(&mut running.output)),
        Ok(Some(status)) => Err(failed(ProgramFault::Exit { status, tail })),
        Ok(None) if running.output.len() > OUTPUT_MAX => Err(failed(ProgramFault::Output { tail })),
        Ok(None) => Err(failed(ProgramFault::TimedOut { limit, tail })),
        Err(why) => Err(not_run(why, tail)),
    }
}

/// Running program, which is killed when this is dropped.
struct Running {
    clock: Clock,
    child: Child,
    /// True after the end, when another process may have the same number.
    has_ended: bool,
    output: Vec<u8>,
    /// Last part of its standard error.
    complaint: Vec<u8>,
}

impl Running {
    fn start(clock: Clock, config: &Config) -> io::Result<Self> {
        let mut command = Command::new(&config.program);
        command
            .args(&config.arguments)
            // the environment of this process may contain secrets
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(Self {
            clock,
            child: command.spawn()?,
            has_ended: false,
            output: Vec::new(),
            complaint: Vec::new(),
        })
    }

    /// Writes and reads until both outputs are closed and the program has ended. Returns nothing after the time limit, or
    /// if the output is too long. A program may close its outputs before it has read all of its input.
    fn exchange(&mut self, till: Instant, input: &[u8]) -> io::Result<Option<ExitStatus>> {
        let (mut to, mut from, mut complaints) = (
            self.child.stdin.take(),
            self.child.stdout.take(),
            self.child.stderr.take(),
        );
        let ends = [
            to.as_ref().map(AsFd::as_fd),
            from.as_ref().map(AsFd::as_fd),
            complaints.as_ref().map(AsFd::as_fd),
        ];
        for end in ends.into_iter().flatten() {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        let (clock, mut left) = (self.clock, input);
        while from.is_some() || complaints.is_some() {
            if clock.now() >= till {
                return Ok(None);
            }
            let to_fd = to.as_ref().map(AsRawFd::as_raw_fd);
            let reads = [
                from.as_ref().map(AsRawFd::as_raw_fd),
                complaints.as_ref().map(AsRawFd::as_raw_fd),
            ];
            let mut watches: Vec<Watch> = reads.into_iter().flatten().map(Watch::read).collect();
            watches.extend(to_fd.map(for_writing));
            wait(clock, &mut watches, till)?;
            if write_some(&mut to, &mut left)? {
                to = None;
            }
            if read_some(&mut from, &mut self.output)? {
                from = None;
            }
            if self.output.len() > OUTPUT_MAX {
                return Ok(None);
            }
            if read_some(&mut complaints, &mut self.complaint)? {
                complaints = None;
            }
            let more = self.complaint.len().saturating_sub(TAIL);
            self.complaint.drain(..more);
        }
        self.wait_end(till, (to, left))
    }

    /// Writes the rest of the input, and waits for the end, which follows soon after the outputs are closed.
    fn wait_end(
        &mut self,
        till: Instant,
        (mut to, mut left): (Option<ChildStdin>, &[u8]),
    ) -> io::Result<Option<ExitStatus>> {
        loop {
            if write_some(&mut to, &mut left)? {
                to = None;
            }
            if let Some(status) = self.child.try_wait()? {
                self.has_ended = true;
                return Ok(Some(status));
            }
            let now = self.clock.now();
            if now >= till {
                return Ok(None);
            }
            let to_fd = to.as_ref().map(AsRawFd::as_raw_fd);
            let mut watches: Vec<Watch> = to_fd.map(for_writing).into_iter().collect();
            wait(self.clock, &mut watches, till.min(now + CHECK_INTERVAL))?;
        }
    }

    fn tail(&self) -> String {
        let text = String::from_utf8_lossy(&self.complaint);
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            String::new()
        } else {
            format!("; its standard error: {}", words.join(" "))
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // until the child is waited for, no other group can have its number
        if !self.has_ended
            && let Some(group) = Pid::from_raw(self.child.id().cast_signed())
        {
            let _ = kill_process_group(group, Signal::KILL);
            // a process in an uninterruptible call dies later
            let _ = self.wait_end(self.clock.now() + LAST_WAIT, (None, &[]));
        }
    }
}

const fn for_writing(fd: RawFd) -> Watch {
    Watch {
        write: true,
        ..Watch::read(fd)
    }
}

/// Writes as much as possible. Returns true after the last octet, or if the program has closed its input.
fn write_some(to: &mut Option<impl Write>, left: &mut &[u8]) -> io::Result<bool> {
    let Some(pipe) = to else { return Ok(false) };
    match pipe.write(left) {
        Ok(count) => {
            *left = &left[count..];
            Ok(left.is_empty())
        }
        Err(why) if why.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        Err(why) => wait_more(why),
    }
}

/// Reads the available octets. Returns true at the end.
fn read_some(from: &mut Option<impl Read>, into: &mut Vec<u8>) -> io::Result<bool> {
    let Some(pipe) = from else { return Ok(false) };
    let mut room = [0; 1 << 14];
    match pipe.read(&mut room) {
        Ok(count) => {
            into.extend_from_slice(&room[..count]);
            Ok(count == 0)
        }
        Err(why) => wait_more(why),
    }
}

fn wait_more(why: io::Error) -> io::Result<bool> {
    let is_early = matches!(
        why.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    );
    if is_early { Ok(false) } else { Err(why) }
}

/// Maximum length of the output, far above that of an answer.
const OUTPUT_MAX: usize = 16 << 20;
/// Maximum length of the kept standard error.
const TAIL: usize = 1024;
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
const LAST_WAIT: Duration = Duration::from_millis(200);
