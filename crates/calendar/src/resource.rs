//! Capacity of one link or interface: open to all owners, reserved in shares, or closed by outages.
//!
//! A `Resource` combines capacity functions, and each owner sees another sum of them:
//!
//! ```text
//! whole rate = open + share of owner 1 + share of owner 2 + ...
//! free(owner) = min(free part of open + rest of the owner's share, in service)
//! ```
//!
//! A booking uses the share of its [`Owner`] before open capacity. All rates are multiples of the
//! channel. Outages close capacity and leave bookings as they are.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use lighthaul_base::Instant;
use lighthaul_base::trc::Step;

use crate::capacity::{Capacity, Free};
use crate::view::{Leg, View};

/// User, group or project to which a booking is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(pub u32);

/// Capacity of one link or interface, divided into shares.
///
/// A share is kept for its owner: other owners cannot book the unused part. The rest is open to
/// all, first come, first served.
///
/// An owner can use the open capacity plus the rest of its share. Bookings do not record which of
/// the two they use, so they may end in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    whole: u64,
    /// Capacity outside all shares.
    open: Capacity,
    shares: BTreeMap<Owner, Share>,
    /// Full capacity, or zero during outages.
    in_service: Capacity,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Share {
    /// Capacity of the link outside the share.
    others: u64,
    /// Capacity of the whole link minus the bookings of the owner.
    left: Capacity,
}

impl Share {
    /// Returns the unused part of the share if the owner has `left` bits a second of the link unbooked.
    const fn rest(&self, left: u64) -> u64 {
        left.saturating_sub(self.others)
    }
}

impl Resource {
    /// Returns a link of `whole` bits a second, rounded down to a multiple of `channel`. Shares are
    /// in thousandths.
    pub(crate) fn new(whole: u64, channel: u64, shares: &BTreeMap<Owner, u16>) -> Self {
        let whole = whole - whole % channel;
        let kept = |thousandths: u16| {
            let kept = (u128::from(whole) * u128::from(thousandths) / 1000) as u64;
            kept - kept % channel
        };
        let kept_of_all: u64 = shares.values().map(|share| kept(*share)).sum();
        let share = |(owner, share): (&Owner, &u16)| {
            let others = whole - kept(*share);
            let left = Capacity::new(whole);
            (*owner, Share { others, left })
        };
        Self {
            whole,
            open: Capacity::new(whole - kept_of_all),
            shares: shares.iter().map(share).collect(),
            in_service: Capacity::new(whole),
        }
    }

    /// Adds the capacity that an owner can use from `at` on, as legs of a view.
    pub(crate) fn legs<'a>(&'a self, owner: Owner, at: Instant, legs: &mut Vec<Leg<'a>>) {
        legs.push(self.unbooked(owner, at));
        if !self.in_service.is_empty() {
            legs.push(Leg::Plain(self.in_service.cursor(at)));
        }
    }

    /// Returns the capacity of an owner from a time on, with that of outages.
    pub(crate) fn unbooked(&self, owner: Owner, at: Instant) -> Leg<'_> {
        let open = self.open.cursor(at);
        match self.shares.get(&owner) {
            None => Leg::Plain(open),
            Some(share) => Leg::Shared {
                open,
                left: share.left.cursor(at),
                others: share.others,
            },
        }
    }

    /// Returns the steps that an owner can book in `from..till`.
    pub(crate) fn free(
        &self,
        owner: Owner,
        from: Instant,
        till: Instant,
    ) -> impl Iterator<Item = Free> + '_ {
        let mut legs = Vec::new();
        self.legs(owner, from, &mut legs);
        let mut view = View::new(legs, from);
        core::iter::from_fn(move || {
            let (from, bps) = (view.now(), view.free());
            while view.now() < till && view.free() == bps {
                view.seek(view.till().min(till));
            }
            (from < till).then(|| Free {
                from,
                till: view.now(),
                bps,
            })
        })
    }

    /// Subtracts a step that an owner has been granted.
    pub(crate) fn take(&mut self, owner: Owner, step: &Step) {
        let bps = step.rate.as_bps();
        if let Some(share) = self.shares.get_mut(&owner) {
            for part in parts(&share.left, step) {
                let of_share = share.rest(part.bps) - share.rest(part.bps - bps);
                self.open.take(part.from, part.till, bps - of_share);
            }
            share.left.take(step.from, step.till, bps);
        } else {
            self.open.take(step.from, step.till, bps);
        }
    }

    /// Returns a step that an owner had been granted.
    pub(crate) fn give(&mut self, owner: Owner, step: &Step) {
        let bps = step.rate.as_bps();
        if let Some(share) = self.shares.get_mut(&owner) {
            for part in parts(&share.left, step) {
                let of_share = share.rest(part.bps + bps) - share.rest(part.bps);
                self.open.give(part.from, part.till, bps - of_share);
            }
            share.left.give(step.from, step.till, bps);
        } else {
            self.open.give(step.from, step.till, bps);
        }
    }

    /// Sets the times of all outages.
    pub(crate) fn set_outages(&mut self, outages: impl Iterator<Item = (Instant, Instant)>) {
        self.in_service = Capacity::new(self.whole);
        for (from, till) in outages {
            let open: Vec<Free> = self.in_service.steps(from, till).collect();
            for part in open {
                self.in_service.take(part.from, part.till, part.bps);
            }
        }
    }

    /// Deletes the history before a time.
    pub(crate) fn forget(&mut self, before: Instant) {
        self.open.forget(before);
        self.in_service.forget(before);
        for share in self.shares.values_mut() {
            share.left.forget(before);
        }
    }
}

