//! What was promised before, from whoever has kept it.

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

/// A booking as its keeper has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The how manieth it was: [`Booking::nth`].
    pub nth: u64,
    /// What was asked for.
    pub request: Request,
    /// The links that it is on.
    pub path: Arc<Path>,
    /// What was granted: [`Grant::steps`].
    pub steps: Vec<Step>,
}

impl Booking {
    /// The how manieth it was, by which those of one priority have their turn.
    pub const fn nth(&self) -> u64 {
        self.nth
    }
}

impl Calendar {
    /// Books what was granted before, just as it was, whatever would be granted now; what is over of it takes nothing. Refuses
    /// what does not fit, say since links have become slower.
    pub fn restore(&mut self, now: Instant, id: Id, kept: Kept) -> Result<(), Refusal> {
        self.check_id(id)?;
        let known = |link: LinkId| (link.0 as usize) < self.stocks.len();
        if !kept.path.stocks().all(known) {
            return Err(Refusal::Unknown);
        }
        let mut grant = Grant {
            path: Arc::clone(&kept.path),
            steps: kept.steps.clone(),
        };
        let ahead = grant.split_off(self.first_from(now));
        let owner = kept.request.owner;
        for step in &ahead {
            let view = self.field().view(owner, &kept.path, step.from);
            let till = view.next_below(step.rate.as_bps());
            if till < step.till {
                return Err(Refusal::Blocked(till));
            }
        }
        self.take(owner, &kept.path, &ahead);
        self.count_on(kept.nth);
        let booking = Booking {
            nth: kept.nth,
            request: kept.request,
            grant: Grant {
                path: kept.path,
                steps: kept.steps,
            },
        };
        self.bookings.insert(id, booking);
        Ok(())
    }
}
