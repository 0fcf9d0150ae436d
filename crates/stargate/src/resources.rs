//! Local calendar of a domain, as used by the machine.

use lighthaul_base::trc::Trc;
use lighthaul_base::{Instant, Rate};

use crate::key::{Key, PortId, Segment};
use crate::offer::Offer;
use crate::refusal::Refusal;

/// Capacity inside one domain. It keeps no records of its own: after a restart the machine holds again what its
/// records contain.
pub trait Resources {
    /// Returns the capacity function between two border points in `from..till`.
    fn free(&mut self, segment: Segment, from: Instant, till: Instant) -> Result<Offer, Refusal>;

    /// Returns the capacity function that two legs of one path can both have. Both use this port of the segment.
    fn free_twice(
        &mut self,
        segment: Segment,
        (from, till): (Instant, Instant),
        _port: PortId,
    ) -> Result<Offer, Refusal> {
        let offer = self.free(segment, from, till)?;
        offer.halved().ok_or(Refusal::NoCapacity)
    }

    /// Returns the highest rate that a path through a segment can have, if it is known. Holds of segments without one are
    /// not charged to neighbors.
    fn capacity(&mut self, _segment: Segment) -> Option<Rate> {
        None
    }

    /// Books a vector on all segments, or on none.
    fn hold(
        &mut self,
        now: Instant,
        key: Key,
        segments: &[Segment],
        vector: &Trc,
    ) -> Result<(), Refusal>;

    /// Books a vector that was granted before a restart, even if its guard times do not fit.
    fn hold_again(
        &mut self,
        now: Instant,
        key: Key,
        segments: &[Segment],
        vector: &Trc,
    ) -> Result<(), Refusal> {
        self.hold(now, key, segments, vector)
    }

    /// Adds guard times to the vectors that were booked again, as far as they fit.
    fn add_guards(&mut self) {}

    /// Notes a restart, after which devices may use the rates of released paths for a guard time.
    fn note_restart(&mut self, _now: Instant) {}

    /// Notes that the booking is committed. Held and committed bookings take the same capacity.
    fn commit(&mut self, now: Instant, key: Key);

    /// Frees the capacity of one segment of a booking from now on.
    fn release_segment(&mut self, now: Instant, key: Key, segment: Segment);

    /// Frees the capacity of a booking from now on. An unknown key is ignored.
    fn release(&mut self, now: Instant, key: Key);
}