fn parts(left: &Capacity, step: &Step) -> Vec<Free> {
    left.steps(step.from, step.till).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lighthaul_base::Rate;
    use proptest::prelude::*;

    fn step(from: u64, till: u64, bps: u64) -> Step {
        Step {
            from: Instant::from_nanos(from),
            till: Instant::from_nanos(till),
            rate: Rate::from_bps(bps).unwrap(),
        }
    }

    fn free(resource: &Resource, owner: Owner, at: u64) -> u64 {
        let at = Instant::from_nanos(at);
        let mut legs = Vec::new();
        resource.legs(owner, at, &mut legs);
        View::new(legs, at).free()
    }

    const A: Owner = Owner(1);
    const B: Owner = Owner(2);
    const ANY: Owner = Owner(9);

    fn resource() -> Resource {
        Resource::new(1000, 1, &BTreeMap::from([(A, 300), (B, 200)]))
    }

    #[test]
    fn share_stays_available_to_its_owner() {
        let mut resource = resource();
        let seen = |resource: &Resource| [A, B, ANY].map(|owner| free(resource, owner, 5));
        assert_eq!(seen(&resource), [800, 700, 500]);
        resource.take(ANY, &step(0, 10, 500));
        assert_eq!(seen(&resource), [300, 200, 0]);
        resource.take(A, &step(0, 10, 300));
        assert_eq!(seen(&resource), [0, 200, 0]);
        resource.give(ANY, &step(0, 10, 500));
        assert_eq!(seen(&resource), [500, 700, 500]);
    }

    #[test]
    fn link_has_no_capacity_during_an_outage() {
        let mut out = resource();
        let times = [(0, 10), (5, 20)]
            .map(|(from, till)| (Instant::from_nanos(from), Instant::from_nanos(till)));
        out.set_outages(times.into_iter());
        assert_eq!([0, 9, 19, 20].map(|at| free(&out, A, at)), [0, 0, 0, 800]);
        out.set_outages(core::iter::empty());
        assert_eq!(out, resource());
    }

    proptest! {
        #[test]
        fn bookings_that_end_in_any_order_restore_the_capacity(
            wishes in prop::collection::vec((0_u64..50, 1_u64..30, 1_u64..600, 0_usize..3), 1..40), seed: u64,
        ) {
            let unbooked = resource();
            let mut resource = unbooked.clone();
            let mut booked = Vec::new();
            for (from, len, bps, nth) in wishes {
                let owner = [A, B, ANY][nth];
                if (from..from + len).all(|at| free(&resource, owner, at) >= bps) {
                    resource.take(owner, &step(from, from + len, bps));
                    booked.push((owner, step(from, from + len, bps)));
                }
                for at in 0..80 {
                    let at_now = |(_, step): &&(Owner, Step)| (step.from.as_nanos()..step.till.as_nanos()).contains(&at);
                    let used = |owner| -> u64 {
                        let of = booked.iter().filter(at_now).filter(|(other, _)| *other == owner);
                        of.map(|(_, step)| step.rate.as_bps()).sum()
                    };
                    let open = 1000 - used(A).max(300) - used(B).max(200) - used(ANY);
                    prop_assert_eq!(free(&resource, ANY, at), open);
                    prop_assert_eq!(free(&resource, A, at), open + 300_u64.saturating_sub(used(A)));
                }
            }
            let mut rng = lighthaul_base::Rng::new(seed);
            while !booked.is_empty() {
                let (owner, step) = booked.swap_remove(rng.below(booked.len() as u64) as usize);
                resource.give(owner, &step);
            }
            prop_assert_eq!(resource, unbooked);
        }
    }
}
