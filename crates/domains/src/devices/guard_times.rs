//! Guard times of the interfaces of devices, and of the links that interfaces share. Each has capacity of its own.

use std::collections::BTreeMap;

use lighthaul_base::Instant;
use lighthaul_calendar::freed_capacity::FreedCapacity;
use lighthaul_stargate::Segment;

/// Capacity that may still be in use, by the interfaces or links. No segment stands for circuits with unknown rates.
#[derive(Debug, Default)]
pub(super) struct GuardTimes(BTreeMap<String, FreedCapacity<Option<Segment>>>);

impl GuardTimes {
    /// Returns the freed capacity of an interface or link.
    pub(super) fn of(&mut self, name: &str) -> &mut FreedCapacity<Option<Segment>> {
        self.0.entry(name.to_owned()).or_default()
    }

    /// Returns the capacity that may still be in use.
    pub(super) fn in_use(&mut self, now: Instant, name: &str) -> u64 {
        let freed = self.0.get_mut(name);
        freed.map_or(0, |freed| freed.in_use(now))
    }

    /// Returns the capacity that other circuits may still use. An increase takes first what its circuit has freed.
    pub(super) fn in_use_beside(
        &mut self,
        now: Instant,
        name: &str,
        (segment, more_bps): (Segment, u64),
    ) -> u64 {
        let Some(freed) = self.0.get_mut(name) else {
            return 0;
        };
        let all = freed.in_use(now);
        all - freed.in_use_by(&Some(segment)).min(more_bps)
    }

    /// Returns the earliest end of a guard time.
    pub(super) fn next_end(&self, name: &str) -> Option<Instant> {
        self.0.get(name)?.next_end()
    }
}
