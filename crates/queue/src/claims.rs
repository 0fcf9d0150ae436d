//! Work of workers: claims, leases, and ends of attempts.
//!
//! A claim takes the highest priority, then the owner with the fewest running jobs for its share, then the oldest job.
//! Of two owners with equal load, the owner that was served longer ago is first. In a server, claims at the same time
//! take different jobs: each skips jobs that another one has locked.

use crate::database::{Database, Durability, Row, one, optional};
use crate::error::Result;
use crate::job::{Attempt, AttemptEnd, Job, JobEnd, JobId, JobState};
use crate::life::{self, End, SETTLED_AT_ONCE, end_one, enter, record};
use crate::list::{COLUMNS, job, of_row};
use crate::queue::Queue;
use crate::retention::shorten_log;
use crate::turns::{LATE, Turns, top_priority};

/// Order for a worker about its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Continue.
    Continue,
    /// Stop the command, and report [`JobEnd::Canceled`].
    Cancel,
    /// Stop the command: another attempt may run.
    Abandon,
}

/// Leases that [`Queue::advance_beside`] ends, if their workers sent no news in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leases<'a> {
    /// All but those of these attempts, which the calling worker runs.
    EndExcept(&'a [Attempt]),
    /// None: after an outage, other workers renew theirs first.
    Keep,
}

/// Progress of an attempt, and lines for its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Bytes that are done, and all bytes.
    pub progress: Option<(u64, u64)>,
    /// New text of the log.
    pub log: String,
    /// Number of this piece of the log, or 0 for the next one. A report with the same number replaces the piece, so a
    /// report whose answer was lost can be repeated.
    pub piece: u64,
}

impl Report {
    /// Appends a later report.
    pub fn append(&mut self, later: &Self) {
        self.progress = later.progress.or(self.progress);
        self.log.push_str(&later.log);
    }
}

impl Queue {
    /// Claims up to `most` jobs for `worker`, until `lease` milliseconds from now.
    pub fn claim(&mut self, now: u64, worker: &str, lease: u64, most: usize) -> Result<Vec<Job>> {
        // an idle worker looks often, and must not keep others from writing
        if top_priority(&mut *self.database, None)?.is_none() {
            return Ok(Vec::new());
        }
        // a claim that a power failure of this host forgets is only repeated, so it need not wait for the disk
        self.write(Durability::Shared, |database| {
            let mut jobs = Vec::new();
            let mut done = None;
            while jobs.len() < most
                && let Some(priority) = top_priority(database, done)?
            {
                let mut turns = Turns::of(database, priority)?;
                while jobs.len() < most
                    && let Some(id) = turns.next(database, now)?
                {
                    jobs.push(start(database, now, id, (worker, lease))?);
                }
                done = Some(priority);
            }
            Ok(jobs)
        })
    }

    /// Extends the lease of an attempt, and stores its progress and new lines of its log. Returns what the worker must
    /// do.
    pub fn renew(
        &mut self,
        now: u64,
        attempt: Attempt,
        lease: u64,
        report: &Report,
    ) -> Result<Order> {
        self.write(Durability::Relaxed, |database| {
            if !is_newest(database, attempt)? {
                return Ok(Order::Abandon);
            }
            let sql = "UPDATE job SET lease = $2 WHERE id = $1 RETURNING cancel";
            let until = now.saturating_add(lease);
            let row = one(database, sql, &[attempt.job.into(), until.into()])?;
            store(database, attempt, report)?;
            Ok(if row.get(0)? {
                Order::Cancel
            } else {
                Order::Continue
            })
        })
    }

    /// Ends an attempt, and stores the rest of its report. Returns false if it is not the newest attempt of a running
    /// job: then nothing changes.
    pub fn finish(
        &mut self,
        now: u64,
        attempt: Attempt,
        how: &AttemptEnd,
        report: &Report,
    ) -> Result<bool> {
        self.write(Durability::Full, |database| {
            if !is_newest(database, attempt)? {
                return Ok(false);
            }
            store(database, attempt, report)?;
            settle(database, now, attempt.job, how)?;
            life::settle(database, now, SETTLED_AT_ONCE)?;
            Ok(true)
        })
    }

    /// Returns true if the end of this attempt is stored already: by a call whose answer was lost.
    pub fn has_finished(&mut self, attempt: Attempt, how: &AttemptEnd) -> Result<bool> {
        let states = match how.end {
            JobEnd::Done => [JobState::Done; 2],
            JobEnd::Failed => [JobState::Failed; 2],
            JobEnd::Retry => [JobState::Waiting, JobState::Failed],
            JobEnd::Canceled => [JobState::Canceled; 2],
            JobEnd::Released => [JobState::Queued; 2],
        };
        // a job that was canceled meanwhile has another state and text
        let sql = "SELECT 1 FROM event WHERE job = $1 AND attempt = $2 \
                   AND (state IN ($3, $4) AND text = $5 OR state = 5) LIMIT 1";
        let values = [
            attempt.job.into(),
            attempt.number.into(),
            states[0].into(),
            states[1].into(),
            (&how.text).into(),
        ];
        optional(&mut *self.database, sql, &values).map(|row| row.is_some())
    }

