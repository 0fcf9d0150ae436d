//! Command of a job: a process with its progress and its output.
//!
//! The command prints events as JSON lines on standard output. `progress` becomes the progress of the job, and the text
//! of `summary` and `error` its result. Other events and all lines of standard error go to the log. A process ends with
//! its worker. It is in a process group of its own, so that a signal to the group of the worker does not reach it.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::parent::end_with_parent;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::claims::Report;
use crate::error::{Error, Result};
use crate::job::{Attempt, AttemptEnd, Job, JobEnd};
use crate::secrets::Secrets;

/// Process that runs an attempt.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) attempt: Attempt,
    child: Child,
    output: Arc<Mutex<Output>>,
    readers: Vec<JoinHandle<()>>,
    /// Reason for which the worker stopped the process, and the time of the stop.
    stopped: Option<(JobEnd, Instant)>,
    /// Time at which the process was found to have ended.
    ended_at: Option<Instant>,
}

/// Output that is not stored yet.
#[derive(Debug, Default)]
struct Output {
    report: Report,
    /// Octets of the log so far.
    logged: usize,
    /// First failure; the result if there is none.
    text: String,
    /// True if the text is a failure.
    has_failed: bool,
    /// Words of the command that no output may show.
    secrets: Secrets,
}

impl Running {
    /// Starts the command of `job` by `program`.
    pub(crate) fn start(program: &Path, job: &Job) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(words(&job.command)).process_group(0);
        command.current_dir(&job.directory).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        end_with_parent(&mut command);
        let mut child = command.spawn().map_err(|why| Error::Program {
            program: program.to_owned(),
            why: why.to_string(),
        })?;
        let output = Arc::new(Mutex::new(Output {
            secrets: Secrets::of(&job.command),
            ..Output::default()
        }));
        let mut readers = Vec::new();
        if let Some(pipe) = child.stdout.take() {
            readers.push(read(pipe, &output, Output::take_event));
        }
        if let Some(pipe) = child.stderr.take() {
            readers.push(read(pipe, &output, Output::take_line));
        }
        Ok(Self {
            attempt: job.attempt(),
            child,
            output,
            readers,
            stopped: None,
            ended_at: None,
        })
    }

    /// Returns what is new since the last report.
    pub(crate) fn report(&self) -> Report {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut output.report)
    }

    /// Interrupts the process at the time `now`, for the reason `why`.
    pub(crate) fn stop(&mut self, why: JobEnd, now: Instant) {
        self.stopped = Some((why, now));
        self.signal(|id| kill_process(id, Signal::INT).ok());
    }

    /// Kills the process group, if the worker stopped the process more than `patience` ago.
    pub(crate) fn kill_overdue(&mut self, patience: Duration, now: Instant) {
        if self.stopped.is_some_and(|(_, at)| now.since(at) > patience) {
            self.signal(|id| kill_process_group(id, Signal::KILL).ok());
        }
    }

    /// Sends a signal to the process, unless it has ended.
    fn signal(&self, send: impl FnOnce(Pid) -> Option<()>) {
        // not waited for yet, so no other process can have its number
        if self.ended_at.is_none() {
            Pid::from_raw(self.child.id().cast_signed()).and_then(send);
        }
    }

    /// Returns true if the worker has stopped the process.
    pub(crate) const fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Returns the end of the attempt and its last report, once the process has ended.
    ///
    /// A descendant that is still running may hold the output open. Its later output is ignored.
    pub(crate) fn ended(&mut self, now: Instant) -> Option<(AttemptEnd, Report)> {
        let status = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => Some(status),
            Err(_) => None,
        };
        let ended_at = *self.ended_at.get_or_insert(now);
        let is_read = self.readers.iter().all(JoinHandle::is_finished);
        if !is_read && now.since(ended_at) < OUTPUT_PATIENCE {
            return None;
        }
        let report = self.report();
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let stopped = self.stopped.map(|(why, _)| why);
        let end = end_of(status, stopped, &output.text);
        drop(output);
        Some((end, report))
    }
}

/// Returns the words of a command with `--json` added before all paths.
fn words(command: &[String]) -> Vec<&str> {
    let mut words: Vec<&str> = command.iter().map(String::as_str).collect();
    let mut options = words.iter().take_while(|word| **word != "--");
    if !options.any(|word| *word == "--json") {
        words.insert(words.len().min(1), "--json");
    }
    words
}

/// Returns the end of an attempt by the status of its process.
fn end_of(status: Option<ExitStatus>, stopped: Option<JobEnd>, text: &str) -> AttemptEnd {
    let exit = status.and_then(|status| status.code());
    let exit = exit.and_then(|code| u8::try_from(code).ok());
    let end = match (exit, stopped) {
        (Some(0), _) => JobEnd::Done,
        (_, Some(why)) => why,
        (Some(code), None) if code <= SIGNALED && !RETRIED.contains(&code) => JobEnd::Failed,
        (_, None) => JobEnd::Retry,
    };
    let text = match (text.is_empty(), exit) {
        (false, _) => text.to_owned(),
        (true, Some(0)) => String::new(),
        (true, Some(code)) => format!("the command ended with exit status {code}"),
        (true, None) => "a signal ended the command".to_owned(),
    };
    AttemptEnd { end, exit, text }
}

