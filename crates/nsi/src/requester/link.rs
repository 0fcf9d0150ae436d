//! Lease as the capacity of a link of a scheduler.
//!
//! The topology of the scheduler has a link with the leased rate, and an operator plans an outage of
//! it for all times. [`open_link`] cuts the time of a lease out of its outages, so the scheduler
//! books transfers there and at no other time. [`close_link`] plans the outage again when a lease
//! ends early.

use lighthaul_booking_client::client::{Client, ClientError};
use lighthaul_booking_client::json::{NewOutage, Timestamp};

use super::lease::Lease;

/// Offers the capacity of a link during a lease, and at no other time that has an outage now.
pub fn open_link(scheduler: &Client, link: &str, lease: &Lease) -> Result<(), ClientError> {
    let (start, end) = (lease.start, lease.end);
    let outages = scheduler.outages()?;
    let hit = outages.iter().filter(|outage| outage.link == link);
    for outage in hit.filter(|outage| outage.from < end && start < outage.till) {
        // the remaining parts come first, so that nothing is offered without a lease
        for (from, till) in [(outage.from, start), (end, outage.till)] {
            if from < till {
                plan(scheduler, link, (from, till))?;
            }
        }
        scheduler.lift(outage.id)?;
    }
    Ok(())
}

/// Offers no capacity of a link any more during the rest of a lease.
pub fn close_link(
    scheduler: &Client,
    now: Timestamp,
    link: &str,
    lease: &Lease,
) -> Result<(), ClientError> {
    if now < lease.end {
        plan(scheduler, link, (lease.start.max(now), lease.end))?;
    }
    Ok(())
}

fn plan(
    scheduler: &Client,
    link: &str,
    (from, till): (Timestamp, Timestamp),
) -> Result<(), ClientError> {
    let outage = NewOutage {
        link: link.to_owned(),
        from: Some(from),
        till,
        why: "no NSI lease".to_owned(),
    };
    scheduler.outage(&outage).map(drop)
}
