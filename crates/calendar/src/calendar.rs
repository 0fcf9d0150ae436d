//! Calendar: all bookings and outages of a topology, and the capacity that they leave free.
//!
//! [`Calendar`] books, quotes and shows; [`change`](crate::change) and
//! [`displaced`](crate::displaced) change what is booked. It receives the time as an argument and
//! has no clock. The sum of all grants never exceeds the capacity of a link at any instant.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use lighthaul_base::trc::{RATE_MIN, Step};
use lighthaul_base::{Instant, Rate};

use crate::booking::{Booking, Id};
use crate::booking_index::BookingIndex;
use crate::capacity::Free;
use crate::config::{Config, ConfigError};
use crate::grant::Grant;
use crate::guard;
use crate::outage::Outage;
use crate::path::{Path, shortest};
use crate::plan::{Planner, Search};
use crate::refusal::{CounterOffer, Refusal};
use crate::request::{Request, Route};
use crate::resource::{Owner, Resource};
use crate::topology::{LinkId, NodeId, Topology};

/// Free and booked capacity on the links of a topology.
///
/// A calendar is deterministic: it receives the time as an argument, and equal calls in equal order
/// give equal calendars. A journal of the calls therefore restores it. A refused call changes
/// nothing.
#[derive(Clone, Debug)]
pub struct Calendar {
    pub(crate) config: Config,
    topology: Topology,
    pub(crate) resources: Vec<Resource>,
    pub(crate) bookings: BookingIndex,
    pub(crate) outages: BTreeMap<Id, Outage>,
    /// Start of the history that is kept.
    since: Instant,
    /// Sequence number of the next booking.
    next: u64,
    /// Cache of the paths between two nodes.
    paths: BTreeMap<Ends, Vec<Arc<Path>>>,
}

impl Calendar {
    /// Returns a calendar without bookings.
    pub fn new(topology: Topology, config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let resource = |capacity: Rate, channel: Rate| {
            Resource::new(capacity.as_bps(), channel.as_bps(), &config.shares)
        };
        let links = topology.links();
        let links = links.map(|(_, link)| resource(link.capacity, link.channel));
        // an interface of an unknown device carries no circuit
        let interfaces = topology.interfaces().iter().map(|port| {
            let limits = port.limits.map(|limits| (limits.capacity, limits.channel));
            let (capacity, channel) = limits.unwrap_or((RATE_MIN, RATE_MIN));
            resource(capacity, channel)
        });
        let resources = links.chain(interfaces).collect();
        Ok(Self {
            config,
            topology,
            resources,
            bookings: BookingIndex::default(),
            outages: BTreeMap::new(),
            since: Instant::ZERO,
            next: 0,
            paths: BTreeMap::new(),
        })
    }

    /// Books a request under an unused number.
    pub fn book(&mut self, now: Instant, id: Id, request: &Request) -> Result<&Grant, Refusal> {
        self.check_id(id)?;
        if self.bookings.len() >= self.config.bookings_max {
            return Err(Refusal::CalendarFull(self.config.bookings_max));
        }
        self.remember(&request.route);
        let grant = self.quote(now, request)?;
        let sequence = self.next;
        self.next += 1;
        let trail = grant.path.trail();
        let taken = guard::taken(&grant.steps, trail, Instant::ZERO);
        self.take(request.owner, &grant.path, &taken);
        let booking = Booking {
            sequence,
            request: request.clone(),
            grant,
            trail,
        };
        Ok(&self.bookings.insert(id, booking).grant)
    }

