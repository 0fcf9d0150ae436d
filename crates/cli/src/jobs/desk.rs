//! Queue of the commands: a database of jobs, or a scheduler that has one.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::time::Duration;

use lighthaul_booking_client::client::Client;
use lighthaul_booking_client::jobs::JobFilter;
use lighthaul_booking_client::json::{
    IsoDuration, JobEventView, JobLogPiece, JobStatus, JobView, Timestamp,
};
use lighthaul_grammar::jobs::{QueueArgs, StoreArgs};
use lighthaul_io::crypto::identity;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_queue::list::{JobEvent, LogPiece, Selection};
use lighthaul_queue::{Job, JobId, JobState, Queue, RequestKey, owner};
use lighthaul_remote::paths;
use lighthaul_remote::scheduler::{Scheduler, failed as refused, reach};
use lighthaul_session::error::{Code, Error};

use crate::error::Fault;
use crate::output::print::say;

/// Queue of the commands.
#[derive(Debug)]
pub(super) enum Desk {
    /// Database of jobs.
    Queue(Queue),
    /// Scheduler that has a queue.
    Scheduler(Client),
}

impl Desk {
    /// Opens a queue that exists.
    pub(super) fn existing(args: &QueueArgs) -> Result<Self, Error> {
        match scheduler(args) {
            Some(scheduler) => Ok(Self::Scheduler(reach(&scheduler)?)),
            None => existing(&args.store).map(Self::Queue),
        }
    }

    /// Reads something for a command that follows a job. A scheduler that cannot be reached is asked again for
    /// [`PATIENCE`], since the job runs on.
    pub(super) fn steadily<T>(
        &mut self,
        read: impl Fn(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let clock = Clock::start();
        let start = clock.now();
        let mut is_told = false;
        loop {
            match read(self) {
                Err(error)
                    if matches!(error.code(), Code::Network | Code::Stopping)
                        && clock.now().since(start) < PATIENCE =>
                {
                    if !std::mem::replace(&mut is_told, true) {
                        say(&format!("{}; the job runs on, trying again", error.text()));
                    }
                    pause(RETRY_PAUSE);
                }
                done => return done,
            }
        }
    }

    /// Returns a job.
    pub(super) fn job(&mut self, id: u64) -> Result<Job, Error> {
        match self {
            Self::Queue(queue) => patiently(|| queue.job(JobId(id))),
            Self::Scheduler(client) => client.job(id).map(job).map_err(refused),
        }
    }

    /// Returns up to `most` jobs in these states, the newest first, and the number of jobs in each state. A scheduler
    /// counts only those that it returns.
    pub(super) fn jobs(
        &mut self,
        states: &[JobState],
        most: usize,
    ) -> Result<(Vec<Job>, BTreeMap<JobState, u64>), Error> {
        match self {
            Self::Queue(queue) => {
                let selection = Selection {
                    states: states.to_vec(),
                    owner: None,
                };
                patiently(|| Ok((queue.jobs(&selection, None, most)?, queue.counts()?)))
            }
            Self::Scheduler(client) => {
                let jobs = pages(client, states, most)?;
                let mut counts = BTreeMap::new();
                for job in &jobs {
                    *counts.entry(job.state).or_default() += 1;
                }
                Ok((jobs, counts))
            }
        }
    }

    /// Returns the history of a job.
    pub(super) fn events(&mut self, id: u64) -> Result<Vec<JobEvent>, Error> {
        match self {
            Self::Queue(queue) => patiently(|| queue.events(JobId(id))),
            Self::Scheduler(client) => {
                let events = client.job_events(id).map_err(refused)?;
                Ok(events.into_iter().map(event).collect())
            }
        }
    }

    /// Returns the next pieces of a job's log after `after`; none if there are no more now.
    pub(super) fn log(&mut self, id: u64, after: (u32, u64)) -> Result<Vec<LogPiece>, Error> {
        match self {
            Self::Queue(queue) => patiently(|| queue.log(JobId(id), after, PIECES_MAX)),
            Self::Scheduler(client) => {
                let pieces = client.job_log(id, after).map_err(refused)?;
                Ok(pieces.into_iter().map(piece).collect())
            }
        }
    }

    /// Cancels a job.
    pub(super) fn cancel(&mut self, id: u64) -> Result<(), Error> {
        match self {
            Self::Queue(queue) => {
                let (owner, key) = (owner(), identity::token());
                patiently(|| {
                    let now = queue.now()?;
                    let key = RequestKey {
                        owner: &owner,
                        key: &key,
                    };
                    queue.cancel_once(now, JobId(id), Some(key)).map(drop)
                })
            }
            Self::Scheduler(client) => client.cancel_job(id).map(drop).map_err(refused),
        }
    }

    /// Queues a failed or canceled job again.
    pub(super) fn retry(&mut self, id: u64) -> Result<(), Error> {
        match self {
            Self::Queue(queue) => {
                let (owner, key) = (owner(), identity::token());
                patiently(|| {
                    let now = queue.now()?;
                    let key = RequestKey {
                        owner: &owner,
                        key: &key,
                    };
                    queue.retry_once(now, JobId(id), Some(key), u64::MAX)
                })
            }
            Self::Scheduler(client) => client.retry_job(id).map(drop).map_err(refused),
        }
    }
}

/// Returns the scheduler of a command, if it names one.
pub(super) fn scheduler(args: &QueueArgs) -> Option<Scheduler> {
    Some(Scheduler {
        url: args.scheduler.clone()?,
        token_file: args.token_file.clone(),
        pin: args.pin.clone(),
        known_hosts: None,
    })
}

/// Returns the owner of the user's jobs: its name, or else its number.
pub(super) fn owner() -> String {
    let name = env::var("USER").ok().filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| rustix::process::getuid().as_raw().to_string());
    owner::of_user(&name)
}

