//! Bookings that were granted before and are read back from a store.

use alloc::sync::Arc;
use alloc::vec::Vec;

use lighthaul_base::Instant;
use lighthaul_base::trc::Step;

use crate::booking::{Booking, Id};
use crate::calendar::Calendar;
use crate::grant::Grant;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::topology::LinkId;

/// A booking as it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedBooking {
    /// Sequence number: [`Booking::sequence`].
    pub sequence: u64,
    /// The request.
    pub request: Request,
    /// Path of the grant.
    pub path: Arc<Path>,
    /// Steps of the grant: [`Grant::steps`].
    pub steps: Vec<Step>,
}

impl Booking {
    /// Returns the sequence number, which orders bookings of equal priority.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl Calendar {
    /// Books an earlier grant unchanged. Steps in the past take no capacity. Refuses a booking that
    /// no longer fits, for example on links that have less capacity now.
    pub fn restore(&mut self, now: Instant, id: Id, saved: SavedBooking) -> Result<(), Refusal> {
        self.check_id(id)?;
        let known = |link: LinkId| (link.0 as usize) < self.resources.len();
        if !saved.path.resources().all(known) {
            return Err(Refusal::UnknownLink);
        }
        let mut grant = Grant {
            path: Arc::clone(&saved.path),
            steps: saved.steps.clone(),
        };
        let ahead = grant.split_off(self.first_from(now));
        let owner = saved.request.owner;
        for step in &ahead {
            let view = self.planner().view(owner, &saved.path, step.from);
            let till = view.next_below(step.rate.as_bps());
            if till < step.till {
                return Err(Refusal::FollowingBooked(till));
            }
        }
        self.take(owner, &saved.path, &ahead);
        self.reserve_sequence(saved.sequence);
        let booking = Booking {
            sequence: saved.sequence,
            request: saved.request,
            grant: Grant {
                path: saved.path,
                steps: saved.steps,
            },
        };
        self.bookings.insert(id, booking);
        Ok(())
    }
}
