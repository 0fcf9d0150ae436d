//! Queue of sessions that are served by turns.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// First-in, first-out queue of tokens. A token that waits already keeps its place.
#[derive(Debug, Default)]
pub(crate) struct TurnQueue {
    /// Tokens by place.
    order: BTreeMap<u64, u64>,
    /// Places by token.
    places: BTreeMap<u64, u64>,
    last_place: u64,
}

impl TurnQueue {
    /// Appends a token, unless it is in the queue.
    pub(crate) fn insert(&mut self, token: u64) {
        if let Entry::Vacant(place) = self.places.entry(token) {
            self.last_place += 1;
            place.insert(self.last_place);
            self.order.insert(self.last_place, token);
        }
    }

    /// Removes and returns the token that has waited for the longest time.
    pub(crate) fn pop(&mut self) -> Option<u64> {
        let (_, token) = self.order.pop_first()?;
        self.places.remove(&token);
        Some(token)
    }

    /// Removes a token.
    pub(crate) fn remove(&mut self, token: u64) {
        if let Some(place) = self.places.remove(&token) {
            self.order.remove(&place);
        }
    }

    /// Moves all tokens of another queue to the end of this queue, in their order.
    pub(crate) fn append(&mut self, other: &mut Self) {
        self.extend(std::mem::take(&mut other.order).into_values());
        other.places.clear();
    }

    /// Removes all tokens.
    pub(crate) fn clear(&mut self) {
        self.order.clear();
        self.places.clear();
    }

    /// Returns the number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns true if no token waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

impl Extend<u64> for TurnQueue {
    fn extend<T: IntoIterator<Item = u64>>(&mut self, tokens: T) {
        tokens.into_iter().for_each(|token| self.insert(token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_served_once_in_the_order_of_arrival() {
        let (mut queue, mut more) = (TurnQueue::default(), TurnQueue::default());
        queue.extend([7, 3, 9, 3]);
        more.extend([5, 9, 1]);
        queue.append(&mut more);
        queue.remove(7);
        assert_eq!((queue.len(), more.len()), (4, 0));
        // a token that was served goes to the end
        assert_eq!(queue.pop(), Some(3));
        queue.insert(3);
        let rest: Vec<u64> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, [9, 5, 1, 3]);
        assert!(queue.is_empty());
        more.insert(2);
        more.clear();
        assert_eq!(more.pop(), None);
    }
}
