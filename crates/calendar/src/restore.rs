//! Bookings that were granted before and are read back from a store.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::trc::Step;

use crate::booking::{Booking, Id};
use crate::calendar::Calendar;
use crate::grant::Grant;
use crate::guard;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::topology::{GUARD_MAX, LinkId};
use crate::view::View;

/// Stored form of a booking.
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
        let mut booking = Booking {
            sequence: saved.sequence,
            trail: saved.path.trail(),
            request: saved.request,
            grant: Grant {
                path: saved.path,
                steps: saved.steps,
            },
        };
        let from = self.first_from(now);
        // an earlier version has granted bookings without guard times, and none of them is lost
        let mut near = Vec::new();
        if self.check_room(&booking, from).is_err() {
            booking.trail = Duration::ZERO;
            if self.check_room(&booking, from).is_err() {
                near = self.without_trails(&booking.grant, from);
            }
        }
        let has_room = self.check_room(&booking, from);
        if has_room.is_ok() {
            let owner = booking.request.owner;
            self.take(owner, &booking.grant.path, &booking.taken(from));
            self.reserve_sequence(booking.sequence);
            self.bookings.insert(id, booking);
            near.push(id);
        }
        for id in near {
            self.add_trail(id, from);
        }
        has_room
    }

    /// Removes the guard times of all bookings that may reach a grant. Returns their numbers.
    fn without_trails(&mut self, grant: &Grant, from: Instant) -> Vec<Id> {
        let near = self
            .bookings
            .between(grant.start() - GUARD_MAX, grant.end());
        let near = near.filter(|(_, one)| !one.trail.is_zero());
        let mut near: Vec<Id> = near.map(|(id, _)| id).collect();
        near.sort_unstable();
        for id in &near {
            self.set_trail(*id, Duration::ZERO, from);
        }
        near
    }

    /// Adds the guard time of its devices to a booking, if the capacity allows it.
    fn add_trail(&mut self, id: Id, from: Instant) {
        let Some(booking) = self.bookings.find(id) else {
            return;
        };
        let trail = booking.grant.path.trail();
        if booking.trail < trail {
            self.set_trail(id, trail, from);
        }
    }

    /// Changes the guard time of a booking, if the capacity allows it.
    fn set_trail(&mut self, id: Id, trail: Duration, from: Instant) {
        let Some(mut booking) = self.bookings.remove(id) else {
            return;
        };
        let owner = booking.request.owner;
        self.give(owner, &booking.grant.path, &booking.taken(from));
        let before = core::mem::replace(&mut booking.trail, trail);
        if self.check_room(&booking, from).is_err() {
            booking.trail = before;
        }
        self.take(owner, &booking.grant.path, &booking.taken(from));
        self.bookings.insert(id, booking);
    }

    /// Removes a booking of which another version is restored. Other than after a release, its devices use nothing.
    pub fn remove(&mut self, now: Instant, id: Id) -> Result<(), Refusal> {
        let booking = self.bookings.remove(id).ok_or(Refusal::NotFound(id))?;
        let (owner, from) = (booking.request.owner, self.first_from(now));
        self.give(owner, &booking.grant.path, &booking.taken(from));
        Ok(())
    }

    /// Refuses a booking that takes more than the free capacity.
    fn check_room(&self, booking: &Booking, from: Instant) -> Result<(), Refusal> {
        let (owner, path) = (booking.request.owner, &booking.grant.path);
        let fits = |step: &Step, view: View<'_>| {
            let till = view.next_below(step.rate.as_bps());
            let is_free = till >= step.till;
            is_free.then_some(()).ok_or(Refusal::FollowingBooked(till))
        };
        for step in guard::taken(&booking.grant.steps, Duration::ZERO, from).iter() {
            fits(step, self.planner().raw_view(owner, path, step.from))?;
        }
        // a guard time may reach into an outage
        for step in booking.taken(from) {
            let resources = path.resources().map(|one| &self.resources[one.0 as usize]);
            let legs = resources.map(|one| one.unbooked(owner, step.from));
            fits(&step, View::new(legs.collect(), step.from))?;
        }
        Ok(())
    }
}
