//! One reservation of a domain: its stage, the answers of its children, and the next timer.

use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::time::Duration;

use lighthaul_base::Instant;

use super::hold_share::HoldShare;
use crate::key::{DomainId, Key};
use crate::record::{StoredReservation, StoredStage};
use crate::refusal::Refusal;

/// Stage of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Held in this domain; waits for `Held` of the children.
    Holding,
    /// Held in this domain and all domains below; waits for `Commit` until `hold_till`.
    Held,
    /// Waits for `Committed` of the children until `decide_till`.
    Committing,
    /// Committed in this domain and all domains below, until the vector ends.
    Committed,
    /// Given up in this domain; waits for the children to acknowledge.
    Closing,
    /// Given up in all domains below; remembered until `hold_till`.
    Closed,
}

/// Reservation of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub(crate) stored: StoredReservation,
    pub(crate) stage: Stage,
    /// For each child, true if it has answered in the present stage.
    pub(crate) answered: Vec<bool>,
    /// True if a child may have committed.
    pub(crate) may_be_committed: bool,
    /// True if the parent has not confirmed yet that it knows of the end.
    pub(crate) is_notifying: bool,
    /// Reason for which the reservation was given up.
    pub(crate) refusal: Refusal,
    /// Number of ranges that have ended.
    pub(crate) ranges_done: usize,
    pub(crate) retry_at: Instant,
    pub(crate) retry_every: Duration,
    /// Time of the timer that is set.
    pub(crate) wake: Instant,
    /// True if the reservation is removed when its step is complete.
    pub(crate) is_forgotten: bool,
    /// Capacity that the neighbor pays for if it does not commit.
    pub(crate) share: HoldShare,
}

impl Reservation {
    pub(crate) fn new(stored: StoredReservation, stage: Stage) -> Self {
        Self {
            answered: vec![false; stored.children.len()],
            stored,
            stage,
            may_be_committed: false,
            is_notifying: false,
            refusal: Refusal::Expired,
            ranges_done: 0,
            retry_at: Instant::NEVER,
            retry_every: Duration::ZERO,
            wake: Instant::NEVER,
            is_forgotten: false,
            share: HoldShare::NONE,
        }
    }

    /// Returns the number of the reservation.
    pub const fn key(&self) -> Key {
        self.stored.key
    }

    /// Returns the stage.
    pub const fn stage(&self) -> Stage {
        self.stage
    }

    /// Returns the contents of the reservation's record.
    pub const fn stored(&self) -> &StoredReservation {
        &self.stored
    }

    /// Returns true if the reservation takes capacity.
    pub const fn is_held(&self) -> bool {
        match self.stage {
            Stage::Holding | Stage::Held | Stage::Committing | Stage::Committed => true,
            Stage::Closing | Stage::Closed => false,
        }
    }

    /// Returns the index of a child.
    pub(crate) fn child(&self, neighbor: DomainId, leg: u8) -> Option<usize> {
        let mut children = self.stored.children.iter();
        children.position(|child| child.neighbor == neighbor && child.leg == leg)
    }

    /// Enters a stage, in which all children are asked again.
    pub(crate) fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.answered.fill(false);
        self.stored.stage = match stage {
            Stage::Holding | Stage::Held | Stage::Committing => StoredStage::Holding,
            Stage::Committed => StoredStage::Committed,
            Stage::Closing | Stage::Closed => StoredStage::Closing,
        };
    }

    /// Returns true if children may have committed it, and have not all answered that they gave it up.
    pub(crate) fn waits_for_an_end(&self) -> bool {
        self.stage == Stage::Closing && self.may_be_committed && !self.all_answered()
    }

    /// Returns the neighbors that have not answered the request of this stage.
    pub(crate) fn silent_children(&self) -> impl Iterator<Item = DomainId> + '_ {
        let children = self.stored.children.iter().zip(&self.answered);
        let silent = children.filter(|(_, answered)| !**answered);
        silent.map(|(child, _)| child.neighbor)
    }

    /// Ends a closing reservation once all children have acknowledged, and the parent if it was notified.
    pub(crate) fn check_closed(&mut self, now: Instant) {
        if self.all_answered() && !self.is_notifying {
            self.enter(Stage::Closed);
            self.is_forgotten = now >= self.stored.hold_till;
        }
    }

    pub(crate) fn all_answered(&self) -> bool {
        self.answered.iter().all(|answered| *answered)
    }

    /// Returns the time after which the children hold no capacity, with or without a message.
    pub(crate) fn close_till(&self, linger: Duration) -> Instant {
        let till = if self.may_be_committed {
            self.stored.vector.end()
        } else {
            self.stored.hold_till
        };
        till + linger
    }

    /// Returns the time of the next timer.
    pub(crate) fn next_timer(&self, linger: Duration) -> Instant {
        match self.stage {
            Stage::Holding => self.stored.hold_till.min(self.retry_at),
            Stage::Held | Stage::Closed => self.stored.hold_till,
            Stage::Committing => self.stored.decide_till.min(self.retry_at),
            Stage::Committed => {
                let range = self.stored.vector.steps().get(self.ranges_done);
                let range = range.map_or(Instant::NEVER, |range| range.till);
                let end = self.stored.vector.end() + linger;
                end.min(self.retry_at).min(range)
            }
            Stage::Closing => self.close_till(linger).min(self.retry_at),
        }
    }
}

/// Hashes the variable part. The rest is determined by the key.
impl Hash for Reservation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.stored.key.hash(state);
        (self.stage, self.stored.stage, self.refusal).hash(state);
        (&self.answered, self.may_be_committed, self.ranges_done).hash(state);
        self.is_notifying.hash(state);
        (self.retry_at, self.retry_every, self.wake).hash(state);
    }
}
