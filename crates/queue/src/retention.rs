//! Bounds of a queue: ended jobs, logs and keys of requests do not stay forever.
//!
//! A worker calls each function often, and each call deletes little. So no call holds the worker or a lock for long.

use crate::database::{Database, Durability, one, optional};
use crate::error::Result;
use crate::job::JobId;
use crate::owner;
use crate::queue::Queue;
use crate::submission::KEYS_KEPT;

/// Most that the jobs of an owner may keep in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Ended jobs of a user of this host.
    pub user_jobs_max: u64,
    /// Ended jobs of a client of a scheduler.
    pub client_jobs_max: u64,
    /// Octets of the logs of an owner.
    pub log_bytes_max: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            user_jobs_max: 1_000_000,
            client_jobs_max: 10_000,
            log_bytes_max: 64 << 20,
        }
    }
}

impl Queue {
    /// Deletes jobs that ended before `before`, at most `most` of them, with their events and logs. Returns their
    /// number.
    pub fn forget(&mut self, before: u64, most: usize) -> Result<usize> {
        let any = "SELECT 1 FROM job WHERE state >= 3 AND ended < $1 LIMIT 1";
        if optional(&mut *self.database, any, &[before.into()])?.is_none() {
            return Ok(0);
        }
        self.write(Durability::Full, |database| {
            let sql = "SELECT id FROM job WHERE state >= 3 AND ended < $1 \
                       AND NOT EXISTS (SELECT 1 FROM ending WHERE ending.job = id) ORDER BY ended LIMIT $2 \
                       FOR UPDATE SKIP LOCKED";
            let rows = database.query(sql, &[before.into(), most.into()])?;
            for row in &rows {
                delete(database, row.get(0)?)?;
            }
            Ok(rows.len())
        })
    }

    /// Deletes keys of requests that are too old for a repetition, at most `most` of them. Returns their number.
    pub fn forget_keys(&mut self, now: u64, most: usize) -> Result<u64> {
        let old = now.saturating_sub(KEYS_KEPT);
        let any = "SELECT 1 FROM request WHERE time < $1 LIMIT 1";
        if optional(&mut *self.database, any, &[old.into()])?.is_none() {
            return Ok(0);
        }
        let sql = "DELETE FROM request WHERE (owner, key) IN \
                   (SELECT owner, key FROM request WHERE time < $1 ORDER BY time LIMIT $2)";
        self.write(Durability::Relaxed, |database| {
            database.execute(sql, &[old.into(), most.into()])
        })
    }

    /// Deletes the jobs and logs of an owner that ended first, beyond its bounds, at most `most` of each. Takes the owner after
    /// `after` in the order of their names, and returns it with the number of deleted jobs and logs. Returns none after
    /// the last owner.
    pub fn trim(
        &mut self,
        after: &str,
        retention: &Retention,
        most: usize,
    ) -> Result<Option<(String, usize)>> {
        let sql = "SELECT owner FROM job WHERE owner > $1 ORDER BY owner LIMIT 1";
        let Some(row) = optional(&mut *self.database, sql, &[after.into()])? else {
            return Ok(None);
        };
        let owner: String = row.get(0)?;
        let jobs = self.trim_jobs(&owner, retention, most)?;
        let logs = self.trim_logs(&owner, retention, most)?;
        Ok(Some((owner, jobs + logs)))
    }