    /// Moves jobs whose time has come: leases that ended, waiting jobs that are due, jobs that start too late, and jobs
    /// after others that have ended. Each call moves at most [`ADVANCE_MAX`] of each kind. Returns the number of moved
    /// jobs.
    pub fn advance(&mut self, now: u64) -> Result<usize> {
        self.advance_beside(now, Leases::EndExcept(&[]))
    }

    /// Moves jobs as [`Self::advance`] does, but ends only these leases.
    pub fn advance_beside(&mut self, now: u64, leases: Leases<'_>) -> Result<usize> {
        let late = self.find(
            "SELECT id, attempt FROM job WHERE state <= 1 AND start_by IS NOT NULL AND start_by < $1 \
             ORDER BY start_by LIMIT $2",
            now,
        )?;
        let due = self.find(
            "SELECT id, attempt FROM job WHERE state = 0 AND waits = 0 AND not_before <= $1 \
             ORDER BY not_before LIMIT $2",
            now,
        )?;
        let lost = match leases {
            Leases::Keep => Vec::new(),
            Leases::EndExcept(own) => {
                let sql = "SELECT id, attempt FROM job WHERE state = 2 AND lease < $1 \
                           ORDER BY lease LIMIT $2";
                let mut lost = self.find(sql, now)?;
                lost.retain(|attempt| !own.contains(attempt));
                lost
            }
        };
        let count = late.len() + due.len() + lost.len();
        let ending = optional(&mut *self.database, "SELECT 1 FROM ending LIMIT 1", &[])?;
        if count == 0 && ending.is_none() {
            return Ok(0);
        }
        self.write(Durability::Full, |database| {
            // another worker may have moved some of them meanwhile
            for &Attempt { job: id, .. } in &late {
                if is_still(database, id, "state <= 1 AND start_by < $2", now)? {
                    end_one(database, now, id, &End::failed(LATE))?;
                }
            }
            for &Attempt { job: id, .. } in &due {
                let condition = "state = 0 AND waits = 0 AND not_before <= $2";
                if is_still(database, id, condition, now)? {
                    enter(database, now, id, JobState::Queued, "")?;
                }
            }
            for &Attempt { job: id, .. } in &lost {
                if is_still(database, id, "state = 2 AND lease < $2", now)? {
                    lose(database, now, id)?;
                }
            }
            let informed = life::settle(database, now, ADVANCE_MAX as usize)?;
            Ok(count + informed)
        })
    }

    /// Returns newest attempts that a query finds at the time `now`.
    fn find(&mut self, sql: &str, now: u64) -> Result<Vec<Attempt>> {
        let rows = self
            .database
            .query(sql, &[now.into(), ADVANCE_MAX.into()])?;
        let attempt = |row: &Row| {
            Ok(Attempt {
                job: row.get(0)?,
                number: row.get(1)?,
            })
        };
        rows.iter().map(attempt).collect()
    }
}

/// Starts a queued job, and returns it.
fn start(
    database: &mut dyn Database,
    now: u64,
    (id, turn): (JobId, u64),
    (worker, lease): (&str, u64),
) -> Result<Job> {
    let sql = format!(
        "UPDATE job SET state = 2, attempt = attempt + 1, start_by = NULL, worker = $2, lease = $3, started = $4, \
         turn = $5, bytes = NULL, bytes_total = NULL WHERE id = $1 RETURNING {COLUMNS}"
    );
    let until = now.saturating_add(lease);
    let values = [
        id.into(),
        worker.into(),
        until.into(),
        now.into(),
        turn.into(),
    ];
    let row = one(database, &sql, &values)?;
    record(database, now, id, worker)?;
    of_row(&row)
}

/// Applies the end of an attempt to its job.
fn settle(database: &mut dyn Database, now: u64, id: JobId, how: &AttemptEnd) -> Result<()> {
    let ended = |state| End {
        state,
        exit: how.exit,
        text: how.text.clone(),
    };
    match how.end {
        JobEnd::Done => end_one(database, now, id, &ended(JobState::Done)),
        JobEnd::Failed => end_one(database, now, id, &ended(JobState::Failed)),
        JobEnd::Canceled => end_one(database, now, id, &End::canceled()),
        JobEnd::Released => requeue(database, now, id, &how.text),
        JobEnd::Retry => {
            let job = job(database, id)?;
            if job.is_cancel_requested {
                return end_one(database, now, id, &End::canceled());
            }
            if job.failures >= job.retries {
                return end_one(database, now, id, &ended(JobState::Failed));
            }
            let due = now.saturating_add(backoff(job.failures));
            let sql = "UPDATE job SET failures = failures + 1, not_before = $2, exit = $3, text = $4, lease = NULL \
                       WHERE id = $1";
            let text = &how.text;
            let values = [id.into(), due.into(), how.exit.into(), text.into()];
            database.execute(sql, &values)?;
            enter(database, now, id, JobState::Waiting, text)
        }
    }
}

