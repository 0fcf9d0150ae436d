//! A process that runs jobs of a queue, some at a time.
//!
//! ```text
//! each turn: ended commands -> finish; leases -> renew; due jobs -> advance; free slots -> claim, start; hung commands -> kill
//! ```
//!
//! When the worker is stopped, it interrupts its commands and puts their jobs back; the next attempt resumes the
//! copies. When it is killed, the kernel kills its commands, and their leases end.

use std::path::PathBuf;
use std::time::Duration;

use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::wait::pause;

use crate::child::Running;
use crate::claims::{Order, Report};
use crate::error::Result;
use crate::job::{Attempt, AttemptEnd, Job, JobEnd};
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
    /// Time that interrupted commands get to end before they are killed.
    pub patience: Duration,
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
    loop {
        worker.reap()?;
        if is_stopped() {
            worker.stop_all();
            if worker.running.is_empty() {
                return Ok(());
            }
            worker.renew()?;
        } else {
            // after a suspension of this host, the worker renews its own leases first
            worker.renew()?;
            let own: Vec<Attempt> = worker
                .running
                .iter()
                .map(|one| one.process.attempt)
                .collect();
            let moved = worker.queue.advance_beside(now(), &own)?;
            worker.fill()?;
            if moved == 0 && worker.is_over()? {
                return Ok(());
            }
        }
        worker.kill_overdue();
        worker
            .queue
            .forget(now().saturating_sub(millis(settings.keep)), FORGOTTEN)?;
        pause(TURN);
    }
}

struct Worker<'a> {
    queue: &'a mut Queue,
    settings: &'a WorkerSettings,
    running: Vec<Slot>,
    clock: Clock,
    tell: &'a mut dyn FnMut(Activity<'_>),
}

/// Running job, with its process.
struct Slot {
    job: Job,
    process: Running,
    /// Last renewal of its lease, in milliseconds since 1970. Other clocks stop while the host is suspended.
    renewed: u64,
}

impl Worker<'_> {
    /// Stores the end of each attempt whose command has ended.
    fn reap(&mut self) -> Result<()> {
        let mut at = 0;
        while let Some(slot) = self.running.get_mut(at) {
            let Some((end, report)) = slot.process.ended(self.clock.now()) else {
                at += 1;
                continue;
            };
            let attempt = slot.process.attempt;
            let is_ours = self.queue.finish(now(), attempt, &end, &report)?;
            let job = self.running.swap_remove(at).job;
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
        let (lease, renewed) = (millis(self.settings.lease), now());
        for job in self
            .queue
            .claim(renewed, &self.settings.name, lease, free)?
        {
            (self.tell)(Activity::Starts(&job));
            match Running::start(&self.settings.program, &job) {
                Ok(process) => self.running.push(Slot {
                    job,
                    process,
                    renewed,
                }),
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
        let interval = millis(lease.min(LOOK * 5) / 5);
        for Slot {
            process, renewed, ..
        } in &mut self.running
        {
            let report = process.report();
            // the clock may also be set back
            if report == Report::default() && now().abs_diff(*renewed) < interval {
                continue;
            }
            *renewed = now();
            let attempt = process.attempt;
            let order = self
                .queue
                .renew(*renewed, attempt, millis(lease), &report)?;
            let why = match order {
                Order::Continue => continue,
                Order::Cancel => JobEnd::Canceled,
                Order::Abandon => JobEnd::Released,
            };
            if !process.is_stopped() {
                process.stop(why, self.clock.now());
            }
        }
        Ok(())
    }

    /// Interrupts all commands.
    fn stop_all(&mut self) {
        let running = self.running.iter_mut();
        for slot in running.filter(|slot| !slot.process.is_stopped()) {
            slot.process.stop(JobEnd::Released, self.clock.now());
        }
    }

    /// Kills interrupted commands that take too long to end.
    fn kill_overdue(&mut self) {
        for slot in &mut self.running {
            let patience = self.settings.patience;
            slot.process.kill_overdue(patience, self.clock.now());
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
/// Most ended jobs that are deleted in a turn.
const FORGOTTEN: usize = 1000;
