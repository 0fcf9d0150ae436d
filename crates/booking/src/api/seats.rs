//! Slots for event streams: limited in all, and for each name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Free slots, and the names that hold the others.
#[derive(Clone, Debug)]
pub(crate) struct Seats(Arc<Mutex<Taken>>);

#[derive(Debug)]
struct Taken {
    left: usize,
    each: usize,
    by: BTreeMap<String, usize>,
}

/// Slot that is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Seats,
    name: String,
}

impl Seats {
    /// Returns `all` slots, of which each name may hold `each`.
    pub(crate) fn new(all: usize, each: usize) -> Self {
        Self(Arc::new(Mutex::new(Taken {
            left: all,
            each,
            by: BTreeMap::new(),
        })))
    }

    /// Returns the number of free slots.
    pub(crate) fn left(&self) -> usize {
        self.lock().left
    }

    /// Takes a slot for `name`.
    pub(crate) fn take(&self, name: &str) -> Result<Seat, &'static str> {
        let mut taken = self.lock();
        if taken.left == 0 {
            return Err("all event streams are in use: try again later");
        }
        let each = taken.each;
        let own = taken.by.entry(name.to_owned()).or_default();
        if *own == each {
            return Err("all event streams of this identity are in use: close one first");
        }
        *own += 1;
        taken.left -= 1;
        drop(taken);
        Ok(Seat {
            seats: self.clone(),
            name: name.to_owned(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        taken.left += 1;
        if let Some(own) = taken.by.get_mut(&self.name) {
            *own -= 1;
            if *own == 0 {
                taken.by.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_limited_for_each_name_and_free_after_use() {
        let seats = Seats::new(3, 2);
        let first = seats.take("a").unwrap();
        let _second = seats.take("a").unwrap();
        assert!(seats.take("a").unwrap_err().contains("of this identity"));
        let other = seats.take("b").unwrap();
        assert_eq!(seats.left(), 0);
        assert!(
            seats
                .take("c")
                .unwrap_err()
                .contains("all event streams are in use")
        );
        drop(first);
        let _third = seats.take("a").unwrap();
        drop(other);
        assert_eq!(seats.left(), 1);
        let names: Vec<String> = seats.lock().by.keys().cloned().collect();
        assert_eq!(names, ["a"], "names without slots are not kept");
    }
}
