//! Reading of jobs, events and logs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::database::{Database, Row, optional};
use crate::error::{Error, Result};
use crate::job::{HELD, Job, JobId, JobState};
use crate::queue::Queue;

/// Selection of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// States; all if empty.
    pub states: Vec<JobState>,
    /// Owner; all if none.
    pub owner: Option<String>,
}

/// Change of a job in its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEvent {
    /// Number within the job, from 1.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub time: u64,
    /// Number of the attempt; 0 before the first.
    pub attempt: u32,
    /// State that the job entered.
    pub state: JobState,
    /// Reason in words, or empty.
    pub text: String,
}

/// Piece of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPiece {
    /// Attempt that wrote it.
    pub attempt: u32,
    /// Number within the attempt, from 1.
    pub seq: u64,
    /// Text.
    pub text: String,
}

/// Share of an owner, and its jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerShare {
    /// Name of the owner.
    pub owner: String,
    /// Share of the workers.
    pub share: u32,
    /// Jobs that run.
    pub running: u64,
    /// Jobs that wait for a worker.
    pub queued: u64,
}

impl Queue {
    /// Returns a job.
    pub fn job(&mut self, id: JobId) -> Result<Job> {
        job(&mut *self.database, id)
    }

    /// Returns up to `most` selected jobs before `before`, the newest first.
    pub fn jobs(
        &mut self,
        selection: &Selection,
        before: Option<JobId>,
        most: usize,
    ) -> Result<Vec<Job>> {
        let mut conditions = vec!["id < $1".to_owned()];
        let before = before.unwrap_or(JobId(u64::MAX));
        let mut values = vec![before.into(), most.into()];
        if let Some(owner) = &selection.owner {
            conditions.push("owner = $3".to_owned());
            values.push(owner.into());
        }
        if !selection.states.is_empty() {
            // each text of a statement is prepared once, and kept
            let states: BTreeSet<i64> = selection.states.iter().map(|one| one.number()).collect();
            let states: Vec<String> = states.iter().map(i64::to_string).collect();
            conditions.push(format!("state IN ({})", states.join(",")));
            if selection.states.iter().all(|state| !state.is_end()) {
                // for the index of open jobs
                conditions.push("state < 3".to_owned());
            }
        }
        let conditions = conditions.join(" AND ");
        let sql = format!("SELECT {COLUMNS} FROM job WHERE {conditions} ORDER BY id DESC LIMIT $2");
        let rows = self.database.query(&sql, &values)?;
        rows.iter().map(of_row).collect()
    }

    /// Returns the number of jobs in each state that has some.
    pub fn counts(&mut self) -> Result<BTreeMap<JobState, u64>> {
        let sql = "SELECT state, COUNT(*) FROM job GROUP BY state";
        let rows = self.database.query(sql, &[])?;
        rows.iter()
            .map(|row| Ok((row.get(0)?, row.get(1)?)))
            .collect()
    }

    /// Returns the owners that have a share of their own, or jobs that run or wait for a worker, by name.
    pub fn shares(&mut self) -> Result<Vec<OwnerShare>> {
        let sql = "SELECT name, COALESCE(MAX(share), 1), CAST(SUM(running) AS BIGINT), CAST(SUM(queued) AS BIGINT) \
                   FROM (SELECT name, share, 0 AS running, 0 AS queued FROM owner \
                   UNION ALL SELECT owner, NULL, COUNT(*), 0 FROM job WHERE state = 2 GROUP BY owner \
                   UNION ALL SELECT owner, NULL, 0, COUNT(*) FROM job WHERE state = 1 GROUP BY owner) AS owners \
                   GROUP BY name ORDER BY name";
        let rows = self.database.query(sql, &[])?;
        let share = |row: &Row| {
            Ok(OwnerShare {
                owner: row.get(0)?,
                share: row.get(1)?,
                running: row.get(2)?,
                queued: row.get(3)?,
            })
        };
        rows.iter().map(share).collect()
    }

