//! Leased capacity: a link of the scheduler's topology that has capacity only for a time.
//!
//! The topology has a link with the leased rate, and an operator plans an outage of it for all times. [`open`] cuts the
//! time of a lease out of its outages, so the scheduler books transfers there and at no other time. [`close`] plans the
//! outage again when a lease ends early.

use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::pause;

use crate::client::{Client, ClientError};
use crate::json::{NewOutage, Timestamp};

/// Link of a scheduler, with the time of a lease.
#[derive(Clone, Copy, Debug)]
pub struct LeasedLink<'a> {
    /// Name of the link.
    pub name: &'a str,
    /// Start of the lease.
    pub start: Timestamp,
    /// End of the lease, exclusive.
    pub end: Timestamp,
    /// Reason for which the link has no capacity at other times.
    pub why: &'a str,
}

/// Offers the capacity of a link during a lease, and plans outages for all other times. It can be repeated after a lost
/// answer.
pub fn open(scheduler: &Client, link: &LeasedLink<'_>) -> Result<(), ClientError> {
    let (start, end) = (link.start, link.end);
    let outages = scheduler.outages()?;
    let here = outages.iter().filter(|outage| outage.link == link.name);
    let (hit, others): (Vec<_>, Vec<_>) =
        here.partition(|outage| outage.from < end && start < outage.till);
    for outage in hit {
        // the remaining parts come first, so that nothing is offered without a lease
        for (from, till) in [(outage.from, start), (end, outage.till)] {
            // an earlier call may have planned this part, and its answer was lost
            let later = others.iter().filter(|other| till <= other.till);
            let planned = later.map(|other| other.from).min();
            let is_planned = match planned {
                // outages begin no earlier than they were planned
                Some(planned) => planned <= from || planned <= now(scheduler)?.0,
                None => false,
            };
            // a time that has passed needs no outage, and none can be planned
            if from < till && !is_planned && now(scheduler)?.1 < till {
                plan(scheduler, link, (from, till))?;
            }
        }
        scheduler.lift(outage.id)?;
    }
    Ok(())
}

/// Withdraws the capacity of a link for the remaining time of a lease.
pub fn close(scheduler: &Client, now: Timestamp, link: &LeasedLink<'_>) -> Result<(), ClientError> {
    if now < link.end {
        plan(scheduler, link, (link.start.max(now), link.end))?;
    }
    Ok(())
}

/// Repeats `act` while the scheduler cannot be reached, as during its restart. After a signal, this takes less time
/// than a service manager waits.
pub fn patiently(act: impl Fn() -> Result<(), ClientError>) -> Result<(), ClientError> {
    let clock = Clock::start();
    loop {
        let longest = if interrupt::is_requested() {
            PATIENCE / 4
        } else {
            PATIENCE
        };
        match act() {
            Err(ClientError::Network { .. }) if clock.now().since(Instant::ZERO) < longest => {
                pause(Duration::from_millis(500));
            }
            done => return done,
        }
    }
}

/// Returns the earliest and the latest time that it may be at the scheduler.
fn now(scheduler: &Client) -> Result<(Timestamp, Timestamp), ClientError> {
    let (ahead, error) = scheduler.clock_offset()?;
    let now = unix_nanos().saturating_add_signed(ahead);
    let latest = now.saturating_add(error);
    Ok((Timestamp(now.saturating_sub(error)), Timestamp(latest)))
}

fn plan(
    scheduler: &Client,
    link: &LeasedLink<'_>,
    (from, till): (Timestamp, Timestamp),
) -> Result<(), ClientError> {
    let outage = NewOutage {
        link: link.name.to_owned(),
        from: Some(from),
        till,
        why: link.why.to_owned(),
    };
    scheduler.outage(&outage).map(drop)
}

/// Longest wait for the scheduler.
const PATIENCE: Duration = Duration::from_mins(2);
