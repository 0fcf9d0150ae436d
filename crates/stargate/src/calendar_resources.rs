//! Resources of a domain in a calendar of `lighthaul-calendar`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use lighthaul_base::trc::{Step, Trc};
use lighthaul_base::{Instant, Rate};
use lighthaul_calendar::guard::trail;
use lighthaul_calendar::request::{Detail, Need, Route, Shape};
use lighthaul_calendar::{Calendar, Id, LinkId, NodeId, Owner, Path, Request, SavedBooking, path};

use crate::guard;
use crate::key::{Key, PortId, Segment};
use crate::offer::{Losses, Offer};
use crate::refusal::Refusal;
use crate::resources::Resources;

/// Calendar of a domain, with the nodes of its border points.
#[derive(Clone, Debug)]
pub struct CalendarResources {
    pub(crate) calendar: Calendar,
    ports: BTreeMap<PortId, NodeId>,
    owner: Owner,
    /// Paths that were searched already.
    paths: BTreeMap<Segment, Vec<Arc<Path>>>,
    pub(crate) bookings: BTreeMap<Key, Booked>,
    /// Routes of an earlier run, by reservation.
    pub(crate) routes: BTreeMap<Key, Vec<u8>>,
    /// Number of the next booking.
    next: u64,
    /// Start of the history that the calendar has.
    since: Instant,
    /// Time of the restart, until which nothing is known about paths that were released.
    restarted: Option<Instant>,
}

/// Bookings of a reservation.
#[derive(Clone, Debug)]
pub(crate) struct Booked {
    pub(crate) vector: Trc,
    pub(crate) segments: Vec<BookedSegment>,
}

/// Booking of one segment.
#[derive(Clone, Debug)]
pub(crate) struct BookedSegment {
    pub(crate) segment: Segment,
    pub(crate) id: Id,
    pub(crate) path: Arc<Path>,
    /// Number of the path among the paths between its border points.
    pub(crate) route: u8,
    /// True if the guard times of the booking are included.
    pub(crate) has_guard: bool,
    /// Time from which the booking takes capacity: the time of booking, if the vector had begun.
    pub(crate) from: Instant,
}

impl CalendarResources {
    /// Returns resources that book for `owner`, with numbers from `first_id` on.
    pub fn new(
        calendar: Calendar,
        ports: BTreeMap<PortId, NodeId>,
        owner: Owner,
        first_id: u64,
    ) -> Self {
        Self {
            calendar,
            ports,
            owner,
            paths: BTreeMap::new(),
            bookings: BTreeMap::new(),
            routes: BTreeMap::new(),
            next: first_id,
            since: Instant::ZERO,
            restarted: None,
        }
    }

    /// Returns the calendar.
    pub const fn calendar(&self) -> &Calendar {
        &self.calendar
    }

    /// Deletes the history of the calendar before a time. Vectors that start earlier are refused from then on.
    pub fn forget(&mut self, before: Instant) {
        self.since = self.since.max(before);
        self.calendar.forget(before);
    }

    /// Returns the time from which new vectors may use a path: a guard time after a restart.
    fn usable_from(&self, path: &Path) -> Instant {
        let restarted = self.restarted.map(|at| at + path.guard());
        restarted.unwrap_or(Instant::ZERO).max(self.since)
    }

    /// Returns the bookings of a reservation, one for each segment.
    pub fn bookings(&self, key: Key) -> impl Iterator<Item = Id> {
        let booked = self.bookings.get(&key).into_iter();
        booked.flat_map(|booked| booked.segments.iter().map(|one| one.id))
    }

    fn paths(&mut self, segment: Segment) -> Result<Vec<Arc<Path>>, Refusal> {
        if let Some(paths) = self.paths.get(&segment) {
            return Ok(paths.clone());
        }
        let node = |port| {
            let node = self.ports.get(&port).copied();
            node.ok_or(Refusal::UnknownPort(port))
        };
        let (from, to) = (node(segment.ingress)?, node(segment.egress)?);
        let topology = self.calendar.topology();
        let paths = path::shortest(topology, from, to, ROUTES_MAX);
        let paths = paths.iter().filter_map(|path| path.with_limits(topology));
        let paths: Vec<_> = paths.collect();
        self.paths.insert(segment, paths.clone());
        Ok(paths)
    }

