//! Turns of owners: which job a free worker starts next, and which job makes room for it.
//!
//! Jobs hold their workers for a long time. So an owner whose jobs have started while no other owner waited could hold
//! all workers. Once another owner waits, the limit of an owner is its share of the running jobs. A worker without a free
//! slot interrupts a job beyond that limit, and the job resumes later. While no other owner waits, there is no limit.

use std::collections::BTreeMap;

use crate::database::{Database, Row, optional};
use crate::error::Result;
use crate::job::{Attempt, Job, JobId};
use crate::life::{End, end};
use crate::queue::Queue;

/// Owner that starts the next job, once a worker has a free slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextOwner {
    /// Name.
    pub owner: String,
    /// Priority of its job.
    pub priority: i32,
}

/// Running jobs and share of an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunningShare {
    /// Jobs that run.
    pub running: u64,
    /// Share.
    pub share: u64,
}

/// Owner that waits while all slots are taken, with the loads of all owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// Owner that waits.
    pub next: NextOwner,
    /// Owners of running jobs, and the owner that waits.
    pub loads: BTreeMap<String, RunningShare>,
}

impl Queue {
    /// Returns the owner that starts the next job, and the loads of owners. Returns none if no job is queued.
    pub fn crowd(&mut self) -> Result<Option<Crowd>> {
        let database = &mut *self.database;
        let Some(priority) = top_priority(database, None)? else {
            return Ok(None);
        };
        let turns = Turns::of(database, priority)?;
        let Some(first) = turns.owners.iter().min_by_key(|load| load.order()) else {
            return Ok(None);
        };
        let sql = "SELECT job.owner, COUNT(*), COALESCE(MAX(owner.share), 1) FROM job \
                   LEFT JOIN owner ON owner.name = job.owner WHERE state = 2 GROUP BY job.owner";
        let mut loads = BTreeMap::new();
        for row in database.query(sql, &[])? {
            let load = RunningShare {
                running: row.get(1)?,
                share: row.get(2)?,
            };
            loads.insert(row.get(0)?, load);
        }
        loads.entry(first.owner.clone()).or_insert(RunningShare {
            running: 0,
            share: first.share,
        });
        let next = NextOwner {
            owner: first.owner.clone(),
            priority,
        };
        Ok(Some(Crowd { next, loads }))
    }
}

impl Crowd {
    /// Returns the job that makes room for the owner that waits, of the jobs `own` of a worker, or none.
    ///
    /// That is the newest job of the owner that has most beyond its share. If all owners have their shares and one more
    /// waits, jobs make room after `slice` milliseconds. Each attempt gets a longer time, so that a copy which starts
    /// again each time ends, too.
    pub fn yielding(&self, own: &[&Job], now: u64, slice: u64) -> Option<Attempt> {
        let next = self.loads.get(&self.next.owner)?;
        let may = |job: &&&Job| {
            if job.owner == self.next.owner || job.priority > self.next.priority {
                return false;
            }
            let Some(load) = self.loads.get(&job.owner) else {
                return false;
            };
            // (running + 1) / share of the owner that waits, against running / share of the owner that runs
            let wanted = (next.running + 1).saturating_mul(load.share);
            let held = load.running.saturating_mul(next.share);
            let age = now.saturating_sub(job.started.unwrap_or(now));
            let is_old = age >= slice.saturating_mul(job.attempt.into());
            wanted < held || wanted == held && is_old
        };
        let order = |job: &&&Job| {
            let load = self.loads.get(&job.owner).copied().unwrap_or_default();
            let weighed = load.running.saturating_mul(1_000_000) / load.share.max(1);
            (weighed, job.started, job.id)
        };
        let chosen = own.iter().filter(may).max_by_key(order);
        chosen.map(|job| job.attempt())
    }
}

/// Returns the highest priority of queued jobs, below a priority if there is one.
pub(crate) fn top_priority(database: &mut dyn Database, below: Option<i32>) -> Result<Option<i32>> {
    let row = match below {
        None => {
            let sql = "SELECT priority FROM job WHERE state = 1 ORDER BY priority DESC LIMIT 1";
            optional(database, sql, &[])?
        }
        Some(below) => {
            let sql = "SELECT priority FROM job WHERE state = 1 AND priority < $1 \
                       ORDER BY priority DESC LIMIT 1";
            optional(database, sql, &[below.into()])?
        }
    };
    row.map(|row| row.get(0)).transpose()
}

/// Turns of the owners of queued jobs of one priority.
///
/// Claims at the same time do not see each other, so the loads may be wrong by the jobs that they claim.
#[derive(Debug)]
pub(crate) struct Turns {
    priority: i32,
    owners: Vec<Load>,
    /// Turn of the job that starts next.
    turn: u64,
    /// Jobs that were found too late.
    late: usize,
}

/// Load of an owner.
#[derive(Debug)]
struct Load {
    owner: String,
    share: u64,
    running: u64,
    /// Turn of the job that started last.
    served: u64,
}

impl Load {
    /// Returns the place of the owner in the order of turns.
    fn order(&self) -> (u64, u64, String) {
        let weighed = self.running.saturating_mul(1_000_000) / self.share.max(1);
        (weighed, self.served, self.owner.clone())
    }
}