    fn trim_jobs(&mut self, owner: &str, retention: &Retention, most: usize) -> Result<usize> {
        let kept = match owner::client_of(owner) {
            Some(_) => retention.client_jobs_max,
            None => retention.user_jobs_max,
        };
        let any = "SELECT 1 FROM job WHERE owner = $1 AND state >= 3 LIMIT 1 OFFSET $2";
        if optional(&mut *self.database, any, &[owner.into(), kept.into()])?.is_none() {
            return Ok(0);
        }
        self.write(Durability::Full, |database| {
            let sql = "SELECT COUNT(*) FROM job WHERE owner = $1 AND state >= 3";
            let ended: u64 = one(database, sql, &[owner.into()])?.get(0)?;
            let excess = ended.saturating_sub(kept);
            // those that have ended first
            let sql = "SELECT id FROM job WHERE owner = $1 AND state >= 3 \
                       AND NOT EXISTS (SELECT 1 FROM ending WHERE ending.job = id) ORDER BY ended, id LIMIT $2 \
                       FOR UPDATE SKIP LOCKED";
            let most = excess.min(most as u64);
            let rows = database.query(sql, &[owner.into(), most.into()])?;
            for row in &rows {
                delete(database, row.get(0)?)?;
            }
            Ok(rows.len())
        })
    }

    fn trim_logs(&mut self, owner: &str, retention: &Retention, most: usize) -> Result<usize> {
        let sql = "SELECT CAST(COALESCE(SUM(logged), 0) AS BIGINT) FROM job WHERE owner = $1 AND logged > 0";
        let logged: u64 = one(&mut *self.database, sql, &[owner.into()])?.get(0)?;
        let excess = logged.saturating_sub(retention.log_bytes_max);
        if excess == 0 {
            return Ok(0);
        }
        self.write(Durability::Full, |database| {
            // a job that has not ended needs its log most
            let sql = "SELECT id, logged FROM job WHERE owner = $1 AND logged > 0 AND state >= 3 \
                       ORDER BY ended, id LIMIT $2 FOR UPDATE SKIP LOCKED";
            let mut rows = database.query(sql, &[owner.into(), most.into()])?;
            if rows.is_empty() {
                let sql = "SELECT id, logged FROM job WHERE owner = $1 AND logged > 0 \
                           ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED";
                rows = database.query(sql, &[owner.into(), most.into()])?;
            }
            let (mut count, mut freed) = (0, 0);
            for row in &rows {
                if freed >= excess {
                    break;
                }
                let id: JobId = row.get(0)?;
                freed += row.get::<u64>(1)?;
                count += 1;
                database.execute("DELETE FROM log WHERE job = $1", &[id.into()])?;
                database.execute("UPDATE job SET logged = 0 WHERE id = $1", &[id.into()])?;
            }
            Ok(count)
        })
    }
}

/// Keeps the log of a job short: deletes those of its oldest attempts, but not that of `attempt`.
pub(crate) fn shorten_log(database: &mut dyn Database, id: JobId, attempt: u32) -> Result<()> {
    let sql = "SELECT logged, (SELECT MIN(attempt) FROM log WHERE job = $1) FROM job WHERE id = $1";
    loop {
        let row = one(database, sql, &[id.into()])?;
        let (logged, oldest): (u64, Option<u32>) = (row.get(0)?, row.get(1)?);
        let Some(oldest) = oldest.filter(|oldest| logged > JOB_LOG_MAX && *oldest < attempt) else {
            return Ok(());
        };
        let sql = "DELETE FROM log WHERE job = $1 AND attempt = $2";
        database.execute(sql, &[id.into(), oldest.into()])?;
        let sql = "UPDATE job SET logged = (SELECT COALESCE(SUM(OCTET_LENGTH(text)), 0) FROM log WHERE job = $1) \
                   WHERE id = $1";
        database.execute(sql, &[id.into()])?;
    }
}

/// Deletes an ended job. The keys of its request stay, so that a repetition does not submit it again.
fn delete(database: &mut dyn Database, id: JobId) -> Result<()> {
    for sql in [
        "DELETE FROM event WHERE job = $1",
        "DELETE FROM log WHERE job = $1",
        "DELETE FROM job WHERE id = $1",
    ] {
        database.execute(sql, &[id.into()])?;
    }
    Ok(())
}

/// Octets above which the log of a job loses its oldest attempts.
const JOB_LOG_MAX: u64 = 1 << 20;