    /// Returns the history of a job, the oldest event first.
    pub fn events(&mut self, id: JobId) -> Result<Vec<JobEvent>> {
        self.job(id)?;
        let sql = "SELECT seq, time, attempt, state, text FROM event WHERE job = $1 ORDER BY seq";
        let rows = self.database.query(sql, &[id.into()])?;
        let event = |row: &Row| {
            Ok(JobEvent {
                seq: row.get(0)?,
                time: row.get(1)?,
                attempt: row.get(2)?,
                state: row.get(3)?,
                text: row.get(4)?,
            })
        };
        rows.iter().map(event).collect()
    }

    /// Returns up to `most` pieces of a job's log after `after`, an attempt and a number within it.
    pub fn log(&mut self, id: JobId, after: (u32, u64), most: usize) -> Result<Vec<LogPiece>> {
        self.job(id)?;
        let sql = "SELECT attempt, seq, text FROM log WHERE job = $1 AND (attempt, seq) > ($2, $3) \
                   ORDER BY attempt, seq LIMIT $4";
        let (attempt, seq) = after;
        let values = [id.into(), attempt.into(), seq.into(), most.into()];
        let rows = self.database.query(sql, &values)?;
        let piece = |row: &Row| {
            Ok(LogPiece {
                attempt: row.get(0)?,
                seq: row.get(1)?,
                text: row.get(2)?,
            })
        };
        rows.iter().map(piece).collect()
    }

    /// Returns true if no job is queued, runs, waits for a time, or must learn of the end of another one.
    pub fn is_idle(&mut self) -> Result<bool> {
        let sql = format!(
            "SELECT 1 FROM job WHERE state = 1 UNION ALL SELECT 1 FROM job WHERE state = 2 \
             UNION ALL SELECT 1 FROM job WHERE state = 0 AND waits = 0 \
             UNION ALL SELECT 1 FROM job WHERE state = 0 AND waits = {HELD} UNION ALL SELECT 1 FROM ending LIMIT 1"
        );
        optional(&mut *self.database, &sql, &[]).map(|found| found.is_none())
    }
}

/// Returns a job, which must exist.
pub(crate) fn job(database: &mut dyn Database, id: JobId) -> Result<Job> {
    let sql = format!("SELECT {COLUMNS} FROM job WHERE id = $1");
    let found = optional(database, &sql, &[id.into()])?;
    of_row(&found.ok_or(Error::Unknown(id))?)
}

/// Returns the job in a row of [`COLUMNS`].
pub(crate) fn of_row(row: &Row) -> Result<Job> {
    let command: String = row.get(3)?;
    let directory: Vec<u8> = row.get(4)?;
    let (done, total): (Option<u64>, Option<u64>) = (row.get(15)?, row.get(16)?);
    Ok(Job {
        id: row.get(0)?,
        owner: row.get(1)?,
        name: row.get(2)?,
        command: serde_json::from_str(&command).unwrap_or_default(),
        directory: OsString::from_vec(directory).into(),
        priority: row.get(5)?,
        state: row.get(6)?,
        attempt: row.get(7)?,
        failures: row.get(8)?,
        retries: row.get(9)?,
        not_before: row.get(10)?,
        start_by: row.get(11)?,
        every: row.get(12)?,
        worker: row.get(13)?,
        is_cancel_requested: row.get(14)?,
        progress: done.zip(total),
        submitted: row.get(17)?,
        started: row.get(18)?,
        ended: row.get(19)?,
        exit: row.get(20)?,
        text: row.get(21)?,
    })
}

/// Columns of a job.
pub(crate) const COLUMNS: &str = "id, owner, name, command, directory, priority, state, attempt, failures, retries, \
                                  not_before, start_by, every, worker, cancel, bytes, bytes_total, submitted, started, \
                                  ended, exit, text";
