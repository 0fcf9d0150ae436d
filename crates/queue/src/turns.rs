//! Turns of owners: which job a free worker starts next, and which job makes room for it.
//!
//! Jobs hold their workers for a long time. So an owner whose jobs have started while no other owner waited could hold
//! all workers. Once another owner waits, a worker without a free slot interrupts a job of an owner beyond its share. The
//! job resumes later. While no other owner waits, there is no limit. The rule is in `fairness`.
//!
//! Many workers may see the same owner wait. So only one job of a queue makes room at a time: its row in the table
//! `room` counts until its attempt ends.

use std::collections::BTreeMap;

use crate::database::{Database, Durability, Row, optional};
use crate::error::Result;
use crate::fairness::{Load, makes_room};
use crate::job::{Attempt, Job, JobId};
use crate::life::{End, end_one};
use crate::queue::Queue;

/// Answer to a worker whose slots are all taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// No job of the worker makes room.
    None,
    /// This job makes room for an owner that waits.
    Of(Attempt),
    /// Another job of the queue makes room already.
    Taken,
}

/// Owner that waits, with the loads of all owners.
#[derive(Debug)]
struct Crowd {
    /// Owner that starts the next job, once a worker has a free slot.
    next: String,
    /// Priority of its job.
    priority: i32,
    /// Owners of running jobs, and the owner that waits.
    loads: BTreeMap<String, Load>,
}

impl Queue {
    /// Returns the running job of `own` that would make room for an owner that waits. `turn` is the least time in
    /// milliseconds that a job runs before it makes room.
    pub fn room(&mut self, now: u64, own: &[&Job], turn: u64) -> Result<Room> {
        let database = &mut *self.database;
        if let Some(attempt) = taken(database)? {
            let is_own = own.iter().any(|job| job.attempt() == attempt);
            return Ok(if is_own {
                Room::Of(attempt)
            } else {
                Room::Taken
            });
        }
        let chosen = yielding(database, now, own, turn)?;
        Ok(chosen.map_or(Room::None, Room::Of))
    }

    /// Chooses one of the running jobs `own` to make room, as [`Self::room`] does, and keeps others from making room
    /// until its attempt ends. The worker must interrupt it.
    pub fn make_room(&mut self, now: u64, own: &[&Job], turn: u64) -> Result<Room> {
        if let found @ (Room::None | Room::Taken) = self.room(now, own, turn)? {
            return Ok(found);
        }
        self.write(Durability::Shared, |database| {
            // that of an attempt which has ended
            let sql = "DELETE FROM room WHERE NOT EXISTS (SELECT 1 FROM job WHERE job.id = room.job \
                       AND job.attempt = room.attempt AND job.state = 2)";
            database.execute(sql, &[])?;
            // a transaction of another worker that inserts it ends first
            let sql = "INSERT INTO room (one, job, attempt) VALUES (1, 0, 0) ON CONFLICT (one) DO NOTHING";
            if database.execute(sql, &[])? == 0 {
                // the answer to an earlier call may have been lost
                let is_own = |taken: &Attempt| own.iter().any(|job| job.attempt() == *taken);
                let taken = taken(database)?.filter(is_own);
                return Ok(taken.map_or(Room::Taken, Room::Of));
            }
            let chosen = yielding(database, now, own, turn)?;
            if let Some(Attempt { job, number }) = chosen {
                // its owner is behind the one that waits
                let sql = "UPDATE job SET turn = (SELECT MAX(turn) + 1 FROM job WHERE turn > 0) \
                           WHERE id = $1 AND state = 2 AND attempt = $2";
                if database.execute(sql, &[job.into(), number.into()])? == 1 {
                    let sql = "UPDATE room SET job = $1, attempt = $2";
                    database.execute(sql, &[job.into(), number.into()])?;
                    return Ok(Room::Of(Attempt { job, number }));
                }
            }
            database.execute("DELETE FROM room", &[])?;
            Ok(Room::None)
        })
    }
}

/// Returns the running attempt that makes room, if any.
fn taken(database: &mut dyn Database) -> Result<Option<Attempt>> {
    let sql = "SELECT job.id, job.attempt FROM room JOIN job \
               ON job.id = room.job AND job.attempt = room.attempt AND job.state = 2";
    let row = optional(database, sql, &[])?;
    let attempt = |row: Row| {
        Ok(Attempt {
            job: row.get(0)?,
            number: row.get(1)?,
        })
    };
    row.map(attempt).transpose()
}

/// Returns the job that makes room for an owner that waits, of the jobs `own` of a worker.
fn yielding(
    database: &mut dyn Database,
    now: u64,
    own: &[&Job],
    turn: u64,
) -> Result<Option<Attempt>> {
    let crowd = crowd(database)?;
    Ok(crowd.and_then(|crowd| crowd.yielding(own, now, turn)))
}

