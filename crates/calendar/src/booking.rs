//! One booking and its number.

use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::trc::Step;

use crate::grant::Grant;
use crate::guard;
use crate::request::Request;
use crate::topology::LinkId;

/// Number of a booking or an outage, chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u64);

/// A granted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    /// Sequence number in the order of booking.
    pub(crate) sequence: u64,
    pub(crate) request: Request,
    pub(crate) grant: Grant,
    /// Time for which the booking takes capacity after each decrease.
    pub(crate) trail: Duration,
}

impl Booking {
    /// Returns the request, with the amount to which it was last extended or shrunk.
    pub const fn request(&self) -> &Request {
        &self.request
    }

    /// Returns the promised rates and their path.
    pub const fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Returns the capacity that the booking takes on its links and interfaces from a time on.
    pub(crate) fn taken(&self, from: Instant) -> Vec<Step> {
        guard::taken(&self.grant.steps, self.trail, from).into_owned()
    }

    /// Returns true if the booking uses the link at some time in `from..till`.
    pub(crate) fn has(&self, link: LinkId, from: Instant, till: Instant) -> bool {
        let steps = &self.grant.steps;
        let first = steps.partition_point(|step| step.till <= from);
        steps.get(first).is_some_and(|step| step.from < till)
            && self.grant.path.links().contains(&link)
    }
}