    /// Returns the links and interfaces of a path that only one leg uses, if two legs share one port of the segment.
    fn unshared(&self, path: &Path, segment: Segment, port: PortId) -> BTreeSet<LinkId> {
        let links = path.links();
        let own = if port == segment.ingress {
            links.last()
        } else {
            links.first()
        };
        let Some(own) = own.filter(|_| links.len() > 1) else {
            return BTreeSet::new();
        };
        let topology = self.calendar.topology();
        let named = topology.interfaces().iter();
        let interfaces = named.filter_map(|one| topology.interface(&one.name));
        let interfaces = interfaces.filter(|(_, interface)| {
            let mut shared = links.iter().filter(|link| *link != own);
            !shared.any(|link| interface.links.contains(link))
        });
        interfaces.map(|(id, _)| id).chain([*own]).collect()
    }

    /// Returns the capacity of a path: the minimum over its links and interfaces, until the end of the guard time. Two
    /// legs that share a port have half of what both use.
    fn free_on(
        &self,
        path: &Path,
        segment: Segment,
        (from, till): (Instant, Instant),
        shared: Option<PortId>,
    ) -> Option<Offer> {
        let (unit, least) = (path.unit()?, path.least()?);
        let guard = path.guard();
        let unshared = shared.map(|port| self.unshared(path, segment, port));
        let resources = path.resources().map(|resource| {
            let is_whole = unshared.as_ref().is_none_or(|own| own.contains(&resource));
            let legs = if is_whole { 1 } else { 2 };
            let free = self.calendar.free(resource, self.owner, from, till + guard);
            let steps = free.filter_map(|free| {
                Some(Step {
                    from: free.from,
                    till: free.till.min(till + guard),
                    rate: Rate::from_bps(free.bps / legs).filter(|rate| *rate >= least)?,
                })
            });
            let steps = steps.take(crate::offer::RANGES_MAX);
            Offer::new(unit, steps.collect())
        });
        let free = resources.reduce(|one, two| one?.intersect(&two?))??;
        let mut usable = guard::usable(free.steps(), guard, (from, till));
        usable.truncate(crate::offer::RANGES_MAX);
        Offer::new(unit, usable)
    }

    /// Books a vector on all segments, or on none: on the given routes, or on the first routes with its capacity.
    pub(crate) fn book_all(
        &mut self,
        now: Instant,
        (segments, vector): (&[Segment], &Trc),
        routes: Option<&[u8]>,
        has_guard: bool,
    ) -> Result<Booked, Refusal> {
        let mut booked = Booked {
            vector: vector.clone(),
            segments: Vec::new(),
        };
        for (nth, segment) in segments.iter().enumerate() {
            let route = routes.map(|routes| routes.get(nth).copied().unwrap_or(u8::MAX));
            match self.book(now, (*segment, route), vector, has_guard) {
                Ok(one) => booked.segments.push(one),
                Err(refusal) => {
                    for one in booked.segments {
                        let _ = self.calendar.release(now, one.id);
                    }
                    return Err(refusal);
                }
            }
        }
        Ok(booked)
    }

    /// Books a vector on the given route, or on the first route that has its capacity. With guard times, each decrease
    /// frees capacity a guard time later. The time before `now` takes no capacity.
    pub(crate) fn book(
        &mut self,
        now: Instant,
        (segment, route): (Segment, Option<u8>),
        vector: &Trc,
        has_guard: bool,
    ) -> Result<BookedSegment, Refusal> {
        for (nth, path) in (0..).zip(self.paths(segment)?) {
            if route.is_some_and(|route| route != nth) || !can_carry(&path, vector) {
                continue;
            }
            let steps = if has_guard {
                trail(vector.steps(), path.guard())
            } else {
                vector.steps().to_vec()
            };
            if let Some(id) = self.take(now, &path, steps) {
                return Ok(BookedSegment {
                    segment,
                    id,
                    path,
                    route: nth,
                    has_guard,
                    from: now,
                });
            }
        }
        Err(Refusal::NoCapacity)
    }

