//! A process that runs jobs of a queue, some at a time.
//!
//! ```text
//! each turn: ended commands -> finish; leases -> renew; hung commands -> kill
//! each look: due jobs -> advance; free slots -> claim, start; other owners wait -> one makes room; old jobs -> forget
//! ```
//!
//! When the worker is stopped, it interrupts its commands and puts their jobs back; the next attempt resumes the
//! copies. When it is killed, the kernel kills its commands, and their leases end. When the database of the queue fails,
//! commands continue, and what they report is stored later. A failure at one job does not keep others from being
//! renewed and stored.

use std::path::PathBuf;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::wait::pause;

use crate::child::Running;
use crate::claims::{ADVANCE_MAX, Leases, Order, Report};
use crate::error::{Error, Result};
use crate::job::{Attempt, AttemptEnd, Job, JobEnd};
use crate::queue::Queue;
use crate::retention::Retention;
use crate::turns::Room;

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
    /// Bounds of what the jobs of an owner may keep.
    pub retention: Retention,
    /// Time that interrupted commands get to end before they are killed.
    pub patience: Duration,
    /// Time that an owner waits while others have more than their shares, before one of their jobs makes room. It is also
    /// the least time that a job runs before it makes room.
    pub turn: Duration,
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
    /// An attempt is interrupted, and its job queued again, since another owner waits.
    Yields(&'a Job),
    /// The queue cannot be used for some time. Commands continue to run.
    Fails(&'a Error),
    /// The queue can be used again.
    Recovers,
}

/// Runs jobs until `is_stopped` returns true, or with `until_empty` until none is left.
///
/// Commands end when the calling thread ends. `tell` gets each activity. A database that cannot be used for some time is
/// tried again, until the worker is stopped and its commands have ended.
pub fn work(
    queue: &mut Queue,
    settings: &WorkerSettings,
    is_stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(Activity<'_>),
) -> Result<()> {
    // leases come first, and what fails is tried again
    queue.wait_at_most(WAIT_MAX)?;
    let clock = Clock::start();
    let mut worker = Worker {
        queue,
        settings,
        running: Vec::new(),
        clock,
        tell,
        next: clock.now(),
        held: clock.now(),
        spares: clock.now(),
        turned: now(),
        trimmed: (clock.now(), String::new()),
        is_trim_told: false,
        crowded: None,
        failures: 0,
        has_worked: false,
    };
    loop {
        let stopped = is_stopped();
        match worker.turn(stopped) {
            Ok(is_over) if is_over => return Ok(()),
            Ok(_) => {}
            Err(why) if worker.continues(&why) && !(stopped && worker.has_ended()) => {
                worker.fail(&why);
            }
            Err(why) => return Err(why),
        }
        worker.kill_overdue();
        pause(TURN);
    }
}

// fields: each is the time of another task
struct Worker<'a> {
    queue: &'a mut Queue,
    settings: &'a WorkerSettings,
    running: Vec<Slot>,
    clock: Clock,
    tell: &'a mut dyn FnMut(Activity<'_>),
    /// Time of the next look for work.
    next: Instant,
    /// Time until which leases and ends wait after a failure.
    held: Instant,
    /// Time until which the leases of others do not end, so that they renew them after an outage.
    spares: Instant,
    /// Last turn, in milliseconds since 1970.
    turned: u64,
    /// Time of the next look for what is beyond a bound, and the owner that was looked at last.
    trimmed: (Instant, String),
    /// True once a failure of that look was told.
    is_trim_told: bool,
    /// Time since which an owner waits for its share.
    crowded: Option<Instant>,
    /// Failures of the queue since it worked.
    failures: u32,
    /// True once the queue has worked.
    has_worked: bool,
}

/// Running job, with its process.
struct Slot {
    job: Job,
    process: Running,
    /// Last renewal of its lease, in milliseconds since 1970. Other clocks stop while the host is suspended.
    renewed: u64,
    /// Report that is not stored yet.
    report: Report,
    /// Pieces of the log that are stored.
    pieces: u64,
    /// End that is not stored yet.
    end: Option<AttemptEnd>,
    /// True if the end may have been stored, but the answer was lost.
    is_unsure: bool,
    /// True if the job makes room for another owner.
    yields: bool,
}

impl Slot {
    fn new(job: Job, process: Running, renewed: u64) -> Self {
        Self {
            job,
            process,
            renewed,
            report: Report::default(),
            pieces: 0,
            end: None,
            is_unsure: false,
            yields: false,
        }
    }

    /// Numbers the next piece of the log, so that a repeated report replaces it.
    fn number(&mut self) {
        self.report.piece = self.pieces + 1;
    }

    /// Removes a report that is stored.
    fn has_stored(&mut self) {
        self.pieces += u64::from(!self.report.log.is_empty());
        self.report = Report::default();
    }
}

