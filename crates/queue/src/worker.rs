//! A process that runs jobs of a queue, some at a time.
//!
//! ```text
//! each turn: ended commands -> finish; leases -> renew; due jobs -> advance; free slots -> claim, start
//! ```
//!
//! When the worker is stopped, it interrupts its commands and puts their jobs back; the next attempt resumes the
//! copies. When it is killed, the kernel kills its commands, and their leases end.

use std::path::PathBuf;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::wait::pause;

use crate::child::Running;
use crate::claims::{Order, Report};
use crate::error::Result;
use crate::job::{AttemptEnd, Job, JobEnd};
use crate::queue::Queue;

/// Settings of a worker.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Name, which users see at jobs that it runs.
    pub name: String,
    /// Program that runs the commands of jobs.
    pub program: PathBuf,
    /// Jobs at a time.
    pub slots: usize,
    /// Time without news after which the job of a worker is queued again.
    pub lease: Duration,
    /// True if the worker ends once no job is queued, runs, or waits for a time.
    pub until_empty: bool,
    /// Age at which ended jobs are deleted.
    pub keep: Duration,
}

/// Activity of a worker, for its log.
#[derive(Debug)]
pub enum Activity<'a> {
    /// The worker starts an attempt.
    Starts(&'a Job),
    /// An attempt has ended.
    Ended(&'a Job, &'a AttemptEnd),
    /// An attempt was given to another worker, so its end is ignored.
    Lost(&'a Job),
}

/// Runs jobs until `is_stopped` returns true, or with `until_empty` until none is left.
///
/// Commands end when the calling thread ends. `tell` gets each activity.
pub fn work(
    queue: &mut Queue,
    settings: &WorkerSettings,
    is_stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(Activity<'_>),
) -> Result<()> {
    let mut worker = Worker {
        queue,
        settings,
        running: Vec::new(),
        clock: Clock::start(),
        tell,
    };
    let mut stop_begin = None;
    loop {
        worker.reap()?;
        if is_stopped() {
            let now = worker.clock.now();
            let begin = *stop_begin.get_or_insert(now);
            worker.stop_all(now.since(begin) > STOP_PATIENCE);
            if worker.running.is_empty() {
                return Ok(());
            }
        } else {
            let moved = worker.queue.advance(now())?;
            worker.fill()?;
            if moved == 0 && worker.is_over()? {
                return Ok(());
            }
        }
        worker.renew()?;
        worker
            .queue
            .forget(now().saturating_sub(millis(settings.keep)), FORGOTTEN)?;
        pause(TURN);
    }
}

struct Worker<'a> {
    queue: &'a mut Queue,
    settings: &'a WorkerSettings,
    /// Jobs with their processes, and the time of the last renewal of their leases.
    running: Vec<(Job, Running, Instant)>,
    clock: Clock,
    tell: &'a mut dyn FnMut(Activity<'_>),
}

impl Worker<'_> {
    /// Stores the end of each attempt whose command has ended.
    fn reap(&mut self) -> Result<()> {
        let mut at = 0;
        while let Some((_, running, _)) = self.running.get_mut(at) {
            let Some((end, report)) = running.ended() else {
                at += 1;
                continue;
            };
            let attempt = running.attempt;
            let is_ours = self.queue.finish(now(), attempt, &end, &report)?;
            let (job, ..) = self.running.swap_remove(at);
            (self.tell)(if is_ours {
                Activity::Ended(&job, &end)
            } else {
                Activity::Lost(&job)
            });
        }
        Ok(())
    }

    /// Claims jobs for free slots, and starts them.
    fn fill(&mut self) -> Result<()> {
        let free = self.settings.slots.saturating_sub(self.running.len());
        if free == 0 {
            return Ok(());
        }
        let lease = millis(self.settings.lease);
        for job in self.queue.claim(now(), &self.settings.name, lease, free)? {
            (self.tell)(Activity::Starts(&job));
            match Running::start(&self.settings.program, &job) {
                Ok(running) => self.running.push((job, running, self.clock.now())),
                Err(why) => self.refuse(&job, &why.to_string())?,
            }
        }
        Ok(())
    }

    /// Ends the attempt of a job whose command cannot be started.
    fn refuse(&mut self, job: &Job, why: &str) -> Result<()> {
        let end = AttemptEnd {
            end: JobEnd::Retry,
            exit: None,
            text: why.to_owned(),
        };
        self.queue
            .finish(now(), job.attempt(), &end, &Report::default())?;
        (self.tell)(Activity::Ended(job, &end));
        Ok(())
    }

    /// Renews leases, a few times during each, and obeys the orders of the queue.
    fn renew(&mut self) -> Result<()> {
        let lease = self.settings.lease;
        for (_, running, renewed) in &mut self.running {
            let report = running.report();
            let age = self.clock.now().since(*renewed);
            if report == Report::default() && age < lease.min(LOOK * 5) / 5 {
                continue;
            }
            *renewed = self.clock.now();
            let order = self
                .queue
                .renew(now(), running.attempt, millis(lease), &report)?;
            match order {
                Order::Cancel if !running.is_stopped() => running.stop(JobEnd::Canceled),
                Order::Abandon if !running.is_stopped() => running.stop(JobEnd::Released),
                Order::Continue | Order::Cancel | Order::Abandon => {}
            }
        }
        Ok(())
    }

    /// Interrupts all commands, and kills them if they take too long to end.
    fn stop_all(&mut self, kill: bool) {
        for (_, running, _) in &mut self.running {
            if kill || !running.is_stopped() {
                running.stop(JobEnd::Released);
            }
        }
    }

    /// Returns true if the worker has nothing left to do.
    fn is_over(&mut self) -> Result<bool> {
        Ok(self.settings.until_empty && self.running.is_empty() && self.queue.is_idle()?)
    }
}

/// Returns the time in milliseconds since 1970.
pub fn now() -> u64 {
    unix_nanos() / 1_000_000
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Interval at which a worker looks at its commands and the queue.
const TURN: Duration = Duration::from_millis(100);
/// Interval at which a worker asks for canceled jobs.
const LOOK: Duration = Duration::from_secs(1);
/// Time for interrupted commands to end, before they are killed.
const STOP_PATIENCE: Duration = Duration::from_secs(20);
/// Most ended jobs that are deleted in a turn.
const FORGOTTEN: usize = 1000;