/// Returns the owner that starts the next job, and the loads of owners. Returns none if no job is queued.
fn crowd(database: &mut dyn Database) -> Result<Option<Crowd>> {
    let Some(priority) = top_priority(database, None)? else {
        return Ok(None);
    };
    let turns = Turns::of(database, priority)?;
    let Some((next, first)) = turns.first() else {
        return Ok(None);
    };
    let sql = "SELECT job.owner, COUNT(*), COALESCE(MAX(owner.share), 1) FROM job \
               LEFT JOIN owner ON owner.name = job.owner WHERE state = 2 GROUP BY job.owner";
    let mut loads = BTreeMap::new();
    for row in database.query(sql, &[])? {
        let load = Load {
            running: row.get(1)?,
            share: row.get(2)?,
            served: 0,
        };
        loads.insert(row.get(0)?, load);
    }
    loads.entry(next.clone()).or_insert(Load {
        running: 0,
        ..*first
    });
    Ok(Some(Crowd {
        next: next.clone(),
        priority,
        loads,
    }))
}

impl Crowd {
    /// Returns the job that makes room for the owner that waits, of the jobs `own` of a worker, or none.
    ///
    /// That is a job of the owner that has most for its share. Of its jobs, it is the one with the fewest attempts, then
    /// the newest.
    fn yielding(&self, own: &[&Job], now: u64, turn: u64) -> Option<Attempt> {
        let next = *self.loads.get(&self.next)?;
        let of = |job: &Job| self.loads.get(&job.owner).copied().unwrap_or_default();
        let may = |job: &&&Job| {
            let age = now.saturating_sub(job.started.unwrap_or(now));
            let is_other = job.owner != self.next && job.priority <= self.priority;
            is_other && makes_room(next, of(job), (age, job.attempt), turn)
        };
        let chosen = own.iter().filter(may).max_by(|a, b| {
            let order = of(a).with_one_less().by_weight(&of(b).with_one_less());
            let order = order.then(b.attempt.cmp(&a.attempt));
            order.then((a.started, a.id).cmp(&(b.started, b.id)))
        });
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
    owners: BTreeMap<String, Load>,
    /// Turn of the job that starts next.
    turn: u64,
    /// Jobs that were found too late.
    late: usize,
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
            let load = Load {
                share: row.get(1)?,
                running: row.get(2)?,
                served: row.get(3)?,
            };
            Ok((row.get(0)?, load))
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

    /// Returns the owner that is next, if any is left.
    fn first(&self) -> Option<(&String, &Load)> {
        // owners with equal turns: by their names
        self.owners.iter().min_by(|a, b| a.1.by_turn(b.1))
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
        while let Some((owner, _)) = self.first() {
            let owner = owner.clone();
            let values = [self.priority.into(), (&owner).into()];
            let Some(row) = optional(database, sql, &values)? else {
                self.owners.remove(&owner);
                continue;
            };
            let id = row.get(0)?;
            if row.get::<Option<u64>>(1)?.is_some_and(|by| by < now) {
                end_one(database, now, id, &End::failed(LATE))?;
                self.late += 1;
                if self.late >= LATE_MAX {
                    return Ok(None);
                }
                continue;
            }
            let turn = self.turn;
            self.turn += 1;
            if let Some(load) = self.owners.get_mut(&owner) {
                (load.running, load.served) = (load.running + 1, turn);
            }
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
            let load = Load {
                running: *running,
                share: *share,
                served: 0,
            };
            ((*owner).to_owned(), load)
        });
        Crowd {
            next: next.to_owned(),
            priority: 0,
            loads: loads.collect(),
        }
    }

    fn chosen(crowd: &Crowd, own: &[Job], now: u64) -> Option<u64> {
        let own: Vec<&Job> = own.iter().collect();
        crowd.yielding(&own, now, 10).map(|attempt| attempt.job.0)
    }

    #[test]
    fn newest_job_beyond_the_share_makes_room() {
        let own = [job(1, "ada", 5), job(2, "ada", 9), job(3, "eve", 10)];
        let waits = crowd("bob", &[("ada", 2, 1), ("eve", 1, 1), ("bob", 0, 1)]);
        assert_eq!(chosen(&waits, &own, 20), Some(2));
        // the one that was interrupted before stays
        let mut again = own.clone();
        again[1].attempt = 2;
        assert_eq!(chosen(&waits, &again, 50), Some(1));
        // each has the share of both
        let waits = crowd("bob", &[("ada", 2, 2), ("eve", 1, 1), ("bob", 1, 1)]);
        assert_eq!(chosen(&waits, &own, 999), None);
        // an owner does not make room for itself, nor for a lower priority
        let waits = crowd("ada", &[("ada", 2, 1)]);
        assert_eq!(chosen(&waits, &own[..2], 999), None);
        let urgent = [Job {
            priority: 1,
            ..job(1, "ada", 5)
        }];
        let waits = crowd("bob", &[("ada", 2, 1), ("bob", 0, 1)]);
        assert_eq!(chosen(&waits, &urgent, 999), None);
    }
}
