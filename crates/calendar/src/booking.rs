//! One booking, and its number.

use lighthaul_base::Instant;

use crate::grant::Grant;
use crate::request::Request;
use crate::topology::LinkId;

/// The number of a booking or an outage, given by whoever makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u64);

/// Something that is booked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    /// The how manieth it was.
    pub(crate) nth: u64,
    pub(crate) request: Request,
    pub(crate) grant: Grant,
}

impl Booking {
    /// What was asked for, or is since it was extended or shrunk.
    pub const fn request(&self) -> &Request {
        &self.request
    }

    /// What is promised.
    pub const fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Whether it has something of a link between two moments.
    pub(crate) fn has(&self, link: LinkId, from: Instant, till: Instant) -> bool {
        let steps = &self.grant.steps;
        let first = steps.partition_point(|step| step.till <= from);
        steps.get(first).is_some_and(|step| step.from < till)
            && self.grant.path.links().contains(&link)
    }
}