    /// Books steps on a path, if the path has their capacity.
    pub(crate) fn take(&mut self, now: Instant, path: &Arc<Path>, steps: Vec<Step>) -> Option<Id> {
        let id = Id(self.next);
        let ends = (steps.first()?.from, steps.last()?.till);
        let saved = SavedBooking {
            sequence: id.0,
            request: self.request(path, ends, &steps),
            // its guard times are in the steps
            path: path.without_trail(),
            steps,
        };
        self.calendar.restore(now, id, saved).ok()?;
        self.next += 1;
        Some(id)
    }

    /// Frees the bookings of a vector from `now` on, except for a guard time after steps that the devices have begun.
    fn give_back(&mut self, now: Instant, booked: Booked) {
        let begun = booked.vector.steps().iter();
        let begun = begun.filter(|step| step.from <= now).map(|step| Step {
            till: step.till.min(now),
            ..*step
        });
        let begun: Vec<Step> = begun.collect();
        for BookedSegment { id, path, from, .. } in booked.segments {
            // after the clock was set back, the time before the booking is not part of it
            let from = now.max(from);
            let _ = self.calendar.release(from, id);
            let steps = trail(&begun, path.guard());
            if steps.last().is_some_and(|last| from < last.till) {
                self.take(from, &path, steps);
            }
        }
    }

    fn request(
        &self,
        path: &Arc<Path>,
        (start, end): (Instant, Instant),
        steps: &[Step],
    ) -> Request {
        let rates = steps.iter().map(|step| step.rate);
        let time = end.since(start);
        Request {
            owner: self.owner,
            priority: 0,
            route: Route::Along(Arc::clone(path)),
            need: Need::Hold(time),
            rate_min: None,
            rate_max: rates.max().unwrap_or(Rate::UNLIMITED),
            from: start,
            deadline: None,
            shape: Shape::Varying,
            detail: Detail::Joined,
        }
    }
}

impl CalendarResources {
    fn offer(
        &mut self,
        segment: Segment,
        (from, till): (Instant, Instant),
        shared: Option<PortId>,
    ) -> Result<Offer, Refusal> {
        let paths = self.paths(segment)?;
        let usable = paths.iter().map(|path| self.usable_from(path));
        let from = usable.fold(from, Instant::max);
        if from >= till {
            return Err(Refusal::NoCapacity);
        }
        let offers = paths
            .iter()
            .filter_map(|path| self.free_on(path, segment, (from, till), shared));
        let volume = |offer: &Offer| -> u128 {
            let steps = offer.steps().iter();
            let work = steps.map(|s| s.till.since(s.from).as_nanos() * u128::from(s.rate.as_bps()));
            work.sum()
        };
        let offer = offers.max_by_key(volume);
        // the vector may be booked on any of the paths
        let losses = paths.iter().map(|path| losses(path));
        let losses = losses.fold(Losses::default(), Losses::max);
        let offer = offer.and_then(|offer| offer.with_losses(losses));
        offer.ok_or(Refusal::NoCapacity)
    }
}

impl Resources for CalendarResources {
    fn free(&mut self, segment: Segment, from: Instant, till: Instant) -> Result<Offer, Refusal> {
        self.offer(segment, (from, till), None)
    }

    fn free_twice(
        &mut self,
        segment: Segment,
        window: (Instant, Instant),
        port: PortId,
    ) -> Result<Offer, Refusal> {
        self.offer(segment, window, Some(port))
    }

    fn capacity(&mut self, segment: Segment) -> Option<Rate> {
        let paths = self.paths(segment).ok()?;
        let topology = self.calendar.topology();
        let narrowest = |path: &Arc<Path>| {
            let links = path.links().iter();
            links
                .filter_map(|link| Some(topology.about(*link)?.capacity))
                .min()
        };
        paths.iter().filter_map(narrowest).max()
    }

