//! Work of workers: claims, leases, and ends of attempts.
//!
//! A claim takes the highest priority, then the owner with the fewest running jobs for its share, then the oldest job.
//! Of two owners with equal load, the owner that was served longer ago is first.

use rusqlite::{OptionalExtension, Transaction, params};

use crate::error::{Result, failed};
use crate::job::{Attempt, AttemptEnd, Job, JobEnd, JobId, JobState};
use crate::list::job;
use crate::queue::{End, Queue, Step, end, enter, number, sql_number};

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

/// Progress of an attempt, and lines for its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Bytes that are done, and all bytes.
    pub progress: Option<(u64, u64)>,
    /// New text of the log.
    pub log: String,
}

impl Queue {
    /// Claims up to `most` jobs for `worker`, until `lease` milliseconds from now.
    pub fn claim(&mut self, now: u64, worker: &str, lease: u64, most: usize) -> Result<Vec<Job>> {
        // an idle worker looks often, and must not keep others from writing
        if !self.exists("SELECT 1 FROM backlog WHERE jobs > ?1 LIMIT 1", 0)? {
            return Ok(Vec::new());
        }
        // a claim that a power failure forgets is only repeated, so it need not wait for the disk
        self.relax(true)?;
        let claimed = self.write("write", |transaction| {
            let mut jobs = Vec::new();
            while jobs.len() < most
                && let Some(id) = first(transaction)?
            {
                if start(transaction, now, id, (worker, lease))? {
                    jobs.push(job(transaction, id)?);
                }
            }
            Ok(jobs)
        });
        self.relax(false)?;
        claimed
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
        self.relax(true)?;
        let order = self.write("write", |transaction| {
            if !is_newest(transaction, attempt)? {
                return Ok(Order::Abandon);
            }
            let sql = "UPDATE job SET lease = ?2 WHERE id = ?1 RETURNING cancel";
            let lease = sql_number(now.saturating_add(lease));
            let canceled: bool = transaction
                .prepare_cached(sql)?
                .query_row(params![number(attempt.job), lease], |row| row.get(0))?;
            store(transaction, attempt, report)?;
            Ok(if canceled {
                Order::Cancel
            } else {
                Order::Continue
            })
        });
        self.relax(false)?;
        order
    }

    /// Ends an attempt, and stores the rest of its report. Returns false if it is not the newest attempt of a running job: then nothing changes.
    pub fn finish(
        &mut self,
        now: u64,
        attempt: Attempt,
        how: &AttemptEnd,
        report: &Report,
    ) -> Result<bool> {
        self.write("write", |transaction| {
            if !is_newest(transaction, attempt)? {
                return Ok(false);
            }
            store(transaction, attempt, report)?;
            settle(transaction, now, attempt.job, how)?;
            Ok(true)
        })
    }

    /// Moves jobs whose time has come: leases that ended, waiting jobs that are due, and jobs that start too late. Each
    /// call moves a limited number. Returns the number of moved jobs.
    pub fn advance(&mut self, now: u64) -> Result<usize> {
        self.advance_beside(now, &[])
    }

