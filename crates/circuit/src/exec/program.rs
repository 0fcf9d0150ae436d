//! Running program that is asked line by line, with limits of time and memory.
//!
//! [`Program::exchange`] writes a line and reads whole lines until one satisfies the caller. It waits on all three
//! pipes at once, so neither side can block the other. A line is at most 16 MiB. Of the standard error, the last 1024
//! bytes are kept for messages. The program has an empty environment except for `PATH`. Its process group is killed
//! when the program ends or this is dropped. The format of the lines is not known here.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::escape::escape;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Watch, pause, wait};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::error::ProgramFault;
use crate::exec::config::Config;
use lighthaul_io::host::stopping::{self, StopLimit};

type Result<T> = std::result::Result<T, ProgramFault>;

/// Running program.
#[derive(Debug)]
pub(super) struct Program {
    clock: Clock,
    stop_limit: StopLimit,
    child: Child,
    /// Closed at the end, which asks the program to exit.
    input: Option<ChildStdin>,
    output: ChildStdout,
    complaints: Option<ChildStderr>,
    /// Octets of the output that do not end a line yet.
    pending: Vec<u8>,
    /// Number of pending octets that were searched for the end of a line.
    scanned: usize,
    /// Last part of the standard error.
    complaint: Vec<u8>,
    /// True after the program has ended, when another process may have its process ID.
    has_ended: bool,
}

/// Line of the output, without its line feed.
#[derive(Debug)]
pub(super) struct Line(pub(super) Vec<u8>);

impl Line {
    /// Returns the fault of a program that wrote this line.
    pub(super) fn malformed(&self, why: &str) -> ProgramFault {
        let begin = String::from_utf8_lossy(&self.0[..self.0.len().min(SHOWN)]);
        ProgramFault::Malformed {
            begin: escape(&begin, SHOWN).into_owned(),
            // the reason may quote the line
            why: escape(why, SHOWN).into_owned(),
        }
    }
}

impl Program {
    /// Starts the program.
    pub(super) fn start(clock: Clock, config: &Config) -> Result<Self> {
        Self::spawn(clock, config).map_err(|why| ProgramFault::Run {
            why: why.to_string(),
            tail: String::new(),
        })
    }

