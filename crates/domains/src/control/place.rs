//! Places for callers, limited in number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Place of one caller, which is freed on drop.
pub(super) struct Place(Arc<AtomicUsize>);

impl Place {
    /// Takes a place, unless `max` are taken.
    pub(super) fn take(taken: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        let is_full = taken.fetch_add(1, Ordering::AcqRel) >= max;
        // it is given back if there is none
        let place = Self(Arc::clone(taken));
        (!is_full).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_free_again() {
        let taken = Arc::default();
        let first = Place::take(&taken, 2);
        let second = Place::take(&taken, 2);
        assert!(first.is_some() && second.is_some());
        assert!(Place::take(&taken, 2).is_none());
        drop(first);
        assert!(Place::take(&taken, 2).is_some());
        drop(second);
        assert_eq!(taken.load(Ordering::Acquire), 0);
    }
}
