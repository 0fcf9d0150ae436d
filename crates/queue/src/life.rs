//! Life of a job within a transaction: entry into a state, and its end with all that follows.

use std::collections::BTreeSet;

use crate::database::{Database, Value, one, optional};
use crate::error::{Error, Result};
use crate::job::{JobId, JobState};

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
pub(crate) fn end(database: &mut dyn Database, now: u64, id: JobId, how: &End) -> Result<()> {
    let mut failing = end_one(database, now, id, how)?;
    // in the order of their numbers, so that transactions lock jobs in the same order
    while let Some((dependent, why)) = failing.pop_first() {
        failing.extend(end_one(database, now, dependent, &End::failed(why))?);
    }
    Ok(())
}

/// Ends one job, and returns jobs that fail by that, each with the reason.
fn end_one(
    database: &mut dyn Database,
    now: u64,
    id: JobId,
    how: &End,
) -> Result<BTreeSet<(JobId, String)>> {
    if state(database, id)?.is_end() {
        return Ok(BTreeSet::new());
    }
    let sql = "SELECT cancel FROM job WHERE id = $1";
    let is_cancel_requested: bool = one(database, sql, &[id.into()])?.get(0)?;
    let sql =
        "UPDATE job SET ended = $2, exit = $3, text = $4, lease = NULL, cancel = 0 WHERE id = $1";
    let text = &how.text;
    let values = [id.into(), now.into(), how.exit.into(), text.into()];
    database.execute(sql, &values)?;
    enter(database, now, id, how.state, text)?;
    let dependents = dependents(database, id)?;
    database.execute("DELETE FROM dependency WHERE job = $1", &[id.into()])?;
    // the user may have canceled the job while it ended
    if how.state != JobState::Canceled && !is_cancel_requested {
        repeat(database, now, id)?;
    }
    if how.state != JobState::Done {
        let why = format!("job {id}, which must be done first, is {}", how.state);
        let failing = dependents.into_iter();
        return Ok(failing.map(|one| (one, why.clone())).collect());
    }
    for dependent in dependents {
        let sql = "UPDATE job SET waits = waits - 1 WHERE id = $1 RETURNING waits, not_before";
        let row = one(database, sql, &[dependent.into()])?;
        let (waits, not_before): (u64, u64) = (row.get(0)?, row.get(1)?);
        if waits == 0 && not_before <= now {
            enter(database, now, dependent, JobState::Queued, "")?;
        }
    }
    Ok(BTreeSet::new())
}

/// Removes the dependencies on a job, and returns the jobs that have waited for it.
///
/// A dependency that another transaction has removed with the end of the waiting job is not among them.
fn dependents(database: &mut dyn Database, id: JobId) -> Result<BTreeSet<JobId>> {
    let sql = "DELETE FROM dependency WHERE after = $1 RETURNING job";
    let rows = database.query(sql, &[id.into()])?;
    rows.iter().map(|row| row.get(0)).collect()
}

/// Submits the next run of a recurring job, at the next time of its period that is not over.
fn repeat(database: &mut dyn Database, now: u64, id: JobId) -> Result<()> {
    // a retry starts later than the planned time of its run
    let sql =
        "SELECT every, COALESCE(series, not_before) FROM job WHERE id = $1 AND every IS NOT NULL";
    let Some(row) = optional(database, sql, &[id.into()])? else {
        return Ok(());
    };
    let (every, due): (u64, u64) = (row.get(0)?, row.get(1)?);
    let every = every.max(1);
    let periods = now.saturating_sub(due) / every + 1;
    let next = due.saturating_add(periods.saturating_mul(every));
    let sql = "INSERT INTO job (owner, name, command, directory, priority, state, retries, not_before, series, every, \
               submitted) \
               SELECT owner, name, command, directory, priority, 0, retries, $2, $2, every, $3 FROM job WHERE id = $1 \
               RETURNING id";
    let next = one(database, sql, &[id.into(), next.into(), now.into()])?.get(0)?;
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

/// Records the present state of a job as an event.
pub(crate) fn record(database: &mut dyn Database, now: u64, id: JobId, text: &str) -> Result<()> {
    let sql = "INSERT INTO event (job, seq, time, attempt, state, text) \
               SELECT id, (SELECT COALESCE(MAX(seq), 0) + 1 FROM event WHERE job = $1), $2, attempt, state, $3 \
               FROM job WHERE id = $1";
    let values: [Value<'_>; 3] = [id.into(), now.into(), text.into()];
    database.execute(sql, &values).map(drop)
}

/// Returns the state of a job, which must exist, and locks the job.
pub(crate) fn state(database: &mut dyn Database, id: JobId) -> Result<JobState> {
    let sql = "SELECT state FROM job WHERE id = $1 FOR UPDATE";
    let found = optional(database, sql, &[id.into()])?;
    found.ok_or(Error::Unknown(id))?.get(0)
}
