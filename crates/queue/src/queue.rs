//! Jobs in a database, and the work of clients: submission, cancellation, retries.
//!
//! Each change is one transaction, and the disk has it before the call returns. Several processes may use the database
//! at once. A transaction locks each job that it changes, before it reads its state. Two transactions that wait for each
//! other are noticed by the database: one of them is repeated.

use std::path::Path;
use std::time::Duration;

use lighthaul_io::host::wait::pause;

use crate::database::{Database, Durability, one, open};
use crate::error::{Error, Result};
use crate::job::{JobId, JobState};
use crate::life::{End, end, enter, settle_job, state};
use crate::spec::{JobSpec, Request, RequestKey};
use crate::submission::{check, check_open, insert, insert_once, note_key};

/// Queue in a file, or in a `PostgreSQL` server that hosts share.
#[derive(Debug)]
pub struct Queue {
    pub(crate) database: Box<dyn Database>,
}

impl Queue {
    /// Opens the queue at `place`, a file or a URL as in `postgres://user@host/jobs`. A file, its directory and tables
    /// are created if they do not exist.
    pub fn open(place: &Path) -> Result<Self> {
        let database = open(place, true)?;
        Ok(Self { database })
    }

    /// Opens a queue that exists. In a server, tables are created if they do not exist.
    pub fn existing(place: &Path) -> Result<Self> {
        let database = open(place, false)?;
        Ok(Self { database })
    }

    /// Returns the time in milliseconds since 1970, by the clock that counts for all workers of the queue.
    pub fn now(&mut self) -> Result<u64> {
        self.database.now()
    }

    /// Waits at most so long for another process that has locked the file of the queue.
    pub(crate) fn wait_at_most(&mut self, patience: Duration) -> Result<()> {
        self.database.wait_at_most(patience)
    }

    /// Returns the interval at which a worker looks for work.
    pub fn interval(&self) -> Duration {
        self.database.interval()
    }

    /// Submits jobs: all, or none if one is refused.
    pub fn submit(&mut self, now: u64, specs: &[JobSpec]) -> Result<Vec<JobId>> {
        for spec in specs {
            check(spec)?;
        }
        self.write(Durability::Full, |database| {
            let mut ids = Vec::with_capacity(specs.len());
            for spec in specs {
                ids.push(insert(database, now, spec)?);
            }
            Ok(ids)
        })
    }

    /// Submits the job of a request that its client may repeat. A request with a key that was used before returns the
    /// job of the first request.
    pub fn request(&mut self, now: u64, spec: &JobSpec, request: &Request) -> Result<JobId> {
        check(spec)?;
        self.write(Durability::Full, |database| {
            insert_once(database, now, spec, request)
        })
    }

    /// Submits jobs: all, or none if one is refused. A repetition with the same key returns the jobs of the first call.
    pub fn submit_once(&mut self, now: u64, specs: &[JobSpec], key: &str) -> Result<Vec<JobId>> {
        for spec in specs {
            check(spec)?;
        }
        self.write(Durability::Full, |database| {
            let submit = |(nth, spec)| {
                let request = Request {
                    key: Some(format!("{key}-{nth}")),
                    digest: String::new(),
                    open_max: u64::MAX,
                };
                insert_once(database, now, spec, &request)
            };
            specs.iter().enumerate().map(submit).collect()
        })
    }

    /// Cancels a job. A running job ends once its worker has stopped it. Returns the state of the job now.
    pub fn cancel(&mut self, now: u64, id: JobId) -> Result<JobState> {
        self.cancel_once(now, id, None)
    }

    /// Does the same, but only once for a key.
    pub fn cancel_once(
        &mut self,
        now: u64,
        id: JobId,
        key: Option<RequestKey<'_>>,
    ) -> Result<JobState> {
        self.write(Durability::Full, |database| {
            let state = state(database, id)?;
            if is_repeated(database, now, key, ("cancel", id))? {
                return Ok(state);
            }
            match state {
                JobState::Waiting | JobState::Queued => {
                    end(database, now, id, &End::canceled())?;
                    Ok(JobState::Canceled)
                }
                JobState::Running => {
                    database.execute("UPDATE job SET cancel = 1 WHERE id = $1", &[id.into()])?;
                    Ok(JobState::Running)
                }
                JobState::Done | JobState::Failed | JobState::Canceled => {
                    Err(Error::Ended(id, state))
                }
            }
        })
    }

    /// Queues a failed or canceled job again, with all its retries.
    pub fn retry(&mut self, now: u64, id: JobId) -> Result<()> {
        self.retry_once(now, id, None, u64::MAX)
    }

