//! Index of the events in the store, by which the writer deletes events.
//!
//! Each owner has a share of the space for events. So an owner with many or long events loses its own, and those of
//! others stay.

use lighthaul_booking_client::json::Timestamp;

use super::config::Config;
use super::memory_shares::MemoryShares;
use crate::store::EventSize;

/// Owners and sizes of the events in the store.
#[derive(Debug, Default)]
pub(super) struct EventIndex {
    /// Events by number; all have the same time, since numbers grow with time.
    shares: MemoryShares<u64>,
}

impl EventIndex {
    /// Returns the index of the events that a store has.
    pub(super) fn of(sizes: Vec<EventSize>) -> Self {
        let mut index = Self::default();
        for EventSize { seq, owner, bytes } in sizes {
            index.add(&owner, seq, bytes);
        }
        index
    }

    /// Adds an event of `bytes` bytes.
    pub(super) fn add(&mut self, owner: &str, seq: u64, bytes: u64) {
        self.shares.add(owner, (Timestamp(0), seq), bytes);
    }

    /// Removes events above the limits: the oldest ones of the owner with the most. Returns their owners and numbers, at
    /// most [`DROPPED_MAX`] of them.
    pub(super) fn trim(&mut self, config: &Config) -> Vec<(String, u64)> {
        let limits = (config.events_bytes_max, config.events_max);
        let next = || self.shares.take_beyond(limits.0, limits.1);
        std::iter::from_fn(next).take(DROPPED_MAX).collect()
    }
}

/// Maximum number of events that a batch deletes. A store of an earlier version may have a million too many, and a server
/// limits the time of a batch.
const DROPPED_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_with_the_most_events_loses_its_oldest() {
        let size = |(seq, owner, bytes): (u64, &str, u64)| EventSize {
            seq,
            owner: owner.to_owned(),
            bytes,
        };
        let kept = [(1, "ada", 100), (2, "eve", 300), (3, "eve", 300)];
        let trim = |events_bytes_max, events_max| {
            let mut index = EventIndex::of(kept.map(size).into());
            index.add("eve", 4, 10);
            let config = Config {
                events_max,
                events_bytes_max,
                ..Config::default()
            };
            let gone = index.trim(&config);
            gone.into_iter().map(|(_, seq)| seq).collect::<Vec<_>>()
        };
        assert_eq!(trim(710, 4), [0; 0]);
        assert_eq!(trim(709, 4), [2]);
        assert_eq!(trim(710, 3), [2]);
        assert_eq!(trim(300, 9), [2, 3]);
        assert_eq!(trim(0, 9), [2, 3, 1, 4]);
    }
}