    /// Moves jobs as [`Self::advance`] does, but keeps the attempts `own`, which the calling worker runs, even if their
    /// leases have ended.
    pub fn advance_beside(&mut self, now: u64, own: &[Attempt]) -> Result<usize> {
        let due = "SELECT id, attempt FROM job WHERE state = 0 AND waits = 0 AND not_before <= ?1 \
                   ORDER BY not_before LIMIT ?2";
        let late = "SELECT id, attempt FROM job WHERE state <= 1 AND start_by IS NOT NULL AND start_by < ?1 \
                    ORDER BY start_by LIMIT ?2";
        let lost =
            "SELECT id, attempt FROM job WHERE state = 2 AND lease < ?1 ORDER BY lease LIMIT ?2";
        let found = |queue: &Self, sql: &str| {
            let mut statement = queue.connection.prepare_cached(sql)?;
            let attempts = statement.query_map(params![sql_number(now), ADVANCE_MAX], |row| {
                Ok(Attempt {
                    job: JobId(row.get(0)?),
                    number: row.get(1)?,
                })
            })?;
            attempts.collect::<rusqlite::Result<Vec<_>>>()
        };
        let all: rusqlite::Result<[Vec<Attempt>; 3]> =
            (|| Ok([found(self, late)?, found(self, due)?, found(self, lost)?]))();
        let [late, due, mut lost] = all.map_err(|why| failed("read", &self.path, &why))?;
        lost.retain(|attempt| !own.contains(attempt));
        let count = late.len() + due.len() + lost.len();
        if count == 0 {
            return Ok(0);
        }
        self.write("write", |transaction| {
            // another worker may have moved some of them meanwhile
            for Attempt { job: id, .. } in late {
                if is_still(transaction, id, "state <= 1 AND start_by < ?2", now)? {
                    end(transaction, now, id, &End::failed(LATE))?;
                }
            }
            for Attempt { job: id, .. } in due {
                if is_still(
                    transaction,
                    id,
                    "state = 0 AND waits = 0 AND not_before <= ?2",
                    now,
                )? {
                    enter(transaction, now, id, JobState::Queued, "")?;
                }
            }
            for Attempt { job: id, .. } in lost {
                if is_still(transaction, id, "state = 2 AND lease < ?2", now)? {
                    lose(transaction, now, id)?;
                }
            }
            Ok(count)
        })
    }

    /// Lets the disk have a change later, or before the call returns.
    fn relax(&self, relaxed: bool) -> Result<()> {
        let mode = if relaxed { "NORMAL" } else { "FULL" };
        let set = self.connection.pragma_update(None, "synchronous", mode);
        set.map_err(|why| failed("write", &self.path, &why))
    }
}

/// Returns the job that starts next.
fn first(transaction: &Transaction<'_>) -> Step<Option<JobId>> {
    let priority = "SELECT priority FROM backlog ORDER BY priority DESC LIMIT 1";
    let priority: Option<i64> = transaction
        .prepare_cached(priority)?
        .query_row([], |row| row.get(0))
        .optional()?;
    let Some(priority) = priority else {
        return Ok(None);
    };
    let owner = "SELECT backlog.owner FROM backlog LEFT JOIN owner ON owner.name = backlog.owner \
                 WHERE priority = ?1 ORDER BY COALESCE(running, 0) * 1000000 / COALESCE(share, 1), COALESCE(served, 0), \
                 backlog.owner LIMIT 1";
    let owner: String = transaction
        .prepare_cached(owner)?
        .query_row([priority], |row| row.get(0))?;
    let id =
        "SELECT id FROM job WHERE state = 1 AND priority = ?1 AND owner = ?2 ORDER BY id LIMIT 1";
    let id: Option<u64> = transaction
        .prepare_cached(id)?
        .query_row(params![priority, owner], |row| row.get(0))
        .optional()?;
    Ok(id.map(JobId))
}

/// Starts a queued job. Returns false if it is too late for that: then it has failed.
fn start(
    transaction: &Transaction<'_>,
    now: u64,
    id: JobId,
    (worker, lease): (&str, u64),
) -> Step<bool> {
    if is_still(transaction, id, "start_by < ?2", now)? {
        end(transaction, now, id, &End::failed(LATE))?;
        return Ok(false);
    }
    let sql = "UPDATE job SET attempt = attempt + 1, start_by = NULL, worker = ?2, lease = ?3, started = ?4, bytes = NULL, \
               bytes_total = NULL WHERE id = ?1 RETURNING owner";
    let owner: String = transaction.prepare_cached(sql)?.query_row(
        params![
            number(id),
            worker,
            sql_number(now.saturating_add(lease)),
            sql_number(now)
        ],
        |row| row.get(0),
    )?;
    enter(transaction, now, id, JobState::Running, worker)?;
    let sql = "UPDATE owner SET served = (SELECT MAX(served) + 1 FROM owner) WHERE name = ?";
    transaction.prepare_cached(sql)?.execute([owner])?;
    Ok(true)
}

