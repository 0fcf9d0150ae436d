//! Capacity of links that several circuits share.
//!
//! ```text
//! port 1 in: 100 Mb/s   -- circuit 1 -> 2 at eth1: 100 Mb/s, then 10 Mb/s
//!                       \- circuit 1 -> 3 at eth2: waits until eth1 has made the change, then 90 Mb/s
//! ```
//!
//! Each interface has a thread, and a device may be slow. So a decrease frees capacity of its links only when it was
//! made, and after the guard time of its device. An increase waits until all its links have capacity for it. A decrease
//! wakes the threads of all interfaces.
//!
//! At the start, devices may have circuits of an earlier service. Until an interface has been read, its highest rate
//! counts on the links of its circuits. Then the circuits that could not be removed count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_stargate::Segment;

use super::cleaning::OldCircuits;
use super::guard_times::GuardTimes;
use super::old_use::{OldPlace, OldUse};
use super::segment_circuit::segment_of;
use super::shared_link::{RouteRates, SharedLink};

/// Use of the shared links. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkBook(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    content: Mutex<Content>,
    /// Receivers of a message after each decrease.
    listeners: Mutex<Vec<Weak<dyn Listener>>>,
}

/// Receiver of a message after each decrease on a shared link.
pub(super) trait Listener: fmt::Debug + Send + Sync {
    /// Notes that capacity of a link was freed.
    fn link_freed(&self);
}

#[derive(Debug, Default)]
struct Content {
    links: Vec<SharedLink>,
    /// Highest rates in b/s that devices may have set.
    rates: BTreeMap<Segment, RouteRates>,
    guards: GuardTimes,
    old: OldUse,
    /// Guard times of interfaces, with the pairs of ports of their circuits.
    longest: BTreeMap<String, (Duration, BTreeSet<Segment>)>,
}