/// Reads the lines of a pipe in a thread of its own. Longer lines than [`LINE_MAX`] are cut into several.
fn read(
    pipe: impl Read + Send + 'static,
    output: &Arc<Mutex<Output>>,
    take: fn(&mut Output, &str),
) -> JoinHandle<()> {
    let output = Arc::clone(output);
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        loop {
            line.clear();
            let most = LINE_MAX as u64;
            match pipe.by_ref().take(most).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let text = String::from_utf8_lossy(&line);
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            let text = output
                .secrets
                .hide(text.trim_end_matches('\n'))
                .into_owned();
            take(&mut output, &text);
        }
    })
}

impl Output {
    /// Takes an event of the command.
    fn take_event(&mut self, line: &str) {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        let number = |key: &str| event[key].as_u64();
        match event["type"].as_str() {
            Some("progress") => {
                let progress = number("bytes").zip(number("bytes_total"));
                self.report.progress = progress.or(self.report.progress);
            }
            Some("summary") => {
                let bytes = number("bytes").unwrap_or(0);
                self.report.progress = Some((bytes, bytes));
                let entries = number("entries").unwrap_or(0);
                if !self.has_failed {
                    self.text = format!("{bytes} bytes in {entries} entries");
                }
                self.take_line(line);
            }
            Some("error") => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    let text = event["text"].as_str().unwrap_or_default();
                    text.clone_into(&mut self.text);
                }
                self.take_line(line);
            }
            _ => self.take_line(line),
        }
    }

    /// Takes a line for the log, unless the log is full.
    fn take_line(&mut self, line: &str) {
        if self.logged >= LOG_MAX {
            return;
        }
        self.logged += line.len() + 1;
        self.report.log.push_str(line);
        self.report.log.push('\n');
        if self.logged >= LOG_MAX {
            self.report
                .log
                .push_str("(further output of this attempt is left out)\n");
        }
    }
}

/// Exit statuses of failures that a retry may mend: network, file, integrity, interrupted by others, partial, changed,
/// timeout, refused reservation, panic, and a daemon that is being stopped.
const RETRIED: [u8; 10] = [10, 11, 12, 20, 23, 24, 30, 40, 70, 75];
/// Exit statuses above this number come from signals.
const SIGNALED: u8 = 128;
/// Maximum wait for the rest of the output, after the process has ended.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(1);
/// Most octets of a line.
const LINE_MAX: usize = 64 << 10;
/// Most octets of the log of an attempt.
const LOG_MAX: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn end(code: i32, stopped: Option<JobEnd>) -> JobEnd {
        end_of(Some(ExitStatus::from_raw(code << 8)), stopped, "").end
    }

    #[test]
    fn exit_status_decides_whether_a_retry_follows() {
        assert_eq!(end(0, None), JobEnd::Done);
        assert_eq!(end(10, None), JobEnd::Retry);
        assert_eq!(end(13, None), JobEnd::Failed);
        assert_eq!(
            (end(20, None), end(130, None)),
            (JobEnd::Retry, JobEnd::Retry)
        );
        assert_eq!(end(20, Some(JobEnd::Canceled)), JobEnd::Canceled);
        assert_eq!(
            end(0, Some(JobEnd::Canceled)),
            JobEnd::Done,
            "it was faster"
        );
        let killed = end_of(Some(ExitStatus::from_raw(9)), None, "");
        assert_eq!((killed.end, killed.exit), (JobEnd::Retry, None));
        assert_eq!(killed.text, "a signal ended the command");
    }

    #[test]
    fn events_become_progress_result_and_log() {
        let mut output = Output::default();
        output.take_event(r#"{"type":"progress","bytes":5,"bytes_total":9}"#);
        assert_eq!(output.report.progress, Some((5, 9)));
        assert_eq!(output.report.log, "");
        output.take_event(r#"{"type":"summary","bytes":9,"entries":2}"#);
        assert_eq!(output.text, "9 bytes in 2 entries");
        output.take_event("no JSON");
        assert!(output.report.log.ends_with("no JSON\n"));
        output.take_event(r#"{"type":"error","code":10,"text":"cannot reach far"}"#);
        assert_eq!(output.text, "cannot reach far");
        // the summary of a copy in which some entries failed
        output.take_event(r#"{"type":"error","code":3,"text":"cannot read b"}"#);
        output.take_event(r#"{"type":"summary","bytes":9,"entries":2}"#);
        assert_eq!(output.text, "cannot reach far");
        assert_eq!(output.report.progress, Some((9, 9)));
    }

    #[test]
    fn endless_output_takes_little_memory() {
        let mut output = Output::default();
        for _ in 0..10_000 {
            output.take_line(&"x".repeat(1000));
        }
        assert!(output.report.log.len() < LOG_MAX + 2000);
        assert!(output.report.log.ends_with("left out)\n"));
    }
}
