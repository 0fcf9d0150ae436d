//! Resources of a domain in a calendar of `lighthaul-calendar`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use lighthaul_base::trc::{Step, Trc};
use lighthaul_base::{Instant, Rate};
use lighthaul_calendar::request::{Detail, Need, Route, Shape};
use lighthaul_calendar::{Calendar, Id, NodeId, Owner, Path, Request, SavedBooking, path};

use crate::key::{Key, PortId, Segment};
use crate::offer::Offer;
use crate::refusal::Refusal;
use crate::resources::Resources;

/// Calendar of a domain, with the nodes of its border points.
#[derive(Clone, Debug)]
pub struct CalendarResources {
    calendar: Calendar,
    ports: BTreeMap<PortId, NodeId>,
    owner: Owner,
    /// Paths that were searched already.
    paths: BTreeMap<Segment, Vec<Arc<Path>>>,
    bookings: BTreeMap<Key, Vec<Id>>,
    /// Number of the next booking.
    next: u64,
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
            next: first_id,
        }
    }

    /// Returns the calendar.
    pub const fn calendar(&self) -> &Calendar {
        &self.calendar
    }

    /// Deletes the history of the calendar before a time.
    pub fn forget(&mut self, before: Instant) {
        self.calendar.forget(before);
    }

    /// Returns the bookings of a reservation, one for each segment.
    pub fn bookings(&self, key: Key) -> &[Id] {
        self.bookings.get(&key).map_or(&[], Vec::as_slice)
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
        let paths = path::shortest(self.calendar.topology(), from, to, PATHS_MAX);
        self.paths.insert(segment, paths.clone());
        Ok(paths)
    }

    fn unit(&self, path: &Path) -> Option<Rate> {
        let topology = self.calendar.topology();
        let links = path.links().iter().filter_map(|link| topology.about(*link));
        let units = links.map(|link| Offer::new(link.channel, Vec::new()));
        let all = units.reduce(|one, two| one?.intersect(&two?))??;
        Some(all.unit())
    }

    /// Returns the capacity of a path: at each time the lowest one of its links.
    fn free_on(&self, path: &Path, from: Instant, till: Instant) -> Option<Offer> {
        let unit = self.unit(path)?;
        let links = path.links().iter().map(|link| {
            let free = self.calendar.free(*link, self.owner, from, till);
            let steps = free.filter_map(|free| {
                Some(Step {
                    from: free.from,
                    till: free.till.min(till),
                    rate: Rate::from_bps(free.bps)?,
                })
            });
            let steps = steps.take(crate::offer::RANGES_MAX);
            Offer::new(unit, steps.collect())
        });
        links.reduce(|one, two| one?.intersect(&two?))?
    }

    fn book(&mut self, now: Instant, segment: Segment, vector: &Trc) -> Result<Id, Refusal> {
        let id = Id(self.next);
        for path in self.paths(segment)? {
            let unit = self.unit(&path).map_or(1, Rate::as_bps);
            let is_whole = |step: &Step| step.rate.as_bps().is_multiple_of(unit);
            if !vector.steps().iter().all(is_whole) {
                continue;
            }
            let saved = SavedBooking {
                sequence: id.0,
                request: self.request(&path, vector),
                path,
                steps: vector.steps().to_vec(),
            };
            if self.calendar.restore(now, id, saved).is_ok() {
                self.next += 1;
                return Ok(id);
            }
        }
        Err(Refusal::NoCapacity)
    }

    fn request(&self, path: &Arc<Path>, vector: &Trc) -> Request {
        let rates = vector.steps().iter().map(|step| step.rate);
        let time = vector.end().since(vector.start());
        Request {
            owner: self.owner,
            priority: 0,
            route: Route::Along(Arc::clone(path)),
            need: Need::Hold(time),
            rate_min: None,
            rate_max: rates.max().unwrap_or(Rate::UNLIMITED),
            from: vector.start(),
            deadline: None,
            shape: Shape::Varying,
            detail: Detail::Joined,
        }
    }
}

impl Resources for CalendarResources {
    fn free(&mut self, segment: Segment, from: Instant, till: Instant) -> Result<Offer, Refusal> {
        let paths = self.paths(segment)?;
        let offers = paths
            .iter()
            .filter_map(|path| self.free_on(path, from, till));
        let volume = |offer: &Offer| -> u128 {
            let steps = offer.steps().iter();
            let work = steps.map(|s| s.till.since(s.from).as_nanos() * u128::from(s.rate.as_bps()));
            work.sum()
        };
        offers.max_by_key(volume).ok_or(Refusal::NoCapacity)
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
        let mut ids = BTreeSet::new();
        for segment in segments {
            match self.book(now, *segment, vector) {
                Ok(id) => ids.insert(id),
                Err(refusal) => {
                    for id in ids {
                        let _ = self.calendar.release(now, id);
                    }
                    return Err(refusal);
                }
            };
        }
        self.bookings.insert(key, ids.into_iter().collect());
        Ok(())
    }

    fn commit(&mut self, _now: Instant, _key: Key) {}

    fn release(&mut self, now: Instant, key: Key) {
        for id in self.bookings.remove(&key).into_iter().flatten() {
            let _ = self.calendar.release(now, id);
        }
    }
}

/// Number of paths between two border points that are compared.
const PATHS_MAX: usize = 4;
