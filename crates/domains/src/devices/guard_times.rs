//! Guard times of the interfaces of devices, and of the links that they share. Each has capacity of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_calendar::freed_capacity::FreedCapacity;

/// Capacity that may still be in use, by the interfaces or links.
#[derive(Debug, Default)]
pub(super) struct GuardTimes(BTreeMap<String, FreedCapacity>);

impl GuardTimes {
    /// Notes a decrease that was made until `now`, at a device with this guard time.
    pub(super) fn begin(&mut self, now: Instant, name: &str, bps: u64, guard: Duration) {
        let freed = self.0.entry(name.to_owned()).or_default();
        freed.begin(now, bps, guard);
    }

    /// Returns the capacity that may still be in use.
    pub(super) fn in_use(&mut self, now: Instant, name: &str) -> u64 {
        let freed = self.0.get_mut(name);
        freed.map_or(0, |freed| freed.in_use(now))
    }

    /// Returns the earliest end of a guard time.
    pub(super) fn next_end(&self, name: &str) -> Option<Instant> {
        self.0.get(name)?.next_end()
    }
}
