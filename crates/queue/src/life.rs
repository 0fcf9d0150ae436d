//! Life of a job within a transaction: entry into a state, and its end with all that follows.

use crate::database::{Database, Value, one, optional};
use crate::error::{Error, Result};
use crate::job::{HELD, JobId, JobState};
use crate::owner;
use crate::secrets;

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

/// Ends a job. Jobs after it start or fail, and a recurring job is submitted again. If many jobs wait for it, only some
/// learn of it at once: [`settle`] informs the others.
pub(crate) fn end(database: &mut dyn Database, now: u64, id: JobId, how: &End) -> Result<()> {
    end_one(database, now, id, how)?;
    settle(database, now, SETTLED_AT_ONCE).map(drop)
}

/// Informs up to `most` jobs that a job before them has ended. They start or fail, and those after failed ones are
/// next. Returns the number of informed jobs.
pub(crate) fn settle(database: &mut dyn Database, now: u64, most: usize) -> Result<usize> {
    let mut count = 0;
    let sql = "SELECT job, state FROM ending ORDER BY job LIMIT 1 FOR UPDATE SKIP LOCKED";
    while count < most
        && let Some(row) = optional(database, sql, &[])?
    {
        let ended = (row.get(0)?, row.get(1)?);
        count += inform(database, now, ended, most - count)?;
    }
    Ok(count)
}

/// Informs some jobs of the end of a job. Returns true if no further job waits for it.
pub(crate) fn settle_job(database: &mut dyn Database, now: u64, id: JobId) -> Result<bool> {
    let sql = "SELECT state FROM ending WHERE job = $1 FOR UPDATE";
    let Some(row) = optional(database, sql, &[id.into()])? else {
        return Ok(true);
    };
    inform(database, now, (id, row.get(0)?), SETTLED_AT_ONCE)?;
    let sql = "SELECT 1 FROM ending WHERE job = $1";
    optional(database, sql, &[id.into()]).map(|row| row.is_none())
}

/// Informs up to `most` jobs after `id` that it has ended, in the order of their numbers. So transactions lock jobs in the
/// same order. Returns the number of informed jobs.
fn inform(
    database: &mut dyn Database,
    now: u64,
    (id, ended): (JobId, JobState),
    most: usize,
) -> Result<usize> {
    let sql = "SELECT job FROM dependency WHERE after = $1 ORDER BY job LIMIT $2";
    let rows = database.query(sql, &[id.into(), most.into()])?;
    for row in &rows {
        let dependent: JobId = row.get(0)?;
        if ended == JobState::Done {
            release(database, now, id, dependent)?;
        } else {
            let why = format!("job {id}, which must be done first, is {ended}");
            end_one(database, now, dependent, &End::failed(why))?;
        }
    }
    if rows.len() < most {
        database.execute("DELETE FROM ending WHERE job = $1", &[id.into()])?;
    }
    Ok(rows.len())
}

/// Removes the dependency of a job on `id`, which is done. It is queued if that was the last one.
fn release(database: &mut dyn Database, now: u64, id: JobId, dependent: JobId) -> Result<()> {
    let sql = "DELETE FROM dependency WHERE after = $1 AND job = $2";
    // another transaction may have ended the waiting job
    if database.execute(sql, &[id.into(), dependent.into()])? == 0 {
        return Ok(());
    }
    let sql = "UPDATE job SET waits = waits - 1 WHERE id = $1 RETURNING waits, not_before";
    let row = one(database, sql, &[dependent.into()])?;
    let (waits, not_before): (u64, u64) = (row.get(0)?, row.get(1)?);
    if waits == 0 && not_before <= now {
        enter(database, now, dependent, JobState::Queued, "")?;
    }
    Ok(())
}

