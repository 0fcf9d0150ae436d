//! Progress and results of `manifest` and `verify`.
//!
//! `SumsPrinter` writes results to standard output and progress to standard error. Progress is a
//! line that is overwritten every 200 ms (bar), or a new line each second (plain). With `--json`,
//! each result is an event, and an event of type `end` is the last. Worker threads count the bytes
//! in a shared counter.

use std::io::{BufWriter, IsTerminal, Stdout, Write, stderr, stdout};
use std::sync::atomic::{AtomicU64, Ordering};

use lighthaul_base::escape::escape_json;
use lighthaul_base::{Instant, Rate, Size, counted};
use lighthaul_grammar::output::Progress;
use lighthaul_grammar::sums::ThreadArgs;
use lighthaul_io::host::clock::Clock;
use lighthaul_session::error::Error;
use serde_json::{Map, Value, json};

use crate::output::name::{put, shown};
use crate::output::print::{output_failed, say};

/// Shows progress on standard error and results on standard output.
#[derive(Debug)]
pub(crate) struct SumsPrinter<'a> {
    pub(crate) json: bool,
    progress: Progress,
    bytes: &'a AtomicU64,
    clock: Clock,
    shown_at: Instant,
    line_open: bool,
    out: BufWriter<Stdout>,
    /// Files that were checked.
    pub(crate) files: u64,
    /// Files that failed.
    pub(crate) failures: u64,
}

impl<'a> SumsPrinter<'a> {
    /// Returns a display of the progress of `bytes`.
    pub(crate) fn new(crew: ThreadArgs, bytes: &'a AtomicU64) -> Self {
        let json = crew.output.json;
        let progress = match crew.progress.progress {
            Progress::Auto if stderr().is_terminal() && !json => Progress::Bar,
            Progress::Auto => Progress::None,
            chosen @ (Progress::Bar | Progress::Plain | Progress::None) => chosen,
        };
        let clock = Clock::start();
        Self {
            json,
            progress,
            bytes,
            clock,
            shown_at: clock.now(),
            line_open: false,
            out: BufWriter::new(stdout()),
            files: 0,
            failures: 0,
        }
    }

    /// Prints progress, if its interval has passed.
    pub(crate) fn tick(&mut self) {
        let now = self.clock.now();
        let every = match self.progress {
            Progress::Bar => 200,
            Progress::Plain => 1000,
            Progress::Auto | Progress::None => return,
        };
        if now.since(self.shown_at).as_millis() < every {
            return;
        }
        self.shown_at = now;
        let line = self.line();
        if self.progress == Progress::Bar {
            write!(stderr(), "\r\x1b[K{line}").ok();
            stderr().flush().ok();
            self.line_open = true;
        } else {
            say(&line);
        }
    }

    /// Returns files, bytes and throughput as text.
    fn line(&self) -> String {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let speed = Rate::of(bytes, self.clock.now().since(Instant::ZERO));
        let files = counted(self.files, "file", "files");
        format!("{files}, {}, {speed}", Size(bytes))
    }

    /// Prints a line of octets.
    pub(crate) fn print(&mut self, line: &[u8]) -> Result<(), Error> {
        let written = self.out.write_all(line);
        written
            .and_then(|()| self.out.write_all(b"\n"))
            .map_err(output_failed)
    }

    fn print_json(&mut self, event: &Value) -> Result<(), Error> {
        self.print(escape_json(&event.to_string()).as_bytes())
    }

    /// Prints an event of the type `kind` about `path`.
    pub(crate) fn event(&mut self, kind: &str, path: &[u8], more: Value) -> Result<(), Error> {
        let mut event = Map::new();
        event.insert("v".into(), 1.into());
        event.insert("type".into(), kind.into());
        put(&mut event, "path", path);
        if let Value::Object(more) = more {
            event.extend(more);
        }
        self.print_json(&Value::from(event))
    }

    /// Prints a file that failed, with the kind of the failure in one word and the reason.
    pub(crate) fn fail(&mut self, path: &[u8], problem: &str, text: &str) -> Result<(), Error> {
        self.failures += 1;
        self.name(path, problem, text)
    }

    /// Reports a directory or file that could not be read, on standard error.
    pub(crate) fn warn(&mut self, why: &str) {
        self.failures += 1;
        self.close_line();
        say(&format!("lighthaul: {why}"));
    }

    /// Prints a line or an event about a file.
    pub(crate) fn name(&mut self, path: &[u8], problem: &str, text: &str) -> Result<(), Error> {
        if self.json {
            let more = json!({"problem": problem, "text": text});
            return self.event("difference", path, more);
        }
        self.close_line();
        let line = format!("{problem:<10} {}: {text}", shown(path));
        self.print(line.as_bytes())
    }

    /// Ends the output.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        if self.json {
            let end = json!({
                "v": 1, "type": "end", "entries": self.files, "failures": self.failures,
            });
            self.print_json(&end)?;
        }
        self.close_line();
        self.out.flush().map_err(output_failed)
    }

    fn close_line(&mut self) {
        if self.line_open {
            write!(stderr(), "\r\x1b[K").ok();
            self.line_open = false;
        }
    }
}
