//! Jobs in a file, and the work of clients: submission, cancellation, retries.
//!
//! Each change is one transaction, and the disk has it before the call returns. Several processes may use the file at
//! once.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::error::{Error, Result, failed};
use crate::job::{JobId, JobState};
use crate::schema;
use crate::spec::JobSpec;

/// Queue in a file.
#[derive(Debug)]
pub struct Queue {
    pub(crate) path: PathBuf,
    pub(crate) connection: Connection,
}

/// Reason to roll a transaction back.
#[derive(Debug)]
pub(crate) enum Abort {
    /// Failure of the database.
    Sql(rusqlite::Error),
    /// Refusal of the request.
    Refused(Error),
}

impl From<rusqlite::Error> for Abort {
    fn from(why: rusqlite::Error) -> Self {
        Self::Sql(why)
    }
}

impl From<Error> for Abort {
    fn from(why: Error) -> Self {
        Self::Refused(why)
    }
}

/// Result within a transaction.
pub(crate) type Step<T> = std::result::Result<T, Abort>;

impl Queue {
    /// Opens the queue at `path`. The file and its directory are created if they do not exist.
    pub fn open(path: &Path) -> Result<Self> {
        Self::connect(path, true)
    }

    /// Opens a queue that exists.
    pub fn existing(path: &Path) -> Result<Self> {
        Self::connect(path, false)
    }

    fn connect(path: &Path, create: bool) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            connection: schema::open(path, create)?,
        })
    }

    /// Submits jobs: all, or none if one is refused.
    pub fn submit(&mut self, now: u64, specs: &[JobSpec]) -> Result<Vec<JobId>> {
        for spec in specs {
            check(spec)?;
        }
        self.write("write", |transaction| {
            let insert = |spec| insert(transaction, now, spec);
            specs.iter().map(insert).collect()
        })
    }

    /// Cancels a job. A running job ends once its worker has stopped it. Returns the state of the job now.
    pub fn cancel(&mut self, now: u64, id: JobId) -> Result<JobState> {
        self.write("write", |transaction| {
            let state = state(transaction, id)?;
            match state {
                JobState::Waiting | JobState::Queued => {
                    end(transaction, now, id, &End::canceled())?;
                    Ok(JobState::Canceled)
                }
                JobState::Running => {
                    let sql = "UPDATE job SET cancel = 1 WHERE id = ?";
                    transaction.prepare_cached(sql)?.execute([number(id)])?;
                    Ok(JobState::Running)
                }
                JobState::Done | JobState::Failed | JobState::Canceled => {
                    Err(Error::Ended(id, state).into())
                }
            }
        })
    }

    /// Queues a failed or canceled job again, with all its retries.
    pub fn retry(&mut self, now: u64, id: JobId) -> Result<()> {
        self.write("write", |transaction| {
            let state = state(transaction, id)?;
            if !matches!(state, JobState::Failed | JobState::Canceled) {
                return Err(Error::NotFailed(id, state).into());
            }
            // the job no longer waits for jobs before it
            let sql = "UPDATE job SET failures = 0, losses = 0, waits = 0, cancel = 0, start_by = NULL, ended = NULL, exit = NULL, \
                       text = '' WHERE id = ?";
            transaction.prepare_cached(sql)?.execute([number(id)])?;
            enter(transaction, now, id, JobState::Queued, "retried by its user")?;
            Ok(())
        })
    }

    /// Sets the share of an owner: an owner with share 2 gets twice the workers of an owner with share 1.
    pub fn set_share(&mut self, owner: &str, share: u32) -> Result<()> {
        if share == 0 {
            return Err(Error::Limit("a share is 1 or more"));
        }
        self.write("write", |transaction| {
            let sql = "INSERT INTO owner (name, share) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET share = ?2";
            transaction
                .prepare_cached(sql)?
                .execute(params![owner, share])?;
            Ok(())
        })
    }

    /// Deletes jobs that ended before `before`, at most `most` of them, with their events and logs. Returns their
    /// number.
    pub fn forget(&mut self, before: u64, most: usize) -> Result<usize> {
        let any = "SELECT 1 FROM job WHERE state >= 3 AND ended < ?1 LIMIT 1";
        if !self.exists(any, before)? {
            return Ok(0);
        }
        self.write("write", |transaction| {
            let sql = "SELECT id FROM job WHERE state >= 3 AND ended < ?1 ORDER BY ended LIMIT ?2";
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let rows = transaction
                .prepare_cached(sql)?
                .query_map(params![sql_number(before), most], |row| row.get(0))?
                .collect::<rusqlite::Result<Vec<i64>>>()?;
            for id in &rows {
                for sql in [
                    "DELETE FROM event WHERE job = ?",
                    "DELETE FROM log WHERE job = ?",
                    "DELETE FROM job WHERE id = ?",
                ] {
                    transaction.prepare_cached(sql)?.execute([id])?;
                }
            }
            Ok(rows.len())
        })
    }

    /// Returns true if a query with one number finds a row.
    pub(crate) fn exists(&self, sql: &str, number: u64) -> Result<bool> {
        let found = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut query| query.exists([sql_number(number)]));
        found.map_err(|why| failed("read", &self.path, &why))
    }

    /// Executes a change in a transaction of its own.
    pub(crate) fn write<T>(
        &mut self,
        action: &'static str,
        act: impl FnOnce(&Transaction<'_>) -> Step<T>,
    ) -> Result<T> {
        let done = (|| {
            let behavior = TransactionBehavior::Immediate;
            let transaction = self.connection.transaction_with_behavior(behavior)?;
            let value = act(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })();
        done.map_err(|abort| match abort {
            Abort::Sql(why) => failed(action, &self.path, &why),
            Abort::Refused(error) => error,
        })
    }
}

/// End of a job.
pub(crate) struct End {
    pub(crate) state: JobState,
    pub(crate) exit: Option<u8>,
    pub(crate) text: String,
}

impl End {
    pub(crate) fn canceled() -> Self {
        Self {
            state: JobState::Canceled,
            exit: None,
            text: "canceled by its user".to_owned(),
        }
    }

    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self {
            state: JobState::Failed,
            exit: None,
            text: text.into(),
        }
    }
}