/// Ends one job, and notes that jobs after it must be informed.
pub(crate) fn end_one(database: &mut dyn Database, now: u64, id: JobId, how: &End) -> Result<()> {
    if state(database, id)?.is_end() {
        return Ok(());
    }
    let sql = "SELECT cancel, command FROM job WHERE id = $1";
    let row = one(database, sql, &[id.into()])?;
    let (is_cancel_requested, command): (bool, String) = (row.get(0)?, row.get(1)?);
    let sql =
        "UPDATE job SET ended = $2, exit = $3, text = $4, lease = NULL, cancel = 0 WHERE id = $1";
    let text = &how.text;
    let values = [id.into(), now.into(), how.exit.into(), text.into()];
    database.execute(sql, &values)?;
    enter(database, now, id, how.state, text)?;
    database.execute("DELETE FROM dependency WHERE job = $1", &[id.into()])?;
    let sql = "INSERT INTO ending (job, state) SELECT $1, $2 WHERE EXISTS (SELECT 1 FROM dependency WHERE after = $1)";
    database.execute(sql, &[id.into(), how.state.into()])?;
    // the user may have canceled the job while it ended
    if how.state != JobState::Canceled && !is_cancel_requested {
        repeat(database, now, id)?;
    }
    if how.state == JobState::Done
        && let Some(masked) = secrets::masked_command(&command)
    {
        // nothing runs it again
        let sql = "UPDATE job SET command = $2 WHERE id = $1";
        database.execute(sql, &[id.into(), (&masked).into()])?;
    }
    Ok(())
}

/// Submits the next run of a recurring job, at the next time of its period that is not over.
fn repeat(database: &mut dyn Database, now: u64, id: JobId) -> Result<()> {
    // a retry starts later than the planned time of its run
    let sql = "SELECT every, COALESCE(series, not_before), owner FROM job WHERE id = $1 AND every IS NOT NULL";
    let Some(row) = optional(database, sql, &[id.into()])? else {
        return Ok(());
    };
    let (every, due, owner): (u64, u64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let every = every.max(1);
    let periods = now.saturating_sub(due) / every + 1;
    let next = due.saturating_add(periods.saturating_mul(every));
    let sql = "INSERT INTO job (owner, name, command, directory, priority, state, retries, waits, not_before, series, \
               every, submitted) \
               SELECT owner, name, command, directory, priority, 0, retries, $4, $2, $2, every, $3 FROM job \
               WHERE id = $1 RETURNING id";
    // the scheduler checks the rights of its clients at each run
    let waits = owner::client_of(&owner).map_or(0, |_| HELD);
    let values = [id.into(), next.into(), now.into(), waits.into()];
    let next = one(database, sql, &values)?.get(0)?;
    record(database, now, next, &format!("next run of job {id}"))?;
    // a retry of this run must not start a second series
    let sql = "UPDATE job SET every = NULL WHERE id = $1";
    database.execute(sql, &[id.into()]).map(drop)
}

/// Puts a job into a state, and records it.
pub(crate) fn enter(
    database: &mut dyn Database,
    now: u64,
    id: JobId,
    state: JobState,
    text: &str,
) -> Result<()> {
    let sql = "UPDATE job SET state = $2 WHERE id = $1";
    database.execute(sql, &[id.into(), state.into()])?;
    record(database, now, id, text)
}

/// Records the present state of a job as an event. The oldest events of a long history are deleted.
pub(crate) fn record(database: &mut dyn Database, now: u64, id: JobId, text: &str) -> Result<()> {
    let sql = "INSERT INTO event (job, seq, time, attempt, state, text) \
               SELECT id, (SELECT COALESCE(MAX(seq), 0) + 1 FROM event WHERE job = $1), $2, attempt, state, $3 \
               FROM job WHERE id = $1 RETURNING seq";
    let values: [Value<'_>; 3] = [id.into(), now.into(), text.into()];
    let seq: u64 = one(database, sql, &values)?.get(0)?;
    if seq > EVENTS_KEPT && seq.is_multiple_of(EVENTS_PRUNED) {
        let sql = "DELETE FROM event WHERE job = $1 AND seq <= $2";
        database.execute(sql, &[id.into(), (seq - EVENTS_KEPT).into()])?;
    }
    Ok(())
}

/// Returns the state of a job, which must exist, and locks the job.
pub(crate) fn state(database: &mut dyn Database, id: JobId) -> Result<JobState> {
    let sql = "SELECT state FROM job WHERE id = $1 FOR UPDATE";
    let found = optional(database, sql, &[id.into()])?;
    found.ok_or(Error::Unknown(id))?.get(0)
}

/// Most jobs that learn of the end of a job in the same transaction.
pub(crate) const SETTLED_AT_ONCE: usize = 100;
/// Events of a job that are kept.
const EVENTS_KEPT: u64 = 1000;
/// Number of events after which the oldest ones are deleted.
const EVENTS_PRUNED: u64 = 100;