impl LinkBook {
    pub(super) fn new(links: &[SharedLink]) -> Self {
        let links = links.to_vec();
        let content = Content {
            links,
            ..Content::default()
        };
        let content = Mutex::new(content);
        let listeners = Mutex::default();
        Self(Arc::new(Shared { content, listeners }))
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        let content = self.0.content.lock();
        content.unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a listener, for as long as it exists.
    pub(super) fn tell(&self, listener: Weak<dyn Listener>) {
        let listeners = self.0.listeners.lock();
        let mut listeners = listeners.unwrap_or_else(PoisonError::into_inner);
        listeners.push(listener);
    }

    /// Counts the highest rate of an interface with this guard time on the links of its circuits, until these were read.
    pub(super) fn expect(
        &self,
        (interface, guard): (&str, Duration),
        most: Rate,
        segments: BTreeSet<Segment>,
    ) {
        let mut content = self.lock();
        let about = (guard, segments.clone());
        content.longest.insert(interface.to_owned(), about);
        content.old.expect(interface, most, segments);
    }

    /// Returns the longest guard time of the interfaces at the links of a circuit.
    pub(super) fn longest_guard(&self, segment: Segment) -> Duration {
        let content = self.lock();
        let links = content.links.iter().filter(|link| link.carries(segment));
        let links: Vec<&SharedLink> = links.collect();
        let is_here = |segments: &BTreeSet<Segment>| {
            segments
                .iter()
                .any(|one| links.iter().any(|link| link.carries(*one)))
        };
        let guards = content.longest.values();
        let guards = guards.filter(|(_, segments)| is_here(segments));
        guards.map(|(guard, _)| *guard).max().unwrap_or_default()
    }

    /// Notes the circuits from before the start that an interface with this guard time had. Those of `known` pairs of
    /// ports cross the routes between these ports.
    pub(super) fn know(
        &self,
        now: Instant,
        (interface, guard): (&str, Duration),
        found: &OldCircuits,
        known: &BTreeSet<Segment>,
    ) {
        let mut content = self.lock();
        for (segment, rate) in &found.kept {
            content.raise_everywhere(*segment, *rate);
        }
        let Content {
            links, guards, old, ..
        } = &mut *content;
        let place = |id| {
            let segment = segment_of(id);
            let is_known = known.contains(&segment) || links.iter().any(|one| one.carries(segment));
            if is_known {
                OldPlace::Routes(segment)
            } else {
                OldPlace::Anywhere
            }
        };
        for (id, bps) in &found.removed {
            for link in links.iter().filter(|link| place(*id).is_on(link)) {
                let freed = guards.of(&link.name);
                freed.change(now, Some(segment_of(*id)), [*bps, 0], guard);
            }
        }
        let left = found.left.iter().map(|(id, bps)| (place(*id), *bps));
        old.know(interface, left.collect());
        drop(content);
        self.wake();
    }

    /// Takes the capacity that these rates of a circuit need in addition to its present ones. Returns false if a link has
    /// too little.
    pub(super) fn take(&self, now: Instant, segment: Segment, rates: &RouteRates) -> bool {
        let mut content = self.lock();
        let Content {
            links,
            rates: present,
            guards,
            old: before_start,
            ..
        } = &mut *content;
        let nothing = RouteRates::new();
        let before = present.get(&segment).unwrap_or(&nothing);
        let has_room = links.iter().all(|link| {
            let (old, new) = (link.rate(segment, before), link.rate(segment, rates));
            let more = new.saturating_sub(old);
            if more == 0 {
                // a decrease waits for nothing
                return true;
            }
            let others = present.iter().filter(|(one, _)| **one != segment);
            let others = others.map(|(one, rates)| link.rate(*one, rates));
            let in_use = guards.in_use_beside(now, &link.name, (segment, more));
            let in_use = in_use.saturating_add(before_start.in_use(link));
            let used = others.fold(in_use, u64::saturating_add);
            used.saturating_add(old.max(new)) <= link.capacity.as_bps()
        });
        if has_room {
            content.raise(segment, rates);
        }
        has_room
    }

    /// Returns the parts of these rates that the circuit has already on the same routes.
    pub(super) fn kept(&self, segment: Segment, rates: &RouteRates) -> RouteRates {
        let content = self.lock();
        let Some(present) = content.rates.get(&segment) else {
            return RouteRates::new();
        };
        let kept = rates.iter().filter_map(|(route, bps)| {
            let kept = (*present.get(route)?).min(*bps);
            Some((*route, kept))
        });
        kept.collect()
    }

    /// Returns the name of the link with the least free capacity among those that these rates of a circuit cross.
    pub(super) fn full(
        &self,
        now: Instant,
        segment: Segment,
        rates: &RouteRates,
    ) -> Option<String> {
        let mut content = self.lock();
        let Content {
            links,
            rates: present,
            guards,
            old,
            ..
        } = &mut *content;
        let crossed = links.iter().filter(|link| link.rate(segment, rates) > 0);
        let fullest = crossed.min_by_key(|link| {
            let used = present.iter().map(|(one, rates)| link.rate(*one, rates));
            let in_use = guards.in_use(now, &link.name);
            let in_use = in_use.saturating_add(old.in_use(link));
            let used = used.fold(in_use, u64::saturating_add);
            link.capacity.as_bps().saturating_sub(used)
        });
        fullest.map(|link| link.name.clone())
    }

    /// Notes that a device with this guard time has these rates of a circuit.
    pub(super) fn set(&self, now: Instant, segment: Segment, rates: &RouteRates, guard: Duration) {
        let mut content = self.lock();
        let before = content.rates.insert(segment, rates.clone());
        let before = before.unwrap_or_default();
        let Content { links, guards, .. } = &mut *content;
        let mut freed_bps: u64 = 0;
        for link in links.iter() {
            let change = [link.rate(segment, &before), link.rate(segment, rates)];
            if change[0] != change[1] {
                let freed = guards.of(&link.name);
                freed.change(now, Some(segment), change, guard);
                freed_bps = freed_bps.saturating_add(change[0].saturating_sub(change[1]));
            }
        }
        drop(content);
        if freed_bps > 0 {
            self.wake();
        }
    }

    /// Sends all listeners the message that capacity of a link may be free.
    fn wake(&self) {
        let listeners = self.0.listeners.lock();
        let listeners = listeners.unwrap_or_else(PoisonError::into_inner);
        let all = listeners.iter().filter_map(Weak::upgrade);
        all.for_each(|one| one.link_freed());
    }

    /// Returns the earliest end of a guard time of the links of a circuit.
    pub(super) fn next_end(&self, segment: Segment) -> Option<Instant> {
        let content = self.lock();
        let links = content.links.iter();
        let here = links.filter(|link| link.routes.iter().any(|(one, _)| *one == segment));
        here.filter_map(|link| content.guards.next_end(&link.name))
            .min()
    }
}

impl Content {
    /// Notes a rate of a circuit that may be on any route of its ports.
    fn raise_everywhere(&mut self, segment: Segment, rate: Rate) {
        let routes = self.links.iter().flat_map(|link| &link.routes);
        let routes = routes.filter(|(one, _)| *one == segment);
        let rates = routes.map(|(_, route)| (*route, rate.as_bps()));
        let rates = rates.collect();
        self.raise(segment, &rates);
    }