/// Applies the end of an attempt to its job.
fn settle(transaction: &Transaction<'_>, now: u64, id: JobId, how: &AttemptEnd) -> Step<()> {
    let ended = |state| End {
        state,
        exit: how.exit,
        text: how.text.clone(),
    };
    match how.end {
        JobEnd::Done => end(transaction, now, id, &ended(JobState::Done)),
        JobEnd::Failed => end(transaction, now, id, &ended(JobState::Failed)),
        JobEnd::Canceled => end(transaction, now, id, &End::canceled()),
        JobEnd::Released => requeue(transaction, now, id, &how.text),
        JobEnd::Retry => {
            let job = job(transaction, id)?;
            if job.is_cancel_requested {
                return end(transaction, now, id, &End::canceled());
            }
            if job.failures >= job.retries {
                return end(transaction, now, id, &ended(JobState::Failed));
            }
            let delay = backoff(job.failures);
            let sql = "UPDATE job SET failures = failures + 1, not_before = ?2, exit = ?3, text = ?4, lease = NULL \
                       WHERE id = ?1";
            let due = now.saturating_add(delay);
            transaction.prepare_cached(sql)?.execute(params![
                number(id),
                sql_number(due),
                how.exit,
                how.text
            ])?;
            enter(transaction, now, id, JobState::Waiting, &how.text)
        }
    }
}

/// Puts a job back whose worker sent no news until the end of its lease.
fn lose(transaction: &Transaction<'_>, now: u64, id: JobId) -> Step<()> {
    let sql =
        "UPDATE job SET losses = losses + 1 WHERE id = ? RETURNING losses, COALESCE(worker, '')";
    let (losses, worker): (u32, String) = transaction
        .prepare_cached(sql)?
        .query_row([number(id)], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if losses > LOSSES_MAX && !job(transaction, id)?.is_cancel_requested {
        let why = format!("{losses} workers ended during it, the last of them {worker}");
        return end(transaction, now, id, &End::failed(why));
    }
    requeue(transaction, now, id, &format!("no news from {worker}"))
}

/// Queues a running job again, or ends it if its user canceled it.
fn requeue(transaction: &Transaction<'_>, now: u64, id: JobId, why: &str) -> Step<()> {
    if job(transaction, id)?.is_cancel_requested {
        return end(transaction, now, id, &End::canceled());
    }
    let sql = "UPDATE job SET lease = NULL WHERE id = ?";
    transaction.prepare_cached(sql)?.execute([number(id)])?;
    enter(transaction, now, id, JobState::Queued, why)
}

/// Stores what is new of an attempt.
fn store(transaction: &Transaction<'_>, attempt: Attempt, report: &Report) -> Step<()> {
    if let Some((done, total)) = report.progress {
        let sql = "UPDATE job SET bytes = ?2, bytes_total = ?3 WHERE id = ?1";
        transaction.prepare_cached(sql)?.execute(params![
            number(attempt.job),
            sql_number(done),
            sql_number(total)
        ])?;
    }
    if !report.log.is_empty() {
        let sql = "INSERT INTO log (job, attempt, seq, text) SELECT ?1, ?2, \
                   (SELECT COALESCE(MAX(seq), 0) + 1 FROM log WHERE job = ?1 AND attempt = ?2), ?3";
        transaction.prepare_cached(sql)?.execute(params![
            number(attempt.job),
            attempt.number,
            report.log
        ])?;
    }
    Ok(())
}

/// Returns true if the job runs, and this is its newest attempt.
fn is_newest(transaction: &Transaction<'_>, attempt: Attempt) -> Step<bool> {
    let sql = "SELECT 1 FROM job WHERE id = ?1 AND state = 2 AND attempt = ?2";
    let mut statement = transaction.prepare_cached(sql)?;
    Ok(statement.exists(params![number(attempt.job), attempt.number])?)
}

/// Returns true if the job is as `condition` says at the time `now`, its second parameter.
fn is_still(transaction: &Transaction<'_>, id: JobId, condition: &str, now: u64) -> Step<bool> {
    let sql = format!("SELECT 1 FROM job WHERE id = ?1 AND {condition}");
    let mut statement = transaction.prepare_cached(&sql)?;
    Ok(statement.exists(params![number(id), sql_number(now)])?)
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
/// Most jobs of each kind that one call moves.
const ADVANCE_MAX: i64 = 1000;
/// Failure of a job that was not started in time.
const LATE: &str = "not started before the time of --start-by";
