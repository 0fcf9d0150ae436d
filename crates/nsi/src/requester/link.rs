//! Lease as the capacity of a link of a scheduler: [`lighthaul_booking_client::leased_link`].

use lighthaul_booking_client::client::{Client, ClientError};
use lighthaul_booking_client::json::Timestamp;
use lighthaul_booking_client::leased_link::{self, LeasedLink};

use super::lease::Lease;

/// Offers the capacity of a link during a lease, and plans outages for all other times.
pub fn open_link(scheduler: &Client, link: &str, lease: &Lease) -> Result<(), ClientError> {
    leased_link::open(scheduler, &leased(link, lease))
}

/// Withdraws the capacity of a link for the remaining time of a lease.
pub fn close_link(
    scheduler: &Client,
    now: Timestamp,
    link: &str,
    lease: &Lease,
) -> Result<(), ClientError> {
    leased_link::close(scheduler, now, &leased(link, lease))
}

const fn leased<'a>(name: &'a str, lease: &Lease) -> LeasedLink<'a> {
    LeasedLink {
        name,
        start: lease.start,
        end: lease.end,
        why: "no NSI lease",
    }
}