    fn spawn(clock: Clock, config: &Config) -> io::Result<Self> {
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
        let mut child = command.spawn()?;
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(missing)?;
        let complaints = child.stderr.take();
        let ends = [
            input.as_ref().map(AsFd::as_fd),
            Some(output.as_fd()),
            complaints.as_ref().map(AsFd::as_fd),
        ];
        for end in ends.into_iter().flatten() {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        Ok(Self {
            clock,
            stop_limit: StopLimit::default(),
            child,
            input,
            output,
            complaints,
            pending: Vec::new(),
            scanned: 0,
            complaint: Vec::new(),
            has_ended: false,
        })
    }

    /// Returns true if the program has ended.
    pub(super) fn is_over(&mut self) -> bool {
        if !self.has_ended {
            // if nothing is known about it, the next request fails
            self.reap();
        }
        self.has_ended
    }

    /// Returns the exit status of the program if it has ended. Its children are killed first: until the program is
    /// reaped, no other process group can have its number.
    fn reap(&mut self) -> Option<ExitStatus> {
        if !self.has_ended {
            let options = WaitIdOptions::EXITED.union(WaitIdOptions::NOHANG);
            let pid = Pid::from_child(&self.child);
            let ended = waitid(WaitId::Pid(pid), options.union(WaitIdOptions::NOWAIT));
            ended.ok().flatten()?;
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let status = self.child.try_wait().ok().flatten();
        self.has_ended |= status.is_some();
        status
    }

    /// Writes `line`, and passes each line of the output to `judge` until it returns a value. Fails after `limit`, and
    /// if that line was there before the request.
    pub(super) fn exchange<T>(
        &mut self,
        line: &str,
        limit: Duration,
        mut judge: impl FnMut(&Line) -> Result<Option<T>>,
    ) -> Result<T> {
        let till = self.clock.now() + limit;
        self.check_early(&mut judge)?;
        let (mut left, mut found) = (line.as_bytes(), None);
        loop {
            while found.is_none()
                && let Some(line) = self.next_line()
            {
                found = judge(&line)?;
            }
            // a program may answer before it has read all
            if left.is_empty()
                && let Some(found) = found
            {
                self.stop_limit.renew();
                return Ok(found);
            }
            if self.is_too_long() {
                return Err(ProgramFault::Output { tail: self.tail() });
            }
            if self.clock.now() >= till {
                let tail = self.tail();
                return Err(ProgramFault::TimedOut { limit, tail });
            }
            if self.stop_limit.is_overdue() {
                return Err(ProgramFault::Stopping { tail: self.tail() });
            }
            let is_over = self.transfer(&mut left, stopping::next_look(self.clock, till));
            let is_over = is_over.map_err(|why| self.lost(&why))?;
            if is_over && found.is_some() {
                // it reads no more either
                left = &[];
            } else if is_over && !self.pending[self.scanned..].contains(&b'\n') {
                return Err(self.ending());
            }
        }
    }

    /// Passes the lines that precede a request to `judge`, which must not accept any of them.
    fn check_early<T>(&mut self, judge: &mut impl FnMut(&Line) -> Result<Option<T>>) -> Result<()> {
        loop {
            let before = self.pending.len();
            let is_over = take_some(&mut self.output, &mut self.pending);
            let is_over = is_over.map_err(|why| self.lost(&why))?;
            let has_more = self.pending.len() > before;
            while let Some(line) = self.next_line() {
                if judge(&line)?.is_some() {
                    return Err(line.malformed("it came before the request"));
                }
            }
            // the caller finds the end and a long line
            if is_over || !has_more || self.is_too_long() {
                return Ok(());
            }
        }
    }

    /// Returns true if the pending octets are more than a line may have.
    fn is_too_long(&self) -> bool {
        self.pending.len() > LINE_MAX
    }

    fn lost(&self, why: &io::Error) -> ProgramFault {
        let (why, tail) = (why.to_string(), self.tail());
        ProgramFault::Run { why, tail }
    }

    /// Waits for the pipes, then writes and reads as much as they allow. Returns true at the end of the output.
    fn transfer(&mut self, left: &mut &[u8], till: Instant) -> io::Result<bool> {
        let mut input = self.input.as_mut().filter(|_| !left.is_empty());
        let mut watches = vec![Watch::read(self.output.as_raw_fd())];
        let complaints = self.complaints.as_ref();
        watches.extend(complaints.map(|one| Watch::read(one.as_raw_fd())));
        watches.extend(input.as_ref().map(|one| for_writing(one.as_raw_fd())));
        wait(self.clock, &mut watches, till)?;
        if let Some(input) = &mut input
            && write_some(input, left)?
        {
            // it reads no more, and its answer or its end follows
            *left = &[];
        }
        self.take_complaints()?;
        take_some(&mut self.output, &mut self.pending)
    }

    fn take_complaints(&mut self) -> io::Result<()> {
        for _ in 0..READS_MAX {
            let Some(complaints) = &mut self.complaints else {
                break;
            };
            let before = self.complaint.len();
            if take_some(complaints, &mut self.complaint)? {
                self.complaints = None;
            }
            if self.complaint.len() == before {
                break;
            }
        }
        let more = self.complaint.len().saturating_sub(TAIL);
        self.complaint.drain(..more);
        Ok(())
    }

    fn next_line(&mut self) -> Option<Line> {
        let fresh = &self.pending[self.scanned..];
        let Some(end) = fresh.iter().position(|octet| *octet == b'\n') else {
            self.scanned = self.pending.len();
            return None;
        };
        let end = self.scanned + end;
        self.scanned = 0;
        let mut line: Vec<u8> = self.pending.drain(..=end).collect();
        line.pop();
        Some(Line(line))
    }

    /// Returns the fault of a program that closed its output.
    fn ending(&mut self) -> ProgramFault {
        let status = self.wait_end();
        // what it wrote last is there now
        let _ = self.take_complaints();
        let tail = self.tail();
        match status {
            Some(status) => ProgramFault::Exit { status, tail },
            None => ProgramFault::Closed { tail },
        }
    }

    /// Waits a moment for the end of the program.
    fn wait_end(&mut self) -> Option<ExitStatus> {
        let till = self.clock.now() + LAST_WAIT;
        loop {
            if let Some(status) = self.reap() {
                return Some(status);
            }
            // the program cannot end while the pipe of its standard error is full
            let _ = self.take_complaints();
            if self.clock.now() >= till {
                return None;
            }
            pause(CHECK_INTERVAL);
        }
    }

    /// Returns the end of the program's standard error, for a message.
    pub(super) fn tail(&self) -> String {
        let text = String::from_utf8_lossy(&self.complaint);
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            String::new()
        } else {
            let words = words.join(" ");
            format!("; its standard error: {}", escape(&words, 2 * TAIL))
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.wait_end();
        // until the child is waited for, no other group can have its number
        if !self.has_ended {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            // a process in an uninterruptible call dies later
            let _ = self.wait_end();
        }
    }
}

const fn for_writing(fd: RawFd) -> Watch {
    Watch {
        write: true,
        ..Watch::read(fd)
    }
}

/// Writes as much as possible. Returns true if the program has closed its input.
fn write_some(to: &mut impl Write, left: &mut &[u8]) -> io::Result<bool> {
    match to.write(left) {
        Ok(count) => {
            *left = &left[count..];
            Ok(false)
        }
        Err(why) if why.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        Err(why) => wait_more(why),
    }
}

/// Takes the available octets. Returns true at the end.
fn take_some(from: &mut impl Read, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut room = [0; 1 << 14];
    match from.read(&mut room) {
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

/// Maximum length of a line, far above that of an answer.
const LINE_MAX: usize = 16 << 20;
/// Maximum length of a line in an error, and of the reason, in bytes.
const SHOWN: usize = 200;
/// Maximum number of reads of the standard error at a time, more than a pipe holds.
const READS_MAX: usize = 128;
/// Maximum length of the kept standard error.
const TAIL: usize = 1024;
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
const LAST_WAIT: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    /// Pipe of which each use fails.
    struct Failing(io::ErrorKind);

    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
    }

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn fault_of_a_pipe_is_reported_unless_the_pipe_is_not_ready() {
        use io::ErrorKind::{BrokenPipe, Interrupted, Other, WouldBlock};
        for (kind, expected) in [
            (WouldBlock, [Ok(false), Ok(false)]),
            (Interrupted, [Ok(false), Ok(false)]),
            // the program reads no more, and may still answer
            (BrokenPipe, [Err(BrokenPipe), Ok(true)]),
            (Other, [Err(Other), Err(Other)]),
        ] {
            let read = take_some(&mut Failing(kind), &mut Vec::new());
            let written = write_some(&mut Failing(kind), &mut &b"line"[..]);
            let results = [read, written].map(|one| one.map_err(|why| why.kind()));
            assert_eq!(results, expected);
        }
    }
}
