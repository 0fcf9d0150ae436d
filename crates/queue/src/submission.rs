//! Submission of a job within a transaction.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;

use crate::database::{Database, one};
use crate::error::{Error, Result};
use crate::job::{JobId, JobState};
use crate::life::{record, state};
use crate::spec::{JobSpec, Request, RequestKey};

/// Submits a job.
pub(crate) fn insert(database: &mut dyn Database, now: u64, spec: &JobSpec) -> Result<JobId> {
    let after: BTreeSet<JobId> = spec.after.iter().copied().collect();
    let mut open = Vec::new();
    for other in after {
        match state(database, other)? {
            JobState::Done => {}
            JobState::Waiting | JobState::Queued | JobState::Running => open.push(other),
            dead @ (JobState::Failed | JobState::Canceled) => {
                return Err(Error::Dead(other, dead));
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
    let sql = "INSERT INTO job (owner, name, command, directory, priority, state, retries, waits, not_before, series, \
               start_by, every, submitted) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, $11, $12) RETURNING id";
    let values = [
        (&spec.owner).into(),
        (&spec.name).into(),
        (&command).into(),
        spec.directory.as_os_str().as_bytes().into(),
        spec.priority.into(),
        state.into(),
        spec.retries.into(),
        open.len().into(),
        not_before.into(),
        spec.start_by.into(),
        spec.every.into(),
        now.into(),
    ];
    let id: JobId = one(database, sql, &values)?.get(0)?;
    for other in open {
        let sql = "INSERT INTO dependency (after, job) VALUES ($1, $2)";
        database.execute(sql, &[other.into(), id.into()])?;
    }
    record(database, now, id, "submitted")?;
    Ok(id)
}

/// Submits the job of a request, unless a request with the same key was there before.
pub(crate) fn insert_once(
    database: &mut dyn Database,
    now: u64,
    spec: &JobSpec,
    request: &Request,
) -> Result<JobId> {
    let owner = &spec.owner;
    let Some(key) = &request.key else {
        check_open(database, owner, request.open_max)?;
        return insert(database, now, spec);
    };
    let key = RequestKey { owner, key };
    if let Some(job) = note_key(database, now, key, (&request.digest, JobId(0)))? {
        return Ok(job);
    }
    check_open(database, owner, request.open_max)?;
    let id = insert(database, now, spec)?;
    let sql = "UPDATE request SET job = $3 WHERE owner = $1 AND key = $2";
    database.execute(sql, &[key.owner.into(), key.key.into(), id.into()])?;
    Ok(id)
}

/// Stores the key of a request about a job. Returns the job of an earlier request with the same key and digest, if any:
/// then the request was executed already.
pub(crate) fn note_key(
    database: &mut dyn Database,
    now: u64,
    RequestKey { owner, key }: RequestKey<'_>,
    (digest, job): (&str, JobId),
) -> Result<Option<JobId>> {
    let old = now.saturating_sub(KEYS_KEPT);
    let sql = "DELETE FROM request WHERE owner = $1 AND key = $2 AND time < $3";
    database.execute(sql, &[owner.into(), key.into(), old.into()])?;
    // another transaction with the same key ends first
    let sql = "INSERT INTO request (owner, key, digest, job, time) VALUES ($1, $2, $3, $4, $5) \
               ON CONFLICT (owner, key) DO NOTHING";
    let values = [
        owner.into(),
        key.into(),
        digest.into(),
        job.into(),
        now.into(),
    ];
    if database.execute(sql, &values)? == 1 {
        return Ok(None);
    }
    let sql = "SELECT digest, job FROM request WHERE owner = $1 AND key = $2";
    let row = one(database, sql, &[owner.into(), key.into()])?;
    let noted: String = row.get(0)?;
    if noted != digest {
        return Err(Error::KeyReused(key.to_owned()));
    }
    row.get(1).map(Some)
}

/// Refuses a further job of an owner with many jobs that have not ended.
pub(crate) fn check_open(database: &mut dyn Database, owner: &str, open_max: u64) -> Result<()> {
    if open_max == u64::MAX {
        return Ok(());
    }
    let sql =
        "SELECT COUNT(*) FROM (SELECT 1 FROM job WHERE owner = $1 AND state < 3 LIMIT $2) AS open";
    let open: u64 = one(database, sql, &[owner.into(), open_max.into()])?.get(0)?;
    if open < open_max {
        return Ok(());
    }
    Err(Error::Quota {
        owner: owner.to_owned(),
        open_max,
    })
}

/// Refuses a specification beyond a limit.
pub(crate) fn check(spec: &JobSpec) -> Result<()> {
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

/// Time in milliseconds for which the key of a request is kept.
pub(crate) const KEYS_KEPT: u64 = 24 * 3600 * 1000;
/// Most octets of a command.
const COMMAND_MAX: usize = 64 << 10;
/// Most octets of a name.
const NAME_MAX: usize = 200;
/// Most jobs that a job waits for.
const AFTER_MAX: usize = 1000;
/// Shortest period of a recurring job in milliseconds.
const EVERY_MIN: u64 = 1000;
