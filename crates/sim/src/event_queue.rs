//! Queue of future events in virtual time.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::{Ordering, Reverse};

use lighthaul_base::Instant;

/// Events ordered by time. Events at the same time keep the order of insertion.
///
/// A link without reordering inserts its events in order of time, so most events need no heap.
#[derive(Clone, Debug)]
pub struct EventQueue<T> {
    in_order: VecDeque<Entry<T>>,
    out_of_order: BinaryHeap<Reverse<Entry<T>>>,
    inserted: u64,
}

impl<T> EventQueue<T> {
    /// Returns an empty queue.
    pub const fn new() -> Self {
        Self {
            in_order: VecDeque::new(),
            out_of_order: BinaryHeap::new(),
            inserted: 0,
        }
    }

    /// Adds the event `what` at the time `at`.
    pub fn insert(&mut self, at: Instant, what: T) {
        let entry = Entry {
            at,
            nth: self.inserted,
            what,
        };
        self.inserted += 1;
        match self.in_order.back() {
            Some(last) if last.at > at => self.out_of_order.push(Reverse(entry)),
            _ => self.in_order.push_back(entry),
        }
    }

    /// Returns the time of the next event, or [`Instant::NEVER`] if the queue is empty.
    pub fn next_at(&self) -> Instant {
        let in_order = self
            .in_order
            .front()
            .map_or(Instant::NEVER, |entry| entry.at);
        match self.out_of_order.peek() {
            None => in_order,
            Some(Reverse(entry)) => in_order.min(entry.at),
        }
    }

    /// Takes the next event and its time.
    pub fn pop(&mut self) -> Option<(Instant, T)> {
        let heap = match (self.in_order.front(), self.out_of_order.peek()) {
            (Some(front), Some(Reverse(entry))) => entry < front,
            (front, entry) => front.is_none() && entry.is_some(),
        };
        let entry = if heap {
            self.out_of_order.pop().map(|Reverse(entry)| entry)
        } else {
            self.in_order.pop_front()
        };
        entry.map(|entry| (entry.at, entry.what))
    }

    /// Returns the number of queued events.
    pub fn len(&self) -> usize {
        self.in_order.len() + self.out_of_order.len()
    }

    /// True if no event is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Clone, Debug)]
struct Entry<T> {
    at: Instant,
    nth: u64,
    what: T,
}

impl<T> Entry<T> {
    const fn key(&self) -> (Instant, u64) {
        (self.at, self.nth)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn events_pop_in_order_of_a_stable_sort(moments: Vec<u8>, popped in 0_usize..20) {
            let mut queue = EventQueue::new();
            let mut all: Vec<(Instant, usize)> = Vec::new();
            for (nth, moment) in moments.iter().enumerate() {
                let at = Instant::from_nanos(u64::from(*moment));
                queue.insert(at, nth);
                all.push((at, nth));
            }
            all.sort();
            for expected in all.iter().take(popped) {
                prop_assert_eq!(queue.next_at(), expected.0);
                prop_assert_eq!(queue.pop(), Some(*expected));
            }
            prop_assert_eq!(queue.len(), all.len().saturating_sub(popped));
        }
    }
}