impl Turns {
    pub(crate) fn of(database: &mut dyn Database, priority: i32) -> Result<Self> {
        // each step of the recursion goes to the next owner in the index, however many jobs an owner has
        let sql = "WITH RECURSIVE queued (name) AS ( \
                   SELECT (SELECT owner FROM job WHERE state = 1 AND priority = $1 ORDER BY owner LIMIT 1) \
                   UNION ALL SELECT (SELECT owner FROM job WHERE state = 1 AND priority = $1 AND owner > queued.name \
                   ORDER BY owner LIMIT 1) FROM queued WHERE queued.name IS NOT NULL) \
                   SELECT queued.name, COALESCE(owner.share, 1), \
                   (SELECT COUNT(*) FROM job WHERE state = 2 AND job.owner = queued.name), \
                   COALESCE((SELECT turn FROM job WHERE turn > 0 AND job.owner = queued.name \
                   ORDER BY turn DESC LIMIT 1), 0) \
                   FROM queued LEFT JOIN owner ON owner.name = queued.name WHERE queued.name IS NOT NULL";
        let rows = database.query(sql, &[priority.into()])?;
        let load = |row: &Row| {
            Ok(Load {
                owner: row.get(0)?,
                share: row.get(1)?,
                running: row.get(2)?,
                served: row.get(3)?,
            })
        };
        let last = "SELECT turn FROM job WHERE turn > 0 ORDER BY turn DESC LIMIT 1";
        let last = optional(database, last, &[])?;
        let last: u64 = last.map_or(Ok(0), |row| row.get(0))?;
        Ok(Self {
            priority,
            owners: rows.iter().map(load).collect::<Result<_>>()?,
            turn: last + 1,
            late: 0,
        })
    }

    /// Returns the job that starts next, if any is left, and its turn. The job is locked. Some jobs that would start too
    /// late fail.
    pub(crate) fn next(
        &mut self,
        database: &mut dyn Database,
        now: u64,
    ) -> Result<Option<(JobId, u64)>> {
        // a queued job waits for none: the order by that column keeps the server from a walk through all jobs by number
        let sql = "SELECT id, start_by FROM job WHERE state = 1 AND priority = $1 AND owner = $2 \
                   ORDER BY waits, id LIMIT 1 FOR UPDATE SKIP LOCKED";
        while let Some(load) = self.owners.iter_mut().min_by_key(|load| load.order()) {
            let values = [self.priority.into(), (&load.owner).into()];
            let Some(row) = optional(database, sql, &values)? else {
                let owner = load.owner.clone();
                self.owners.retain(|load| load.owner != owner);
                continue;
            };
            let id = row.get(0)?;
            if row.get::<Option<u64>>(1)?.is_some_and(|by| by < now) {
                end(database, now, id, &End::failed(LATE))?;
                self.late += 1;
                if self.late >= LATE_MAX {
                    return Ok(None);
                }
                continue;
            }
            let turn = self.turn;
            self.turn += 1;
            (load.running, load.served) = (load.running + 1, turn);
            return Ok(Some((id, turn)));
        }
        Ok(None)
    }
}

/// Most jobs in a claim that fail since they would start too late.
const LATE_MAX: usize = 100;
/// Failure of a job that was not started in time.
pub(crate) const LATE: &str = "not started before the time of --start-by";

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u64, owner: &str, started: u64) -> Job {
        Job {
            id: JobId(id),
            owner: owner.to_owned(),
            name: String::new(),
            command: Vec::new(),
            directory: "/".into(),
            priority: 0,
            state: crate::JobState::Running,
            attempt: 1,
            failures: 0,
            retries: 0,
            not_before: 0,
            start_by: None,
            every: None,
            worker: None,
            is_cancel_requested: false,
            progress: None,
            submitted: 0,
            started: Some(started),
            ended: None,
            exit: None,
            text: String::new(),
        }
    }

    fn crowd(next: &str, loads: &[(&str, u64, u64)]) -> Crowd {
        let loads = loads.iter().map(|(owner, running, share)| {
            let load = RunningShare {
                running: *running,
                share: *share,
            };
            ((*owner).to_owned(), load)
        });
        Crowd {
            next: NextOwner {
                owner: next.to_owned(),
                priority: 0,
            },
            loads: loads.collect(),
        }
    }

    fn chosen(crowd: &Crowd, own: &[Job], now: u64) -> Option<u64> {
        let own: Vec<&Job> = own.iter().collect();
        let found = crowd.yielding(&own, now, 100);
        found.map(|attempt| attempt.job.0)
    }

    #[test]
    fn newest_job_beyond_the_share_makes_room() {
        let own = [job(1, "ada", 5), job(2, "ada", 9), job(3, "eve", 10)];
        let waits = crowd("bob", &[("ada", 2, 1), ("eve", 1, 1), ("bob", 0, 1)]);
        assert_eq!(chosen(&waits, &own, 20), Some(2));
        // its owner has a share for both
        let waits = crowd("bob", &[("ada", 2, 2), ("eve", 1, 1), ("bob", 1, 1)]);
        assert_eq!(chosen(&waits, &own, 20), None);
        // an owner does not make room for itself, nor for a lower priority
        assert_eq!(
            chosen(&crowd("ada", &[("ada", 2, 1)]), &own[..2], 999),
            None
        );
        let urgent = [Job {
            priority: 1,
            ..job(1, "ada", 5)
        }];
        let waits = crowd("bob", &[("ada", 2, 1), ("bob", 0, 1)]);
        assert_eq!(chosen(&waits, &urgent, 999), None);
    }

    #[test]
    fn owners_take_turns_if_there_are_more_owners_than_slots() {
        let waits = crowd("bob", &[("ada", 1, 1), ("bob", 0, 1)]);
        assert_eq!(chosen(&waits, &[job(1, "ada", 5)], 104), None);
        assert_eq!(chosen(&waits, &[job(1, "ada", 5)], 105), Some(1));
        let second = Job {
            attempt: 2,
            ..job(1, "ada", 5)
        };
        assert_eq!(chosen(&waits, std::slice::from_ref(&second), 204), None);
        assert_eq!(chosen(&waits, &[second], 205), Some(1));
    }
}
