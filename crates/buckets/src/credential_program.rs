//! Program that prints the credentials of a profile (`credential_process`), with limits on its time and its output.
//!
//! The program has a process group of its own. The group is killed when the program exceeds a limit, and when the task
//! that needs the credentials is cancelled.

use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::parent::end_with_parent;
use lighthaul_io::host::wait::{Watch, wait};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Reason why a program has printed no credentials.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ProgramFault {
    /// Failure, as in "ends with exit status 1".
    Failed(String),
    /// Limit within which the program did not end; it was killed.
    TimedOut(Duration),
    /// Cancellation of the task; the program was killed.
    Cancelled,
}

/// Program that runs. It is killed with its children when this is dropped before its end.
struct Program {
    child: Child,
    has_ended: bool,
}

/// State of a program.
enum Progress {
    Runs,
    /// The kernel has stopped its group, since it uses the terminal in the background.
    Asks,
    Ended,
}

/// Runs a shell command, and returns what it prints on standard output.
pub(crate) fn output(line: &str, limit: Duration) -> Result<Vec<u8>, ProgramFault> {
    let failed = |what: &str, error: io::Error| ProgramFault::Failed(format!("{what}: {error}"));
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    end_with_parent(&mut command);
    let child = command.spawn();
    let mut program = Program {
        child: child.map_err(|error| failed("does not start", error))?,
        has_ended: false,
    };
    let unreadable = |error| failed("cannot be read", error);
    let printed = program.printed(limit, unreadable)?;
    let status = program.end().map_err(unreadable)?;
    if !status.success() {
        return Err(ProgramFault::Failed(format!("ends with {status}")));
    }
    Ok(printed)
}

impl Program {
    /// Waits for the end of the program, and returns its output. Children may still run, and hold the output open.
    fn printed(
        &mut self,
        limit: Duration,
        unreadable: impl Fn(io::Error) -> ProgramFault,
    ) -> Result<Vec<u8>, ProgramFault> {
        let clock = Clock::start();
        let till = clock.now() + limit;
        let mut pipe = self.child.stdout.take();
        if let Some(pipe) = &pipe {
            rustix::io::ioctl_fionbio(pipe, true).map_err(|error| unreadable(error.into()))?;
        }
        let mut printed = Vec::new();
        loop {
            // what an ended program has printed is in the pipe
            let progress = self.progress().map_err(&unreadable)?;
            if let Some(open) = &mut pipe
                && take_some(open, &mut printed).map_err(&unreadable)?
            {
                pipe = None;
            }
            if printed.len() as u64 > OUTPUT_MAX {
                let text = format!("prints more than {OUTPUT_MAX} bytes");
                return Err(ProgramFault::Failed(text));
            }
            match progress {
                Progress::Runs => {}
                Progress::Asks => return Err(ProgramFault::Failed(TERMINAL.to_owned())),
                Progress::Ended => return Ok(printed),
            }
            if interrupt::is_requested() {
                return Err(ProgramFault::Cancelled);
            }
            let now = clock.now();
            if now >= till {
                return Err(ProgramFault::TimedOut(limit));
            }
            let mut watches: Vec<Watch> = pipe
                .iter()
                .map(|pipe| Watch::read(pipe.as_raw_fd()))
                .collect();
            wait(clock, &mut watches, till.min(now + LOOK)).map_err(&unreadable)?;
        }
    }

    /// Returns the state of the program. Its process ID stays its own until [`Self::end`].
    fn progress(&self) -> io::Result<Progress> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED;
        let options = options | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let changed = waitid(WaitId::Pid(Pid::from_child(&self.child)), options)?;
        let Some(changed) = changed else {
            return Ok(Progress::Runs);
        };
        let Some(signal) = changed.stopping_signal() else {
            return Ok(Progress::Ended);
        };
        let asks = [Signal::TTIN, Signal::TTOU].map(Signal::as_raw);
        Ok(if asks.contains(&signal) {
            Progress::Asks
        } else {
            Progress::Runs
        })
    }

    /// Waits for the end of the program.
    fn end(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait()?;
        self.has_ended = true;
        Ok(status)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // until the child is waited for, no other group can have its number
        if !self.has_ended {
            kill_process_group(Pid::from_child(&self.child), Signal::KILL).ok();
            self.end().ok();
        }
    }
}