    /// Does the same, but only once for a key, and not if the owner has `open_max` jobs that have not ended.
    pub fn retry_once(
        &mut self,
        now: u64,
        id: JobId,
        key: Option<RequestKey<'_>>,
        open_max: u64,
    ) -> Result<()> {
        // first, all jobs after it learn of its end
        while !self.write(Durability::Full, |database| {
            state(database, id)?;
            settle_job(database, now, id)
        })? {}
        self.write(Durability::Full, |database| {
            let state = state(database, id)?;
            if is_repeated(database, now, key, ("retry", id))? {
                return Ok(());
            }
            if !matches!(state, JobState::Failed | JobState::Canceled) {
                return Err(Error::NotFailed(id, state));
            }
            let sql = "SELECT owner, (SELECT COALESCE(MAX(seq), 0) FROM event WHERE job = id) FROM job WHERE id = $1";
            let row = one(database, sql, &[id.into()])?;
            let (owner, events): (String, u64) = (row.get(0)?, row.get(1)?);
            if events >= EVENTS_MAX {
                return Err(Error::Limit(
                    "the history of the job is full; submit the job again",
                ));
            }
            check_open(database, &owner, open_max)?;
            // the job no longer waits for jobs before it
            let sql = "UPDATE job SET failures = 0, losses = 0, most_bytes = 0, waits = 0, cancel = 0, start_by = NULL, \
                       ended = NULL, exit = NULL, text = '' WHERE id = $1";
            database.execute(sql, &[id.into()])?;
            enter(database, now, id, JobState::Queued, "retried by its user")
        })
    }

    /// Sets the share of an owner: an owner with share 2 gets twice the workers of an owner with share 1.
    pub fn set_share(&mut self, owner: &str, share: u32) -> Result<()> {
        if share == 0 {
            return Err(Error::Limit("a share is 1 or more"));
        }
        let sql = "INSERT INTO owner (name, share) VALUES ($1, $2) \
                   ON CONFLICT (name) DO UPDATE SET share = excluded.share";
        self.write(Durability::Full, |database| {
            database
                .execute(sql, &[owner.into(), share.into()])
                .map(drop)
        })
    }

    /// Fails if the database cannot be read or written now.
    pub fn check_store(&mut self, now: u64) -> Result<()> {
        // no owner has an empty name
        let sql = "INSERT INTO request (owner, key, digest, job, time) VALUES ('', '', '', 0, $1) \
                   ON CONFLICT (owner, key) DO UPDATE SET time = excluded.time";
        self.write(Durability::Relaxed, |database| {
            one(database, "SELECT COUNT(*) FROM ending", &[])?;
            database.execute(sql, &[now.into()]).map(drop)
        })
    }

    /// Executes a change in a transaction of its own. It is repeated if another transaction was in its way, or if its
    /// connection ended before it has committed.
    pub(crate) fn write<T>(
        &mut self,
        durability: Durability,
        act: impl Fn(&mut dyn Database) -> Result<T>,
    ) -> Result<T> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            match self.try_write(durability, &act) {
                Err((error, _)) if tries > 0 && error.is_conflict() => {}
                Err((Error::Unsure(why), value)) => match (self.found_out()?, value) {
                    (Some(true), Some(value)) => return Ok(value),
                    (Some(false), _) if tries > 0 => {}
                    _ => return Err(Error::Unsure(why)),
                },
                Err((error, _)) => return Err(error),
                Ok(value) => return Ok(value),
            }
        }
    }

    /// Executes a change once. A failed commit returns its value, too: it counts if the change is stored after all.
    fn try_write<T>(
        &mut self,
        durability: Durability,
        act: impl Fn(&mut dyn Database) -> Result<T>,
    ) -> std::result::Result<T, (Error, Option<T>)> {
        let database = &mut *self.database;
        let done = database.begin(durability).and_then(|()| act(database));
        let done = done.map_err(|error| (error, None));
        let done = done.and_then(|value| match database.commit() {
            Ok(()) => Ok(value),
            Err(error) => Err((error, Some(value))),
        });
        if done.is_err() {
            database.roll_back();
        }
        done
    }

    /// Asks the database if the last transaction has committed, some times while it cannot be reached.
    fn found_out(&mut self) -> Result<Option<bool>> {
        for nth in 0..ASKED {
            match self.database.has_committed() {
                Err(error) if error.may_pass() => pause(ASK_PAUSE * 2_u32.pow(nth)),
                known => return known,
            }
        }
        Ok(None)
    }
}

/// Returns true if a change of a job was made already, by an earlier request with the same key.
fn is_repeated(
    database: &mut dyn Database,
    now: u64,
    key: Option<RequestKey<'_>>,
    (verb, id): (&str, JobId),
) -> Result<bool> {
    let Some(key) = key else {
        return Ok(false);
    };
    let digest = format!("{verb} {id}");
    Ok(note_key(database, now, key, (&digest, id))?.is_some())
}

/// Number of events from which a job cannot be retried.
const EVENTS_MAX: u64 = 10_000;
/// Most tries of a transaction.
const TRIES: u32 = 10;
/// Most questions for the result of a transaction.
const ASKED: u32 = 5;
/// Pause after the first question; each one after it is twice as long.
const ASK_PAUSE: Duration = Duration::from_millis(100);