    fn raise(&mut self, segment: Segment, rates: &RouteRates) {
        let present = self.rates.entry(segment).or_default();
        for (route, bps) in rates {
            let rate = present.entry(*route).or_default();
            *rate = (*bps).max(*rate);
        }
    }
}

/// Time after which an increase that waits for capacity is logged.
pub(super) const LONG_WAIT: Duration = Duration::from_secs(5);
/// Time after which an increase that waits for capacity is a fault, in addition to the guard times: longer than the usual
/// limit of a driver, since a healthy device may be slow, such as one that waits for light.
pub(super) const STUCK_WAIT: Duration = Duration::from_mins(3);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::devices::tests::example::segment;

    /// Number of messages.
    #[derive(Debug, Default)]
    struct Messages(AtomicUsize);

    impl Listener for Messages {
        fn link_freed(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn listeners_hear_of_each_decrease_and_of_no_increase() {
        let one = segment(1, 3);
        let link = |name: &str| SharedLink {
            name: name.to_owned(),
            capacity: Rate::from_mbps(100),
            routes: [(one, 0)].into(),
        };
        let book = LinkBook::new(&[link("first"), link("second")]);
        let messages = Arc::new(Messages::default());
        let listener: Weak<Messages> = Arc::downgrade(&messages);
        book.tell(listener);
        let heard = |bps: u64| {
            let rates = [(0, bps)].into();
            book.set(Instant::ZERO, one, &rates, Duration::ZERO);
            messages.0.swap(0, Ordering::Relaxed)
        };
        // both links have less use after a decrease, which is one message
        assert_eq!([10, 20, 20, 5, 0].map(heard), [0, 0, 0, 1, 1]);
    }

    #[test]
    fn only_the_links_of_a_route_are_taken_and_freed() {
        let (one, two) = (segment(1, 3), segment(2, 4));
        let link = |name: &str, route| SharedLink {
            name: name.to_owned(),
            capacity: Rate::from_mbps(100),
            routes: [(one, route), (two, route)].into(),
        };
        let book = LinkBook::new(&[link("upper", 0), link("lower", 1)]);
        let rates = |mbps: [u64; 2]| -> RouteRates {
            let all = (0..).zip(mbps.map(|mbps| mbps * 1_000_000));
            all.filter(|(_, bps)| *bps > 0).collect()
        };
        let (now, guard) = (Instant::ZERO, Duration::from_secs(1));
        assert!(book.take(now, one, &rates([80, 0])));
        let more = rates([30, 0]);
        assert!(!book.take(now, two, &more));
        assert_eq!(book.full(now, two, &more).as_deref(), Some("upper"));
        assert!(book.take(now, two, &rates([20, 100])));
        assert!(!book.take(now, one, &rates([80, 1])));
        // a path between the first two ports has ended, and another one begins on the other route
        book.set(now, one, &rates([10, 0]), guard);
        book.set(now, two, &rates([20, 30]), guard);
        assert!(!book.take(now, one, &rates([10, 1])));
        assert!(!book.take(now, two, &rates([21, 30])));
        assert_eq!(book.next_end(two), Some(now + guard));
        let later = now + guard;
        assert!(book.take(later, one, &rates([10, 70])));
        assert!(book.take(later, two, &rates([90, 30])));
        assert!(!book.take(later, two, &rates([91, 30])));
    }

    #[test]
    fn freed_capacity_of_a_link_counts_until_its_guard_time_has_ended() {
        let one = segment(1, 3);
        let link = |name: &str, route| SharedLink {
            name: name.to_owned(),
            capacity: Rate::from_mbps(100),
            routes: [(one, route)].into(),
        };
        let book = LinkBook::new(&[link("upper", 0), link("lower", 1)]);
        let (now, guard) = (Instant::ZERO, Duration::from_secs(1));
        let rates =
            |upper: u64, lower: u64| [(0, upper * 1_000_000), (1, lower * 1_000_000)].into();
        book.set(now, one, &rates(30, 90), guard);
        book.set(now, one, &rates(30, 10), guard);
        let fullest = |at| book.full(at, one, &rates(1, 1));
        assert_eq!(fullest(now).as_deref(), Some("lower"));
        let other = book.full(now, one, &[(0, 1)].into());
        assert_eq!(
            other.as_deref(),
            Some("upper"),
            "the only link of its route"
        );
        assert_eq!(book.next_end(one), Some(now + guard));
        assert_eq!(book.next_end(segment(8, 9)), None);
        assert_eq!(fullest(now + guard).as_deref(), Some("upper"));
    }
}
