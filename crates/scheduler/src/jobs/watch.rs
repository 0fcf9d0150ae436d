//! Look after a queue: checks of its store, and of the runs of series.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_booking::books::{Policy, Principal};
use lighthaul_booking_client::role::Role;
use lighthaul_io::host::clock::Clock;
use lighthaul_queue::{Job, Queue, Result as QueueResult, owner};
use tracing::{info, warn};

use super::specification::permit;
use crate::identity::Standing;

/// Last known state of a queue.
#[derive(Debug)]
pub(super) struct Watch {
    clock: Clock,
    last: Mutex<Last>,
}

#[derive(Debug)]
struct Last {
    /// Start of the look that has not ended.
    begun: Option<Instant>,
    /// Start of the last check of the store.
    checked: Option<Instant>,
    fails: bool,
}

impl Watch {
    /// Returns the state of a queue that was opened just now.
    pub(super) fn start() -> Self {
        let clock = Clock::start();
        let last = Last {
            begun: None,
            checked: None,
            fails: false,
        };
        Self {
            clock,
            last: Mutex::new(last),
        }
    }

    /// Notes that a look begins. Returns true if a check of the store is due.
    pub(super) fn begin(&self) -> bool {
        let now = self.clock.now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.begun = Some(now);
        // after a failure, each look finds out if it has passed
        let is_due = last.fails || last.checked.is_none_or(|at| now.since(at) >= CHECKS);
        if is_due {
            last.checked = Some(now);
        }
        is_due
    }

    /// Notes the result of a look, and logs a change.
    pub(super) fn note(&self, looked: &QueueResult<()>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.begun = None;
        let failed = std::mem::replace(&mut last.fails, looked.is_err());
        match looked {
            Err(why) if !failed => warn!("the queue of jobs fails: {why}"),
            Ok(()) if failed => info!("the queue of jobs works again"),
            _ => {}
        }
    }

    /// Returns the fault of the queue, if it cannot be used. The log has the reason, which clients need not know.
    pub(super) fn fault(&self) -> Option<String> {
        self.fault_at(self.clock.now())
    }

    fn fault_at(&self, now: Instant) -> Option<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // while no look has begun, the scheduler itself is late
        let age = last.begun.map_or(Duration::ZERO, |at| now.since(at));
        let log = "the log of the scheduler has the reason";
        if last.fails {
            Some(format!("the queue of jobs cannot be used: {log}"))
        } else if age > STALE {
            let seconds = age.as_secs();
            Some(format!(
                "the queue of jobs has not answered for {seconds} s"
            ))
        } else {
            None
        }
    }
}

/// Checks the runs of series whose time has come: each starts, or ends its series with the reason.
pub(super) fn check_runs(
    queue: &mut Queue,
    policy_of: impl Fn(&str) -> Policy,
    standing_of: impl Fn(&str) -> Standing,
) -> QueueResult<()> {
    let now = queue.now()?;
    for run in queue.unchecked_runs(now, RUNS_MAX)? {
        let Some(name) = owner::client_of(&run.owner) else {
            continue;
        };
        let checked = match standing_of(name) {
            Standing::Unknown => continue,
            Standing::Gone => Err(format!("no token of {name} is valid any more")),
            Standing::Has(role) => check(&run, name, role, &policy_of(name)),
        };
        match checked {
            Ok(()) => queue.admit_run(now, run.id)?,
            Err(why) => {
                let why = format!("the series ends: {why}");
                warn!("job {}: {why}", run.id);
                queue.end_series(now, run.id, &why)?;
            }
        }
    }
    Ok(())
}

fn check(run: &Job, name: &str, role: Role, policy: &Policy) -> Result<(), String> {
    if role < Role::User {
        return Err(format!("{name} may not submit jobs any more"));
    }
    let principal = Principal::new(name, role);
    permit(&principal, policy, &run.command, run.priority).map_err(|why| why.to_string())
}

/// Interval between checks of a store that works.
const CHECKS: Duration = Duration::from_secs(10);
/// Duration of a look that counts as a failure.
const STALE: Duration = Duration::from_secs(10);
/// Most runs that are checked in a look.
const RUNS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use lighthaul_queue::Error;

    use super::*;

    #[test]
    fn failure_is_a_fault_until_it_has_passed() {
        let watch = Watch::start();
        assert!(watch.begin() && !watch.begin());
        assert_eq!(watch.fault(), None);
        watch.note(&Err(Error::Limit("of a test")));
        let fault = watch.fault().unwrap();
        assert!(!fault.contains("of a test"), "{fault}");
        assert!(watch.begin() && watch.begin());
        watch.note(&Ok(()));
        assert_eq!(watch.fault(), None);
    }

    #[test]
    fn queue_is_at_fault_only_while_a_look_at_it_lasts() {
        let watch = Watch::start();
        let later = || watch.clock.now() + STALE + Duration::from_secs(1);
        assert_eq!(watch.fault_at(later()), None);
        watch.begin();
        assert_eq!(watch.fault(), None);
        let fault = watch.fault_at(later()).unwrap();
        assert!(fault.contains("has not answered for 11 s"), "{fault}");
        watch.note(&Ok(()));
        // no thread is free for the next look
        assert_eq!(watch.fault_at(later()), None);
    }
}