/// Ends a job. Jobs after it start or fail, and a recurring job is submitted again.
pub(crate) fn end(transaction: &Transaction<'_>, now: u64, id: JobId, how: &End) -> Step<()> {
    let mut failing = end_one(transaction, now, id, how)?;
    while let Some((dependent, why)) = failing.pop_first() {
        failing.extend(end_one(transaction, now, dependent, &End::failed(why))?);
    }
    Ok(())
}

/// Ends one job, and returns jobs that fail by that, each with the reason.
fn end_one(
    transaction: &Transaction<'_>,
    now: u64,
    id: JobId,
    how: &End,
) -> Step<BTreeSet<(JobId, String)>> {
    if state(transaction, id)?.is_end() {
        return Ok(BTreeSet::new());
    }
    let is_cancel_requested: bool = transaction
        .prepare_cached("SELECT cancel FROM job WHERE id = ?")?
        .query_row([number(id)], |row| row.get(0))?;
    let sql =
        "UPDATE job SET ended = ?2, exit = ?3, text = ?4, lease = NULL, cancel = 0 WHERE id = ?1";
    transaction.prepare_cached(sql)?.execute(params![
        number(id),
        sql_number(now),
        how.exit,
        how.text
    ])?;
    enter(transaction, now, id, how.state, &how.text)?;
    let dependents = dependents(transaction, id)?;
    let sql = "DELETE FROM dependency WHERE after = ?1 OR job = ?1";
    transaction.prepare_cached(sql)?.execute([number(id)])?;
    // the user may have canceled the job while it ended
    if how.state != JobState::Canceled && !is_cancel_requested {
        repeat(transaction, now, id)?;
    }
    if how.state != JobState::Done {
        let why = format!("job {id}, which must be done first, is {}", how.state);
        return Ok(dependents
            .into_iter()
            .map(|one| (one, why.clone()))
            .collect());
    }
    for dependent in dependents {
        let sql = "UPDATE job SET waits = waits - 1 WHERE id = ? RETURNING waits, not_before";
        let (waits, not_before): (u64, i64) = transaction
            .prepare_cached(sql)?
            .query_row([number(dependent)], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if waits == 0 && not_before <= sql_number(now) {
            enter(transaction, now, dependent, JobState::Queued, "")?;
        }
    }
    Ok(BTreeSet::new())
}

fn dependents(transaction: &Transaction<'_>, id: JobId) -> Step<Vec<JobId>> {
    let sql = "SELECT job FROM dependency WHERE after = ?";
    let rows = transaction
        .prepare_cached(sql)?
        .query_map([number(id)], |row| row.get(0).map(JobId))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rows)
}

