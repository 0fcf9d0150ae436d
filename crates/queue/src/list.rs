//! Reading of jobs, events and logs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use rusqlite::{OptionalExtension, Row, Transaction, params};

use crate::error::{Error, Result, failed};
use crate::job::{Job, JobId, JobState};
use crate::queue::{Queue, Step, number};

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

impl Queue {
    /// Returns a job.
    pub fn job(&mut self, id: JobId) -> Result<Job> {
        let sql = format!("SELECT {COLUMNS} FROM job WHERE id = ?");
        let found = self.read(|queue| {
            let mut statement = queue.connection.prepare_cached(&sql)?;
            statement.query_row([number(id)], of_row).optional()
        })?;
        found.ok_or(Error::Unknown(id))
    }

    /// Returns up to `most` selected jobs before `before`, the newest first.
    pub fn jobs(
        &mut self,
        selection: &Selection,
        before: Option<JobId>,
        most: usize,
    ) -> Result<Vec<Job>> {
        let states: Vec<String> = selection
            .states
            .iter()
            .map(|state| state.number().to_string())
            .collect();
        let state = if states.is_empty() {
            "1".to_owned()
        } else {
            format!("state IN ({})", states.join(","))
        };
        let sql = format!(
            "SELECT {COLUMNS} FROM job WHERE {state} AND (?1 IS NULL OR id < ?1) AND (?2 IS NULL OR owner = ?2) \
             ORDER BY id DESC LIMIT ?3"
        );
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.read(|queue| {
            let mut statement = queue.connection.prepare_cached(&sql)?;
            let rows = statement.query_map(
                params![before.map(number), selection.owner.as_deref(), most],
                of_row,
            )?;
            rows.collect()
        })
    }

    /// Returns the number of jobs in each state that has some.
    pub fn counts(&mut self) -> Result<BTreeMap<JobState, u64>> {
        self.read(|queue| {
            let sql = "SELECT state, COUNT(*) FROM job GROUP BY state";
            let mut statement = queue.connection.prepare_cached(sql)?;
            let rows = statement.query_map([], |row| {
                let state: i64 = row.get(0)?;
                Ok((JobState::of_number(state), row.get(1)?))
            })?;
            let known = rows.filter_map(|row| match row {
                Ok((state, count)) => state.map(|state| Ok((state, count))),
                Err(why) => Some(Err(why)),
            });
            known.collect()
        })
    }

    /// Returns the history of a job, the oldest event first.
    pub fn events(&mut self, id: JobId) -> Result<Vec<JobEvent>> {
        self.job(id)?;
        self.read(|queue| {
            let sql =
                "SELECT seq, time, attempt, state, text FROM event WHERE job = ? ORDER BY seq";
            let mut statement = queue.connection.prepare_cached(sql)?;
            let rows = statement.query_map([number(id)], |row| {
                Ok(JobEvent {
                    seq: row.get(0)?,
                    time: row.get(1)?,
                    attempt: row.get(2)?,
                    state: state(row, 3)?,
                    text: row.get(4)?,
                })
            })?;
            rows.collect()
        })
    }

    /// Returns the pieces of a job's log after `after`, an attempt and a number within it.
    pub fn log(&mut self, id: JobId, after: (u32, u64)) -> Result<Vec<LogPiece>> {
        self.job(id)?;
        self.read(|queue| {
            let sql = "SELECT attempt, seq, text FROM log WHERE job = ?1 AND (attempt, seq) > (?2, ?3) \
                       ORDER BY attempt, seq";
            let mut statement = queue.connection.prepare_cached(sql)?;
            let rows = statement.query_map(params![number(id), after.0, after.1], |row| {
                Ok(LogPiece {
                    attempt: row.get(0)?,
                    seq: row.get(1)?,
                    text: row.get(2)?,
                })
            })?;
            rows.collect()
        })
    }

    /// Returns true if no job is queued, runs, or waits for a time.
    pub fn is_idle(&mut self) -> Result<bool> {
        self.read(|queue| {
            let sql = "SELECT 1 FROM job WHERE state = 1 UNION ALL SELECT 1 FROM job WHERE state = 2 \
                       UNION ALL SELECT 1 FROM job WHERE state = 0 AND waits = 0 LIMIT 1";
            queue.connection.prepare_cached(sql)?.exists([]).map(|found| !found)
        })
    }

    fn read<T>(&mut self, act: impl FnOnce(&Self) -> rusqlite::Result<T>) -> Result<T> {
        act(self).map_err(|why| failed("read", &self.path, &why))
    }
}

/// Returns a job, which must exist.
pub(crate) fn job(transaction: &Transaction<'_>, id: JobId) -> Step<Job> {
    let sql = format!("SELECT {COLUMNS} FROM job WHERE id = ?");
    let mut statement = transaction.prepare_cached(&sql)?;
    let found = statement.query_row([number(id)], of_row).optional()?;
    found.ok_or_else(|| Error::Unknown(id).into())
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<Job> {
    let command: String = row.get(3)?;
    let directory: Vec<u8> = row.get(4)?;
    let (done, total): (Option<u64>, Option<u64>) = (row.get(15)?, row.get(16)?);
    Ok(Job {
        id: JobId(row.get(0)?),
        owner: row.get(1)?,
        name: row.get(2)?,
        command: serde_json::from_str(&command).unwrap_or_default(),
        directory: OsString::from_vec(directory).into(),
        priority: row.get(5)?,
        state: state(row, 6)?,
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

fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<JobState> {
    let number: i64 = row.get(column)?;
    JobState::of_number(number).ok_or(rusqlite::Error::IntegralValueOutOfRange(column, number))
}

const COLUMNS: &str = "id, owner, name, command, directory, priority, state, attempt, failures, retries, not_before, \
                       start_by, every, worker, cancel, bytes, bytes_total, submitted, started, ended, exit, text";
