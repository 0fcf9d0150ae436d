//! Jobs and their logs until their end.

use std::time::Duration;

use lighthaul_base::Size;
use lighthaul_base::escape::escape_json;
use lighthaul_grammar::jobs::{Logs, Watch};
use lighthaul_io::host::wait::pause;
use lighthaul_queue::{Job, JobState};
use lighthaul_session::error::{Code, Error};

use super::desk::Desk;
use super::show::{self, plain};
use crate::output::print::{print, print_json, say};

/// Shows a job whenever it changes, until it ends, and returns the exit status of its copy.
pub(super) fn watch(args: &Watch) -> Result<u8, Error> {
    let mut desk = Desk::existing(&args.queue)?;
    // a wrong name of the scheduler or of the job fails at once
    desk.job(args.id)?;
    let mut before = None;
    loop {
        let job = desk.steadily(|desk| desk.job(args.id))?;
        let is_end = job.state.is_end();
        if before.as_ref() != Some(&job) {
            if args.output.json {
                print_json(&show::event(&job, None));
            } else if is_end || before.as_ref().map(head) != Some(head(&job)) {
                print(&head(&job));
            } else if before.as_ref().and_then(tenths) != tenths(&job) {
                print(&progress(&job));
            }
        }
        if is_end {
            return Ok(status(job.state, job.exit));
        }
        before = Some(job);
        pause(INTERVAL);
    }
}

/// Prints the log of a job, with `--follow` until it ends.
pub(super) fn logs(args: &Logs) -> Result<(), Error> {
    let mut desk = Desk::existing(&args.queue)?;
    desk.job(args.id)?;
    let mut after = (0, 0);
    loop {
        let is_end = desk.steadily(|desk| desk.job(args.id))?.state.is_end();
        loop {
            let pieces = desk.steadily(|desk| desk.log(args.id, after))?;
            if pieces.is_empty() {
                break;
            }
            for piece in pieces {
                if piece.attempt != after.0 && piece.attempt > 1 {
                    say(&format!("attempt {}:", piece.attempt));
                }
                after = (piece.attempt, piece.seq);
                for line in piece.text.lines() {
                    print(&escape_json(line));
                }
            }
        }
        if is_end || !args.follow {
            return Ok(());
        }
        pause(INTERVAL);
    }
}

fn head(job: &Job) -> String {
    let why = match job.state {
        JobState::Running => job
            .worker
            .as_ref()
            .map(|worker| format!(" by {}", plain(worker))),
        JobState::Waiting
        | JobState::Queued
        | JobState::Done
        | JobState::Failed
        | JobState::Canceled => (!job.text.is_empty()).then(|| format!(": {}", plain(&job.text))),
    };
    format!("job {} is {}{}", job.id, job.state, why.unwrap_or_default())
}

fn progress(job: &Job) -> String {
    let (done, total) = job.progress.unwrap_or_default();
    format!("job {}: {} of {}", job.id, Size(done), Size(total))
}

/// Returns the whole tenths of the bytes that are done.
fn tenths(job: &Job) -> Option<u64> {
    let (done, total) = job.progress?;
    Some(done.saturating_mul(10) / total.max(1))
}

/// Returns the exit status for the end of a job.
fn status(state: JobState, exit: Option<u8>) -> u8 {
    match state {
        JobState::Done => 0,
        JobState::Canceled => Code::Interrupted as u8,
        JobState::Failed | JobState::Waiting | JobState::Queued | JobState::Running => {
            // the copy did not start, because its time has passed or a job before it has failed
            exit.filter(|exit| *exit != 0)
                .unwrap_or(Code::Refused as u8)
        }
    }
}

/// Interval between two looks at the queue.
const INTERVAL: Duration = Duration::from_millis(500);
