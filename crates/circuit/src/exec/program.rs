//! Running a program that may hang, with all that it starts, in bounded time and memory.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Watch, wait};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::{Error, Result};
use crate::exec::config::Config;

/// Gives `input` to the program and returns what it said; kills it, with all in its group, when its time is over.
pub(super) fn run(clock: Clock, config: &Config, input: &[u8]) -> Result<Vec<u8>> {
    let program = config.program.display().to_string();
    let failed = |why: String| Error::Program {
        program: program.clone(),
        why,
    };
    let mut running = Running::start(clock, config).map_err(|why| failed(why.to_string()))?;
    let ended = running.talk(clock.now() + config.limit, input);
    let tail = running.tail();
    match ended {
        Ok(Some(status)) if status.success() => Ok(std::mem::take(&mut running.output)),
        Ok(Some(status)) => Err(failed(format!("{status}{tail}"))),
        Ok(None) => Err(Error::Hung {
            program,
            limit: config.limit,
            tail,
        }),
        Err(why) => Err(failed(format!("{why}{tail}"))),
    }
}

/// A program while it runs; it does not outlive this.
struct Running {
    clock: Clock,
    child: Child,
    /// Its number may be another's by now.
    has_ended: bool,
    output: Vec<u8>,
    /// The end of what it complained of.
    complaint: Vec<u8>,
}

impl Running {
    fn start(clock: Clock, config: &Config) -> io::Result<Self> {
        let mut command = Command::new(&config.program);
        command
            .args(&config.arguments)
            // what this process knows by its environment is none of its business
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

    /// Writes and reads till both its outputs are closed and it has ended; nothing if that lasts too long.
    fn talk(&mut self, till: Instant, input: &[u8]) -> io::Result<Option<ExitStatus>> {
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
            watches.extend(to_fd.map(|fd| Watch {
                write: true,
                ..Watch::read(fd)
            }));
            wait(clock, &mut watches, till)?;
            if write_some(&mut to, &mut left)? {
                to = None;
            }
            if read_some(&mut from, &mut self.output)? {
                from = None;
            }
            if self.output.len() > OUTPUT_MAX {
                return Err(io::Error::other("it said more than can be an answer"));
            }
            if read_some(&mut complaints, &mut self.complaint)? {
                complaints = None;
            }
            let more = self.complaint.len().saturating_sub(TAIL);
            self.complaint.drain(..more);
        }
        self.wait_end(till)
    }

    /// Waits for its end, which is near when it has closed its outputs.
    fn wait_end(&mut self, till: Instant) -> io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.has_ended = true;
                return Ok(Some(status));
            }
            let now = self.clock.now();
            if now >= till {
                return Ok(None);
            }
            wait(self.clock, &mut [], till.min(now + LOOK))?;
        }
    }

    fn tail(&self) -> String {
        let text = String::from_utf8_lossy(&self.complaint);
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            String::new()
        } else {
            format!("; it says: {}", words.join(" "))
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // as long as the child is not waited for, nobody else has the number of its group
        if !self.has_ended
            && let Some(group) = Pid::from_raw(self.child.id().cast_signed())
        {
            let _ = kill_process_group(group, Signal::KILL);
            // one that sleeps in the kernel dies when it wakes
            let _ = self.wait_end(self.clock.now() + LAST_WAIT);
        }
    }
}

/// Writes what goes; answers whether there is nothing more to write, or nobody who reads.
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

/// Reads what is there; answers whether that was the end.
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

/// More than a device's circuits take.
const OUTPUT_MAX: usize = 16 << 20;
/// How much of its complaints is kept.
const TAIL: usize = 1024;
const LOOK: Duration = Duration::from_millis(1);
const LAST_WAIT: Duration = Duration::from_millis(200);
