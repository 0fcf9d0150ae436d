//! Bookings of an earlier run, made again after a restart.
//!
//! All vectors are booked first, without guard times and where they were, so that none is lost. Then each gets the
//! guard times that have room.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::trc::Trc;
use lighthaul_calendar::LinkId;
use lighthaul_calendar::guard::trail_of;

use crate::calendar_resources::{Booked, BookedSegment, CalendarResources};
use crate::key::{Key, Segment};
use crate::refusal::Refusal;

impl CalendarResources {
    /// Returns the routes of a reservation, one for each segment, as numbers among the paths between its ports.
    pub fn routes(&self, key: Key) -> Vec<u8> {
        let booked = self.bookings.get(&key).into_iter();
        let segments = booked.flat_map(|booked| &booked.segments);
        segments.map(|one| one.route).collect()
    }

    /// Returns the links of the route of a segment, if the reservation holds it.
    pub fn links_of(&self, key: Key, segment: Segment) -> Option<&[LinkId]> {
        let segments = &self.bookings.get(&key)?.segments;
        let booked = segments.iter().find(|one| one.segment == segment)?;
        Some(booked.path.links())
    }

    /// Sets the routes of an earlier run, so that each vector is booked on the same route again.
    pub fn set_routes(&mut self, routes: BTreeMap<Key, Vec<u8>>) {
        self.routes = routes;
    }

    /// Returns the reservations of an earlier run whose guard times do not fit into the free capacity. Their increases
    /// may wait at the devices.
    pub fn unguarded(&self) -> Vec<Key> {
        let lacks = |one: &BookedSegment| !one.has_guard && !one.path.guard().is_zero();
        let all = self.bookings.iter();
        let unguarded = all.filter(|(_, booked)| booked.segments.iter().any(lacks));
        unguarded.map(|(key, _)| *key).collect()
    }

    /// Books a vector of an earlier run on its earlier routes. There it has room without guard times. If its routes are
    /// unknown, guard times lead it to where it was first booked.
    pub(crate) fn book_again(
        &mut self,
        now: Instant,
        what: (&[Segment], &Trc),
        routes: Option<&[u8]>,
    ) -> Result<Booked, Refusal> {
        if routes.is_some()
            && let Ok(booked) = self.book_all(now, what, routes, false)
        {
            return Ok(booked);
        }
        if let Ok(booked) = self.book_all(now, what, None, true) {
            return Ok(booked);
        }
        self.remove_guards();
        let booked = self.book_all(now, what, routes, false);
        booked.or_else(|_| self.book_all(now, what, None, false))
    }

    /// Removes the guard times of all bookings.
    fn remove_guards(&mut self) {
        let mut bookings = core::mem::take(&mut self.bookings);
        for booked in bookings.values_mut() {
            let steps = booked.vector.steps();
            for one in booked.segments.iter_mut().filter(|one| one.has_guard) {
                let _ = self.calendar.release(one.from, one.id);
                // a part of what was booked has room
                one.id = self
                    .take(one.from, &one.path, steps.to_vec())
                    .unwrap_or(one.id);
                one.has_guard = false;
            }
        }
        self.bookings = bookings;
    }

    /// Adds guard times to a booking, on another route if only that route has the capacity for all of them.
    fn add_guard(&mut self, vector: &Trc, booked: &mut BookedSegment) {
        if booked.has_guard || booked.path.guard().is_zero() {
            return;
        }
        let (from, segment) = (booked.from, booked.segment);
        let _ = self.calendar.release(from, booked.id);
        for route in [Some(booked.route), None] {
            if let Ok(guarded) = self.book(from, (segment, route), vector, true) {
                *booked = guarded;
                return;
            }
        }
        self.add_some_guards(vector, booked);
    }

    /// Books a vector on its earlier route, with the guard times that fit into the free capacity.
    fn add_some_guards(&mut self, vector: &Trc, booked: &mut BookedSegment) {
        let (from, path) = (booked.from, Arc::clone(&booked.path));
        let steps = vector.steps();
        let mut guards = vec![Duration::ZERO; steps.len()];
        let mut present = steps.to_vec();
        // what was booked has room
        booked.id = self.take(from, &path, present.clone()).unwrap_or(booked.id);
        for nth in 0..steps.len() {
            guards[nth] = path.guard();
            let more = trail_of(steps, |nth| guards[nth]);
            if more == present {
                continue;
            }
            let _ = self.calendar.release(from, booked.id);
            let taken = self.take(from, &path, more.clone());
            if taken.is_some() {
                present = more;
            } else {
                guards[nth] = Duration::ZERO;
            }
            let id = taken.or_else(|| self.take(from, &path, present.clone()));
            booked.id = id.unwrap_or(booked.id);
        }
        booked.has_guard = !guards.contains(&Duration::ZERO);
    }

    /// Adds the guard times of all bookings of an earlier run, if they fit into the free capacity.
    pub(crate) fn add_all_guards(&mut self) {
        // the restart is complete
        self.routes.clear();
        let mut bookings = core::mem::take(&mut self.bookings);
        for booked in bookings.values_mut() {
            for one in &mut booked.segments {
                self.add_guard(&booked.vector, one);
            }
        }
        self.bookings = bookings;
    }
}
