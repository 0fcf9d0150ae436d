//! Processes that hold a resource of the kernel until a test kills them.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Process that runs one ignored test of this program, and is killed once that test is ready.
#[derive(Clone, Copy, Debug)]
pub struct Holder {
    /// Full name of the ignored test.
    pub test: &'static str,
    /// Environment variable with the path that the test gets.
    pub variable: &'static str,
}

impl Holder {
    /// Starts the process and kills it when it is ready. Returns false if it ends before that.
    pub fn run_and_kill(self, path: &Path) -> io::Result<bool> {
        let mut process = Command::new(env::current_exe()?)
            .args(["--exact", self.test, "--ignored", "--nocapture"])
            .env(self.variable, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().map(BufReader::new);
        let mut lines = output.into_iter().flat_map(BufRead::lines);
        let is_ready = lines.any(|line| line.is_ok_and(|line| line == READY));
        process.kill()?;
        process.wait()?;
        Ok(is_ready)
    }

    /// Reports from within the ignored test that it is ready, and waits to be killed while it keeps `held`.
    pub fn wait_to_be_killed<T>(held: T) {
        let mut output = io::stdout();
        let reported = write!(output, "\n{READY}\n").and_then(|()| output.flush());
        reported.expect("the test reads the output");
        io::stdin()
            .read_to_end(&mut Vec::new())
            .expect("the input stays open");
        drop(held);
        panic!("the process was not killed");
    }
}

const READY: &str = "ready";
