//! Capacity of links that circuits of several interfaces share.
//!
//! ```text
//! port 1 in: 100 Mb/s   -- circuit 1 -> 2 at eth1: 100 Mb/s, then 10 Mb/s
//!                       \- circuit 1 -> 3 at eth2: waits until eth1 has made the change, then 90 Mb/s
//! ```
//!
//! Each interface has a thread, and a device may be slow. So a decrease frees capacity of its links only when it was
//! made, and after the guard time of its device. An increase waits until all its links have capacity for it. A decrease
//! wakes the threads of all interfaces.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_stargate::Segment;

use super::guard_times::GuardTimes;

/// Link that circuits of several interfaces share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLink {
    /// Name.
    pub name: String,
    /// Capacity.
    pub capacity: Rate,
    /// Pairs of ports whose data all cross the link.
    pub segments: BTreeSet<Segment>,
}

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
    rates: BTreeMap<Segment, u64>,
    guards: GuardTimes,
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

    /// Takes the capacity of an increase to `bps` on all links of a circuit. Returns false if one has too little.
    pub(super) fn take(&self, now: Instant, segment: Segment, bps: u64) -> bool {
        let mut content = self.lock();
        let Content {
            links,
            rates,
            guards,
        } = &mut *content;
        let mut here = links.iter().filter(|link| link.segments.contains(&segment));
        let has_room = here.all(|link| {
            let rate = |one: &Segment| {
                let rate = rates.get(one).copied().unwrap_or(0);
                if *one == segment { rate.max(bps) } else { rate }
            };
            let more = bps.saturating_sub(rates.get(&segment).copied().unwrap_or(0));
            let in_use = guards.in_use_beside(now, &link.name, (segment, more));
            let sum = link.segments.iter().map(rate);
            sum.fold(in_use, u64::saturating_add) <= link.capacity.as_bps()
        });
        if has_room {
            content.raise(segment, bps);
        }
        has_room
    }

    /// Returns the name of the link of a circuit with the least free capacity.
    pub(super) fn full(&self, now: Instant, segment: Segment) -> Option<String> {
        let mut content = self.lock();
        let Content {
            links,
            rates,
            guards,
        } = &mut *content;
        let here = links.iter().filter(|link| link.segments.contains(&segment));
        let fullest = here.min_by_key(|link| {
            let used = link.segments.iter().filter_map(|one| rates.get(one));
            let used: u64 = used
                .sum::<u64>()
                .saturating_add(guards.in_use(now, &link.name));
            link.capacity.as_bps().saturating_sub(used)
        });
        fullest.map(|link| link.name.clone())
    }

    /// Notes that a device may have a rate.
    pub(super) fn raise(&self, segment: Segment, bps: u64) {
        self.lock().raise(segment, bps);
    }

    /// Notes that a device has changed a rate from the first to the second value, with the given guard time.
    pub(super) fn set(&self, now: Instant, segment: Segment, rates: [u64; 2], guard: Duration) {
        let [before, after] = rates;
        let mut content = self.lock();
        content.rates.insert(segment, after);
        let Content { links, guards, .. } = &mut *content;
        let mut is_shared = false;
        for link in links.iter().filter(|link| link.segments.contains(&segment)) {
            let freed = guards.of(&link.name);
            freed.change(now, Some(segment), rates, guard);
            is_shared = true;
        }
        drop(content);
        if is_shared && after < before {
            let listeners = self.0.listeners.lock();
            let listeners = listeners.unwrap_or_else(PoisonError::into_inner);
            let all = listeners.iter().filter_map(Weak::upgrade);
            all.for_each(|one| one.link_freed());
        }
    }

    /// Returns the earliest end of a guard time of the links of a circuit.
    pub(super) fn next_end(&self, segment: Segment) -> Option<Instant> {
        let content = self.lock();
        let links = content.links.iter();
        let here = links.filter(|link| link.segments.contains(&segment));
        here.filter_map(|link| content.guards.next_end(&link.name))
            .min()
    }
}

impl Content {
    fn raise(&mut self, segment: Segment, bps: u64) {
        let rate = self.rates.entry(segment).or_default();
        *rate = bps.max(*rate);
    }
}
