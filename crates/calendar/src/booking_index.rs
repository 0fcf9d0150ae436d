//! Index of bookings by number and by time.
//!
//! `BookingIndex` owns the [`Booking`]s of a calendar. A booking changes only within `change`,
//! which also updates the time index. A group has bookings from one power of two of nanoseconds to
//! the next. So a query knows how long before its time a booking may start:
//!
//! ```text
//! group 3, 4 to 7 ns     |------|  |-----|      query: from - 8 ns <= start < till
//! group 5, 16 to 31 ns  |--------------------|  query: from - 32 ns <= start < till
//! ```

use alloc::collections::{BTreeMap, BTreeSet};

use lighthaul_base::Instant;

use crate::booking::{Booking, Id};

/// All bookings of a calendar, indexed by number and by time.
///
/// The time index groups bookings by the power of two above their length, and orders each group by
/// start. A query reads only the part of each group near the queried time, regardless of the number
/// of earlier and later bookings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BookingIndex {
    bookings: BTreeMap<Id, Booking>,
    by_length: BTreeSet<(u32, Instant, Id)>,
}

impl BookingIndex {
    pub(crate) fn len(&self) -> usize {
        self.bookings.len()
    }

    pub(crate) fn contains(&self, id: Id) -> bool {
        self.bookings.contains_key(&id)
    }

    pub(crate) fn find(&self, id: Id) -> Option<&Booking> {
        self.bookings.get(&id)
    }

    /// Returns all bookings by their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Id, &Booking)> {
        self.bookings.iter().map(|(id, booking)| (*id, booking))
    }

    /// Returns the bookings that start before `till` and end after `from`, short bookings first.
    pub(crate) fn between(
        &self,
        from: Instant,
        till: Instant,
    ) -> impl Iterator<Item = (Id, &Booking)> {
        let found = self
            .near(from, till)
            .filter_map(|id| Some((id, self.bookings.get(&id)?)));
        found.filter(move |(_, booking)| booking.grant.end() > from)
    }

    /// Returns the bookings that start before `till`, except bookings that have ended by `from` even at
    /// the greatest length of their group.
    fn near(&self, from: Instant, till: Instant) -> impl Iterator<Item = Id> {
        let in_group = move |group: u32| {
            // bookings of a group are shorter than this
            let length = 1_u64.checked_shl(group).unwrap_or(u64::MAX);
            let earliest = Instant::from_nanos(from.as_nanos().saturating_sub(length));
            self.by_length
                .range((group, earliest, Id(0))..(group, till.max(earliest), Id(0)))
        };
        let near = (0..=u64::BITS).flat_map(in_group);
        near.map(|(_, _, id)| *id)
    }

    /// Inserts a booking under an unused number.
    pub(crate) fn insert(&mut self, id: Id, booking: Booking) -> &Booking {
        self.by_length.insert(key(id, &booking));
        self.bookings.entry(id).or_insert(booking)
    }

    pub(crate) fn remove(&mut self, id: Id) -> Option<Booking> {
        let booking = self.bookings.remove(&id)?;
        self.by_length.remove(&key(id, &booking));
        Some(booking)
    }

    /// Changes a booking and updates its place in the time index.
    pub(crate) fn change<T>(
        &mut self,
        id: Id,
        change: impl FnOnce(&mut Booking) -> T,
    ) -> Option<T> {
        let booking = self.bookings.get_mut(&id)?;
        self.by_length.remove(&key(id, booking));
        let answer = change(booking);
        self.by_length.insert(key(id, booking));
        Some(answer)
    }
}

/// Returns the length group, start and number of a booking.
fn key(id: Id, booking: &Booking) -> (u32, Instant, Id) {
    let start = booking.grant.start();
    let length = booking.grant.end().as_nanos() - start.as_nanos();
    (u64::BITS - length.leading_zeros(), start, id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    use crate::path::Path;
    use crate::request::{Detail, Need, Request, Route, Shape};
    use crate::{Grant, Owner, Topology};
    use lighthaul_base::Rate;
    use lighthaul_base::trc::Step;

    fn booking(from: u64, till: u64) -> Booking {
        let rate = Rate::from_mbps(1);
        let topology = Topology::single_link(Rate::from_mbps(1000), rate).unwrap();
        let links = topology.links().map(|(id, _)| id).collect();
        let path = Path::new(&topology, links).unwrap();
        let request = Request {
            owner: Owner(0),
            priority: 0,
            route: Route::Along(alloc::sync::Arc::clone(&path)),
            need: Need::bytes(1),
            rate_min: None,
            rate_max: rate,
            from: Instant::ZERO,
            deadline: None,
            shape: Shape::Varying,
            detail: Detail::Joined,
        };
        let (from, till) = (Instant::from_nanos(from), Instant::from_nanos(till));
        let steps = vec![Step { from, till, rate }];
        let grant = Grant { path, steps };
        Booking {
            sequence: 0,
            request,
            grant,
            trail: core::time::Duration::ZERO,
        }
    }

    #[test]
    fn query_does_not_visit_bookings_at_other_times() {
        let mut index = BookingIndex::default();
        for nth in 0..10_000 {
            // half of them are short and half are long, and about ten overlap at a time
            let from = nth * 1000;
            let length = if nth % 2 == 0 { 10 } else { 10_000 };
            index.insert(Id(nth), booking(from, from + length));
        }
        let (from, till) = (
            Instant::from_nanos(5_000_000),
            Instant::from_nanos(5_100_000),
        );
        let looked = index.near(from, till).count();
        let found = index.between(from, till).count();
        assert_eq!(found, 50 + 55);
        assert!(looked < found + 20, "{looked}");
    }

    #[test]
    fn changed_booking_is_found_at_its_new_time() {
        let mut index = BookingIndex::default();
        index.insert(Id(1), booking(10, 1000));
        let at = |from, till| (Instant::from_nanos(from), Instant::from_nanos(till));
        let found = |index: &BookingIndex, (from, till)| index.between(from, till).count();
        assert_eq!(found(&index, at(500, 600)), 1);
        index.change(Id(1), |booking| {
            booking.grant.split_off(Instant::from_nanos(20))
        });
        assert_eq!(
            (found(&index, at(500, 600)), found(&index, at(19, 600))),
            (0, 1)
        );
        assert!(index.remove(Id(1)).is_some());
        assert_eq!(index, BookingIndex::default());
    }
}