impl Worker<'_> {
    /// Does what is due. Returns true if the worker has nothing left to do.
    fn turn(&mut self, stopped: bool) -> Result<bool> {
        self.notice_gap();
        if stopped {
            self.stop_all();
        }
        self.collect();
        // after a suspension of this host, the worker renews its own leases first
        let kept = self.keep();
        if kept.is_err() {
            self.held = self.clock.now() + self.delay().min(self.settings.lease / 10);
        }
        kept?;
        if stopped && self.running.is_empty() {
            return Ok(true);
        }
        let now = self.clock.now();
        if stopped || now < self.next {
            return Ok(false);
        }
        self.next = now + self.queue.interval();
        let own: Vec<Attempt> = self.running.iter().map(|one| one.process.attempt).collect();
        let leases = if now < self.spares {
            Leases::Keep
        } else {
            Leases::EndExcept(&own)
        };
        let time = self.queue.now()?;
        let moved = self.queue.advance_beside(time, leases)?;
        if moved >= ADVANCE_MAX as usize {
            // there is more, but leases come first
            self.next = now;
        }
        self.fill(time)?;
        self.make_room(time)?;
        self.has_worked = true;
        if std::mem::take(&mut self.failures) > 0 {
            (self.tell)(Activity::Recovers);
        }
        self.trim(time);
        Ok(moved == 0 && self.is_over()?)
    }

    /// Spares the leases of others after a time in which this worker did nothing: others may have been stopped, too.
    fn notice_gap(&mut self) {
        let time = now();
        let gap = time.abs_diff(std::mem::replace(&mut self.turned, time));
        if gap > millis(GAP_MIN.max(self.settings.lease / 4)) {
            self.spare();
        }
    }

    /// Lets other workers renew their leases before they end.
    fn spare(&mut self) {
        self.spares = self.clock.now() + self.settings.lease / 4;
    }

    /// Renews leases, and stores ends.
    fn keep(&mut self) -> Result<()> {
        let renewed = self.renew();
        if renewed.as_ref().is_err_and(Error::is_of_all) {
            return renewed;
        }
        let stored = self.store_ends();
        renewed.and(stored)
    }

    /// Returns true if the worker continues after a failure. One of the first look may be a wrong setting.
    const fn continues(&self, why: &Error) -> bool {
        why.may_pass() || self.has_worked && why.may_pass_again()
    }

    /// Reports the first of several failures, and delays the next look, longer after each failure.
    fn fail(&mut self, why: &Error) {
        if self.failures == 0 {
            (self.tell)(Activity::Fails(why));
        }
        let most = RETRY_DELAY_MAX.min(self.settings.lease / 4);
        self.next = self.clock.now() + self.delay().min(most);
        self.failures = self.failures.saturating_add(1);
        self.spare();
    }

    /// Returns the delay after a failure.
    fn delay(&self) -> Duration {
        RETRY_DELAY * 2_u32.pow(self.failures.min(5))
    }

    /// Takes the end of each attempt whose command has ended.
    fn collect(&mut self) {
        for slot in &mut self.running {
            if slot.end.is_none()
                && let Some((mut end, report)) = slot.process.ended(self.clock.now())
            {
                slot.report.append(&report);
                if slot.yields && end.end == JobEnd::Released {
                    ROOM.clone_into(&mut end.text);
                }
                slot.end = Some(end);
                if self.failures == 0 {
                    // its slot is free
                    self.next = self.clock.now();
                }
            }
        }
    }

    /// Stores the ends of attempts. Returns the first failure after all were tried.
    fn store_ends(&mut self) -> Result<()> {
        let mut result = Ok(());
        if self.is_held() {
            return result;
        }
        let mut at = 0;
        while let Some(slot) = self.running.get_mut(at) {
            let Some(end) = slot.end.clone() else {
                at += 1;
                continue;
            };
            match store_end(self.queue, slot, &end) {
                Ok(is_ours) => {
                    let Slot { job, .. } = self.running.swap_remove(at);
                    (self.tell)(if is_ours {
                        Activity::Ended(&job, &end)
                    } else {
                        Activity::Lost(&job)
                    });
                }
                Err(error) => {
                    let is_of_all = error.is_of_all();
                    result = result.and(Err(error));
                    if is_of_all {
                        return result;
                    }
                    at += 1;
                }
            }
        }
        result
    }

    /// Returns true while leases and ends wait after a failure.
    fn is_held(&self) -> bool {
        self.clock.now() < self.held
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
                Ok(process) => self.running.push(Slot::new(job, process, renewed)),
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

    /// Renews leases, a few times during each, and obeys the orders of the queue. Returns the first failure after all
    /// were tried.
    fn renew(&mut self) -> Result<()> {
        let mut result = Ok(());
        let lease = self.settings.lease;
        let interval = millis(lease.min(LOOK * 5) / 5);
        let often = millis(self.queue.interval());
        let is_held = self.is_held();
        for slot in &mut self.running {
            slot.report.append(&slot.process.report());
            // the clock may also be set back
            let age = now().abs_diff(slot.renewed);
            let has_news = slot.end.is_none() && slot.report != Report::default() && age >= often;
            if is_held || age < interval && !has_news {
                continue;
            }
            match renew_one(self.queue, slot, millis(lease)) {
                Ok(None) => {}
                Ok(Some(why)) => {
                    if !slot.process.is_stopped() {
                        slot.process.stop(why, self.clock.now());
                    }
                }
                Err(error) => {
                    let is_of_all = error.is_of_all();
                    result = result.and(Err(error));
                    if is_of_all {
                        return result;
                    }
                }
            }
        }
        result
    }

    /// Interrupts a job for an owner that waits for its share, if all slots are taken for some time.
    fn make_room(&mut self, time: u64) -> Result<()> {
        let is_full = self.running.len() >= self.settings.slots;
        let is_ending = |slot: &Slot| slot.process.is_stopped() || slot.end.is_some();
        if !is_full || self.running.iter().any(is_ending) {
            self.crowded = None;
            return Ok(());
        }
        let turn = millis(self.settings.turn);
        let own: Vec<&Job> = self.running.iter().map(|slot| &slot.job).collect();
        let mut room = self.queue.room(time, &own, turn)?;
        let now = self.clock.now();
        let since = *self.crowded.get_or_insert(now);
        if let Room::Of(_) = room {
            if now.since(since) < self.settings.turn {
                return Ok(());
            }
            room = self.queue.make_room(time, &own, turn)?;
        }
        let chosen = match room {
            Room::Of(attempt) => attempt,
            // the owner still waits
            Room::Taken => return Ok(()),
            Room::None => {
                self.crowded = None;
                return Ok(());
            }
        };
        self.crowded = None;
        let mut running = self.running.iter_mut();
        if let Some(slot) = running.find(|slot| slot.process.attempt == chosen) {
            slot.yields = true;
            slot.process.stop(JobEnd::Released, now);
            (self.tell)(Activity::Yields(&slot.job));
        }
        Ok(())
    }

    /// Deletes what is old, and what an owner keeps beyond its bounds, of one owner after the other. A failure ends only
    /// this look.
    fn trim(&mut self, time: u64) {
        let now = self.clock.now();
        if now < self.trimmed.0 {
            return;
        }
        let after = std::mem::take(&mut self.trimmed.1);
        match trim(self.queue, self.settings, time, &after) {
            // there is more
            Ok(None) => self.trimmed = (self.next, after),
            Ok(Some(owner)) => self.trimmed = (now + TRIM_INTERVAL, owner),
            Err(why) => {
                self.trimmed = (now + TRIM_INTERVAL, after);
                if !std::mem::replace(&mut self.is_trim_told, true) {
                    (self.tell)(Activity::Fails(&why));
                }
                return;
            }
        }
        self.is_trim_told = false;
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

/// Stores the end of an attempt. Returns false if the attempt was given to another worker.
fn store_end(queue: &mut Queue, slot: &mut Slot, end: &AttemptEnd) -> Result<bool> {
    slot.number();
    let attempt = slot.process.attempt;
    let stored = queue.now().and_then(|now| {
        if queue.finish(now, attempt, end, &slot.report)? {
            return Ok(true);
        }
        Ok(slot.is_unsure && queue.has_finished(attempt, end)?)
    });
    slot.is_unsure |= stored.is_err();
    stored
}

/// Renews a lease, and stores the report. Returns the reason for which the command must stop, if any.
fn renew_one(queue: &mut Queue, slot: &mut Slot, lease: u64) -> Result<Option<JobEnd>> {
    slot.number();
    let (renewed, time) = (now(), queue.now()?);
    let order = queue.renew(time, slot.process.attempt, lease, &slot.report)?;
    slot.renewed = renewed;
    slot.has_stored();
    Ok(match order {
        Order::Continue => None,
        Order::Cancel => Some(JobEnd::Canceled),
        Order::Abandon => Some(JobEnd::Released),
    })
}

/// Deletes some of what is old, and of what the owner after `after` keeps beyond its bounds. Returns that owner, an empty
/// name after the last one, or none if there is more to delete.
fn trim(
    queue: &mut Queue,
    settings: &WorkerSettings,
    time: u64,
    after: &str,
) -> Result<Option<String>> {
    let old = time.saturating_sub(millis(settings.keep));
    let forgotten = queue.forget(old, FORGOTTEN)?;
    queue.forget_keys(time, FORGOTTEN)?;
    let trimmed = queue.trim(after, &settings.retention, FORGOTTEN)?;
    let (owner, count) = trimmed.unwrap_or_default();
    Ok((forgotten.max(count) < FORGOTTEN).then_some(owner))
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
/// Delay of the next look after a first failure of the queue.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Longest delay of the next look after failures.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(15);
/// Longest wait for another process that has locked the file of the queue.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Least time without a turn after which the leases of others are spared.
const GAP_MIN: Duration = Duration::from_secs(5);
/// Most ended jobs that are deleted in a turn.
const FORGOTTEN: usize = 250;
/// Interval at which a worker looks at the bounds of an owner.
const TRIM_INTERVAL: Duration = Duration::from_secs(10);
/// Reason in the history of a job that makes room.
const ROOM: &str = "makes room for a job of another owner";
