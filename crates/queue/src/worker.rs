//! A process that runs jobs of a queue, some at a time.
//!
//! ```text
//! each turn: ended commands -> finish; leases -> renew; hung commands -> kill
//! each look: due jobs -> advance; free slots -> claim, start; old jobs -> forget
//! ```
//!
//! When the worker is stopped, it interrupts its commands and puts their jobs back; the next attempt resumes the
//! copies. When it is killed, the kernel kills its commands, and their leases end. When a server of the queue fails,
//! commands continue, and what they report is stored later.

use std::path::PathBuf;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::wait::pause;

use crate::child::Running;
use crate::claims::{Order, Report};
use crate::error::{Error, Result};
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
    /// The queue cannot be used for some time. Commands continue to run.
    Fails(&'a Error),
}

/// Runs jobs until `is_stopped` returns true, or with `until_empty` until none is left.
///
/// Commands end when the calling thread ends. `tell` gets each activity. A server that cannot be reached is tried again,
/// until the worker is stopped and its commands have ended.
pub fn work(
    queue: &mut Queue,
    settings: &WorkerSettings,
    is_stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(Activity<'_>),
) -> Result<()> {
    let clock = Clock::start();
    let mut worker = Worker {
        queue,
        settings,
        running: Vec::new(),
        clock,
        tell,
        next: clock.now(),
        has_failed: false,
    };
    loop {
        let stopped = is_stopped();
        match worker.turn(stopped) {
            Ok(is_over) if is_over => return Ok(()),
            Ok(_) => {}
            Err(why) if why.may_pass() && !(stopped && worker.has_ended()) => worker.fail(&why),
            Err(why) => return Err(why),
        }
        worker.kill_overdue();
        pause(TURN);
    }
}

struct Worker<'a> {
    queue: &'a mut Queue,
    settings: &'a WorkerSettings,
    running: Vec<Slot>,
    clock: Clock,
    tell: &'a mut dyn FnMut(Activity<'_>),
    /// Time of the next look for work.
    next: Instant,
    /// True after a failure of the queue, until it works again.
    has_failed: bool,
}

/// Running job, with its process.
struct Slot {
    job: Job,
    process: Running,
    /// Last renewal of its lease, in milliseconds since 1970. Other clocks stop while the host is suspended.
    renewed: u64,
    /// Report that is not stored yet.
    report: Report,
    /// End that is not stored yet.
    end: Option<AttemptEnd>,
}

impl Worker<'_> {
    /// Does what is due. Returns true if the worker has nothing left to do.
    fn turn(&mut self, stopped: bool) -> Result<bool> {
        if stopped {
            self.stop_all();
        }
        self.reap()?;
        if stopped && self.running.is_empty() {
            return Ok(true);
        }
        // after a suspension of this host, the worker renews its own leases first
        self.renew()?;
        let now = self.clock.now();
        if stopped || now < self.next {
            return Ok(false);
        }
        self.next = now + self.queue.interval();
        let own: Vec<Attempt> = self.running.iter().map(|one| one.process.attempt).collect();
        let time = self.queue.now()?;
        let moved = self.queue.advance_beside(time, &own)?;
        self.fill(time)?;
        let old = time.saturating_sub(millis(self.settings.keep));
        self.queue.forget(old, FORGOTTEN)?;
        self.has_failed = false;
        Ok(moved == 0 && self.is_over()?)
    }

    /// Reports the first of several failures, and delays the next look.
    fn fail(&mut self, why: &Error) {
        if !std::mem::replace(&mut self.has_failed, true) {
            (self.tell)(Activity::Fails(why));
        }
        self.next = self.clock.now() + RETRY_DELAY;
    }

    /// Stores the end of each attempt whose command has ended.
    fn reap(&mut self) -> Result<()> {
        let mut at = 0;
        while let Some(slot) = self.running.get_mut(at) {
            if slot.end.is_none()
                && let Some((end, report)) = slot.process.ended(self.clock.now())
            {
                slot.report.append(&report);
                slot.end = Some(end);
                // its slot is free
                self.next = self.clock.now();
            }
            let Some(end) = &slot.end else {
                at += 1;
                continue;
            };
            let now = self.queue.now()?;
            let attempt = slot.process.attempt;
            let is_ours = self.queue.finish(now, attempt, end, &slot.report)?;
            let Slot { job, end, .. } = self.running.swap_remove(at);
            (self.tell)(match end {
                Some(ref end) if is_ours => Activity::Ended(&job, end),
                Some(_) | None => Activity::Lost(&job),
            });
        }
        Ok(())
    }

    /// Claims jobs for free slots, and starts them.
    fn fill(&mut self, time: u64) -> Result<()> {
        let free = self.settings.slots.saturating_sub(self.running.len());
        if free == 0 {
            return Ok(());
        }
        let (lease, renewed) = (millis(self.settings.lease), now());
        let claimed = self.queue.claim(time, &self.settings.name, lease, free)?;
        let mut refused = Vec::new();
        for job in claimed {
            (self.tell)(Activity::Starts(&job));
            match Running::start(&self.settings.program, &job) {
                Ok(process) => self.running.push(Slot {
                    job,
                    process,
                    renewed,
                    report: Report::default(),
                    end: None,
                }),
                Err(why) => refused.push((job, why.to_string())),
            }
        }
        for (job, why) in refused {
            self.refuse(&job, &why)?;
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
        let now = self.queue.now()?;
        self.queue
            .finish(now, job.attempt(), &end, &Report::default())?;
        (self.tell)(Activity::Ended(job, &end));
        Ok(())
    }

    /// Renews leases, a few times during each, and obeys the orders of the queue.
    fn renew(&mut self) -> Result<()> {
        let lease = self.settings.lease;
        let interval = millis(lease.min(LOOK * 5) / 5);
        let often = millis(self.queue.interval());
        for slot in &mut self.running {
            slot.report.append(&slot.process.report());
            // the clock may also be set back
            let age = now().abs_diff(slot.renewed);
            if age < interval && (slot.report == Report::default() || age < often) {
                continue;
            }
            let (renewed, attempt) = (now(), slot.process.attempt);
            let time = self.queue.now()?;
            let order = self
                .queue
                .renew(time, attempt, millis(lease), &slot.report)?;
            (slot.renewed, slot.report) = (renewed, Report::default());
            let why = match order {
                Order::Continue => continue,
                Order::Cancel => JobEnd::Canceled,
                Order::Abandon => JobEnd::Released,
            };
            if !slot.process.is_stopped() {
                slot.process.stop(why, self.clock.now());
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

    /// Returns true if all commands have ended.
    fn has_ended(&self) -> bool {
        self.running.iter().all(|slot| slot.end.is_some())
    }

    /// Returns true if the worker has nothing left to do.
    fn is_over(&mut self) -> Result<bool> {
        Ok(self.settings.until_empty && self.running.is_empty() && self.queue.is_idle()?)
    }
}

/// Returns the time of this host in milliseconds since 1970.
pub fn now() -> u64 {
    unix_nanos() / 1_000_000
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Interval at which a worker looks at its commands.
const TURN: Duration = Duration::from_millis(100);
/// Interval at which a worker asks for canceled jobs.
const LOOK: Duration = Duration::from_secs(1);
/// Delay of the next look after a failure of the queue.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Most ended jobs that are deleted in a turn.
const FORGOTTEN: usize = 1000;
