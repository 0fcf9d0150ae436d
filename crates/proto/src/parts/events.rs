//! What a machine's owner is to hear.

use alloc::collections::VecDeque;

/// Events in the order in which they happened: no more than `MAX` between two times that the owner drains them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Events<T, const MAX: usize>(VecDeque<T>);

impl<T, const MAX: usize> Default for Events<T, MAX> {
    fn default() -> Self {
        Self(VecDeque::with_capacity(MAX))
    }
}

impl<T, const MAX: usize> Events<T, MAX> {
    /// Something has.
    pub fn tell(&mut self, event: T) {
        assert!(
            self.0.len() < MAX,
            "the owner drains events after each call"
        );
        self.0.push_back(event);
    }

    /// What happened first of what the owner has not heard.
    pub fn poll(&mut self) -> Option<T> {
        self.0.pop_front()
    }
}