/// Opens a queue that exists in a database.
pub(super) fn existing(args: &StoreArgs) -> Result<Queue, Error> {
    Queue::existing(&place(args)).map_err(failed)
}

/// Returns the place of the database.
pub(super) fn place(args: &StoreArgs) -> PathBuf {
    args.queue.clone().unwrap_or_else(paths::jobs)
}

/// Returns the error of a queue's fault.
pub(super) fn failed(fault: lighthaul_queue::Error) -> Error {
    Fault::Queue(fault).into()
}

/// Does something with a queue, and again with growing pauses while its server is away.
pub(super) fn patiently<T>(
    mut act: impl FnMut() -> lighthaul_queue::Result<T>,
) -> Result<T, Error> {
    for nth in 0..RETRIES {
        match act() {
            Err(error) if error.is_lost() => {
                if nth == 0 {
                    say(&format!("{error}; trying again"));
                }
                pause(RETRY_PAUSE * 2_u32.pow(nth));
            }
            done => return done.map_err(failed),
        }
    }
    act().map_err(failed)
}

/// Returns up to `most` jobs of a scheduler.
fn pages(client: &Client, states: &[JobState], most: usize) -> Result<Vec<Job>, Error> {
    let statuses = JobStatus::ALL.into_iter();
    let statuses = statuses.filter(|status| states.contains(&state(*status)));
    let mut jobs = Vec::new();
    let mut filter = JobFilter {
        states: statuses.collect(),
        ..JobFilter::default()
    };
    loop {
        filter.limit = Some((most - jobs.len()).clamp(1, PAGE_MAX));
        let page = client.jobs(&filter).map_err(refused)?;
        jobs.extend(page.items.into_iter().map(job));
        filter.before = page.next;
        if page.next.is_none() || jobs.len() >= most {
            jobs.truncate(most);
            return Ok(jobs);
        }
    }
}

/// Returns a job as the queue has it. Its directory is that of the worker.
pub(super) fn job(view: JobView) -> Job {
    Job {
        id: JobId(view.id),
        owner: view.owner,
        name: view.name,
        command: view.command,
        directory: "/".into(),
        priority: view.priority,
        state: state(view.state),
        attempt: view.attempt,
        failures: view.failures,
        retries: view.retries,
        not_before: millis(view.at),
        start_by: view.start_by.map(millis),
        every: view
            .every
            .map(|IsoDuration(every)| u64::try_from(every.as_millis()).unwrap_or(u64::MAX)),
        worker: view.worker,
        is_cancel_requested: view.cancel_requested,
        progress: view.bytes.zip(view.bytes_total),
        submitted: millis(view.submitted),
        started: view.started.map(millis),
        ended: view.ended.map(millis),
        exit: view.exit,
        text: view.text,
    }
}

fn event(view: JobEventView) -> JobEvent {
    JobEvent {
        seq: view.seq,
        time: millis(view.at),
        attempt: view.attempt,
        state: state(view.state),
        text: view.text,
    }
}

fn piece(view: JobLogPiece) -> LogPiece {
    LogPiece {
        attempt: view.attempt,
        seq: view.seq,
        text: view.text,
    }
}

const fn state(status: JobStatus) -> JobState {
    match status {
        JobStatus::Waiting => JobState::Waiting,
        JobStatus::Queued => JobState::Queued,
        JobStatus::Running => JobState::Running,
        JobStatus::Done => JobState::Done,
        JobStatus::Failed => JobState::Failed,
        JobStatus::Canceled => JobState::Canceled,
    }
}

const fn millis(time: Timestamp) -> u64 {
    time.0 / 1_000_000
}

/// Most pieces of a log that are read at once.
const PIECES_MAX: usize = 100;
/// Longest wait for a scheduler while a command follows a job.
const PATIENCE: Duration = Duration::from_mins(5);
/// Most repetitions while the server of a queue is away.
const RETRIES: u32 = 6;
/// First pause before a repetition; each one after it is twice as long.
const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// Most jobs that a scheduler returns at once.
const PAGE_MAX: usize = 1000;
