//! Running process: its output and its exit status. It never outlives its test.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_testkit::{allowance, report};
use serde_json::Value;

/// A process. It is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// Lines of standard output and of standard error.
    out: Voice,
    err: Voice,
}

/// Exit of a process, and its output.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Exit status, or none if a signal ended the process.
    pub(crate) code: Option<i32>,
    /// Lines of standard output.
    pub(crate) out: Vec<String>,
    /// Lines of standard error.
    pub(crate) err: Vec<String>,
    /// Duration of the process.
    pub(crate) time: Duration,
}

#[derive(Debug)]
struct Voice {
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Running {
    /// Starts `command`, whose input stays closed.
    pub(crate) fn start(mut command: Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = Voice::of(child.stdout.take().unwrap());
        let err = Voice::of(child.stderr.take().unwrap());
        Self { child, out, err }
    }

    /// The first line of standard error, new or old, that has `words` in it.
    pub(crate) fn says(&mut self, words: &str) -> String {
        self.err.wait_for(&[words])
    }

    /// The first line of standard error, new or old, that has one of these words in it.
    pub(crate) fn says_any(&mut self, words: &[&str]) -> String {
        self.err.wait_for(words)
    }

    /// The first line of standard output, new or old, that has `words` in it.
    pub(crate) fn prints(&mut self, words: &str) -> String {
        self.out.wait_for(&[words])
    }

    /// The next line of standard output that was not returned yet.
    pub(crate) fn next_line(&mut self) -> String {
        self.out.next()
    }

    /// Returns its process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends the signal of this name, as in `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let status = Command::new("kill")
            .args(["-s", name, &id])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended, a minute at most, or longer on a busy host.
    pub(crate) fn finish(self) -> Outcome {
        self.finish_within(patience())
    }

    /// Waits until it has ended, at most this long.
    pub(crate) fn finish_within(mut self, limit: Duration) -> Outcome {
        let clock = Clock::start();
        self.out.wait_for_end(limit);
        self.err.wait_for_end(limit);
        let code = self.child.wait().unwrap().code();
        let (out, err) = (
            std::mem::take(&mut self.out.said),
            std::mem::take(&mut self.err.said),
        );
        Outcome {
            code,
            out,
            err,
            time: clock.now().since(Instant::ZERO),
        }
    }
}

impl Drop for Running {
    /// Ends the process, and prints what it said if its test has failed.
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            let said = self.err.said.drain(..).chain(self.err.lines.try_iter());
            for line in said {
                report(format_args!("process {}: {line}", self.child.id()));
            }
        }
    }
}

impl Outcome {
    /// The first event of this type.
    pub(crate) fn event(&self, name: &str) -> Value {
        let mut events = self.events().into_iter();
        let found = events.find(|event| event["type"] == name);
        found.unwrap_or_else(|| panic!("no event {name}: {self:?}"))
    }

    /// Asserts success.
    pub(crate) fn assert_succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Asserts this status, and one line that begins with `lighthaul: ` and contains `words`.
    pub(crate) fn assert_failed(self, code: u8, words: &str) -> Self {
        assert_eq!(self.code, Some(code.into()), "{self:?}");
        let told: Vec<_> = self
            .err
            .iter()
            .filter(|line| line.contains(words))
            .collect();
        assert!(
            told.len() == 1 && told[0].starts_with("lighthaul: "),
            "{words:?}: {self:?}"
        );
        self
    }

    /// Asserts that the command line was invalid.
    pub(crate) fn assert_failed_to_parse(self) {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert!(self.said("error: ") && self.out.is_empty(), "{self:?}");
    }

    /// Returns true if standard error has these words.
    pub(crate) fn said(&self, words: &str) -> bool {
        self.err.iter().any(|line| line.contains(words))
    }

    /// Standard output as events.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.out.iter().map(|line| event(line)).collect()
    }
}

impl Voice {
    fn of(pipe: impl Read + Send + 'static) -> Self {
        let (told, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                if told
                    .send(String::from_utf8_lossy(&line).into_owned())
                    .is_err()
                {
                    return;
                }
            }
        });
        Self {
            lines,
            said: Vec::new(),
        }
    }

    /// Waits for a line that is new.
    fn next(&mut self) -> String {
        let line = self.lines.recv_timeout(patience());
        let line = line.unwrap_or_else(|why| panic!("no line ({why}) after {:?}", self.said));
        self.said.push(line.clone());
        line
    }

    /// Waits for a line that has one of these words in it.
    fn wait_for(&mut self, words: &[&str]) -> String {
        let (clock, limit) = (Clock::start(), Instant::ZERO + patience());
        let mut looked = 0;
        loop {
            while let Some(line) = self.said.get(looked) {
                if words.iter().any(|words| line.contains(words)) {
                    return line.clone();
                }
                looked += 1;
            }
            match self.lines.recv_timeout(clock.until(limit)) {
                Ok(line) => self.said.push(line),
                Err(why) => panic!("{words:?} was never said ({why}), but {:?}", self.said),
            }
        }
    }

    fn wait_for_end(&mut self, limit: Duration) {
        let clock = Clock::start();
        loop {
            match self.lines.recv_timeout(clock.until(Instant::ZERO + limit)) {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("it never ended, and said {:?}", self.said)
                }
            }
        }
    }
}

/// Parses a line of `--json` as an event.
pub(crate) fn event(line: &str) -> Value {
    let event: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    assert_eq!(event["v"], 1, "{line}");
    assert!(event["type"].is_string(), "{line}");
    event
}

/// Waits until the condition is true, at most a minute, or longer on a busy host.
pub(crate) fn becomes_true(what: &str, mut look: impl FnMut() -> bool) {
    let (clock, limit) = (Clock::start(), Instant::ZERO + patience());
    while !look() {
        assert!(clock.now() < limit, "it never came to be that {what}");
        pause(Duration::from_millis(5));
    }
}

/// Returns the timeout of every wait: a minute, and longer on a busy host.
fn patience() -> Duration {
    allowance(60)
}

/// Ends an attack when it is dropped, so that a failing test does not wait for it.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