/// Reads what is in the pipe now. Returns true at the end of the output.
fn take_some(pipe: &mut ChildStdout, printed: &mut Vec<u8>) -> io::Result<bool> {
    // one octet too many shows that there are more
    let room = (OUTPUT_MAX + 1).saturating_sub(printed.len() as u64);
    match pipe.by_ref().take(room).read_to_end(printed) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Interval at which the end of the program and a cancellation are looked for.
const LOOK: Duration = Duration::from_millis(10);
/// Failure of a program that uses the terminal.
const TERMINAL: &str =
    "asks on the terminal, which it cannot use; log in first, and run the same command again";
/// Maximum number of bytes that a program prints.
const OUTPUT_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::thread;

    use lighthaul_io::host::cancellation::Cancellation;
    use lighthaul_io::host::wait::pause;

    use super::*;

    /// Long enough for each program of these tests, and shorter than `sleep`.
    const LONG: Duration = Duration::from_mins(5);

    /// A shell command that starts a child, writes its process ID to a file, and waits for it.
    fn hanging(name: &str) -> (String, PathBuf) {
        let own = std::process::id();
        let file = std::env::temp_dir().join(format!("credential-program-{own}-{name}"));
        std::fs::remove_file(&file).ok();
        let path = file.display();
        let line = format!("sleep 900 & echo $! > {path}.new; mv {path}.new {path}; wait");
        (line, file)
    }

    /// Asserts that the child, whose process ID is in the file, ends.
    fn assert_child_ends(file: &Path) {
        let id = std::fs::read_to_string(file).unwrap();
        let stat = PathBuf::from(format!("/proc/{}/stat", id.trim()));
        let clock = Clock::start();
        let till = clock.now() + LONG;
        // a process without a parent that waits for it stays as a zombie
        while let Ok(stat) = std::fs::read_to_string(&stat)
            && !stat.contains(") Z ")
        {
            assert!(clock.now() < till, "the child still runs: {stat}");
            pause(LOOK);
        }
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn program_has_the_time_that_it_needs() {
        assert_eq!(
            output("echo one; sleep 0.1; echo two", LONG).unwrap(),
            b"one\ntwo\n"
        );
        let closed = output("echo one; exec >&-; sleep 0.1; exit 3", LONG);
        assert_eq!(
            closed,
            Err(ProgramFault::Failed("ends with exit status: 3".to_owned()))
        );
    }

    #[test]
    fn child_that_stays_does_not_delay_the_output() {
        let printed = output("sleep 900 & echo $!", LONG).unwrap();
        let id: i32 = str::from_utf8(&printed).unwrap().trim().parse().unwrap();
        let id = Pid::from_raw(id).unwrap();
        rustix::process::kill_process(id, Signal::KILL).unwrap();
    }

    #[test]
    fn program_that_hangs_is_killed_with_its_children() {
        let (line, file) = hanging("limit");
        // on a busy host, the program may not come so far
        for seconds in [1, 8, 64] {
            let limit = Duration::from_secs(seconds);
            assert_eq!(output(&line, limit), Err(ProgramFault::TimedOut(limit)));
            if file.exists() {
                break;
            }
        }
        assert_child_ends(&file);
    }

    #[test]
    fn cancelled_task_kills_the_program_and_its_children() {
        let (line, file) = hanging("cancelled");
        let cancellation = Cancellation::default();
        let running = cancellation.clone();
        let running = thread::spawn(move || running.cover(|| output(&line, LONG)));
        while !file.exists() {
            pause(LOOK);
        }
        cancellation.cancel();
        assert_eq!(running.join().unwrap(), Err(ProgramFault::Cancelled));
        assert_child_ends(&file);
    }

    #[test]
    fn program_that_reads_from_the_terminal_fails_at_once() {
        // as the kernel does, which stops the whole group
        for signal in ["TTIN", "TTOU"] {
            let fault = output(&format!("kill -{signal} 0; sleep 900"), LONG).unwrap_err();
            assert_eq!(fault, ProgramFault::Failed(TERMINAL.to_owned()));
        }
    }

    #[test]
    fn program_that_prints_without_an_end_is_killed() {
        let fault = output("yes", LONG).unwrap_err();
        assert_eq!(
            fault,
            ProgramFault::Failed(format!("prints more than {OUTPUT_MAX} bytes"))
        );
    }
}