    /// Returns the grant that [`Self::book`] would give at this time.
    pub fn quote(&self, now: Instant, request: &Request) -> Result<Grant, Refusal> {
        let search = Search::of(request, now.max(self.since), &self.config)?;
        let paths = self.paths(&request.route)?;
        let most = paths.iter().map(|path| path.capacity).max().unwrap_or(0);
        if let Some(most) = Rate::from_bps(most).filter(|most| request.rate_max > *most) {
            return Err(Refusal::RateTooHigh(most));
        }
        let best = self.planner().best(&search, &paths);
        let end = best.as_ref().map(Grant::end);
        match (request.deadline, end) {
            (Some(deadline), Ok(end)) if end <= deadline => best,
            (Some(deadline), Ok(_) | Err(Refusal::BeyondHorizon(_))) => {
                Err(Refusal::MissesDeadline(CounterOffer {
                    end: end.ok(),
                    ..self
                        .planner()
                        .counter_offer(&search, &paths, request.need, deadline)
                }))
            }
            _ => best,
        }
    }

    /// Returns the capacity that an owner can book on a link in `from..till`. Returns nothing for
    /// an unknown link.
    pub fn free(
        &self,
        link: LinkId,
        owner: Owner,
        from: Instant,
        till: Instant,
    ) -> impl Iterator<Item = Free> + '_ {
        let resource = self.resources.get(link.0 as usize);
        resource
            .into_iter()
            .flat_map(move |resource| resource.free(owner, from, till))
    }

    /// Returns the bookings that use a link in `from..till`. The search time does not depend on the
    /// number of bookings at other times.
    pub fn allocations(
        &self,
        link: LinkId,
        from: Instant,
        till: Instant,
    ) -> impl Iterator<Item = (Id, &Booking)> {
        let near = self.bookings.between(from, till);
        near.filter(move |(_, booking)| booking.has(link, from, till))
    }

    /// Returns all bookings by their numbers.
    pub fn bookings(&self) -> impl Iterator<Item = (Id, &Booking)> {
        self.bookings.all()
    }

    /// Returns the booking with the number `id`.
    pub fn booking(&self, id: Id) -> Option<&Booking> {
        self.bookings.find(id)
    }

    /// Returns the topology.
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Deletes all history before a time, and returns the numbers of the bookings that had ended.
    /// Later calls with an earlier `now` use that time instead.
    pub fn forget(&mut self, before: Instant) -> Vec<Id> {
        let before = before.max(self.since);
        self.since = before;
        let over = |booking: &Booking| booking.grant.end() <= before;
        let begun = self.bookings.between(Instant::ZERO, before);
        let begun = begun.filter(|(_, booking)| over(booking));
        let mut ids: Vec<Id> = begun.map(|(id, _)| id).collect();
        ids.sort_unstable();
        for id in &ids {
            self.bookings.remove(*id);
        }
        self.outages.retain(|_, outage| outage.till > before);
        self.resources
            .iter_mut()
            .for_each(|resource| resource.forget(before));
        ids
    }

    /// Returns the earliest time at or after `now` at which the calendar can change.
    pub(crate) fn first_from(&self, now: Instant) -> Instant {
        self.config.slot_from(now.max(self.since))
    }

    pub(crate) const fn planner(&self) -> Planner<'_> {
        Planner {
            config: &self.config,
            resources: self.resources.as_slice(),
            limit: None,
        }
    }

    /// Returns the paths that a request may use.
    pub(crate) fn paths(&self, route: &Route) -> Result<Cow<'_, [Arc<Path>]>, Refusal> {
        let ends = match route {
            Route::Along(path) => {
                let known = path
                    .resources()
                    .all(|link| (link.0 as usize) < self.resources.len());
                return known
                    .then(|| vec![Arc::clone(path)].into())
                    .ok_or(Refusal::UnknownLink);
            }
            Route::Between(from, to) => (None, *from, *to),
            Route::Through(interface, from, to) => (Some(*interface), *from, *to),
        };
        let (interface, from, to) = ends;
        if self.topology.name(from).is_none() || self.topology.name(to).is_none() {
            return Err(Refusal::UnknownLink);
        }
        let paths = match self.paths.get(&ends) {
            Some(paths) => Cow::from(paths),
            None => self.look_for(ends).into(),
        };
        match interface {
            _ if !paths.is_empty() => Ok(paths),
            Some(_) => Err(Refusal::InterfaceOffPath),
            None => Err(Refusal::NoPath),
        }
    }

    /// Returns the paths between two nodes; if an interface is given, only paths that cross it.
    fn look_for(&self, (interface, from, to): Ends) -> Vec<Arc<Path>> {
        let most = self.config.paths_max;
        let Some(interface) = interface else {
            return shortest(&self.topology, from, to, most);
        };
        let all = shortest(&self.topology, from, to, PATHS_MAX);
        let crossing = all
            .iter()
            .filter_map(|path| path.through(&self.topology, interface));
        crossing.take(most).collect()
    }

    /// Refuses a number that is in use.
    pub(crate) fn check_id(&self, id: Id) -> Result<(), Refusal> {
        if self.bookings.contains(id) || self.outages.contains_key(&id) {
            return Err(Refusal::IdInUse(id));
        }
        Ok(())
    }

    pub(crate) fn take(&mut self, owner: Owner, path: &Path, steps: &[Step]) {
        for link in path.resources() {
            let resource = &mut self.resources[link.0 as usize];
            for step in steps {
                resource.take(owner, step);
            }
        }
    }

    pub(crate) fn give(&mut self, owner: Owner, path: &Path, steps: &[Step]) {
        for link in path.resources() {
            let resource = &mut self.resources[link.0 as usize];
            for step in steps {
                resource.give(owner, step);
            }
        }
    }

    /// Gives later bookings sequence numbers above `sequence`.
    pub(crate) fn reserve_sequence(&mut self, sequence: u64) {
        self.next = self.next.max(sequence.saturating_add(1));
    }

    /// Caches the paths between two nodes.
    fn remember(&mut self, route: &Route) {
        let ends = match *route {
            Route::Between(from, to) => (None, from, to),
            Route::Through(interface, from, to) => (Some(interface), from, to),
            Route::Along(_) => return,
        };
        if self.paths.contains_key(&ends) {
            return;
        }
        if self.paths.len() >= PAIRS_MAX {
            self.paths.clear();
        }
        let paths = self.look_for(ends);
        self.paths.insert(ends, paths);
    }
}