    fn hold(
        &mut self,
        now: Instant,
        key: Key,
        segments: &[Segment],
        vector: &Trc,
    ) -> Result<(), Refusal> {
        if self.bookings.contains_key(&key) {
            return Ok(());
        }
        for segment in segments {
            let paths = self.paths(*segment)?;
            let from = paths.iter().map(|path| self.usable_from(path)).max();
            if from.is_some_and(|from| vector.start() < from) {
                // nothing is known about that time
                return Err(Refusal::NoCapacity);
            }
        }
        let booked = self.book_all(now, (segments, vector), None, true)?;
        self.bookings.insert(key, booked);
        Ok(())
    }

    fn hold_again(
        &mut self,
        now: Instant,
        key: Key,
        segments: &[Segment],
        vector: &Trc,
    ) -> Result<(), Refusal> {
        let routes = self.routes.remove(&key);
        let booked = self.book_again(now, (segments, vector), routes.as_deref())?;
        self.bookings.insert(key, booked);
        Ok(())
    }

    fn add_guards(&mut self) {
        self.add_all_guards();
    }

    fn note_restart(&mut self, now: Instant) {
        self.restarted = Some(now);
    }

    fn commit(&mut self, _now: Instant, _key: Key) {}

    fn release_segment(&mut self, now: Instant, key: Key, segment: Segment) {
        if let Some(booked) = self.bookings.get_mut(&key) {
            let segments = booked.segments.extract_if(.., |one| one.segment == segment);
            let (segments, vector) = (segments.collect(), booked.vector.clone());
            self.give_back(now, Booked { vector, segments });
        }
    }

    fn release(&mut self, now: Instant, key: Key) {
        if let Some(booked) = self.bookings.remove(&key) {
            self.give_back(now, booked);
        }
    }
}

/// Returns true if a circuit on a path can have all rates of a vector.
fn can_carry(path: &Path, vector: &Trc) -> bool {
    let unit = path.unit().map_or(1, Rate::as_bps);
    let fits =
        |step: &Step| step.rate.as_bps().is_multiple_of(unit) && Some(step.rate) >= path.least();
    vector.steps().iter().all(fits)
}

/// Returns the losses of a transfer at the devices of a path: guard time and packet size.
const fn losses(path: &Path) -> Losses {
    Losses {
        guard: path.guard(),
        packet_bytes: path.packet_bytes(),
    }
}