/// Submits the next run of a recurring job, at the next time of its period that is not over.
fn repeat(transaction: &Transaction<'_>, now: u64, id: JobId) -> Step<()> {
    // a retry starts later than the planned time of its run
    let sql =
        "SELECT every, COALESCE(series, not_before) FROM job WHERE id = ? AND every IS NOT NULL";
    let found = transaction
        .prepare_cached(sql)?
        .query_row([number(id)], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((every, due)) = found else {
        return Ok(());
    };
    let (every, due): (u64, u64) = (every, due);
    let every = every.max(1);
    let periods = now.saturating_sub(due) / every + 1;
    let next = due.saturating_add(periods.saturating_mul(every));
    let sql = "INSERT INTO job (owner, name, command, directory, priority, state, retries, not_before, series, every, \
               submitted) \
               SELECT owner, name, command, directory, priority, 0, retries, ?2, ?2, every, ?3 FROM job WHERE id = ?1";
    transaction.prepare_cached(sql)?.execute(params![
        number(id),
        sql_number(next),
        sql_number(now)
    ])?;
    let next = JobId(transaction.last_insert_rowid().cast_unsigned());
    record(transaction, now, next, &format!("next run of job {id}"))?;
    // a retry of this run must not start a second series
    let sql = "UPDATE job SET every = NULL WHERE id = ?";
    transaction.prepare_cached(sql)?.execute([number(id)])?;
    Ok(())
}

/// Puts a job into a state, and records it.
pub(crate) fn enter(
    transaction: &Transaction<'_>,
    now: u64,
    id: JobId,
    state: JobState,
    text: &str,
) -> Step<()> {
    let sql = "UPDATE job SET state = ?2 WHERE id = ?1";
    transaction
        .prepare_cached(sql)?
        .execute(params![number(id), state.number()])?;
    record(transaction, now, id, text)
}

/// Records the present state of a job as an event.
pub(crate) fn record(transaction: &Transaction<'_>, now: u64, id: JobId, text: &str) -> Step<()> {
    let sql = "INSERT INTO event (job, seq, time, attempt, state, text) \
               SELECT id, (SELECT COALESCE(MAX(seq), 0) + 1 FROM event WHERE job = ?1), ?2, attempt, state, ?3 \
               FROM job WHERE id = ?1";
    transaction
        .prepare_cached(sql)?
        .execute(params![number(id), sql_number(now), text])?;
    Ok(())
}

/// Returns the state of a job, which must exist.
pub(crate) fn state(transaction: &Transaction<'_>, id: JobId) -> Step<JobState> {
    let sql = "SELECT state FROM job WHERE id = ?";
    let found: Option<i64> = transaction
        .prepare_cached(sql)?
        .query_row([number(id)], |row| row.get(0))
        .optional()?;
    let state = found.and_then(JobState::of_number);
    state.ok_or_else(|| Error::Unknown(id).into())
}

fn insert(transaction: &Transaction<'_>, now: u64, spec: &JobSpec) -> Step<JobId> {
    let after: BTreeSet<JobId> = spec.after.iter().copied().collect();
    let mut open = Vec::new();
    let sql = "INSERT INTO job (owner, name, command, directory, priority, state, retries, waits, not_before, series, \
               start_by, every, submitted) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11, ?12)";
    // the number of this job is not known yet, for the message of a dead dependency
    let next = "SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'job'), 0) + 1";
    if !after.is_empty() {
        let this: u64 = transaction.query_row(next, [], |row| row.get(0))?;
        for other in after {
            match state(transaction, other)? {
                JobState::Done => {}
                JobState::Waiting | JobState::Queued | JobState::Running => open.push(other),
                dead @ (JobState::Failed | JobState::Canceled) => {
                    return Err(Error::Dead(JobId(this), other, dead).into());
                }
            }
        }
    }
    let not_before = if spec.not_before == 0 {
        now
    } else {
        spec.not_before
    };
    let is_ready = open.is_empty() && not_before <= now;
    let state = if is_ready {
        JobState::Queued
    } else {
        JobState::Waiting
    };
    let command = serde_json::to_string(&spec.command).unwrap_or_default();
    transaction.prepare_cached(sql)?.execute(params![
        spec.owner,
        spec.name,
        command,
        spec.directory.as_os_str().as_bytes(),
        spec.priority,
        state.number(),
        spec.retries,
        open.len(),
        sql_number(not_before),
        spec.start_by.map(sql_number),
        spec.every.map(sql_number),
        sql_number(now),
    ])?;
    let id = JobId(transaction.last_insert_rowid().cast_unsigned());
    for other in open {
        let sql = "INSERT INTO dependency (after, job) VALUES (?, ?)";
        transaction
            .prepare_cached(sql)?
            .execute([number(other), number(id)])?;
    }
    record(transaction, now, id, "submitted")?;
    Ok(id)
}

/// Refuses a specification beyond a limit.
fn check(spec: &JobSpec) -> Result<()> {
    let len: usize = spec.command.iter().map(String::len).sum();
    if spec.command.is_empty() {
        return Err(Error::Limit("a job has a command"));
    }
    if len > COMMAND_MAX {
        return Err(Error::Limit(
            "the command of a job is longer than 64 KiB; name files in a list with --files-from",
        ));
    }
    if spec.name.len() > NAME_MAX {
        return Err(Error::Limit("the name of a job is longer than 200 bytes"));
    }
    if spec.after.len() > AFTER_MAX {
        return Err(Error::Limit("a job waits for more than 1000 jobs"));
    }
    if spec.every.is_some_and(|every| every < EVERY_MIN) {
        return Err(Error::Limit("a job recurs at most once each second"));
    }
    Ok(())
}

/// Returns the number of a job for SQL.
pub(crate) fn number(id: JobId) -> i64 {
    sql_number(id.0)
}

/// Returns a number for SQL, limited to its maximum of 2^63 - 1.
pub(crate) fn sql_number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Most octets of a command.
const COMMAND_MAX: usize = 64 << 10;
/// Most octets of a name.
const NAME_MAX: usize = 200;
/// Most jobs that a job waits for.
const AFTER_MAX: usize = 1000;
/// Shortest period of a recurring job in milliseconds.
const EVERY_MIN: u64 = 1000;
