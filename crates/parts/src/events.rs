//! Events for the owner of a machine.

use alloc::collections::VecDeque;

/// Queue of events in order of time. It holds at most `MAX` events between two drains by the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Events<T, const MAX: usize>(VecDeque<T>);

impl<T, const MAX: usize> Default for Events<T, MAX> {
    fn default() -> Self {
        Self(VecDeque::with_capacity(MAX))
    }
}

impl<T, const MAX: usize> Events<T, MAX> {
    /// Appends an event. Panics if `MAX` events are queued, since the owner must drain them after each call.
    pub fn push(&mut self, event: T) {
        assert!(
            self.0.len() < MAX,
            "too many events: the owner must drain them after each call"
        );
        self.0.push_back(event);
    }

    /// Takes the oldest event.
    pub fn poll(&mut self) -> Option<T> {
        self.0.pop_front()
    }
}
