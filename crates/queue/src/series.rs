//! Series of clients of a scheduler: each run after the first waits for a check of its owner's rights.
//!
//! ```text
//! run ends -> next run, held -> its time comes -> the scheduler checks it -> admit_run: Queued
//!                                                                       '-> end_series: Failed, and no further run
//! ```
//!
//! Workers do not start a run that is held. So a series pauses while no scheduler is there.

use crate::database::{Database, Durability, optional};
use crate::error::Result;
use crate::job::{HELD, Job, JobId, JobState};
use crate::life::{self, End, enter};
use crate::list::{COLUMNS, of_row};
use crate::queue::Queue;

impl Queue {
    /// Returns runs of series whose time has come, and that wait for the check of a scheduler, at most `most`.
    pub fn unchecked_runs(&mut self, now: u64, most: usize) -> Result<Vec<Job>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM job WHERE state = 0 AND waits = {HELD} AND not_before <= $1 \
             ORDER BY not_before LIMIT $2"
        );
        let rows = self.database.query(&sql, &[now.into(), most.into()])?;
        rows.iter().map(of_row).collect()
    }

    /// Queues a run whose owner still has the rights for it. Does nothing if it is not held any more.
    pub fn admit_run(&mut self, now: u64, id: JobId) -> Result<()> {
        self.write(Durability::Full, |database| {
            if !is_held(database, id)? {
                return Ok(());
            }
            database.execute("UPDATE job SET waits = 0 WHERE id = $1", &[id.into()])?;
            enter(database, now, id, JobState::Queued, "")
        })
    }

    /// Ends a run and its series, for the reason `why`. Does nothing if the run is not held any more.
    pub fn end_series(&mut self, now: u64, id: JobId, why: &str) -> Result<()> {
        self.write(Durability::Full, |database| {
            if !is_held(database, id)? {
                return Ok(());
            }
            let sql = "UPDATE job SET waits = 0, every = NULL WHERE id = $1";
            database.execute(sql, &[id.into()])?;
            life::end(database, now, id, &End::failed(why))
        })
    }
}

/// Returns true if a run waits for a check, and locks it.
fn is_held(database: &mut dyn Database, id: JobId) -> Result<bool> {
    let sql =
        format!("SELECT 1 FROM job WHERE id = $1 AND state = 0 AND waits = {HELD} FOR UPDATE");
    optional(database, &sql, &[id.into()]).map(|row| row.is_some())
}