/// Compares the promises of two calendars. The path cache and the sequence counter do not count.
impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config
            && self.topology == other.topology
            && self.resources == other.resources
            && self.bookings == other.bookings
            && self.outages == other.outages
            && self.since == other.since
    }
}

impl Eq for Calendar {}

/// The interface that a path must cross, if any, and the two end nodes.
type Ends = (Option<LinkId>, NodeId, NodeId);

/// Maximum number of paths that are examined for one that crosses an interface.
const PATHS_MAX: usize = 64;
/// Maximum number of node pairs in the path cache.
const PAIRS_MAX: usize = 1 << 14;

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::change::{RepackLimits, Scope};
    use crate::request::{Detail, Need, Shape};

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Returns one link of 2 Gb/s. A byte at 1 Gb/s takes 8 ns.
    fn topology() -> Topology {
        let gigabit = Rate::from_mbps(1000);
        Topology::single_link(Rate::from_mbps(2000), gigabit).unwrap()
    }

    fn calendar() -> Calendar {
        Calendar::new(topology(), Config::default()).unwrap()
    }

    fn link(calendar: &Calendar) -> LinkId {
        calendar.topology.link("link").unwrap()
    }

    /// Returns a request for both channels of the link, which takes 4 ns a byte.
    fn request(calendar: &Calendar, bytes: u64) -> Request {
        let node = |name| calendar.topology.node(name).unwrap();
        Request {
            owner: Owner(0),
            priority: 0,
            route: Route::Between(node("a"), node("b")),
            need: Need::bytes(bytes),
            rate_min: None,
            rate_max: Rate::from_mbps(2000),
            from: Instant::ZERO,
            deadline: None,
            shape: Shape::Varying,
            detail: Detail::Joined,
        }
    }

    fn book(calendar: &mut Calendar, id: u64, bytes: u64) {
        let request = request(calendar, bytes);
        calendar.book(Instant::ZERO, Id(id), &request).unwrap();
    }

    fn outage(calendar: &Calendar, from: u64, till: u64) -> Outage {
        Outage {
            link: link(calendar),
            from: at(from),
            till: at(till),
        }
    }

    #[test]
    fn calendars_with_different_promises_differ() {
        let mut one = calendar();
        book(&mut one, 1, 10);
        let other = |change: &dyn Fn(&mut Calendar)| {
            let mut other = one.clone();
            change(&mut other);
            other
        };
        assert_eq!(one, other(&|_| ()));
        let more = |calendar: &mut Calendar| {
            (calendar.next, calendar.paths) = (9, BTreeMap::new());
        };
        assert_eq!(one, other(&more), "a cache makes no promise");
        assert_ne!(one, other(&|other| other.config.paths_max = 1));
        let interface = |other: &mut Calendar| {
            let links = [link(other)];
            other.topology.attach("eth1", &links).unwrap();
        };
        assert_ne!(one, other(&interface));
        assert_ne!(one, other(&|other| other.resources.clear()));
        assert_ne!(one, other(&|other| drop(other.bookings.remove(Id(1)))));
        let out = outage(&one, 100, 200);
        let plan = |other: &mut Calendar| {
            other.outages.insert(Id(2), out);
        };
        assert_ne!(one, other(&plan));
        assert_ne!(one, other(&|other| other.since = at(1)));
    }

    #[test]
    fn allocation_is_listed_if_it_overlaps_the_window() {
        let mut calendar = calendar();
        let held = Request {
            need: Need::Hold(Duration::from_nanos(10)),
            from: at(20),
            shape: Shape::Fixed,
            ..request(&calendar, 0)
        };
        calendar.book(Instant::ZERO, Id(1), &held).unwrap();
        for (from, till, is_listed) in [
            (0, 20, false),
            (0, 21, true),
            (22, 25, true),
            (29, 40, true),
            (30, 40, false),
        ] {
            let booking = calendar.booking(Id(1)).unwrap();
            let (from, till) = (at(from), at(till));
            assert_eq!(booking.has(link(&calendar), from, till), is_listed);
            assert!(!booking.has(LinkId(1), from, till));
            let listed = calendar.allocations(link(&calendar), from, till);
            assert_eq!(listed.count(), usize::from(is_listed));
        }
    }

    #[test]
    fn forget_deletes_bookings_that_ended_by_the_given_time() {
        let mut calendar = calendar();
        book(&mut calendar, 1, 10);
        book(&mut calendar, 2, 10);
        for (id, from, till) in [(3, 100, 200), (4, 100, 201), (5, 300, 400)] {
            let outage = outage(&calendar, from, till);
            calendar.outage(Instant::ZERO, Id(id), outage).unwrap();
        }
        assert_eq!(calendar.forget(at(39)), []);
        assert_eq!(calendar.forget(at(40)), [Id(1)]);
        assert_eq!(calendar.forget(at(200)), [Id(2)]);
        let left: Vec<u64> = calendar.outages.keys().map(|id| id.0).collect();
        assert_eq!(left, [4, 5]);
        assert_eq!(calendar.forget(at(0)), []);
        assert_eq!(calendar.since, at(200), "time does not go back");
    }

    #[test]
    fn number_of_a_booking_or_an_outage_is_not_reused() {
        let mut calendar = calendar();
        book(&mut calendar, 1, 10);
        let planned = outage(&calendar, 100, 200);
        calendar.outage(Instant::ZERO, Id(2), planned).unwrap();
        for id in [Id(1), Id(2)] {
            let request = request(&calendar, 10);
            let booked = calendar.book(Instant::ZERO, id, &request);
            assert_eq!(booked.cloned(), Err(Refusal::IdInUse(id)));
            let planned = calendar.outage(Instant::ZERO, id, planned);
            assert_eq!(planned, Err(Refusal::IdInUse(id)));
        }
    }

    #[test]
    fn bookings_of_equal_priority_are_ordered_by_booking_time() {
        let mut calendar = calendar();
        let ids = [7, 3, 9, 1];
        for id in ids {
            book(&mut calendar, id, 10);
        }
        assert_eq!(calendar.in_turn(|_| true), ids.map(Id));
        // no booking can be moved forward
        let moved = calendar.repack(Instant::ZERO, Scope::All, RepackLimits::NONE);
        assert_eq!(moved, []);
        calendar.reserve_sequence(2);
        assert_eq!(calendar.next, 4);
        calendar.reserve_sequence(40);
        assert_eq!(calendar.next, 41);
    }

    #[test]
    fn path_cache_searches_once_and_is_bounded() {
        let mut calendar = calendar();
        book(&mut calendar, 1, 10);
        book(&mut calendar, 2, 10);
        assert_eq!(calendar.paths.len(), 1);
        let known = calendar.paths.values().next().cloned().unwrap();
        let (node, _) = calendar.topology.ends(link(&calendar));
        calendar.paths.clear();
        for nth in 0..PAIRS_MAX as u32 - 1 {
            let ends = (Some(LinkId(nth)), node, node);
            calendar.paths.insert(ends, known.clone());
        }
        book(&mut calendar, 3, 10);
        assert_eq!(calendar.paths.len(), 1 << 14);
        calendar
            .paths
            .retain(|(interface, ..), _| interface.is_some());
        calendar
            .paths
            .insert((Some(LinkId(u32::MAX)), node, node), known);
        book(&mut calendar, 4, 10);
        assert_eq!(calendar.paths.len(), 1);
    }

    #[test]
    fn routes_outside_the_topology_are_refused() {
        let calendar = calendar();
        let node = |name| calendar.topology.node(name).unwrap();
        let (a, b) = (node("a"), node("b"));
        let nowhere = NodeId(2);
        for (from, to) in [(a, nowhere), (nowhere, b)] {
            let paths = calendar.paths(&Route::Between(from, to));
            assert_eq!(paths, Err(Refusal::UnknownLink));
        }
        assert_eq!(calendar.paths(&Route::Between(b, a)), Err(Refusal::NoPath));
        let by = calendar.paths(&Route::Through(LinkId(1), a, b));
        assert_eq!(by, Err(Refusal::InterfaceOffPath));
        let over = Path::new(&calendar.topology, vec![link(&calendar)]).unwrap();
        assert_eq!(
            calendar
                .paths(&Route::Along(Arc::clone(&over)))
                .unwrap()
                .len(),
            1
        );
        let mut empty = calendar.clone();
        empty.resources.clear();
        assert_eq!(empty.paths(&Route::Along(over)), Err(Refusal::UnknownLink));
    }

    #[test]
    fn rate_up_to_the_capacity_is_granted() {
        let calendar = calendar();
        let mut request = request(&calendar, 10);
        assert!(calendar.quote(Instant::ZERO, &request).is_ok());
        request.rate_max = Rate::from_mbps(2001);
        let most = Rate::from_mbps(2000);
        let refused = calendar.quote(Instant::ZERO, &request);
        assert_eq!(refused, Err(Refusal::RateTooHigh(most)));
        // a deadline at the exact end is met, one a nanosecond earlier is not
        request.rate_max = most;
        request.deadline = Some(at(40));
        assert!(calendar.quote(Instant::ZERO, &request).is_ok());
        request.deadline = Some(at(39));
        let late = calendar.quote(Instant::ZERO, &request);
        assert!(
            matches!(late, Err(Refusal::MissesDeadline(counter)) if counter.end == Some(at(40)))
        );
    }
}