/// Puts a job back whose worker sent no news until the end of its lease.
fn lose(database: &mut dyn Database, now: u64, id: JobId) -> Result<()> {
    let sql =
        "UPDATE job SET losses = losses + 1 WHERE id = $1 RETURNING losses, COALESCE(worker, '')";
    let row = one(database, sql, &[id.into()])?;
    let (losses, worker): (u32, String) = (row.get(0)?, row.get(1)?);
    if losses > LOSSES_MAX && !job(database, id)?.is_cancel_requested {
        let why = format!("{losses} workers ended during it, the last of them {worker}");
        return end_one(database, now, id, &End::failed(why));
    }
    requeue(database, now, id, &format!("no news from {worker}"))
}

/// Queues a running job again, or ends it if its user canceled it.
fn requeue(database: &mut dyn Database, now: u64, id: JobId, why: &str) -> Result<()> {
    if job(database, id)?.is_cancel_requested {
        return end_one(database, now, id, &End::canceled());
    }
    let sql = "UPDATE job SET lease = NULL WHERE id = $1";
    database.execute(sql, &[id.into()])?;
    enter(database, now, id, JobState::Queued, why)
}

/// Stores what is new of an attempt.
fn store(database: &mut dyn Database, attempt: Attempt, report: &Report) -> Result<()> {
    let id = attempt.job;
    if let Some((done, total)) = report.progress {
        // an attempt that comes farther than all before it shows that the job does not end its workers
        let sql = "UPDATE job SET bytes = $2, bytes_total = $3, losses = CASE WHEN $2 > most_bytes THEN 0 ELSE losses END, \
                   most_bytes = CASE WHEN $2 > most_bytes THEN $2 ELSE most_bytes END WHERE id = $1";
        database.execute(sql, &[id.into(), done.into(), total.into()])?;
    }
    if report.log.is_empty() {
        return Ok(());
    }
    let (number, text) = (attempt.number, &report.log);
    // a repeated piece replaces the one before
    let sql = "UPDATE job SET logged = logged + $2 - COALESCE( \
               (SELECT OCTET_LENGTH(text) FROM log WHERE job = $1 AND attempt = $3 AND seq = $4), 0) WHERE id = $1";
    let (len, piece) = (text.len(), report.piece);
    database.execute(sql, &[id.into(), len.into(), number.into(), piece.into()])?;
    if report.piece == 0 {
        let sql = "INSERT INTO log (job, attempt, seq, text) SELECT $1, $2, \
                   (SELECT COALESCE(MAX(seq), 0) + 1 FROM log WHERE job = $1 AND attempt = $2), $3";
        database.execute(sql, &[id.into(), number.into(), text.into()])?;
    } else {
        let sql = "INSERT INTO log (job, attempt, seq, text) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (job, attempt, seq) DO UPDATE SET text = excluded.text";
        database.execute(sql, &[id.into(), number.into(), piece.into(), text.into()])?;
    }
    shorten_log(database, id, number)
}

/// Returns true if the job runs, and this is its newest attempt. The job is locked then.
fn is_newest(database: &mut dyn Database, attempt: Attempt) -> Result<bool> {
    let sql = "SELECT 1 FROM job WHERE id = $1 AND state = 2 AND attempt = $2 FOR UPDATE";
    let values = [attempt.job.into(), attempt.number.into()];
    optional(database, sql, &values).map(|row| row.is_some())
}

/// Returns true if the job is as `condition` says at the time `now`, its second parameter. The job is locked then.
/// Returns false if another transaction has locked it.
fn is_still(database: &mut dyn Database, id: JobId, condition: &str, now: u64) -> Result<bool> {
    let sql = format!("SELECT 1 FROM job WHERE id = $1 AND {condition} FOR UPDATE SKIP LOCKED");
    optional(database, &sql, &[id.into(), now.into()]).map(|row| row.is_some())
}

/// Returns the delay of a retry in milliseconds after this number of earlier failures.
pub fn backoff(failures: u32) -> u64 {
    BACKOFF_MIN
        .saturating_mul(1 << failures.min(20))
        .min(BACKOFF_MAX)
}

/// Delay of the first retry in milliseconds.
const BACKOFF_MIN: u64 = 10_000;
/// Longest delay of a retry in milliseconds.
const BACKOFF_MAX: u64 = 600_000;
/// Most workers that may end during a job.
const LOSSES_MAX: u32 = 10;
/// Most jobs of each kind that one call of [`Queue::advance`] moves, so that its transaction is short.
pub const ADVANCE_MAX: u32 = 250;