/// Maximum number of routes between two border points.
pub const ROUTES_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::format;
    use alloc::vec;
    use core::time::Duration;

    use lighthaul_calendar::{Config, Limits, Link, Topology};

    use super::*;
    use crate::key::{CorrelationId, DomainId};

    const SEGMENT: Segment = Segment {
        ingress: PortId(1),
        egress: PortId(2),
    };

    /// Returns one link of 100 Mb/s between two ports.
    fn resources() -> CalendarResources {
        let names = ["a", "b"].map(ToOwned::to_owned);
        let link = Link {
            name: "a-b".to_owned(),
            from: names[0].clone(),
            to: names[1].clone(),
            capacity: Rate::from_mbps(100),
            channel: Rate::from_mbps(1),
            guard: Duration::ZERO,
            cost: 1,
        };
        let inside = Topology::new(names.to_vec(), vec![link]).unwrap();
        let node = |name| inside.node(name).unwrap();
        let ports = [(PortId(1), node("a")), (PortId(2), node("b"))].into();
        let calendar = Calendar::new(inside, Config::default()).unwrap();
        CalendarResources::new(calendar, ports, Owner(0), 1)
    }

    /// Returns a link of 100 Mb/s between two ports, whose device has a guard time of two seconds.
    fn with_guard() -> CalendarResources {
        let mut inside = resources().calendar().topology().clone();
        let (link, _) = inside.links().next().unwrap();
        inside.attach("eth0", &[link]).unwrap();
        let limits = Limits {
            capacity: Rate::from_mbps(100),
            channel: Rate::from_mbps(1),
            least: Rate::from_mbps(1),
            guard: Duration::from_secs(2),
            packet_bytes: 0,
            circuits_max: 9,
        };
        inside.set_limits("eth0", limits).unwrap();
        let calendar = Calendar::new(inside, Config::default()).unwrap();
        CalendarResources::new(calendar, resources().ports, Owner(0), 1)
    }

    #[test]
    fn freed_capacity_is_offered_and_booked_after_the_guard_time() {
        let mut limited = with_guard();
        hold(&mut limited, 0, 1, "2s-10s 60Mb/s").unwrap();
        let steps = |limited: &mut CalendarResources, from| {
            let offer = limited.free(SEGMENT, at(from), at(20)).unwrap();
            let step = |step: &Step| (step.from, step.till, step.rate.as_bps() / 1_000_000);
            offer.steps().iter().map(step).collect::<Vec<_>>()
        };
        let offered = vec![(at(0), at(12), 40), (at(12), at(20), 100)];
        assert_eq!(steps(&mut limited, 0), offered);
        // what was freed just before a window counts too
        assert_eq!(
            steps(&mut limited, 11),
            [(at(11), at(12), 40), (at(12), at(20), 100)]
        );
        let early = hold(&mut limited, 0, 2, "11s-20s 41Mb/s");
        assert_eq!(early, Err(Refusal::NoCapacity));
        hold(&mut limited, 0, 3, "12s-20s 61Mb/s").unwrap();
        // no later vector ends less than a guard time before an increase
        let late = hold(&mut limited, 0, 4, "5s-11s 40Mb/s");
        assert_eq!(late, Err(Refusal::NoCapacity));
        hold(&mut limited, 0, 5, "5s-10s 40Mb/s").unwrap();
    }

    #[test]
    fn released_capacity_is_used_for_a_guard_time_if_the_vector_has_begun() {
        let mut limited = with_guard();
        hold(&mut limited, 0, 1, "2s-100s 50Mb/s").unwrap();
        limited.release(at(50), key(1));
        // a half was free all the time, and the other half since now
        hold(&mut limited, 50, 2, "51s-60s 50Mb/s").unwrap();
        let both = hold(&mut limited, 50, 3, "51s-60s 50Mb/s");
        assert_eq!(both, Err(Refusal::NoCapacity));
        // a vector that did not begin has used nothing
        limited.release(at(50), key(2));
        hold(&mut limited, 50, 4, "51s-60s 50Mb/s").unwrap();
        hold(&mut limited, 50, 5, "52s-60s 50Mb/s").unwrap();
        // after a start, only the rest of a vector is booked
        let mut again = with_guard();
        hold(&mut again, 50, 1, "49s-60s 100Mb/s").unwrap();
        // a vector may have been set at the time of its release
        let mut begun = with_guard();
        hold(&mut begun, 0, 1, "10s-60s 100Mb/s").unwrap();
        begun.release(at(10), key(1));
        let early = hold(&mut begun, 10, 2, "11s-60s 1Mb/s");
        assert_eq!(early, Err(Refusal::NoCapacity));
        hold(&mut begun, 10, 3, "12s-60s 100Mb/s").unwrap();
        // an increase that did not begin is not in use
        let mut rising = with_guard();
        hold(&mut rising, 0, 1, "2s-11s 10Mb/s, 11s-60s 100Mb/s").unwrap();
        rising.release(at(10), key(1));
        hold(&mut rising, 10, 2, "11s-60s 90Mb/s").unwrap();
        let early = hold(&mut rising, 10, 3, "11s-60s 10Mb/s");
        assert_eq!(early, Err(Refusal::NoCapacity));
        hold(&mut rising, 10, 4, "12s-60s 10Mb/s").unwrap();
    }

    /// Returns a port of 100 Mb/s that enters a domain, and two that leave it, by interfaces with guard times of nine
    /// seconds and of two.
    fn with_two_guards() -> CalendarResources {
        let names = ["a", "b", "c", "core"].map(ToOwned::to_owned);
        let link = |from: usize, to: usize| Link {
            name: format!("{from}-{to}"),
            from: names[from].clone(),
            to: names[to].clone(),
            capacity: Rate::from_mbps(100),
            channel: Rate::from_mbps(1),
            guard: Duration::ZERO,
            cost: 1,
        };
        let links = vec![link(0, 3), link(3, 1), link(3, 2)];
        let mut inside = Topology::new(names.to_vec(), links).unwrap();
        for (interface, link, seconds) in [("eth0", "3-1", 9), ("eth1", "3-2", 2)] {
            let link = inside.link(link).unwrap();
            inside.attach(interface, &[link]).unwrap();
            let limits = Limits {
                capacity: Rate::from_mbps(100),
                channel: Rate::from_mbps(1),
                least: Rate::from_mbps(1),
                guard: Duration::from_secs(seconds),
                packet_bytes: 0,
                circuits_max: 9,
            };
            inside.set_limits(interface, limits).unwrap();
        }
        let node = |name| inside.node(name).unwrap();
        let ports = [
            (PortId(1), node("a")),
            (PortId(2), node("b")),
            (PortId(3), node("c")),
        ];
        let ports = ports.into();
        let calendar = Calendar::new(inside, Config::default()).unwrap();
        CalendarResources::new(calendar, ports, Owner(0), 1)
    }

    #[test]
    fn link_of_two_interfaces_is_used_until_the_guard_time_of_each_circuit() {
        let slow = SEGMENT;
        let fast = Segment {
            egress: PortId(3),
            ..SEGMENT
        };
        let mut shared = with_two_guards();
        let mut hold =
            |id, segment, vector: &str| shared.hold(at(0), key(id), &[segment], &vector_of(vector));
        hold(1, slow, "2s-10s 100Mb/s").unwrap();
        // the slow device may use the shared link until 19 s
        let early = hold(2, fast, "18s-30s 1Mb/s");
        assert_eq!(early, Err(Refusal::NoCapacity));
        hold(2, fast, "19s-30s 100Mb/s").unwrap();
        // and the fast one until 32 s
        let early = hold(3, slow, "31s-40s 1Mb/s");
        assert_eq!(early, Err(Refusal::NoCapacity));
        hold(3, slow, "32s-40s 100Mb/s").unwrap();
        let offer = shared.free(fast, at(0), at(60)).unwrap();
        let offered: Vec<_> = offer
            .steps()
            .iter()
            .map(|one| (one.from, one.till))
            .collect();
        assert_eq!(offered, [(at(49), at(60))]);
    }

    /// Returns two routes of 100 Mb/s from port 1 to port 2, the first of which ends at port 3. Their devices have
    /// guard times of two seconds.
    fn with_two_routes() -> CalendarResources {
        let names = ["a", "b", "c", "d"].map(ToOwned::to_owned);
        let link = |from: usize, to: usize, cost| Link {
            name: format!("{from}-{to}"),
            from: names[from].clone(),
            to: names[to].clone(),
            capacity: Rate::from_mbps(100),
            channel: Rate::from_mbps(1),
            guard: Duration::from_secs(2),
            cost,
        };
        let links = vec![link(0, 2, 1), link(2, 1, 1), link(0, 3, 2), link(3, 1, 2)];
        let inside = Topology::new(names.to_vec(), links).unwrap();
        let node = |name| inside.node(name).unwrap();
        let ports = [
            (PortId(1), node("a")),
            (PortId(2), node("b")),
            (PortId(3), node("c")),
        ];
        let ports = ports.into();
        let calendar = Calendar::new(inside, Config::default()).unwrap();
        CalendarResources::new(calendar, ports, Owner(0), 1)
    }

    const FIRST_ROUTE: Segment = Segment {
        ingress: PortId(1),
        egress: PortId(3),
    };

    #[test]
    fn restart_keeps_paths_that_only_a_guard_time_led_to_their_routes() {
        let held = [
            (1, SEGMENT, "2s-10s 100Mb/s"),
            (2, SEGMENT, "10s-20s 100Mb/s"),
            (3, FIRST_ROUTE, "12s-20s 100Mb/s"),
        ];
        let mut before = with_two_routes();
        for (id, segment, vector) in held {
            let held = before.hold(at(0), key(id), &[segment], &vector_of(vector));
            assert_eq!(held, Ok(()));
        }
        let routes = held.map(|(id, ..)| (key(id), before.routes(key(id))));
        assert_eq!(routes.clone().map(|(_, route)| route), [[0], [1], [0]]);
        // an earlier version has stored no routes
        for routes in [routes.into(), BTreeMap::new()] {
            let mut after = with_two_routes();
            after.set_routes(routes);
            for (id, segment, vector) in held {
                let held = after.hold_again(at(0), key(id), &[segment], &vector_of(vector));
                assert_eq!(held, Ok(()), "{vector}");
            }
            after.add_guards();
            assert_eq!(after.unguarded(), []);
            assert_eq!(after.routes(key(2)), [1]);
        }
    }

    #[test]
    fn guard_times_are_added_where_they_fit() {
        let again = |resources: &mut CalendarResources, id, vector: &str| {
            let held = resources.hold_again(at(5), key(id), &[SEGMENT], &vector_of(vector));
            assert_eq!(held, Ok(()), "{vector}");
        };
        // the other route has room for all of them
        let mut two = with_two_routes();
        two.set_routes([(key(1), vec![0]), (key(2), vec![0])].into());
        again(&mut two, 1, "2s-10s 100Mb/s");
        again(&mut two, 2, "10s-20s 100Mb/s");
        two.add_guards();
        assert_eq!(two.unguarded(), []);
        assert_eq!([1, 2].map(|id| two.routes(key(id))), [[1], [0]]);
        // one of two decreases has room
        let mut one = with_guard();
        again(&mut one, 1, "2s-10s 60Mb/s, 10s-20s 30Mb/s");
        again(&mut one, 2, "20s-30s 100Mb/s");
        one.add_guards();
        assert_eq!(one.unguarded(), [key(1)]);
        let mut ended = one.clone();
        ended.release(at(5), key(1));
        assert_eq!(ended.unguarded(), []);
        let offer = one.free(SEGMENT, at(10), at(18)).unwrap();
        let steps = offer.steps().iter();
        let steps: Vec<_> = steps
            .map(|one| (one.from, one.rate.as_bps() / 1_000_000))
            .collect();
        assert_eq!(steps, [(at(10), 40), (at(12), 70)]);
    }

    #[test]
    fn restart_never_loses_a_path() {
        let mut others = 0;
        for seed in 1..=200 {
            std::println!("seed {seed}");
            let mut rng = lighthaul_base::Rng::new(seed);
            let (mut before, mut held) = (with_two_routes(), BTreeMap::new());
            let mut now = 0;
            for id in 0..40 {
                now += rng.below(3);
                let segment = [SEGMENT, FIRST_ROUTE][usize::from(rng.below(3) == 0)];
                let from = now + rng.below(20);
                let till = from + 1 + rng.below(9);
                let text = format!("{from}s-{till}s {}Mb/s", 10 + 10 * rng.below(10));
                let vector = vector_of(&text);
                if before.hold(at(now), key(id), &[segment], &vector).is_ok() {
                    held.insert(key(id), (segment, vector));
                }
                if rng.below(4) == 0 && !held.is_empty() {
                    let nth = rng.below(held.len() as u64) as usize;
                    let released = *held.keys().nth(nth).unwrap();
                    held.remove(&released);
                    before.release(at(now), released);
                }
            }
            held.retain(|_, (_, vector)| at(now) < vector.end());
            let mut after = with_two_routes();
            after.set_routes(held.keys().map(|key| (*key, before.routes(*key))).collect());
            for (key, (segment, vector)) in &held {
                let again = after.hold_again(at(now), *key, &[*segment], vector);
                assert_eq!(again, Ok(()), "seed {seed}: {vector}");
                assert_eq!(after.routes(*key), before.routes(*key), "seed {seed}");
                others += usize::from(after.routes(*key) == [1]);
            }
            after.add_guards();
            assert_eq!(after.unguarded(), [], "seed {seed}");
        }
        assert!(others > 100, "{others} on the second route");
    }

    /// Lets a device with channels of 30 Mb/s, and 90 Mb/s for all, make the circuits of the link.
    #[test]
    fn device_limits_offers_and_bookings() {
        let mut inside = resources().calendar().topology().clone();
        let (link, _) = inside.links().next().unwrap();
        inside.attach("eth0", &[link]).unwrap();
        let limits = Limits {
            capacity: Rate::from_mbps(90),
            channel: Rate::from_mbps(30),
            least: Rate::from_mbps(60),
            guard: Duration::ZERO,
            packet_bytes: 0,
            circuits_max: 9,
        };
        inside.set_limits("eth0", limits).unwrap();
        let ports = resources().ports;
        let calendar = Calendar::new(inside, Config::default()).unwrap();
        let mut limited = CalendarResources::new(calendar, ports, Owner(0), 1);
        let offered = |limited: &mut CalendarResources| limited.free(SEGMENT, at(1), at(9));
        let offer = offered(&mut limited).unwrap();
        assert_eq!(offer.unit(), Rate::from_mbps(30));
        assert_eq!(offer.steps()[0].rate, Rate::from_mbps(90));
        let vector = |mbps: u64| vector_of(&format!("1s-9s {mbps}Mb/s"));
        // above the capacity, no multiple, and below the lowest rate
        for mbps in [120, 75, 30] {
            let held = limited.hold(at(0), key(9), &[SEGMENT], &vector(mbps));
            assert_eq!(held, Err(Refusal::NoCapacity), "{mbps} Mb/s");
        }
        let held = limited.hold(at(0), key(1), &[SEGMENT], &vector(60));
        assert_eq!(held, Ok(()));
        // the rest is less than a circuit can have
        assert!(offered(&mut limited).unwrap().steps().is_empty());
    }

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    fn hold(
        resources: &mut CalendarResources,
        now: u64,
        id: u128,
        vector: &str,
    ) -> Result<(), Refusal> {
        resources.hold(at(now), key(id), &[SEGMENT], &vector_of(vector))
    }

    fn vector_of(text: &str) -> Trc {
        text.parse().unwrap()
    }

    const fn key(id: u128) -> Key {
        Key {
            source: DomainId(1),
            id: CorrelationId(id),
            attempt: 0,
            leg: 0,
        }
    }

    #[test]
    fn release_after_the_clock_was_set_back_frees_only_taken_capacity() {
        let mut resources = resources();
        // a restart in the middle of a vector takes only the rest of it
        hold(&mut resources, 50, 1, "10s-100s 60Mb/s").unwrap();
        hold(&mut resources, 20, 2, "20s-50s 60Mb/s").unwrap();
        resources.release(at(20), key(1));
        let refused = hold(&mut resources, 20, 3, "20s-50s 60Mb/s");
        assert_eq!(refused, Err(Refusal::NoCapacity));
        resources.release(at(20), key(2));
        hold(&mut resources, 20, 4, "20s-100s 100Mb/s").unwrap();
    }

    #[test]
    fn vector_before_the_deleted_history_is_refused() {
        let mut resources = resources();
        resources.forget(at(1000));
        let refused = hold(&mut resources, 10, 1, "20s-30s 60Mb/s");
        assert_eq!(refused, Err(Refusal::NoCapacity));
        let free = resources.free(SEGMENT, at(20), at(30));
        assert_eq!(free, Err(Refusal::NoCapacity));
        let later = resources.free(SEGMENT, at(20), at(1010)).unwrap();
        assert_eq!(later.steps()[0].from, at(1000));
        hold(&mut resources, 10, 2, "1000s-1030s 60Mb/s").unwrap();
    }
}
